package law

import (
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
	"github.com/tokenrouter/tokenrouter/backend/paced"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/internal/workload"
	"github.com/tokenrouter/tokenrouter/scheduler"
	"github.com/tokenrouter/tokenrouter/sim"
)

// linear is a step time: base, and what each row adds, in nanoseconds.
type linear struct{ base, row int64 }

func (l linear) Ns(_, rows, _ int) int64 { return l.base + l.row*int64(rows) }

var stepTimes = []linear{{3e6, 2e4}, {21e6, 1e5}, {8e6, 5e4}}

// rehearsal is a few requests that the simulator plays and paced engines run.
type rehearsal struct {
	source source
	rule   scheduler.Rule
	b, kv  int
	reuse  bool
	list   []sim.Request
}

const pacedBlock = 8

func (r *rehearsal) draw(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	for i := range 14 {
		prompt := 5 + rng.IntN(60)
		r.list = append(r.list, sim.Request{ArrivalNs: int64(i)*11e6 + rng.Int64N(9e6), Home: rng.IntN(1 + i%r.source.params.Models),
			PromptTokens: prompt, OutputTokens: 1 + rng.IntN(40), Seed: rng.Uint64(), Shared: rng.IntN(prompt), SharedSeed: 5})
	}
}

// engine scripts tokens and signals; without a time its steps take none.
func (r *rehearsal) engine(t testing.TB, m int, timed bool) backend.Engine {
	o := paced.Options{Model: fmt.Sprint("paced", m), MaxContext: r.kv, Blocks: r.kv / pacedBlock, BlockTokens: pacedBlock}
	if timed {
		o.Time = stepTimes[m]
	}
	e, err := paced.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// emitted is what homes showed of one request.
type emitted struct {
	tokens  []algorithms.Token
	writers []int
}

// shown gathers it from messages.
type shown struct {
	mu sync.Mutex
	of map[scheduler.RequestID]*emitted
}

func (s *shown) Stepped(int, int64, int64, *scheduler.Batch, int) {}
func (s *shown) Event(int, *scheduler.Event)                      {}
func (s *shown) Messages(_ int, _ int64, out []scheduler.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range out {
		if m := &out[i]; m.Kind == scheduler.Emit {
			e := s.of[m.Request]
			if e == nil {
				e = new(emitted)
				s.of[m.Request] = e
			}
			e.tokens = append(e.tokens, m.Tokens...)
			e.writers = append(e.writers, slices.Repeat([]int{m.Writer}, len(m.Tokens))...)
		}
	}
}

// scripted is the simulator's source: what the paced engines script.
type scripted struct {
	engines []backend.Engine
	alg     algorithms.Algorithm
}

func (s *scripted) Sample(v *algorithms.View) {
	step := backend.Step{Needs: s.alg.Needs(v.Model), TopK: topK, Sequences: []backend.Sequence{
		{Tokens: []algorithms.Token{1}, Start: v.Position - 1, Samples: true, Seed: v.Seed, Logprobs: -1}}}
	results := make([]backend.Result, 1)
	if err := s.engines[v.Model].Forward(&step, results); err != nil {
		panic(err)
	}
	v.Token, v.Signals = results[0].Token, results[0].Signals
}

// simulated plays the requests in virtual time.
func (r *rehearsal) simulated(t testing.TB) *shown {
	s := &shown{of: map[scheduler.RequestID]*emitted{}}
	cfg := sim.Config{Algorithm: r.source.algorithm(t), Rule: r.rule, Observer: s, NoReuse: !r.reuse,
		Workload: sim.Workload{Kind: sim.Listed, List: r.list}}
	source := &scripted{alg: cfg.Algorithm}
	row := []int{}
	for m := range r.source.params.Models {
		cfg.Models = append(cfg.Models, sim.Model{Name: fmt.Sprint("paced", m), Time: stepTimes[m], MaxRunning: maxRunning,
			ChunkTokens: 32, KVTokens: r.kv, BlockTokens: pacedBlock})
		e := r.engine(t, m, false)
		defer e.Close()
		source.engines, row = append(source.engines, e), append(row, r.b)
	}
	if r.source.params.Threshold != nil || r.source.name == "fusion" { // it reads signals
		cfg.Source = source
	}
	cfg.Thresholds = scheduler.Thresholds{row}
	if _, err := sim.Run(cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

// request makes up the i-th for the real runtime.
func (r *rehearsal) request(i int) *subserver.Request {
	q := &r.list[i]
	w := workload.Request{Seed: q.Seed, Prompt: q.PromptTokens, Shared: q.Shared, SharedSeed: q.SharedSeed}
	return &subserver.Request{ID: scheduler.RequestID(i + 1), Home: q.Home, Seed: q.Seed, Prompt: w.AppendPrompt(nil),
		MaxTokens: q.OutputTokens, EOS: []algorithms.Token{workload.EOS}, Logprobs: -1}
}

// run runs them on paced engines, in a bubble, where time is virtual too.
func (r *rehearsal) run(t testing.TB) *shown {
	s := &shown{of: map[scheduler.RequestID]*emitted{}}
	cfg := subserver.Config{Algorithm: r.source.algorithm(t), Rule: r.rule, Observer: s, NoReuse: !r.reuse, QueueLimit: 100}
	row := []int{}
	for m := range r.source.params.Models {
		e := r.engine(t, m, true)
		defer e.Close()
		cfg.Models = append(cfg.Models, subserver.Model{Name: e.Info().Model, Engine: e, MaxRunning: maxRunning,
			ChunkTokens: 32, KVTokens: r.kv, BlockTokens: pacedBlock})
		row = append(row, r.b)
	}
	cfg.Thresholds = scheduler.Thresholds{row}
	sys, err := subserver.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var users sync.WaitGroup
	for i := range r.list {
		users.Go(func() {
			time.Sleep(time.Duration(r.list[i].ArrivalNs))
			stream, err := sys.Submit(t.Context(), r.request(i))
			for err == nil {
				_, err = stream.Next(t.Context())
			}
			if err != io.EOF {
				t.Errorf("request %d: %v", i+1, err)
			}
		})
	}
	users.Wait()
	if err := sys.Close(); err != nil {
		t.Error(err)
	}
	return s
}

// judge compares the two with each other and with the plain loop. The last token
// is left out: the simulator ends a request by an EOS that it puts there.
func (r *rehearsal) judge(t *testing.T, simulated, real *shown) {
	alg := r.source.algorithm(t)
	var engines []backend.Engine
	for m := range r.source.params.Models {
		e := r.engine(t, m, false)
		defer e.Close()
		engines = append(engines, e)
	}
	routed := 0
	for i := range r.list {
		q := r.request(i)
		a, b, loop := simulated.of[q.ID], real.of[q.ID], oracle(alg, engines, q)
		n := q.MaxTokens
		if a == nil || b == nil || len(a.tokens) != n || len(b.tokens) != n || len(loop.tokens) != n {
			t.Fatalf("request %d: simulated %+v, real %+v, want %d tokens", q.ID, a, b, n)
		}
		if !slices.Equal(a.tokens[:n-1], b.tokens[:n-1]) || !slices.Equal(a.writers, b.writers) {
			t.Errorf("request %d\nsimulated %v by %v\n     real %v by %v", q.ID, a.tokens, a.writers, b.tokens, b.writers)
		}
		if slices.Min(b.writers) != slices.Max(b.writers) {
			routed++
		}
		if !slices.Equal(loop.tokens, b.tokens) || !slices.Equal(loop.writers, b.writers) {
			t.Errorf("request %d\nplain loop %v by %v\n      real %v by %v", q.ID, loop.tokens, loop.writers, b.tokens, b.writers)
		}
	}
	if routed < 3 && r.source.name != "fusion" { // its last model writes all
		t.Errorf("%d requests have two writers: the algorithm does not route", routed)
	}
}

// What the simulator says that homes show is what the real runtime shows with
// paced engines: the same tokens by the same writers, for the same requests.
func TestPacedShowsWhatTheSimulatorShows(t *testing.T) {
	for i, s := range sources {
		for j, rule := range rules {
			r := &rehearsal{source: s, rule: rule, b: 1 + (i+j)%4, kv: []int{160, 4096}[(i+j)%2], reuse: j%2 == 0}
			r.draw(uint64(10*i + j))
			t.Run(fmt.Sprintf("%v/%v", &s, rule), func(t *testing.T) {
				simulated := r.simulated(t)
				synctest.Test(t, func(t *testing.T) { r.judge(t, simulated, r.run(t)) })
			})
		}
	}
}
