package workload

import (
	"slices"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// The text of requests is made up: tokens that a seed and a position determine.
// The simulator and the paced engine make up the same ones.

// EOS is the token that ends a made-up text; the others are above it.
const EOS algorithms.Token = 0

// MadeUpVocab is above every made-up token.
const MadeUpVocab = 1<<30 + 1

// Purposes of made-up tokens.
const (
	PurposePrompt algorithms.Purpose = 0x5101
	PurposeToken  algorithms.Purpose = 0x5103
)

// MadeUp returns a token that a seed and a position determine, never EOS. A
// full-strength hash is not needed: tokens must differ between requests, no
// more.
func MadeUp(seed uint64, position int, purpose algorithms.Purpose) algorithms.Token {
	x := (seed ^ uint64(position)*0x9e3779b97f4a7c15 ^ uint64(purpose)<<40) * 0xbf58476d1ce4e5b9
	return algorithms.Token(x>>34) + 1
}

// AppendPrompt makes up the tokens of a request's prompt.
func (r *Request) AppendPrompt(dst []algorithms.Token) []algorithms.Token {
	start := len(dst)
	dst = slices.Grow(dst, r.Prompt)[:start+r.Prompt]
	text := dst[start:]
	for i := range r.Shared {
		text[i] = MadeUp(r.SharedSeed, i, PurposePrompt)
	}
	for i := r.Shared; i < len(text); i++ {
		text[i] = MadeUp(r.Seed, i, PurposePrompt)
	}
	return dst
}
