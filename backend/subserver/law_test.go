package subserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// plan is one run of the law: the same tokens as the oracle's, whatever it says.
type plan struct {
	algorithm   string
	params      algorithms.Params
	rule        scheduler.Rule
	b           int
	concurrency int
	requests    int
	noReuse     bool
	kvTokens    int
	blockTokens int
	chunk       int
	maxRunning  int
	homes       bool // requests enter everywhere
	reread      bool
	static      bool
	cancels     float64 // share of requests that are canceled
	fails       []int   // by model: step at which the engine fails, 0 for never
	dies        bool    // a process or a connection of the system does
	firstID     int     // ids begin after it
	seed        uint64
	stops       bool           // requests have stop strings
	ownDetok    bool           // and bring what makes text of their tokens
	quiet       bool           // visits bring their tokens home at the end
	tally       map[string]int // of all plans; nil: nobody counts
	twice       bool           // every request comes twice: the second finds a warm cache
	instant     bool           // engines take no time
	split       bool           // each model in a process of its own
}

func (p plan) String() string {
	return fmt.Sprintf("%s of %d, %v, B %d, concurrency %d, %d running, KV %d in %d, chunk %d, reuse %t, reread %t, static %t, twice %t, homes %t, split %t, quiet %t, instant %t, cancels %g, fails %v, seed %d",
		p.algorithm, p.params.Models, p.rule, p.b, p.concurrency, p.maxRunning, p.kvTokens, p.blockTokens, p.chunk, !p.noReuse,
		p.reread, p.static, p.twice, p.homes, p.split, p.quiet, p.instant, p.cancels, p.fails, p.seed)
}

func (p plan) config(t testing.TB) Config {
	alg, err := algorithms.New(p.algorithm, p.params)
	if err != nil {
		t.Fatal(err)
	}
	if p.quiet {
		alg = quiet{alg}
	}
	cfg := Config{Algorithm: alg, Params: p.params, Rule: p.rule, QueueLimit: p.requests, NoReuse: p.noReuse, Reread: p.reread, Static: p.static,
		hooks: &hooks{check: true}}
	row := []int{}
	for m := range p.params.Models {
		e := newFakeEngine(m, p.kvTokens/p.blockTokens, p.blockTokens)
		e.base += time.Duration(m) * 7 * time.Millisecond
		if p.instant {
			e.base, e.row = 0, 0
		}
		if p.fails != nil {
			e.fails = p.fails[m]
		}
		cfg.Models = append(cfg.Models, Model{Name: e.info.Model, Engine: e, MaxRunning: p.maxRunning,
			ChunkTokens: p.chunk, KVTokens: p.kvTokens, BlockTokens: p.blockTokens})
		row = append(row, p.b)
	}
	cfg.Thresholds = scheduler.Thresholds{row}
	return cfg
}

// request draws the i-th request. Prompts share beginnings.
func (p plan) request(i int) *Request {
	id := scheduler.RequestID(p.firstID + i + 1)
	if p.twice {
		i /= 2
	}
	rng := rand.New(rand.NewPCG(p.seed, uint64(i)))
	r := &Request{ID: id, Seed: rng.Uint64(), MaxTokens: 1 + rng.IntN(24), EOS: []algorithms.Token{fakeEOS}, Logprobs: -1}
	shared, own := rng.IntN(20), 1+rng.IntN(8)
	for j := range shared {
		r.Prompt = append(r.Prompt, algorithms.Token(1+j))
	}
	for range own {
		r.Prompt = append(r.Prompt, algorithms.Token(1+rng.IntN(fakeVocab-1)))
	}
	if rng.IntN(4) == 0 {
		r.EOS = nil
	}
	if rng.IntN(3) == 0 {
		r.Logprobs = rng.IntN(3)
	}
	if rng.IntN(3) == 0 {
		r.Sampling = backend.Sampling{Temperature: rng.Float64(), TopK: rng.IntN(5)}
	}
	if rng.IntN(4) == 0 {
		r.Sampling.PresencePenalty = 1
	}
	if p.stops {
		r.Stop = [][]string{nil, {"cab"}, {"bb", "世"}, {"ca", "é"}}[rng.IntN(4)]
		r.ShowStop, r.Sampling.MinTokens = rng.IntN(2) == 0, rng.IntN(3)
	}
	if p.ownDetok {
		r.Detokenizer = newFakeDetok()
	}
	if p.homes {
		r.Home = rng.IntN(p.params.Models)
	}
	return r
}

// outcome is what a client saw.
type outcome struct {
	written
	text   string
	stop   string
	reason scheduler.Reason
	err    error
}

