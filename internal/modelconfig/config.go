// Package modelconfig reads the config.json that comes with a model's weights:
// the shape that decides what a step costs and how the weights are laid out.
package modelconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/tokenrouter/tokenrouter/internal/regular"
)

// Config is the shape of a dense decoder: RMS norms, rotary embedding, grouped
// attention, a gated MLP.
type Config struct {
	Name string // of a known model, else the path of the file

	Architecture string // "Qwen3ForCausalLM", the first one stated
	ModelType    string // "qwen3"
	Layers       int
	Hidden       int
	Heads        int // query heads
	KVHeads      int // at most Heads
	// HeadDim is read: for Qwen3 it is not Hidden / Heads. Only families whose
	// files never state it fall back to the quotient.
	HeadDim        int
	Intermediate   int // width of the gate, and of the up projection
	Vocab          int
	TiedEmbeddings bool   // the output projection shares the weights of the embedding
	Dtype          string // of the stored weights: "bfloat16", "float16" or "float32"

	MaxPositions  int     // 0 if not stated
	RMSNormEps    float64 // 0 if not stated
	RopeTheta     float64 // 0 if not stated
	AttentionBias bool    // of the q, k and v projections
	MLPBias       bool    // of the gate, up and down projections
	Activation    string  // of the gate; "silu" where nothing is stated
	Sliding       bool    // some layers attend to a window of the last tokens only
	Rope          Rope
}

// families are the model types whose steps are understood: what a config.json
// leaves to the family's own code is stated here.
var families = []struct {
	modelType   string
	headDimRead bool // the file must state head_dim
	bias        bool // q, k and v have a bias that no field mentions
}{
	{"qwen3", true, false},
	{"qwen2", false, true},
	{"llama", false, false},
	{"mistral", false, false},
}

// Limits catch files that are not what they seem, and keep the products of their
// numbers far from overflow: each is a hundred times what any model has.
const (
	fileMax         = 1 << 20
	layersMax       = 1 << 12
	hiddenMax       = 1 << 18
	headsMax        = 1 << 12
	headDimMax      = 1 << 12
	intermediateMax = 1 << 20
	vocabMax        = 1 << 24
	originalMax     = 1 << 30
)

// A FieldError is one field of a config.json that cannot be used.
type FieldError struct {
	File    string
	Field   string // as in the file
	Problem string // goes on after the field
	// Unsupported tells a model that is whole but cannot be run from a file that
	// is wrong.
	Unsupported bool
}

func (e *FieldError) Error() string { return e.File + ": " + e.Field + " " + e.Problem }

// A MissingError is a folder without config.json. It is an fs.ErrNotExist.
type MissingError struct{ Dir string }

func (e *MissingError) Error() string {
	hint := "want a Hugging Face folder: config.json beside *.safetensors"
	if found, _ := filepath.Glob(filepath.Join(e.Dir, "snapshots", "*", "config.json")); len(found) > 0 {
		hint = "this is a folder of the Hugging Face cache: give " + filepath.Dir(found[0])
	}
	return "model " + e.Dir + ": there is no config.json in it; " + hint
}

func (e *MissingError) Unwrap() error { return fs.ErrNotExist }

// Load reads a config.json, or the one in a folder. Errors name the file, and
// the field where one is to blame (then they are a *FieldError).
func Load(path string) (*Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("model config: %w", err)
	}
	if info.IsDir() {
		dir := path
		path = filepath.Join(dir, "config.json")
		if info, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, &MissingError{dir}
		}
		if err != nil {
			return nil, fmt.Errorf("model config: %w", err)
		}
	}
	if info.Size() > fileMax {
		return nil, fmt.Errorf("%s: %d bytes are too many for a config.json; at most %d are read", path, info.Size(), fileMax)
	}
	text, err := regular.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("model config: %w", err)
	}
	return Parse(path, text)
}

