package law

import (
	"math"
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// outcome is all that a client sees of a request but its chunks and times.
type outcome struct {
	tokens  []algorithms.Token // output only
	writers []int
	logprob []float64 // of each token, 0 where nobody asked
	text    string
	stop    string
	reason  scheduler.Reason
	steps   []stepAt // of the oracle alone
}

// stepAt is a step of the plain loop: the model that ran with so many output
// tokens written.
type stepAt struct{ written, model int }

// topK is what the runtime asks its engines for.
const topK = 20

// oracle is the plain loop over the models that every run must agree with: one
// request, an engine for each model that nobody else uses, of one block, and no
// scheduler.
func oracle(alg algorithms.Algorithm, engines []backend.Engine, r *subserver.Request) *outcome {
	seen := make([]int, len(engines))
	s := r.Sampling
	s.Ends = r.EOS
	o := &outcome{reason: scheduler.ReasonLength}
	ids := slices.Clone(r.Prompt)
	v := algorithms.View{Request: r.ID, Seed: r.Seed, Model: r.Home, Home: r.Home, StayStart: len(ids)}
	results := make([]backend.Result, 1)
	for len(o.tokens) < r.MaxTokens && o.reason == scheduler.ReasonLength {
		m := v.Model
		o.steps = append(o.steps, stepAt{len(o.tokens), m})
		step := backend.Step{Needs: alg.Needs(m), TopK: topK, Sequences: []backend.Sequence{{Tokens: ids[seen[m]:], Start: seen[m], Blocks: []int32{0},
			Samples: true, Seed: r.Seed, Sampling: &s, Prompt: len(r.Prompt), History: ids, Logprobs: r.Logprobs}}}
		if err := engines[m].Forward(&step, results); err != nil {
			panic(err)
		}
		seen[m] = len(ids)
		v.Position, v.Token, v.Signals = len(ids), results[0].Token, results[0].Signals
		to, keep := alg.Route(&v).Model(), true
		if to >= 0 && to != m {
			visit := algorithms.PeerReq{ID: r.ID, Home: r.Home, From: m, Seed: r.Seed, Extra: v.Extra}
			keep = alg.Send(algorithms.Departure{From: m, To: to, Home: r.Home, Position: len(ids), Token: v.Token}, &visit)
			v.Extra, v.Model, v.Hops = visit.Extra, to, v.Hops+1
		}
		if keep {
			ids, o.tokens, o.writers = append(ids, v.Token), append(o.tokens, v.Token), append(o.writers, m)
			o.logprob = append(o.logprob, logprobOf(&results[0], v.Token))
			if slices.Contains(r.EOS, v.Token) {
				o.reason = scheduler.ReasonStop
			}
		}
		if v.Model != m {
			v.StayStart = len(ids)
		}
	}
	o.tell(r)
	return o
}

// logprobOf is what a client hears of a token that Route may have chosen: what
// the model that ran says of it, and minus infinity if it says nothing.
func logprobOf(res *backend.Result, t algorithms.Token) float64 {
	if res.Token == t {
		return res.Logprob
	}
	for _, c := range res.Top {
		if c.Token == t {
			return c.Logprob
		}
	}
	return math.Inf(-1)
}

// tell finds the text, and cuts tokens and text where the first stop string ends
// that lies wholly behind the first MinTokens tokens.
func (o *outcome) tell(r *subserver.Request) {
	free := 0
	for n := 1; n <= len(o.tokens); n++ {
		text := newDetokenizer().Next(o.tokens[:n])
		if n <= r.Sampling.MinTokens {
			free = len(text)
			continue
		}
		for end := free; end <= len(text); end++ {
			for _, s := range r.Stop {
				if !strings.HasSuffix(text[free:end], s) {
					continue
				}
				o.stop, o.reason, o.text = s, scheduler.ReasonStop, text[:end]
				if !r.ShowStop {
					o.text = text[:end-len(s)]
				}
				o.tokens, o.writers = o.tokens[:n], o.writers[:n]
				o.logprob = o.logprob[:n]
				return
			}
		}
	}
	whole := newDetokenizer()
	o.text = whole.Next(o.tokens) + whole.Rest()
}
