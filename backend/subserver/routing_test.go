package subserver

import (
	"testing"
	"testing/synctest"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// routedOnItsOwn gives the i-th request a routing of its own, and returns the
// algorithm that the oracle then follows.
func (p plan) routedOnItsOwn(t testing.TB, r *Request, i int) algorithms.Algorithm {
	params := p.params
	switch i % 3 {
	case 0:
		r.Routing.Alone = true
		return algorithms.Never{}
	case 1:
		threshold := float64(i) / float64(p.requests)
		r.Routing.Threshold = &threshold
		params.Threshold = &threshold
	}
	alg, err := algorithms.New(p.algorithm, params)
	if err != nil {
		t.Fatal(err)
	}
	return alg
}

func TestRequestsWithARoutingOfTheirOwn(t *testing.T) {
	p := plan{algorithm: "confidence", params: algorithms.Params{Models: 2, Large: 1, Threshold: half()}, rule: scheduler.Eager{},
		b: 1, requests: 24, concurrency: 8, kvTokens: 4096, blockTokens: 8, chunk: 32, maxRunning: 8, homes: true, seed: 5}
	t.Run("system", func(t *testing.T) {
		p.route(t, func(cfg Config) (closer, error) { return Start(cfg) })
	})
	t.Run("dispatcher", func(t *testing.T) {
		p.route(t, func(cfg Config) (closer, error) { return StartDispatcher(cfg, DispatchCost{}) })
	})
}

type closer interface {
	submitter
	Close() error
}

// route gives the plan's requests routings of their own and holds the answers to
// the law.
func (p plan) route(t *testing.T, start func(Config) (closer, error)) {
	synctest.Test(t, func(t *testing.T) {
		sys, err := start(p.config(t))
		if err != nil {
			t.Fatal(err)
		}
		requests, streams, want := make([]*Request, p.requests), make([]*Stream, p.requests), make([]written, p.requests)
		for i := range requests {
			r := p.request(i)
			want[i] = oracle(p.routedOnItsOwn(t, r, i), r)
			requests[i] = r
			if streams[i], err = sys.Submit(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		for i, s := range streams {
			o := read(t, requests[i], s, -1)
			want[i].compare(t, requests[i], &o.written)
		}
		if err := sys.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestRoutingThatCannotBe(t *testing.T) {
	threshold, tooLarge := 0.3, 3.0
	for _, c := range []struct {
		name, algorithm string
		params          algorithms.Params
		forget          bool
		threshold       *float64
	}{
		{"out of range", "confidence", algorithms.Params{Models: 2, Large: 1, Threshold: half()}, false, &tooLarge},
		{"an algorithm without one", "never", algorithms.Params{Models: 2}, false, &threshold},
		{"a system that does not say what it is made from", "confidence", algorithms.Params{Models: 2, Large: 1, Threshold: half()}, true, &threshold},
	} {
		p := plan{algorithm: c.algorithm, params: c.params, rule: scheduler.Eager{}, b: 1, requests: 1, kvTokens: 64, blockTokens: 8, chunk: 8, maxRunning: 4}
		cfg := p.config(t)
		if c.forget {
			cfg.Params = algorithms.Params{}
		}
		sys, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := p.request(0)
		r.Routing.Threshold = c.threshold
		if _, err := sys.Submit(t.Context(), r); err == nil {
			t.Errorf("%s: it was taken", c.name)
		}
		if err := sys.Close(); err != nil {
			t.Error(err)
		}
	}
}
