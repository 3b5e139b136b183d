package subserver

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// bareCore runs one request on one core, without loops.
type bareCore struct {
	core    *scheduler.Core
	results []scheduler.Result
	now     int64
	out     []scheduler.Message // handed over by the last calls
}

func newBareCore(tb testing.TB, model, kvTokens int) *bareCore {
	core, err := scheduler.New(scheduler.Config{Model: model, Algorithm: algorithms.Ensemble{Weights: []float64{0.5, 0.5}}, Rule: scheduler.Eager{},
		Thresholds: scheduler.Thresholds{{1, 1}}, MaxRunning: []int{16, 16}, KVTokens: []int{kvTokens, kvTokens}, BlockTokens: 16,
		ChunkTokens: 1 << 16, QueueLimit: 64, PrefixReuse: true})
	if err != nil {
		tb.Fatal(err)
	}
	return &bareCore{core: core}
}

// step steps one event and launches; it keeps what is for the other core.
func (c *bareCore) step(ev scheduler.Event) (batch scheduler.Batch, ok bool) {
	c.now++
	ev.AtNs = c.now
	c.out = c.out[:0]
	c.keep(c.core.Step(&ev))
	c.keep(c.core.Settle())
	batch, out, ok := c.core.Launch()
	c.keep(out)
	return batch, ok
}

func (c *bareCore) keep(out []scheduler.Message) {
	for i := range out {
		if k := out[i].Kind; k == scheduler.Send || k == scheduler.Return && out[i].Req.Status != algorithms.Running {
			c.out = append(c.out, out[i])
		}
	}
}

// done answers a batch: every token goes to dest.
func (c *bareCore) done(batch *scheduler.Batch, dest algorithms.Dest) (next scheduler.Batch, ok bool) {
	c.results = c.results[:0]
	for i := range batch.Entries {
		e := &batch.Entries[i]
		c.results = append(c.results, scheduler.Result{ID: e.ID, Sampled: e.Samples, Token: 5, Dest: dest})
	}
	return c.step(scheduler.Event{Kind: scheduler.StepDone, Results: c.results})
}

// arrive starts a request with that many tokens.
func (c *bareCore) arrive(tb testing.TB, tokens int) scheduler.Batch {
	prompt := make([]scheduler.Token, tokens)
	for i := range prompt {
		prompt[i] = scheduler.Token(i)
	}
	batch, ok := c.step(scheduler.Event{Kind: scheduler.Arrived, Arrival: &scheduler.Arrival{ID: 1, Prompt: prompt, MaxTokens: 1 << 30}})
	if !ok {
		tb.Fatal("nothing starts")
	}
	return batch
}

// trip takes a request from home to the peer and back, with one token from each.
func trip(tb testing.TB, home, peer *bareCore, batch scheduler.Batch) scheduler.Batch {
	if _, ok := home.done(&batch, algorithms.To(1)); ok || len(home.out) != 1 {
		tb.Fatal("the request did not leave")
	}
	visit, ok := peer.step(scheduler.Event{Kind: scheduler.PeerArrived, Req: home.out[0].Req})
	if !ok {
		tb.Fatal("the visit does not start")
	}
	if _, ok := peer.done(&visit, algorithms.To(0)); ok || len(peer.out) != 1 {
		tb.Fatal("the visit did not end")
	}
	batch, ok = home.step(scheduler.Event{Kind: scheduler.PeerReturned, Req: peer.out[0].Req})
	if !ok {
		tb.Fatal("the request is not back")
	}
	return batch
}

// Leaving and coming back feeds what is unseen and nothing else, into the blocks
// that are there: no prefix is matched again and no KV copied.
func TestComingBackFeedsTheUnseen(t *testing.T) {
	home, peer := newBareCore(t, 0, 1<<16), newBareCore(t, 1, 1<<16)
	batch := home.arrive(t, 1000)
	for i := range 50 {
		blocks := append([]int32(nil), batch.Entries[0].Blocks...)
		batch = trip(t, home, peer, batch)
		e := &batch.Entries[0]
		if len(e.Tokens) != 2 || e.Start != 1000+2*i {
			t.Fatalf("trip %d: feeds %d rows from %d", i, len(e.Tokens), e.Start)
		}
		for j, b := range blocks {
			if e.Blocks[j] != b {
				t.Fatalf("trip %d: block %d is another one", i, j)
			}
		}
	}
}

