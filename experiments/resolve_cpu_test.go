package experiments

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/experiments/engines"
)

// What cannot run on cpu, or would show nothing there, is refused with the file,
// not after minutes of measuring.
func TestCPURefusals(t *testing.T) {
	few := filepath.Join(t.TempDir(), "config.json")
	config := `{"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 2,
"num_key_value_heads": 1, "head_dim": 32, "intermediate_size": 64, "vocab_size": 512, "max_position_embeddings": 128, "rms_norm_eps": 1e-6,
"rope_theta": 1e6, "hidden_act": "silu", "torch_dtype": "bfloat16", "tie_word_embeddings": true}`
	if err := os.WriteFile(few, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r2r := strings.Replace(pacedFile, "matrix = [[0.8, 0.2], [1.0, 0.0]]", `algorithm = "r2r"`, 1)
	for _, c := range []struct {
		file, set, want string // "" for nothing wrong
	}{
		{pacedFile, "", ""},
		{pacedFile, "models.small.cpu.kv_tokens=16", "models.small.cpu.kv_tokens: must hold a prompt of 1124 tokens, with which steady requests start on cpu (prompt_tokens and half of output_tokens), and one more, got 16 in blocks of 16\n  fix: raise it"},
		{pacedFile, "models.small.cpu.kv_tokens=1136", ""},
		{pacedFile + "kind = \"closed\"\nprompt_tokens = 48\noutput_tokens = 5\n", "models.small.cpu.kv_tokens=48", "must hold a prompt of 48 tokens and one more, got 48"},
		{pacedFile, "models.small.cpu.model=random:" + few, "and one more are too many for random:" + few + ", which was made for 128 positions"},
		{pacedFile + "kind = \"closed\"\nprompt_tokens = 127\noutput_tokens = 5\n", "models.small.cpu.model=random:" + few, ""},
		{pacedFile, "models.large.cpu.model=random:qwen3-58m", "models.large.cpu.model: random:qwen3-58m has a vocabulary of 4096, and toy:qwen3 one of 512: models that write one text share a tokenizer"},
		{pacedFile, "systems=single:small,single:large models.large.cpu.model=random:qwen3-58m", ""},
		{r2r, "", "x.toml:10: routing.algorithm: r2r reads router_score of small, which models on cpu do not give\n  fix: one that reads only entropy+max_prob+top_k"},
		{r2r, "systems=query-level", ""},
		{r2r, "on=sim", ""},
	} {
		set := append([]string{"on=cpu", "models.small.cpu.model=toy:qwen3", "models.large.cpu.model=toy:llama"}, strings.Fields(c.set)...)
		_, err := Load("x.toml", []byte(c.file), set...)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("--set %s: %v", c.set, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("--set %s: %v, want %q", c.set, err, c.want)
		}
	}
}

// The engine agrees on what signals it has.
func TestCPUSignals(t *testing.T) {
	w, err := openWeights(t.Context(), "toy:qwen3")
	if err != nil {
		t.Fatal(err)
	}
	e, err := w.CPU(engines.Options{Threads: 1, KVTokens: 64, BlockTokens: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if got := e.Info().Signals; got != cpuSignals {
		t.Errorf("an engine gives %v, the check allows %v", got, cpuSignals)
	}
}
