package subserver

import (
	"fmt"
	"math"
	"slices"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// forwardLoop runs the steps that the decode loop has built, so that the core
// goes on taking events while the engine works.
func (s *subserver) forwardLoop() {
	defer s.sys.running.Done()
	for range s.jobs {
		err := s.engine.Forward(&s.step, s.results)
		if err == nil {
			err = s.decide()
		}
		s.inbox.put(word{event: scheduler.Event{Kind: scheduler.StepDone}, endNs: s.sys.NowNs(), err: err})
	}
}

// decide calls Route for every token that was sampled (duty 4).
func (s *subserver) decide() error {
	vocab := s.engine.Info().Vocab
	for i := range s.batch.Entries {
		e, res, ans := &s.batch.Entries[i], &s.results[i], &s.answers[i]
		*ans = scheduler.Result{ID: e.ID, Sampled: e.Samples}
		if !e.Samples {
			continue
		}
		if res.Token < 0 || int(res.Token) >= vocab {
			return fmt.Errorf("the engine sampled token %d of a vocabulary of %d", res.Token, vocab)
		}
		v := &s.view
		*v = algorithms.View{Request: e.ID, Seed: e.Seed, Model: s.model, Home: e.Home, Position: e.Position,
			StayStart: e.StayStart, Hops: e.Hops, Token: res.Token, Signals: res.Signals, Extra: append(v.Extra[:0], e.Extra...)}
		if route := s.routes[i]; route != nil {
			ans.Dest = route.Route(v)
		}
		ans.Token = v.Token
		if len(v.Extra) > 0 {
			ans.Extra = slices.Clone(v.Extra)
		}
		if s.step.Sequences[i].Logprobs >= 0 {
			retell(res, v.Token)
		}
	}
	return nil
}

// retell gives the log probability of the token that Route chose in place of
// the sampled one: of the sampling model, if it is among those it tells of, and
// minus infinity otherwise.
func retell(res *backend.Result, t algorithms.Token) {
	if res.Token == t {
		return
	}
	res.Token, res.Logprob = t, math.Inf(-1)
	for _, c := range res.Top {
		if c.Token == t {
			res.Logprob = c.Logprob
		}
	}
}

// note keeps what the client asked to know of a token, until home shows it.
func (k *known) note(position int, res backend.Result) {
	if k.tops == nil {
		k.tops = map[int]backend.Result{}
	}
	k.tops[position] = backend.Result{Token: res.Token, Logprob: res.Logprob, Top: slices.Clone(res.Top)}
}

// showTop takes out what was noted of the tokens from start on.
func (k *known) showTop(start int, tokens []algorithms.Token) []backend.Result {
	if k.logprobs < 0 {
		return nil
	}
	top := make([]backend.Result, len(tokens))
	for i, t := range tokens {
		res, ok := k.tops[start+i]
		if !ok || res.Token != t {
			panic("subserver: the log probability of a token got lost on its way")
		}
		top[i] = res
		delete(k.tops, start+i)
	}
	return top
}

// packTop copies what was noted of the last tokens of a suffix that starts at
// start, without a gap, and forgets what lies beyond: those tokens were dropped.
func (k *known) packTop(start int, suffix []algorithms.Token) []backend.Result {
	if len(k.tops) == 0 {
		return nil
	}
	end := start + len(suffix)
	for p := end; len(k.tops) > 0; p++ {
		if _, ok := k.tops[p]; !ok {
			break
		}
		delete(k.tops, p)
	}
	first := end
	for first > start {
		if res, ok := k.tops[first-1]; !ok || res.Token != suffix[first-1-start] {
			break
		}
		first--
	}
	var top []backend.Result
	for p := first; p < end; p++ {
		top = append(top, k.tops[p])
	}
	return top
}