// A trip is two tokens, one written at home and one at the peer, so it is held
// against two tokens that stay. What is left of the ratio is the hand-over, and
// it must not grow with the tokens that are there already.
func BenchmarkTripAgainstStay(b *testing.B) {
	for _, tokens := range []int{64, 16384} {
		b.Run(fmt.Sprintf("context=%d", tokens), func(b *testing.B) {
			// Each takes turns on cores of its own; requests start anew before they
			// have grown much.
			const round = 256
			var stays, trips time.Duration
			n := 0
			for ; n < b.N; n += round {
				home := newBareCore(b, 0, tokens+8192)
				batch := home.arrive(b, tokens)
				batch, _ = home.done(&batch, algorithms.Stay)
				began := time.Now()
				for range 2 * round {
					batch, _ = home.done(&batch, algorithms.Stay)
				}
				stays += time.Since(began)
				home, peer := newBareCore(b, 0, tokens+8192), newBareCore(b, 1, tokens+8192)
				batch = home.arrive(b, tokens)
				batch = trip(b, home, peer, batch)
				began = time.Now()
				for range round {
					batch = trip(b, home, peer, batch)
				}
				trips += time.Since(began)
			}
			b.ReportMetric(float64(stays.Nanoseconds())/float64(2*n), "ns/stay")
			b.ReportMetric(float64(trips.Nanoseconds())/float64(n), "ns/trip")
			b.ReportMetric(float64(trips)/float64(stays), "trip/2stays")
		})
	}
}

// What the loops add to a step: a system with an engine that takes no time,
// against the bare core with the same batches.
func BenchmarkLoopsAgainstCore(b *testing.B) {
	for _, users := range []int{1, 16} {
		b.Run(fmt.Sprintf("users=%d", users), func(b *testing.B) {
			p := plan{algorithm: "never", params: algorithms.Params{Models: 1}, rule: scheduler.Eager{}, b: 1, requests: users,
				kvTokens: 1 << 16, blockTokens: 16, chunk: 64, maxRunning: 16, seed: 1}
			cfg := p.config(b)
			cfg.hooks = nil
			engine := &idleEngine{fakeEngine: cfg.Models[0].Engine.(*fakeEngine)}
			cfg.Models[0].Engine = engine
			tokens := b.N/users + 1
			took := serveIdle(b, cfg, users, tokens)
			steps := engine.steps
			b.ReportMetric(float64(took.Nanoseconds())/float64(steps), "ns/step")
			core := bareSteps(b, users, tokens)
			b.ReportMetric(float64(core.Nanoseconds())/float64(tokens), "ns/core-step")
			b.ReportMetric(float64(took)/float64(steps)*float64(tokens)/float64(core), "loops/core")
		})
	}
}

// A hand-over through the loops: two models that give every token to the other.
func BenchmarkTripsThroughLoops(b *testing.B) {
	per := map[string]float64{}
	for _, name := range []string{"stay", "trip"} {
		b.Run(name, func(b *testing.B) {
			rows := [][]float64{{1, 0}, {0, 1}}
			if name == "trip" {
				rows = [][]float64{{0, 1}, {1, 0}}
			}
			p := plan{algorithm: "matrix", params: algorithms.Params{Models: 2, Large: 1, Matrix: rows, RoutedKept: true}, rule: scheduler.Eager{},
				b: 1, requests: 1, kvTokens: 1 << 16, blockTokens: 16, chunk: 64, maxRunning: 16, seed: 1}
			cfg := p.config(b)
			cfg.hooks = nil
			for i := range cfg.Models {
				cfg.Models[i].Engine = &idleEngine{fakeEngine: cfg.Models[i].Engine.(*fakeEngine)}
			}
			took := serveIdle(b, cfg, 1, b.N)
			per[name] = float64(took.Nanoseconds()) / float64(b.N)
			b.ReportMetric(per[name], "ns/token")
			if name == "trip" {
				b.ReportMetric(per["trip"]/per["stay"], "trip/stay")
			}
		})
	}
}