// file is config.json as written; a pointer tells what is not stated from 0.
type file struct {
	Architectures []string `json:"architectures"`
	ModelType     *string  `json:"model_type"`
	Layers        *int     `json:"num_hidden_layers"`
	Hidden        *int     `json:"hidden_size"`
	Heads         *int     `json:"num_attention_heads"`
	KVHeads       *int     `json:"num_key_value_heads"`
	HeadDim       *int     `json:"head_dim"`
	Intermediate  *int     `json:"intermediate_size"`
	Vocab         *int     `json:"vocab_size"`
	Tied          *bool    `json:"tie_word_embeddings"`
	TorchDtype    *string  `json:"torch_dtype"`
	Dtype         *string  `json:"dtype"` // what newer files call torch_dtype
	MaxPositions  *int     `json:"max_position_embeddings"`
	RMSNormEps    *float64 `json:"rms_norm_eps"`
	RopeTheta     *float64 `json:"rope_theta"`
	AttentionBias *bool    `json:"attention_bias"`
	MLPBias       *bool    `json:"mlp_bias"`
	Activation    *string  `json:"hidden_act"`
	Window        *int     `json:"sliding_window"`
	UseWindow     *bool    `json:"use_sliding_window"`
	LayerTypes    []string `json:"layer_types"`
	Partial       *float64 `json:"partial_rotary_factor"`
	RopeScaling   *rope    `json:"rope_scaling"`
	Rope          *rope    `json:"rope_parameters"` // what newer files call it, with rope_theta inside

	Quantization json.RawMessage `json:"quantization_config"`
	Experts      *int            `json:"num_experts"`
	LocalExperts *int            `json:"num_local_experts"`
}

// Parse reads the text of a config.json; name stands for the file in errors.
// Fields that it does not know are skipped: files hold dozens.
func Parse(name string, text []byte) (*Config, error) {
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, jsonError(name, text, err)
	}
	c := &Config{Name: name}
	if err := c.fill(name, &f); err != nil {
		return nil, err
	}
	return c, nil
}

// jsonError adds the file, the line and the field to the decoder's message.
func jsonError(name string, text []byte, err error) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s:%d: not JSON: %w", name, lineAt(text, syntax.Offset), err)
	case errors.As(err, &wrong) && wrong.Field != "":
		at := fmt.Sprintf("%s:%d", name, lineAt(text, wrong.Offset))
		return &FieldError{File: at, Field: wrong.Field, Problem: InWords(wrong)}
	}
	if wrong != nil {
		return fmt.Errorf("%s: not a config.json: it holds a JSON %s and should hold an object", name, wrong.Value)
	}
	return fmt.Errorf("%s: not a config.json: %w", name, err)
}

// InWords says what stands where something else should, without Go's types.
func InWords(wrong *json.UnmarshalTypeError) string {
	want := "an object"
	switch wrong.Type.Kind() {
	case reflect.Bool:
		want = "true or false"
	case reflect.Int:
		want = "a whole number"
	case reflect.Float64:
		want = "a number"
	case reflect.String:
		want = "a string"
	case reflect.Slice:
		want = "a list"
	}
	return fmt.Sprintf("is a JSON %s; want %s", wrong.Value, want)
}

func lineAt(text []byte, offset int64) int {
	return 1 + strings.Count(string(text[:min(offset, int64(len(text)))]), "\n")
}

func (c *Config) fill(name string, f *file) error {
	wrong := func(field, format string, args ...any) error {
		return &FieldError{File: name, Field: field, Problem: fmt.Sprintf(format, args...)}
	}
	foreign := func(field, format string, args ...any) error {
		return &FieldError{File: name, Field: field, Problem: fmt.Sprintf(format, args...), Unsupported: true}
	}
	if f.ModelType == nil {
		return wrong("model_type", "is missing; is this the config.json of a language model?")
	}
	c.ModelType = *f.ModelType
	family := -1
	var known []string
	for i := range families {
		known = append(known, families[i].modelType)
		if families[i].modelType == c.ModelType {
			family = i
		}
	}
	switch {
	case family < 0:
		return foreign("model_type", "is %q; known are %s", c.ModelType, strings.Join(known, ", "))
	case f.Experts != nil:
		return foreign("num_experts", "is set: mixtures of experts are not understood")
	case f.LocalExperts != nil:
		return foreign("num_local_experts", "is set: mixtures of experts are not understood")
	case len(f.Quantization) > 0 && string(f.Quantization) != "null":
		return foreign("quantization_config", "is set: quantised weights are not understood")
	}
	if len(f.Architectures) > 0 {
		c.Architecture = f.Architectures[0]
	}
	for _, field := range []struct {
		name string
		from *int
		to   *int
		most int
	}{
		{"num_hidden_layers", f.Layers, &c.Layers, layersMax},
		{"hidden_size", f.Hidden, &c.Hidden, hiddenMax},
		{"num_attention_heads", f.Heads, &c.Heads, headsMax},
		{"intermediate_size", f.Intermediate, &c.Intermediate, intermediateMax},
		{"vocab_size", f.Vocab, &c.Vocab, vocabMax},
	} {
		if field.from == nil {
			return wrong(field.name, "is missing")
		}
		if *field.from < 1 || *field.from > field.most {
			return wrong(field.name, "is %d; want 1 to %d", *field.from, field.most)
		}
		*field.to = *field.from
	}
	if err := c.fillHeads(f, families[family].headDimRead, wrong); err != nil {
		return err
	}
	c.AttentionBias = families[family].bias
	if f.AttentionBias != nil {
		c.AttentionBias = *f.AttentionBias
	}
	if err := c.fillRest(f, wrong); err != nil {
		return err
	}
	c.fillLayers(f)
	return c.fillRope(f, wrong)
}

