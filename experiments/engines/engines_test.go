package engines

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/backend/model"
)

// The bits of a forward step are the same on every machine. A change of the
// toys, of the engine's order of sums or of sampling changes them: then this
// digest is to be replaced, knowingly.
func TestSelfTest(t *testing.T) {
	if err := SelfTest(); err != nil {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"toy:qwen", `there is no toy "qwen"; use toy:qwen3 or toy:llama`},
		{"random:qwen3-58", "did you mean random:qwen3-58m"},
		{"random:nothing-like-it", "did you mean random:"},
		{"random:qwen2-1.5b", `model_type is "qwen2", and the CPU engine runs qwen3 and llama`},
		{"no/such/folder", "no/such/folder: no such file or directory; give a folder with config.json"},
	} {
		if _, err := Config(c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for _, shape := range append(Shapes()[:2:2], "qwen3-0.6b") {
		c, err := Config("random:" + shape)
		if err != nil {
			t.Fatal(err)
		}
		if c.WeightBytes() < 100e6 {
			t.Errorf("%s has %d bytes of weights: they may fit into a cache", shape, c.WeightBytes())
		}
	}
}

// A folder means the same below another one; names that are no paths stay.
func TestBelow(t *testing.T) {
	absolute := filepath.Join(t.TempDir(), "m")
	for _, c := range []struct{ name, want string }{
		{"toy:qwen3", "toy:qwen3"}, {"random:qwen3-8b", "random:qwen3-8b"}, {absolute, absolute},
		{"m", filepath.Join("dir", "m")}, {"random:m/config.json", "random:" + filepath.Join("dir", "m", "config.json")},
	} {
		if got := Below("dir", c.name); got != c.want {
			t.Errorf("%s is %s, want %s", c.name, got, c.want)
		}
	}
}

func TestSameTokens(t *testing.T) {
	open := func(name string) *Weights {
		w, err := Open(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		return w
	}
	small, large := open("toy:qwen3"), open("toy:llama")
	if err := SameTokens(small, large); err != nil {
		t.Error(err)
	}
	odd := model.Toy("qwen3")
	odd.Vocab = 600
	m, err := model.Random(t.Context(), odd, model.BF16, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := SameTokens(small, &Weights{m, "toy:odd"}); err == nil || !strings.Contains(err.Error(), "toy:qwen3 has a vocabulary of 512, toy:odd one of 600") {
		t.Errorf("vocabularies of two sizes: %v", err)
	}
}

// What a folder holds opens as the model that was saved there.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	toy, err := Open(t.Context(), "toy:qwen3")
	if err != nil {
		t.Fatal(err)
	}
	if err := toy.Save(dir); err != nil {
		t.Fatal(err)
	}
	w, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if w.WeightBytes() != toy.WeightBytes() || ShortName(dir) != filepath.Base(dir) {
		t.Errorf("%d bytes of weights, saved %d", w.WeightBytes(), toy.WeightBytes())
	}
	if _, err := w.Tokenizer(); err == nil {
		t.Error("a folder without tokenizer.json has a tokenizer")
	}
	if err := os.Remove(filepath.Join(dir, "config.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir); err == nil {
		t.Error("a folder without config.json opens")
	}
}
