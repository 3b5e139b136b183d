package model

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestOpenRefusesConfigs(t *testing.T) {
	for _, c := range []struct{ family, from, to, want string }{
		{"llama", `"LlamaForCausalLM"`, `"MistralForCausalLM"`, "architecture MistralForCausalLM is not supported; supported are Qwen3ForCausalLM and LlamaForCausalLM"},
		{"llama", `"LlamaForCausalLM"`, `"Qwen3ForCausalLM"`, "architecture Qwen3ForCausalLM"}, // of model_type llama
		{"qwen3", `"qwen3"`, `"gpt_oss"`, "architecture Qwen3ForCausalLM"},
		{"qwen3", "[\n    \"Qwen3ForCausalLM\"\n  ]", "[]", ""},
		{"qwen3", "\"architectures\": [\n    \"Qwen3ForCausalLM\"\n  ],", `"model_type": "phi3", "x": 1,`, ""}, // the later model_type counts
		{"llama", `"attention_bias": false`, `"attention_bias": true`, "attention_bias is true"},
		{"llama", `"attention_bias": false`, `"mlp_bias": true`, "mlp_bias is true"},
		{"llama", `"hidden_act": "silu"`, `"hidden_act": "gelu"`, `hidden_act is "gelu"; supported is silu`},
		{"qwen3", `"hidden_act": "silu"`, `"use_sliding_window": true`, "sliding window"},
		{"qwen3", `"hidden_act": "silu"`, `"use_sliding_window": false, "sliding_window": 4096`, ""},
		{"qwen3", `"hidden_act": "silu"`, `"layer_types": ["full_attention", "sliding_attention"]`, "sliding window"},
		{"qwen3", `"hidden_act": "silu"`, `"partial_rotary_factor": 0.5`, "partial_rotary_factor is 0.5"},
		{"qwen3", `"hidden_act": "silu"`, `"rope_scaling": {"type": "yarn", "factor": 4.0}`, `rope_type is "yarn"; supported are default, linear and llama3`},
		{"qwen3", `"hidden_act": "silu"`, `"rope_scaling": {"type": "linear", "factor": 4.0}`, ""},
		{"qwen3", `"hidden_act": "silu"`, `"rope_scaling": {"rope_type": "default"}`, ""},
		{"qwen3", `"hidden_act": "silu"`, `"quantization_config": {"bits": 4}`, "quantization_config"},
		{"qwen3", `"head_dim": 32`, `"head_dim": 31`, "head_dim is 31"},
		{"qwen3", `"vocab_size": 512`, `"vocab_size": "512"`, "vocab_size"},
		{"qwen3", `{`, `[`, "not JSON"},
	} {
		dir := t.TempDir()
		if err := randomToy(t, c.family, BF16).Save(dir); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, configName)
		replaced(t, path, c.from, c.to)
		if c.want != "" {
			refused(t, c.to, dir, path, c.want)
			continue
		}
		m, err := Open(dir)
		if err != nil {
			t.Errorf("%s: %v", c.to, err)
			continue
		}
		m.Close()
	}
}

// What config.json leaves out is what transformers takes.
func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		family    string
		positions int
	}{{"qwen3", 32768}, {"llama", 2048}} {
		dir := t.TempDir()
		m := randomToy(t, c.family, BF16)
		if err := m.Save(dir); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"rms_norm_eps", "rope_theta", "max_position_embeddings"} {
			replaced(t, filepath.Join(dir, configName), `"`+field+`"`, `"not_`+field+`"`)
		}
		read, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if g := read.Config; g.RMSNormEps != 1e-6 || g.RopeTheta != 10000 || g.MaxPositions != c.positions {
			t.Errorf("%s: %+v", c.family, g)
		}
		read.Close()
	}
}

