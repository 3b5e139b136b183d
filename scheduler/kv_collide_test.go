package scheduler

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// oneBucket makes all keys of a pool collide, as a hash of the worst kind would:
// only the comparison of tokens and parents is left to tell them apart.
func oneBucket(p *kvPool) {
	p.buckets = make([]int32, 1)
	p.tokens = make([]algorithms.Token, len(p.blocks)*p.blockTokens)
}

// TestKVTellsCollisionsApart publishes a text, then each text that differs from
// it in one token, under keys that all collide: whoever asks for one gets the KV
// of the others only as far as they are the same, or a request would read
// another one's text.
func TestKVTellsCollisionsApart(t *testing.T) {
	const chain = 3 // blocks of a text
	for blockTokens := 1; blockTokens <= 5; blockTokens++ {
		n := chain * blockTokens
		for at := range n {
			t.Run(fmt.Sprintf("blocks of %d, token %d", blockTokens, at), func(t *testing.T) {
				p := newKVPool(4*chain, blockTokens, true)
				oneBucket(p)
				text := make([]algorithms.Token, n)
				for i := range text {
					text[i] = algorithms.Token(100 + i)
				}
				other := slices.Clone(text)
				other[at] = 7
				first, _ := p.alloc(nil, chain)
				p.publish(text, first, 0)

				same := at / blockTokens // blocks before the one that differs
				got := p.match(nil, other)
				if !slices.Equal(got, first[:same]) {
					t.Fatalf("a text that differs in token %d finds the blocks %v of %v", at, got, first)
				}
				second, _ := p.alloc(got, chain-same)
				own := slices.Clone(second)
				p.publish(other, second, same)
				if !slices.Equal(second, own) {
					t.Errorf("publish takes %v for %v: they hold different texts", own, second)
				}
				for _, c := range []struct {
					ids    []algorithms.Token
					blocks []int32
				}{{text, first}, {other, second}} {
					if got := p.match(nil, c.ids); !slices.Equal(got, c.blocks) {
						t.Errorf("%v is found in the blocks %v, want %v", c.ids, got, c.blocks)
					}
				}
				if err := p.check(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A text that begins as another one goes on is not found under that one: equal
// tokens at another place have other KV.
func TestKVTellsPlacesApart(t *testing.T) {
	p := newKVPool(6, 2, true)
	oneBucket(p)
	a, _ := p.alloc(nil, 2)
	p.publish(tokens(1, 2, 3, 4), a, 0)
	for _, ids := range [][]algorithms.Token{tokens(3, 4), tokens(3, 4, 3, 4), tokens(2, 3), tokens(2, 1, 3, 4)} {
		if got := p.match(nil, ids); len(got) > 0 {
			t.Errorf("%v is found in the blocks %v of 1 2 3 4", ids, got)
		}
	}
	if got := p.match(nil, tokens(1, 2, 1, 2)); !slices.Equal(got, a[:1]) {
		t.Errorf("1 2 1 2 is found in the blocks %v, want %v", got, a[:1])
	}
}
