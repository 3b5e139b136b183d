package sampling

import (
	"math"

	"github.com/tokenrouter/tokenrouter/backend"
)

// edits reports whether anything changes logits before the temperature does.
func edits(s *backend.Sampling, seq *backend.Sequence) bool {
	return len(s.LogitBias) > 0 || s.ReadsHistory() || forbids(s, seq)
}

// forbids reports whether the token may not be an end yet.
func forbids(s *backend.Sampling, seq *backend.Sequence) bool {
	return len(s.Ends) > 0 && seq.Position()-seq.Prompt < s.MinTokens
}

// edit returns the logits after bias, forbidden ends and penalties, and the
// token of the largest. Where nothing but ends could be sampled they are not
// forbidden: what one client asks for must not stop an engine.
func (c *Chooser) edit(raw []float32, seq *backend.Sequence) (logits []float32, best int) {
	s := seq.Sampling
	for _, forbid := range [2]bool{forbids(s, seq), false} {
		c.edited = append(c.edited[:0], raw...)
		for _, b := range s.LogitBias {
			if has(raw, b.Token) {
				x := c.edited[b.Token]
				c.edited[b.Token] = finite(x, float64(x)+b.Bias)
			}
		}
		if forbid {
			for _, end := range s.Ends {
				if has(raw, end) {
					c.edited[end] = float32(math.Inf(-1))
				}
			}
		}
		if s.ReadsHistory() {
			c.penalise(c.edited, s, seq)
		}
		best, err := largest(c.edited)
		if err == nil {
			return c.edited, best
		}
	}
	panic("sampling: an edit of finite logits leaves none") // edits keep what is finite finite
}

// finite is x as a logit that stands where was stood: one that is −Inf stays so
// and no other becomes infinite, whatever a client adds or divides by.
func finite(was float32, x float64) float32 {
	if math.IsInf(float64(was), -1) {
		return was
	}
	return float32(max(-math.MaxFloat32, min(x, math.MaxFloat32)))
}

// has reports whether there is a logit for the token. Models that share a
// tokenizer pad their vocabularies to different sizes, so a request may speak of
// tokens that its home has and this model lacks.
func has(logits []float32, t backend.Token) bool { return t >= 0 && int(t) < len(logits) }

// seen marks a token that the history holds; the bits below count how often the
// output does.
const seen = 1 << 31

// penalise applies the penalties of vLLM and SGLang: the repetition penalty
// divides positive logits of all tokens so far and multiplies the others; then
// the frequency penalty counts, and the presence penalty notes, the output.
func (c *Chooser) penalise(logits []float32, s *backend.Sampling, seq *backend.Sequence) {
	if len(c.counts) < len(logits) {
		c.counts = make([]uint32, len(logits))
	}
	repetition := s.RepetitionPenalty
	if repetition == 0 {
		repetition = 1
	}
	for i, t := range seq.History {
		if !has(logits, t) {
			continue
		}
		if c.counts[t] == 0 {
			c.counts[t] = seen
			if x := float64(logits[t]); x > 0 {
				logits[t] = finite(logits[t], x/repetition)
			} else {
				logits[t] = finite(logits[t], x*repetition)
			}
		}
		if i >= seq.Prompt {
			c.counts[t]++
		}
	}
	// Each token once: the count is cleared where it has been used.
	for _, t := range seq.History {
		if !has(logits, t) {
			continue
		}
		if n := c.counts[t] &^ seen; n > 0 {
			x := float64(logits[t]) - float64(s.FrequencyPenalty*float64(n)) - s.PresencePenalty
			logits[t] = finite(logits[t], x)
		}
		c.counts[t] = 0
	}
}