// read reads a stream to its end.
func read(t testing.TB, r *Request, s *Stream, cancelAfter int) (o outcome) {
	for {
		c, err := s.Next(context.Background())
		if err != nil {
			if err != io.EOF {
				o.err = err
			}
			o.stop = s.StoppedBy()
			var ended bool
			if o.reason, ended = s.Reason(); !ended {
				t.Errorf("request %d: %v before its end", r.ID, err)
			}
			return o
		}
		if c.Start != len(r.Prompt)+len(o.tokens) {
			t.Errorf("request %d: a chunk starts at %d, want %d", r.ID, c.Start, len(r.Prompt)+len(o.tokens))
		}
		o.tokens = append(o.tokens, c.Tokens...)
		o.text += c.Text
		o.tops = append(o.tops, c.Top...)
		for range c.Tokens {
			o.writers = append(o.writers, c.Writer)
		}
		if cancelAfter >= 0 && len(o.tokens) >= cancelAfter {
			s.Cancel()
			cancelAfter = -1
		}
	}
}

// start starts the system of the plan, in one process or in one a model.
func (p plan) start(t testing.TB, cfg Config) (systems []*System) {
	if !p.split {
		sys, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for range cfg.Models {
			systems = append(systems, sys)
		}
		return systems
	}
	wires := newWires(len(cfg.Models), p.seed)
	logs, _ := cfg.Log.(*logs)
	for m := range cfg.Models {
		own := cfg
		if logs != nil {
			own.Log = &logs.more[m]
		}
		own.Transport = wires.end(m)
		own.Models = slices.Clone(cfg.Models)
		for i := range own.Models {
			if i != m {
				own.Models[i].Engine = nil
			}
		}
		sys, err := Start(own)
		if err != nil {
			t.Fatal(err)
		}
		systems = append(systems, sys)
	}
	return systems
}

// serve runs all requests of the plan and returns what the clients saw. When it
// returns nothing of the systems is left.
func (p plan) serve(t testing.TB, cfg Config) []outcome {
	systems := p.start(t, cfg)
	out := p.ask(t, func(home int) submitter { return systems[home] })
	time.Sleep(time.Minute) // words of the end may be on the wire
	synctest.Wait()
	for m, sys := range systems {
		if st := sys.Stats()[m]; st.KVHeld != 0 || st.Live != 0 || st.Counts != (scheduler.Counts{}) {
			t.Errorf("%s is left with %+v", st.Model, st)
		}
		if sub := sys.subs[m]; len(sub.known) > 0 || sub.core.Requests() > 0 || len(sub.turnstile.waiting) > 0 {
			t.Errorf("model %d still knows %d requests, %d in the table", m, sub.core.Requests(), len(sub.known))
		}
	}
	for _, sys := range slices.Compact(systems) {
		if err := sys.Close(); err != nil {
			t.Error(err)
		}
	}
	return out
}

// submitter is a System or a Dispatcher.
type submitter interface {
	Submit(ctx context.Context, r *Request) (*Stream, error)
}

// ask has the plan's users send all its requests to where their homes are.
func (p plan) ask(t testing.TB, at func(home int) submitter) []outcome {
	out := make([]outcome, p.requests)
	var users sync.WaitGroup
	for u := range p.concurrency {
		users.Go(func() {
			for i := u; i < p.requests; i += p.concurrency {
				out[i] = p.askOne(t, at, i)
			}
		})
	}
	users.Wait()
	return out
}

// askOne sends the i-th request and reads its answer.
func (p plan) askOne(t testing.TB, at func(home int) submitter, i int) outcome {
	rng := rand.New(rand.NewPCG(p.seed, uint64(1000+i)))
	time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
	r := p.request(i)
	cancelAfter := -1
	if rng.Float64() < p.cancels {
		cancelAfter = rng.IntN(10)
	}
	s, err := at(r.Home).Submit(t.Context(), r)
	if err != nil {
		t.Errorf("request %d: %v", r.ID, err)
		return outcome{err: err}
	}
	if cancelAfter == 0 {
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
		s.Cancel()
	}
	return read(t, r, s, cancelAfter)
}

// obey runs the plan and holds it to the law.
func (p plan) obey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := p.config(t)
		watch := newGateWatch(t, &p)
		cfg.Observer, cfg.hooks.decided = watch, watch.decided
		log := new(logs)
		if !p.quiet { // a replay could not make it
			cfg.Log = log
		}
		p.judge(t, cfg.Algorithm, p.serve(t, cfg))
		watch.judge()
		if cfg.Log != nil {
			log.judge(t, watch)
		}
		for kind, n := range watch.kinds {
			if p.tally != nil {
				p.tally[kind] += n
			}
		}
	})
}

// judge holds what clients saw to the law, and returns how many failed.
func (p plan) judge(t *testing.T, alg algorithms.Algorithm, out []outcome) (failed int) {
	for i := range out {
		p.judgeOne(t, alg, p.request(i), &out[i])
		if errors.Is(out[i].err, ErrFailed) {
			failed++
		}
	}
	return failed
}