func TestGeneration(t *testing.T) {
	for _, c := range []struct {
		text, want string
		eos        []int32
	}{
		{`{"eos_token_id": 5}`, "", []int32{5}},
		{`{"eos_token_id": [7, 5, 7]}`, "", []int32{7, 5}},
		{`{"eos_token_id": null, "temperature": null}`, "", nil},
		{`{"eos_token_id": []}`, "", nil},
		{`{}`, "", nil},
		{`{"eos_token_id": 512}`, "g.json: eos_token_id is 512, outside the vocabulary of 512", nil},
		{`{"eos_token_id": [1, -1]}`, "eos_token_id is -1", nil},
		{`{"eos_token_id": "5"}`, "eos_token_id is neither an id nor a list of ids", nil},
		{`{"eos_token_id": [5.5]}`, "eos_token_id is neither", nil},
		{`{"temperature": -1}`, "temperature is -1; want 0", nil},
		{`{"top_p": 1.5}`, "top_p is 1.5; want 0 to 1", nil},
		{`{"min_p": -0.1}`, "min_p is -0.1", nil},
		{`{"top_k": -1}`, "top_k is -1; want 0 or more", nil},
		{`{"top_k": 1.5}`, "top_k", nil},
		{`{"repetition_penalty": -2}`, "repetition_penalty is -2", nil},
		{`{"top_k": "x"}`, "g.json: top_k is a JSON string; want a whole number", nil},
		{`{"do_sample": 1}`, "g.json: do_sample is a JSON number; want true or false", nil},
		{`{"top_p": []}`, "g.json: top_p is a JSON array; want a number", nil},
		{`[]`, "g.json: holds a JSON array and should hold an object; fetch", nil},
		{``, "g.json: is not JSON: ", nil},
	} {
		g, err := parseGeneration("g.json", []byte(c.text), 512)
		switch {
		case c.want == "" && (err != nil || !slices.Equal(g.EOS, c.eos)):
			t.Errorf("%s: %v, %v", c.text, g.EOS, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v\nwant %s", c.text, err, c.want)
		}
	}
	g, err := parseGeneration("g.json", []byte(`{"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
		"min_p": 0.1, "repetition_penalty": 1.1, "transformers_version": "5"}`), 512)
	if err != nil || !g.DoSample || g.Temperature != 0.6 || g.TopK != 20 || g.TopP != 0.95 || g.MinP != 0.1 || g.RepetitionPenalty != 1.1 {
		t.Errorf("%+v, %v", g, err)
	}
}

// The ids that end a text are in either file, or in none.
func TestGenerationFallsBack(t *testing.T) {
	dir := t.TempDir()
	m := randomToy(t, "qwen3", BF16)
	m.Generation = Generation{EOS: []int32{9}, TopK: 4}
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	path, config := filepath.Join(dir, generationName), filepath.Join(dir, configName)
	check := func(what string, topK int, eos ...int32) {
		t.Helper()
		m, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if g := m.Generation; !slices.Equal(g.EOS, eos) || g.TopK != topK || g.Temperature != 0 {
			t.Errorf("%s: %+v", what, g)
		}
	}
	replaced(t, config, `"hidden_act": "silu"`, `"eos_token_id": [3, 4], "temperature": 0.5`)
	check("both", 4, 9)
	replaced(t, path, "eos_token_id", "eos")
	check("not stated", 4, 3, 4)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check("no file", 0, 3, 4)
	replaced(t, config, "[3, 4]", "[3, 4000]")
	refused(t, "outside", dir, config, "eos_token_id is 4000, outside the vocabulary of 512")
}

// FuzzGeneration holds that whatever is accepted can be sampled with.
func FuzzGeneration(f *testing.F) {
	f.Add([]byte(`{"eos_token_id": [151645, 151643], "temperature": 0.6, "top_k": 20, "top_p": 0.95}`))
	f.Add([]byte(`{"eos_token_id": 2, "min_p": 0, "repetition_penalty": 1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := parseGeneration("fuzz.json", text, 1<<18)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "fuzz.json: ") {
				t.Fatalf("the error does not name the file: %v", err)
			}
			return
		}
		for i, id := range g.EOS {
			if id < 0 || id >= 1<<18 || slices.Contains(g.EOS[:i], id) {
				t.Fatalf("accepted ids %v", g.EOS)
			}
		}
		if !(g.Temperature >= 0 && g.TopP >= 0 && g.TopP <= 1 && g.MinP >= 0 && g.MinP <= 1 && g.TopK >= 0 && g.RepetitionPenalty >= 0) {
			t.Fatalf("accepted %+v", g)
		}
	})
}

// FuzzIndex holds that every file of an accepted index lies in the folder.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata": {"total_size": 8}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}`))
	f.Add([]byte(`{"weight_map": {"a": "../model.safetensors"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		byTensor, err := parseIndex(text)
		if err != nil {
			return
		}
		if len(byTensor) == 0 {
			t.Fatal("accepted an index of nothing")
		}
		for tensor, name := range byTensor {
			if filepath.Base(name) != name || !filepath.IsLocal(name) {
				t.Fatalf("accepted %q for tensor %q", name, tensor)
			}
		}
	})
}

func TestIndexRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"weight_map": {"a": "1.safetensors", "a": "2.safetensors"}}`, "tensor a is listed twice, in 1.safetensors and 2.safetensors"},
		{`{"weight_map": {"a": 1}}`, "tensor a: want the name of a file"},
		{`{"weight_map": {"a": "pytorch_model.bin"}}`, `tensor a is said to be in "pytorch_model.bin"`},
		{`{"weight_map": {}}`, "lists no tensor"},
		{`{"weight_map": []}`, "not an object"},
		{`{"weight_map": null}`, "not an object"},
		{`{}`, "not an object"},
		{`{`, "not JSON"},
	} {
		if _, err := parseIndex([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.text, err, c.want)
		}
	}
}
