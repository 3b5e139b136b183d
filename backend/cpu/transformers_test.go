package cpu

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/model"
)

// closeToTransformers bounds the largest difference of a row of logits over
// their largest magnitude. Two evaluations in float32 that sum in different
// orders are some 1e-6 apart on these models.
const closeToTransformers = 1e-4

// TestLogitsOfTransformers prefills and decodes what transformers did, for the
// checkpoints and logits that testdata/fixtures.py made with it.
func TestLogitsOfTransformers(t *testing.T) {
	for _, name := range []string{"qwen3-tied", "qwen3-untied", "llama"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", name)
			var reference struct {
				Prompt, Vocab int
				Tokens        []backend.Token
			}
			readJSON(t, filepath.Join(dir, "reference.json"), &reference)
			want := readFloats(t, filepath.Join(dir, "logits.f32"), reference.Vocab)
			e := newEngine(t, openModel(t, dir), Options{Threads: 2, Blocks: 8})
			worst := 0.0
			compare := func(s backend.Sequence) backend.Token {
				got := forward(t, e, s)[0]
				worst = max(worst, apart(e.logits[:e.vocab], want[s.Position()-1]))
				return got.Token
			}
			s := backend.Sequence{Blocks: []int32{6, 1, 0, 7, 2, 4, 5}, Samples: true}
			// Every row of the prompt is compared: each is the last of a prefill.
			for end := 1; end < reference.Prompt; end++ {
				s.Tokens = reference.Tokens[:end]
				compare(s)
			}
			s.Tokens = reference.Tokens[:reference.Prompt]
			tokens := slices.Clone(s.Tokens)
			for range len(reference.Tokens) - reference.Prompt {
				tokens = append(tokens, compare(s))
				s.Start, s.Tokens = s.Position(), tokens[len(tokens)-1:]
			}
			compare(s) // the row after the last token
			if !(worst <= closeToTransformers) {
				t.Errorf("logits are %.2g apart, want at most %g", worst, closeToTransformers)
			}
			t.Logf("logits of %d rows are at most %.2g apart", len(want), worst)
			if !slices.Equal(tokens, reference.Tokens) {
				t.Errorf("greedy tokens are %v, want %v", tokens[reference.Prompt:], reference.Tokens[reference.Prompt:])
			}
		})
	}
}

func openModel(t testing.TB, dir string) *model.Model {
	t.Helper()
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func readJSON(t testing.TB, path string, to any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// readFloats reads rows of little-endian float32.
func readFloats(t testing.TB, path string, width int) (rows [][]float64) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for len(data) > 0 {
		row := make([]float64, width)
		for i := range row {
			row[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
		}
		rows, data = append(rows, row), data[4*width:]
	}
	return rows
}
