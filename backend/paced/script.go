package paced

import (
	"fmt"
	"hash/fnv"
	"math"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// purposeMaxProb is the draw of a scripted probability.
const purposeMaxProb algorithms.Purpose = 0x5301

// nameKey tells the models' draws apart.
func nameKey(model string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(model))
	return h.Sum64()
}

// token scripts what a position holds: the same at every model.
func (e *Engine) token(seed uint64, position int) backend.Token {
	o := &e.options
	if o.Token == nil {
		return workload.EOS + 1 + e.fold(int(workload.MadeUp(seed, position, workload.PurposeToken)-workload.EOS-1))
	}
	token := o.Token(seed, position)
	if token < 0 || int(token) >= o.Vocab {
		panic(fmt.Sprintf("paced: scripted token %d at position %d, outside of the vocabulary of %d", token, position, o.Vocab))
	}
	return token
}

// fold maps whole numbers to those below the size of the vocabulary without
// EOS.
func (e *Engine) fold(n int) backend.Token { return backend.Token(n % (e.options.Vocab - 1)) }

// maxProb scripts the largest probability, for each model its own: uniform in
// (0, 1], so that a threshold is the share of positions below it. The confidence
// algorithm then routes that share, R-Stitch one minus its threshold.
func (e *Engine) maxProb(seed uint64, position int) float64 {
	return 1 - algorithms.Draw(seed^e.key, position, purposeMaxProb)
}

// script fills a result. The arrays of its lists are reused.
//
// The k-th most probable token, from 0, is k ids beyond the sampled one, and has
// half the probability that those before it left, but never more than the
// largest: so lists fall, sum to at most 1 and name the same tokens at all
// models. The entropy is one minus the largest probability: no distribution's,
// but it falls as that rises, and its thresholds are shares as well.
func (e *Engine) script(seq *backend.Sequence, step *backend.Step, out *backend.Result) {
	position := seq.Position()
	*out = backend.Result{
		Token:   e.token(seq.Seed, position),
		Top:     out.Top[:0],
		Signals: algorithms.Signals{TopK: out.Signals.TopK[:0]},
	}
	if step.Needs == 0 && seq.Logprobs < 0 {
		return
	}
	p := e.maxProb(seq.Seed, position)
	if step.Needs&algorithms.NeedEntropy != 0 {
		out.Signals.Entropy = 1 - p
	}
	if step.Needs&algorithms.NeedMaxProb != 0 {
		out.Signals.MaxProb = p
	}
	if step.Needs&algorithms.NeedTopK != 0 {
		for k := range min(step.TopK, e.options.Vocab-1) {
			out.Signals.TopK = append(out.Signals.TopK, algorithms.TokenProb{Token: e.beyond(out.Token, k), Prob: ranked(p, k)})
		}
	}
	if seq.Logprobs >= 0 {
		out.Logprob = math.Log(p)
		for k := range min(seq.Logprobs, e.options.Vocab-1) {
			out.Top = append(out.Top, backend.TokenLogprob{Token: e.beyond(out.Token, k), Logprob: math.Log(ranked(p, k))})
		}
	}
}

// beyond is the token k ids after one, round the vocabulary without EOS.
func (e *Engine) beyond(token backend.Token, k int) backend.Token {
	if k == 0 {
		return token
	}
	return workload.EOS + 1 + e.fold(int(token-workload.EOS-1)+k)
}

// ranked is the probability of the k-th token of a list.
func ranked(p float64, k int) float64 {
	if k == 0 {
		return p
	}
	return min(p, math.Ldexp(1-p, -k))
}
