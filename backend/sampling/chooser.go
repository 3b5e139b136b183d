// Package sampling turns logits into a token and into the signals that routing
// algorithms read. Every engine uses it, so that the same logits give the same
// token on all of them.
//
// What a Chooser answers is a function of the logits, of the sequence's seed,
// position, sampling, history and prompt length, and of which signals are asked
// for: bit for bit the same in any batch, on any goroutine and on any
// processor. Sums are float64 in a fixed order; products are rounded before
// they are added, so that no compiler fuses the two.
package sampling

import (
	"fmt"
	"math"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
)

// Chooser chooses tokens. Its zero value is ready; it holds scratch memory that
// grows to a few words a vocabulary entry, so an engine keeps one a goroutine.
type Chooser struct {
	edited []float32 // logits after bias, forbidden ends and penalties
	counts []uint32  // per token: seen, and how often in the output; 0 between calls
	ranks  []rank    // most probable tokens of the logits
	kept   []weighed // tokens that the filters left
	sums   []float64 // weights of blocks of the vocabulary
}

// Choose fills out for the sequence whose last row has these logits, one a
// token of the vocabulary. It reads logits and leaves them as they are.
//
//   - out.Signals: those of step.Needs that logits hold (entropy, largest
//     probability, top-k), from the raw logits. Others stay 0.
//   - out.Logprob and out.Top, from the raw logits, if seq.Logprobs ≥ 0. Tokens
//     of logit −Inf are in no list, so a list may be shorter than asked for.
//   - out.Token, by seq.Sampling: logit bias, forbidden ends, penalties,
//     temperature, top-k, top-p, min-p, draw.
//
// The arrays of out.Top and out.Signals.TopK are reused from what out held, so
// two results must not share them. A logit that is NaN or +Inf, or none above
// −Inf, is an error that names the position: the model or an engine is broken.
func (c *Chooser) Choose(logits []float32, seq *backend.Sequence, step *backend.Step, out *backend.Result) error {
	if len(logits) == 0 {
		panic("sampling: no logits")
	}
	best, err := largest(logits)
	if err != nil {
		return fmt.Errorf("sampling: position %d: %w", seq.Position(), err)
	}
	*out = backend.Result{Top: out.Top[:0], Signals: algorithms.Signals{TopK: out.Signals.TopK[:0]}}

	const fromLogits = algorithms.NeedEntropy | algorithms.NeedMaxProb | algorithms.NeedTopK
	var d distribution
	if step.Needs&fromLogits != 0 || seq.Logprobs >= 0 {
		d = measure(logits, logits[best])
		c.signals(logits, &d, step, out)
	}
	out.Token = c.token(logits, best, seq)
	if seq.Logprobs >= 0 {
		out.Logprob = d.logprob(logits[out.Token])
		for _, r := range c.top(logits, seq.Logprobs) {
			out.Top = append(out.Top, backend.TokenLogprob{Token: r.token(), Logprob: d.logprob(r.logit())})
		}
	}
	return nil
}

// signals sets what step.Needs asks for.
func (c *Chooser) signals(logits []float32, d *distribution, step *backend.Step, out *backend.Result) {
	if step.Needs&algorithms.NeedEntropy != 0 {
		out.Signals.Entropy = d.entropy(len(logits))
	}
	if step.Needs&algorithms.NeedMaxProb != 0 {
		out.Signals.MaxProb = 1 / d.sum
	}
	if step.Needs&algorithms.NeedTopK != 0 {
		for _, r := range c.top(logits, step.TopK) {
			out.Signals.TopK = append(out.Signals.TopK, algorithms.TokenProb{Token: r.token(), Prob: d.prob(r.logit())})
		}
	}
}

// token chooses by seq.Sampling; best is the token of the largest raw logit.
func (c *Chooser) token(logits []float32, best int, seq *backend.Sequence) backend.Token {
	s := seq.Sampling
	if s == nil {
		return backend.Token(best)
	}
	if edits(s, seq) {
		logits, best = c.edit(logits, seq)
	}
	if s.Greedy() {
		return backend.Token(best)
	}
	u := algorithms.Draw(seq.Seed, seq.Position(), algorithms.PurposeSample)
	scale := scale{largest: float64(logits[best]), inverse: 1 / s.Temperature}
	if keepsAll(s, len(logits)) {
		return c.drawAll(logits, scale, u)
	}
	c.filter(logits, scale, s)
	return draw(c.kept, u)
}

// largest returns the token of the largest logit, the lowest of several.
func largest(logits []float32) (int, error) {
	best, token := float32(math.Inf(-1)), -1
	for i, x := range logits {
		if !(x <= best) { // also where x is NaN, so that one comparison does
			if x != x {
				return 0, fmt.Errorf("the logit of token %d is NaN", i)
			}
			best, token = x, i
		}
	}
	switch {
	case token < 0:
		return 0, fmt.Errorf("all %d logits are -Inf", len(logits))
	case math.IsInf(float64(best), 1):
		return 0, fmt.Errorf("the logit of token %d is +Inf", token)
	}
	return token, nil
}