// judgeOne compares what one client saw with the oracle.
func (p plan) judgeOne(t *testing.T, alg algorithms.Algorithm, r *Request, o *outcome) {
	want := oracle(alg, r)
	pool := p.kvTokens - p.kvTokens%p.blockTokens
	switch {
	case o.err == nil:
		if o.reason != want.reason(r) {
			t.Errorf("request %d ended by %v, want %v", r.ID, o.reason, want.reason(r))
		}
	case errors.Is(o.err, ErrTooLong) && len(r.Prompt)+1 > pool,
		errors.Is(o.err, ErrOutgrown) && len(r.Prompt)+len(want.tokens) > pool,
		errors.Is(o.err, ErrCanceled) && p.cancels > 0,
		errors.Is(o.err, ErrFailed) && (p.fails != nil || p.dies):
		want = want.cut(len(o.tokens))
	default:
		t.Errorf("request %d: %v", r.ID, o.err)
		return
	}
	if p.quiet {
		want.writers = o.writers // of a run, home knows who brought it
	}
	want.compare(t, r, &o.written)
}

func (w *written) reason(r *Request) scheduler.Reason {
	if n := len(w.tokens); slices.Contains(r.EOS, w.tokens[n-1]) {
		return scheduler.ReasonStop
	}
	return scheduler.ReasonLength
}

func (w written) cut(n int) written {
	n = min(n, len(w.tokens))
	return written{w.tokens[:n], w.writers[:n], w.tops[:n]}
}

func (w *written) compare(t *testing.T, r *Request, got *written) {
	if !slices.Equal(got.tokens, w.tokens) {
		t.Errorf("request %d: tokens\n got %v\nwant %v", r.ID, got.tokens, w.tokens)
	}
	if !slices.Equal(got.writers, w.writers) {
		t.Errorf("request %d: writers\n got %v\nwant %v", r.ID, got.writers, w.writers)
	}
	if r.Logprobs < 0 {
		if got.tops != nil {
			t.Errorf("request %d: log probabilities that nobody asked for", r.ID)
		}
		return
	}
	same := func(a, b backend.Result) bool {
		return a.Token == b.Token && a.Logprob == b.Logprob && slices.Equal(a.Top, b.Top)
	}
	if !slices.EqualFunc(got.tops, w.tops, same) {
		t.Errorf("request %d: log probabilities\n got %v\nwant %v", r.ID, got.tops, w.tops)
	}
}

// quiet is an algorithm whose home wants to see the whole of a visit first.
type quiet struct{ a algorithms.Algorithm }

func (q quiet) Name() string                                            { return q.a.Name() }
func (q quiet) Needs(model int) algorithms.Need                         { return q.a.Needs(model) }
func (q quiet) Route(v *algorithms.View) algorithms.Dest                { return q.a.Route(v) }
func (q quiet) Send(d algorithms.Departure, r *algorithms.PeerReq) bool { return q.a.Send(d, r) }
func (q quiet) Receive(r *algorithms.PeerReq) []algorithms.Token        { return q.a.Receive(r) }

func half() *float64 { x := 0.5; return &x }

// sources are the algorithms of the law.
var sources = []struct {
	name   string
	params algorithms.Params
}{
	{"matrix", algorithms.Params{Models: 2, Large: 1, Matrix: [][]float64{{0.8, 0.2}, {0.7, 0.3}}}},
	{"matrix", algorithms.Params{Models: 3, Large: 1, Matrix: [][]float64{{0.6, 0.2, 0.2}, {0.4, 0.3, 0.3}, {0.3, 0.3, 0.4}}, RoutedKept: true}},
	{"bursty", algorithms.Params{Models: 2, Large: 1, MeanGap: 4, GapCV: 1.2, GapLag1: 0.1, ReturnProb: 0.6}},
	{"confidence", algorithms.Params{Models: 2, Large: 1, Threshold: half()}},
	{"rstitch", algorithms.Params{Models: 2, Large: 1, Threshold: half()}},
	{"me", algorithms.Params{Models: 2, Large: 1, Weights: []float64{0.6, 0.4}}},
	{"me", algorithms.Params{Models: 3, Large: 1}},
	{"fusion", algorithms.Params{Models: 2, Large: 1, Weights: []float64{0.6, 0.4}, Sample: true}},
	{"fusion", algorithms.Params{Models: 3, Large: 1}},
}

var rules = []scheduler.Rule{scheduler.Eager{}, scheduler.Delayed{}, scheduler.Delayed{MaxDelayNs: 25e6}, scheduler.Alternate{}, scheduler.Lockstep{}}
