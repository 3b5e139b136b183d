package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
	"github.com/tokenrouter/tokenrouter/internal/regular"
)

const configName = "config.json"

// supported names the architectures that engines run, and their model types.
var supported = []struct{ architecture, modelType string }{
	{"Qwen3ForCausalLM", "qwen3"},
	{"LlamaForCausalLM", "llama"},
}

// Defaults of the two families where config.json is silent, from the classes
// Qwen3Config and LlamaConfig of transformers 5.
const (
	epsDefault            = 1e-6
	thetaDefault          = 10000
	positionsDefaultQwen3 = 32768
	positionsDefaultLlama = 2048
)

// jsonMax bounds the size of the small files of a folder. An index names every
// tensor: some 100 bytes for each of some thousands.
const jsonMax = 16 << 20

// readSmall reads a JSON file of the folder whole.
func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > jsonMax {
		return nil, fmt.Errorf("%s: %d bytes are too many; at most %d are read", path, info.Size(), jsonMax)
	}
	return regular.ReadFile(path)
}

func readConfig(dir string) (*modelconfig.Config, error) {
	path := filepath.Join(dir, configName)
	text, err := readSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &modelconfig.MissingError{Dir: dir}
	}
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", dir, err)
	}
	if err := refuseArchitectureOf(path, text); err != nil {
		return nil, err
	}
	config, err := modelconfig.Parse(path, text)
	if err != nil {
		return nil, err
	}
	fillDefaults(config)
	return config, refuseFeatures(config)
}

// refuseArchitectureOf looks at the architecture before anything else: of a
// model that is not understood no other field means anything. Text that is not
// JSON is left to the full parser, whose errors have line numbers.
func refuseArchitectureOf(path string, text []byte) error {
	var f struct {
		Architectures []string `json:"architectures"`
		ModelType     string   `json:"model_type"`
	}
	if json.Unmarshal(text, &f) != nil || f.ModelType == "" {
		return nil
	}
	architecture := ""
	if len(f.Architectures) > 0 {
		architecture = f.Architectures[0]
	}
	return refuseArchitecture(path, architecture, f.ModelType)
}

func refuseArchitecture(name, architecture, modelType string) error {
	for _, s := range supported {
		if s.modelType == modelType && (architecture == s.architecture || architecture == "") {
			return nil
		}
	}
	if architecture == "" {
		architecture = "of model_type " + modelType
	}
	return &modelconfig.FieldError{File: name, Field: "architecture", Unsupported: true, Problem: fmt.Sprintf(
		"%s is not supported; supported are %s and %s", architecture, supported[0].architecture, supported[1].architecture)}
}

func fillDefaults(c *modelconfig.Config) {
	if c.RMSNormEps == 0 {
		c.RMSNormEps = epsDefault
	}
	if c.RopeTheta == 0 {
		c.RopeTheta = thetaDefault
	}
	if c.MaxPositions == 0 {
		c.MaxPositions = positionsDefaultLlama
		if c.ModelType == "qwen3" {
			c.MaxPositions = positionsDefaultQwen3
		}
	}
}

// refuseModel refuses a shape that engines cannot run, wherever it is from.
func refuseModel(c *modelconfig.Config) error {
	if err := refuseArchitecture(c.Name, c.Architecture, c.ModelType); err != nil {
		return err
	}
	return refuseFeatures(c)
}

// refuseFeatures refuses what the two architectures can have but engines do not
// compute: the logits would be wrong without any error.
func refuseFeatures(c *modelconfig.Config) error {
	refuse := func(field, format string, args ...any) error {
		return &modelconfig.FieldError{File: c.Name, Field: field, Problem: fmt.Sprintf(format, args...), Unsupported: true}
	}
	switch {
	case c.AttentionBias:
		return refuse("attention_bias", "is true: biases of the attention's projections are not supported")
	case c.MLPBias:
		return refuse("mlp_bias", "is true: biases of the MLP's projections are not supported")
	case c.Activation != "silu":
		return refuse("hidden_act", "is %q; supported is silu", c.Activation)
	case c.Sliding:
		return refuse("use_sliding_window", "or layer_types asks for attention to a sliding window, which is not supported")
	case c.HeadDim%2 != 0:
		return refuse("head_dim", "is %d; the rotary embedding turns pairs and needs an even one", c.HeadDim)
	case c.Rope.Partial != 0 && c.Rope.Partial != 1:
		return refuse("partial_rotary_factor", "is %v; supported is 1", c.Rope.Partial)
	case c.Rope.Type != "" && c.Rope.Type != "linear" && c.Rope.Type != "llama3":
		return refuse("rope_type", "is %q; supported are default, linear and llama3", c.Rope.Type)
	}
	return nil
}
