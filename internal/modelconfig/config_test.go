package modelconfig

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const valid = `{
  "architectures": ["Qwen3ForCausalLM"],
  "model_type": "qwen3",
  "hidden_size": 1024,
  "num_hidden_layers": 28,
  "num_attention_heads": 16,
  "num_key_value_heads": 8,
  "head_dim": 128,
  "intermediate_size": 3072,
  "vocab_size": 151936,
  "tie_word_embeddings": true,
  "rms_norm_eps": 1e-06,
  "torch_dtype": "bfloat16",
  "sliding_window": null,
  "rope_scaling": {"type": "none"}
}
`

func TestParse(t *testing.T) {
	c, err := Parse("config.json", []byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Name: "config.json", Architecture: "Qwen3ForCausalLM", ModelType: "qwen3", Layers: 28, Hidden: 1024,
		Heads: 16, KVHeads: 8, HeadDim: 128, Intermediate: 3072, Vocab: 151936, TiedEmbeddings: true,
		Dtype: "bfloat16", RMSNormEps: 1e-6, Activation: "silu", Rope: Rope{Type: "none"}}
	if *c != want {
		t.Errorf("read %+v\nwant %+v", *c, want)
	}
}

func TestDefaultsOfFamilies(t *testing.T) {
	text := strings.NewReplacer(`"qwen3"`, `"qwen2"`, "  \"head_dim\": 128,\n", "", `"torch_dtype"`, `"dtype"`,
		"  \"num_key_value_heads\": 8,\n", "", "  \"tie_word_embeddings\": true,\n", "").Replace(valid)
	c, err := Parse("config.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if c.HeadDim != 64 || c.KVHeads != 16 || !c.AttentionBias || c.TiedEmbeddings || c.Dtype != "bfloat16" {
		t.Errorf("read %+v", *c)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ old, new, field, want string }{
		{`"model_type": "qwen3",`, "", "model_type", "is missing"},
		{`"qwen3"`, `"mamba"`, "model_type", `is "mamba"; known are qwen3`},
		{`"qwen3"`, `3`, "model_type", "is a JSON number; want a string"},
		{`"sliding_window": null`, `"layer_types": {}`, "layer_types", "is a JSON object; want a list"},
		{"  \"head_dim\": 128,\n", "", "head_dim", "would be wrong"},
		{`"head_dim": 128`, `"head_dim": 0`, "head_dim", "is 0"},
		{`"hidden_size": 1024,`, "", "hidden_size", "is missing"},
		{`"hidden_size": 1024`, `"hidden_size": -1`, "hidden_size", "is -1"},
		{`"hidden_size": 1024`, `"hidden_size": 1e99`, "hidden_size", "config.json:4: hidden_size is a JSON number 1e99; want a whole number"},
		{`"num_hidden_layers": 28`, `"num_hidden_layers": "28"`, "num_hidden_layers", "config.json:5: "},
		{`"num_key_value_heads": 8`, `"num_key_value_heads": 7`, "num_key_value_heads", "divisor of num_attention_heads, 16"},
		{`"torch_dtype": "bfloat16"`, `"torch_dtype": "int4"`, "torch_dtype", `is "int4"`},
		{"  \"torch_dtype\": \"bfloat16\",\n", "", "torch_dtype", "is missing"},
		{`"rms_norm_eps": 1e-06`, `"rms_norm_eps": 0`, "rms_norm_eps", "is 0"},
		{`"sliding_window": null`, `"num_experts": 8`, "num_experts", "mixtures"},
		{`"sliding_window": null`, `"num_local_experts": 8`, "num_local_experts", "mixtures"},
		{`"sliding_window": null`, `"quantization_config": {"bits": 4}`, "quantization_config", "quantised"},
		{`"sliding_window": null`, `"max_position_embeddings": 0`, "max_position_embeddings", "is 0"},
	} {
		text := strings.Replace(valid, c.old, c.new, 1)
		if text == valid {
			t.Fatalf("%q is not in the file", c.old)
		}
		_, err := Parse("config.json", []byte(text))
		var field *FieldError
		if !errors.As(err, &field) || field.Field != c.field || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), "config.json") {
			t.Errorf("%q for %q: %v", c.new, c.old, err)
		}
	}
	for _, text := range []string{"", "[1]", "{", valid + "x", strings.Replace(valid, "28,", "28", 1)} {
		if _, err := Parse("config.json", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "config.json") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	var missing *MissingError
	if _, err := Load(dir); !errors.As(err, &missing) || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "model "+dir+": there is no config.json in it; want a") {
		t.Errorf("an empty folder: %v", err)
	}
	path := filepath.Join(dir, "config.json")
	if err := os.WriteFile(path, []byte(valid), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{dir, path} {
		c, err := Find(from)
		if err != nil || c.Name != path || c.Vocab != 151936 {
			t.Errorf("%s: %+v, %v", from, c, err)
		}
	}
}

// Sizes as published on the models' pages, in parameters.
func TestKnown(t *testing.T) {
	for _, c := range []struct {
		name     string
		billions float64 // with embeddings
		kvBytes  int64
	}{
		{"qwen3-0.6b", 0.596, 114688}, {"qwen3-1.7b", 1.72, 114688}, {"qwen3-4b", 4.02, 147456},
		{"qwen3-8b", 8.19, 147456}, {"qwen3-14b", 14.77, 163840}, {"qwen3-32b", 32.76, 262144},
		{"qwen2-1.5b", 1.54, 28672}, {"r1-distill-qwen-1.5b", 1.78, 28672}, {"l1-1.5b", 1.78, 28672},
		{"r1-distill-qwen-32b", 32.76, 262144}, {"qwq-32b", 32.76, 262144}, {"qwen2-72b", 72.71, 327680},
		{"llama-2-7b", 6.74, 524288}, {"llama-2-70b", 68.98, 327680},
	} {
		config, err := Known(c.name)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := float64(config.WeightBytes()) / 2e9; got < c.billions*0.995 || got > c.billions*1.005 {
			t.Errorf("%s: %.3f billion weights, published are %v", c.name, got, c.billions)
		}
		if got := config.KVBytesPerToken(); got != c.kvBytes {
			t.Errorf("%s: %d bytes of KV a token, want %d", c.name, got, c.kvBytes)
		}
	}
	for _, name := range Names() {
		if _, err := Known(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := Find("qwen3-8"); err == nil || !strings.Contains(err.Error(), "did you mean qwen3-8b") {
		t.Errorf("a near miss: %v", err)
	}
}

// FuzzParse holds that any text is refused with an error that names the file, or
// gives a shape whose sizes can be multiplied.
func FuzzParse(f *testing.F) {
	f.Add([]byte(valid))
	f.Add([]byte(`{"model_type":"llama"}`))
	f.Add(withRope(`"rope_parameters": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
		"original_max_position_embeddings": 8192, "rope_theta": 500000}, "mlp_bias": true, "layer_types": ["full_attention"]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("fuzz.json", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "fuzz.json") {
				t.Fatalf("the error does not name the file: %v", err)
			}
			return
		}
		if c.Heads%c.KVHeads != 0 || c.HeadDim < 1 || c.Layers < 1 || c.WeightBytes() <= 0 || c.KVBytesPerToken() <= 0 {
			t.Fatalf("accepted %+v", *c)
		}
		if r := c.Rope; r.Type == "llama3" && !(r.Factor > 0 && r.LowFreq > 0 && r.HighFreq > r.LowFreq && r.OriginalPositions > 0) {
			t.Fatalf("accepted %+v", r)
		}
	})
}
