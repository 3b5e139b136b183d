package model

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
)

const fixtures = "../cpu/testdata"

func readFixture(t *testing.T, name string, to any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fixtures, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatal(err)
	}
}

// sameTable allows the last bit: the library's own power function, which differs
// from processor to processor, is no better.
func sameTable(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d frequencies, want %d", what, len(got), len(want))
	}
	for i := range got {
		if apart := int(math.Float32bits(got[i])) - int(math.Float32bits(want[i])); apart < -1 || apart > 1 {
			t.Errorf("%s: frequency %d is %v, want %v: %d last bits apart", what, i, got[i], want[i], apart)
		}
	}
}

// Folders that transformers wrote, one of them in shards.
func TestOpenTransformers(t *testing.T) {
	for _, c := range []struct {
		name    string
		tensors int
		tied    bool
		files   int
	}{{"qwen3-tied", 24, true, 1}, {"qwen3-untied", 25, false, 5}, {"llama", 30, false, 1}} {
		m, err := Open(filepath.Join(fixtures, c.name))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if got := len(m.Tensors()); got != c.tensors || len(m.files) != c.files {
			t.Errorf("%s: %d tensors in %d files, want %d in %d", c.name, got, len(m.files), c.tensors, c.files)
		}
		if tied := &m.Head.U16[0] == &m.Embed.U16[0]; tied != c.tied {
			t.Errorf("%s: tied is %v", c.name, tied)
		}
		if empty := m.Layers[0].QNorm.Empty(); empty != (c.name == "llama") {
			t.Errorf("%s: q_norm empty is %v", c.name, empty)
		}
		var reference struct {
			Frequencies []float32 `json:"inverse_frequencies"`
		}
		readFixture(t, c.name+"/reference.json", &reference)
		sameTable(t, c.name, m.Rope.InverseFrequencies, reference.Frequencies)
	}
}

func TestRopeTransformers(t *testing.T) {
	var tables []struct {
		HeadDim     int             `json:"head_dim"`
		Parameters  json.RawMessage `json:"rope_parameters"`
		Frequencies []float32       `json:"inverse_frequencies"`
	}
	readFixture(t, "rope.json", &tables)
	for _, table := range tables {
		config := map[string]any{
			"model_type": "llama", "torch_dtype": "bfloat16", "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 8,
			"hidden_size": table.HeadDim, "head_dim": table.HeadDim, "intermediate_size": 8, "rope_parameters": table.Parameters,
		}
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		c, err := modelconfig.Parse("config.json", text)
		if err != nil {
			t.Fatal(err)
		}
		sameTable(t, string(table.Parameters), newRope(c).InverseFrequencies, table.Frequencies)
	}
}

// A frequency is in radians per position.
func TestRopeFill(t *testing.T) {
	r := Rope{[]float32{1, 1e-3}}
	cos, sin := make([]float32, 2), make([]float32, 2)
	for _, position := range []int{0, 1, 1000, 40_000} {
		r.Fill(position, cos, sin)
		for i, frequency := range []float64{1, 1e-3} {
			angle := float64(position) * frequency
			// An angle is rounded to float32: up to 2^-24 of itself.
			if off := angle/(1<<23) + 1e-7; math.Abs(float64(cos[i])-math.Cos(angle)) > off || math.Abs(float64(sin[i])-math.Sin(angle)) > off {
				t.Errorf("position %d, pair %d: %v and %v, want %v and %v", position, i, cos[i], sin[i], math.Cos(angle), math.Sin(angle))
			}
		}
	}
}
