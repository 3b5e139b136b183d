package workload

import (
	"slices"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// TestMadeUp pins what a seed means.
func TestMadeUp(t *testing.T) {
	var got []algorithms.Token
	for position := range 4 {
		got = append(got, MadeUp(42, position, PurposeToken), MadeUp(42, position, PurposePrompt))
	}
	want := []algorithms.Token{816675002, 1044028474, 322117803, 549471275, 456200233, 228846761, 752078234, 979431706}
	if !slices.Equal(got, want) {
		t.Errorf("tokens %v, want %v", got, want)
	}
	for seed := range uint64(5000) {
		if token := MadeUp(seed*0x9e3779b97f4a7c15, int(seed%7), PurposeToken); token <= EOS || token >= MadeUpVocab {
			t.Fatalf("seed %d: token %d", seed, token)
		}
	}
}

func TestAppendPrompt(t *testing.T) {
	one := Request{Seed: 1, Prompt: 5, Shared: 3, SharedSeed: 9}
	two := Request{Seed: 2, Prompt: 6, Shared: 3, SharedSeed: 9}
	a, b := one.AppendPrompt(nil), two.AppendPrompt(make([]algorithms.Token, 1))[1:]
	if len(a) != 5 || len(b) != 6 {
		t.Fatalf("prompts of %d and %d tokens, want 5 and 6", len(a), len(b))
	}
	if !slices.Equal(a[:3], b[:3]) {
		t.Errorf("shared prefixes %v and %v differ", a[:3], b[:3])
	}
	if a[3] == b[3] || a[3] != MadeUp(1, 3, PurposePrompt) {
		t.Errorf("after the prefix: %d and %d", a[3], b[3])
	}
}