// What the launch gate adds: the same trips under a rule that takes turns, with
// and without.
func BenchmarkGateAgainstNone(b *testing.B) {
	per := map[string]float64{}
	for _, rule := range []scheduler.Rule{scheduler.Eager{}, scheduler.Alternate{}, scheduler.Lockstep{}} {
		b.Run(rule.String(), func(b *testing.B) {
			p := plan{algorithm: "matrix", params: algorithms.Params{Models: 2, Large: 1, Matrix: [][]float64{{0.5, 0.5}, {0.5, 0.5}}, RoutedKept: true},
				rule: rule, b: 1, requests: 8, kvTokens: 1 << 16, blockTokens: 16, chunk: 64, maxRunning: 16, seed: 1}
			cfg := p.config(b)
			cfg.hooks = nil
			for i := range cfg.Models {
				cfg.Models[i].Engine = &idleEngine{fakeEngine: cfg.Models[i].Engine.(*fakeEngine)}
			}
			took := serveIdle(b, cfg, 8, b.N/8+1)
			steps := 0
			for i := range cfg.Models {
				steps += cfg.Models[i].Engine.(*idleEngine).steps
			}
			per[rule.String()] = float64(took.Nanoseconds()) / float64(steps)
			b.ReportMetric(per[rule.String()], "ns/step")
			b.ReportMetric(per[rule.String()]/per["eager"], "gate/none")
		})
	}
}

// idleEngine samples at once and reads nothing.
type idleEngine struct{ *fakeEngine }

func (e *idleEngine) Forward(step *backend.Step, results []backend.Result) error {
	e.steps++
	for i := range step.Sequences {
		results[i].Token = 5
	}
	return nil
}

// bareSteps steps a core with that many requests.
func bareSteps(b *testing.B, users, steps int) time.Duration {
	var c *bareCore
	var batch scheduler.Batch
	enter := func() {
		c = newBareCore(b, 0, 1<<16)
		for u := range users {
			c.core.Step(&scheduler.Event{Kind: scheduler.Arrived, Arrival: &scheduler.Arrival{
				ID: scheduler.RequestID(u + 1), Prompt: []scheduler.Token{1, scheduler.Token(u)}, MaxTokens: 1 << 30}})
		}
		batch, _ = c.step(scheduler.Event{Kind: scheduler.Wake})
	}
	enter()
	began := time.Now()
	for i := range steps {
		if i%2048 == 2047 { // as long as the others' requests
			enter()
		}
		batch, _ = c.done(&batch, algorithms.Stay)
	}
	return time.Since(began)
}

// serveIdle serves users that each want that many tokens, in pieces that fit.
func serveIdle(b *testing.B, cfg Config, users, tokens int) time.Duration {
	sys, err := Start(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	began := time.Now()
	done := make(chan error, users)
	for u := range users {
		go func() {
			for left := tokens; left > 0; left -= 2048 {
				r := &Request{Prompt: []algorithms.Token{1, algorithms.Token(u + 1)}, MaxTokens: min(left, 2048), Seed: uint64(u), Logprobs: -1}
				s, err := sys.Submit(context.Background(), r)
				for err == nil {
					_, err = s.Next(context.Background())
				}
				if s != nil && s.Err() != nil {
					done <- s.Err()
					return
				}
			}
			done <- nil
		}()
	}
	for range users {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	took := time.Since(began)
	b.StopTimer()
	if err := sys.Close(); err != nil {
		b.Fatal(err)
	}
	return took
}