type wrongField func(field, format string, args ...any) error

// fillHeads fills what splits attention.
func (c *Config) fillHeads(f *file, headDimRead bool, wrong wrongField) error {
	c.KVHeads = c.Heads // as the families' own code does
	if f.KVHeads != nil {
		c.KVHeads = *f.KVHeads
	}
	if c.KVHeads < 1 || c.Heads%c.KVHeads != 0 {
		return wrong("num_key_value_heads", "is %d; want a divisor of num_attention_heads, %d", c.KVHeads, c.Heads)
	}
	switch {
	case f.HeadDim != nil && (*f.HeadDim < 1 || *f.HeadDim > headDimMax):
		return wrong("head_dim", "is %d; want 1 to %d", *f.HeadDim, headDimMax)
	case f.HeadDim != nil:
		c.HeadDim = *f.HeadDim
	case headDimRead:
		return wrong("head_dim", "is missing; a %s model states it, and hidden_size / num_attention_heads would be wrong", c.ModelType)
	case c.Hidden%c.Heads != 0:
		return wrong("head_dim", "is missing and hidden_size %d is not a multiple of num_attention_heads %d", c.Hidden, c.Heads)
	default:
		c.HeadDim = c.Hidden / c.Heads
	}
	return nil
}

// fillLayers fills what the layers do beyond their sizes.
func (c *Config) fillLayers(f *file) {
	c.MLPBias = f.MLPBias != nil && *f.MLPBias
	c.Activation = "silu"
	if f.Activation != nil {
		c.Activation = *f.Activation
	}
	// Qwen's files state a window even where they leave it switched off.
	c.Sliding = f.UseWindow != nil && *f.UseWindow || c.ModelType == "mistral" && f.Window != nil
	for _, kind := range f.LayerTypes {
		c.Sliding = c.Sliding || kind != "full_attention"
	}
}

// fillRest fills what has a default.
func (c *Config) fillRest(f *file, wrong wrongField) error {
	c.TiedEmbeddings = f.Tied != nil && *f.Tied
	dtype := f.TorchDtype
	if dtype == nil {
		dtype = f.Dtype
	}
	if dtype == nil {
		return wrong("torch_dtype", "is missing; without it the weights have no size")
	}
	c.Dtype = *dtype
	if c.BytesPerWeight() == 0 {
		return wrong("torch_dtype", "is %q; want bfloat16, float16 or float32", c.Dtype)
	}
	if f.MaxPositions != nil {
		c.MaxPositions = *f.MaxPositions
		if c.MaxPositions < 1 {
			return wrong("max_position_embeddings", "is %d; want at least 1", c.MaxPositions)
		}
	}
	for _, field := range []struct {
		name string
		from *float64
		to   *float64
	}{{"rms_norm_eps", f.RMSNormEps, &c.RMSNormEps}, {"rope_theta", f.RopeTheta, &c.RopeTheta}} {
		if field.from == nil {
			continue
		}
		if *field.from <= 0 {
			return wrong(field.name, "is %v; want above 0", *field.from)
		}
		*field.to = *field.from
	}
	return nil
}

// BytesPerWeight is the size of a stored weight, or 0 for an unknown dtype.
func (c *Config) BytesPerWeight() int {
	switch c.Dtype {
	case "bfloat16", "float16":
		return 2
	case "float32":
		return 4
	}
	return 0
}

// WeightBytes is the size of all weights: matrices, embedding and output
// projection, without biases and norms (less than 0.1 %).
func (c *Config) WeightBytes() int64 {
	attention := int64(c.Hidden) * int64(c.HeadDim) * int64(2*c.Heads+2*c.KVHeads)
	mlp := 3 * int64(c.Hidden) * int64(c.Intermediate)
	embedding := int64(c.Vocab) * int64(c.Hidden)
	if !c.TiedEmbeddings {
		embedding *= 2
	}
	return (int64(c.Layers)*(attention+mlp) + embedding) * int64(c.BytesPerWeight())
}

// KVBytesPerToken is what one token of one request holds in the KV cache of all
// layers, in 16-bit numbers.
func (c *Config) KVBytesPerToken() int64 {
	return 2 * 2 * int64(c.Layers) * int64(c.KVHeads) * int64(c.HeadDim)
}
