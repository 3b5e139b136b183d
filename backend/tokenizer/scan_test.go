package tokenizer

import (
	"slices"
	"testing"
	"unicode/utf8"
)

// twins are the scanners with their patterns run by the regular expression
// engine.
func twins(t testing.TB) map[string]patternStep {
	slow := map[string]patternStep{}
	for _, pattern := range []string{patternGPT2, patternQwen, patternLlama} {
		step, err := newPatternStep(pattern)
		if err != nil {
			t.Fatal(err)
		}
		slow[pattern] = step
	}
	return slow
}

func pieces(s step, text string) (out []string) {
	split([]step{s}, text, func(piece string) { out = append(out, piece) })
	return out
}

func checkScan(t *testing.T, slow map[string]patternStep, text string) {
	for pattern, step := range slow {
		got, want := pieces(scanStep{knownScanner(pattern)}, text), pieces(step, text)
		if !slices.Equal(got, want) {
			t.Errorf("%q by %s: %q, want %q", text, pattern, got, want)
		}
	}
}

func TestScan(t *testing.T) {
	slow := twins(t)
	for _, text := range readTexts(t) {
		checkScan(t, slow, text)
	}
}

func FuzzScan(f *testing.F) {
	for _, text := range readTexts(f)[:200] {
		f.Add(text)
	}
	slow := twins(f)
	f.Fuzz(func(t *testing.T, text string) {
		if utf8.ValidString(text) {
			checkScan(t, slow, text)
		}
	})
}
