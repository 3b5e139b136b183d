package sim

import (
	"math"
	"slices"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/workload"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// twoClasses has requests of two kinds, one with limits, that often start alike.
func twoClasses() *workload.Mix {
	return &workload.Mix{
		Classes: []workload.Class{
			{Name: "chat", Share: 2, Lengths: workload.Lengths{Prompt: workload.Uniform(20, 120), Output: workload.Lognormal(60, 1, 1, 300)},
				Limits: workload.Limits{TTFTMs: 60, TPOTMs: 12}},
			{Name: "batch", Share: 1, Lengths: workload.Lengths{Prompt: workload.Fixed(900), Output: workload.Uniform(1, 40)}},
		},
		Prefix: workload.Prefix{Share: 0.5, Distinct: 3, Tokens: 70},
	}
}

func smallTrace() *workload.Trace {
	tr := &workload.Trace{}
	for i := range 40 {
		tr.ArrivedNs = append(tr.ArrivedNs, int64(i*i)*msNs)
		tr.Prompt, tr.Output = append(tr.Prompt, int32(1+97*i%500)), append(tr.Output, int32(1+31*i%90))
	}
	return tr
}

// openKinds are all ways to arrive.
func openKinds() map[string]Workload {
	open := func(a workload.Arrivals, requests int) Workload {
		return Workload{Kind: Open, Arrivals: a, Requests: requests, Mix: twoClasses()}
	}
	return map[string]Workload{
		"poisson": open(workload.Arrivals{Process: workload.Poisson, RatePerS: 12}, 300),
		"bursty":  open(workload.Arrivals{Process: workload.Bursty, RatePerS: 10, CV: 3, BurstRequests: 5}, 300),
		"trace":   open(workload.Arrivals{Process: workload.Recorded, Trace: smallTrace(), Repeat: 5, Speedup: 0.5}, 0),
	}
}

func openPair(t testing.TB, w Workload) Config {
	return Config{Models: models(linear{4 * msNs, msNs / 20}, linear{27 * msNs, msNs / 10}), Algorithm: matrix(t, 0.05, 0.6, false),
		Rule: scheduler.Delayed{MaxDelayNs: 270 * msNs}, Thresholds: scheduler.Thresholds{{1, 4}}, Workload: w, Seed: 11}
}

// listOf is the whole stream of an open workload as a list.
func listOf(w Workload, seed uint64) Workload {
	s := workload.NewStream(&w.Arrivals, w.Mix, seed, w.Requests)
	listed := Workload{Kind: Listed, Mix: w.Mix, DurationNs: w.DurationNs, WarmupNs: w.WarmupNs}
	for r, ok := s.Next(); ok && (w.DurationNs == 0 || r.ArrivalNs <= w.DurationNs); r, ok = s.Next() {
		listed.List = append(listed.List, Request{ArrivalNs: r.ArrivalNs, Home: w.Home, PromptTokens: r.Prompt, OutputTokens: r.Output,
			Seed: r.Seed, Class: r.Class, Shared: r.Shared, SharedSeed: r.SharedSeed})
	}
	return listed
}

func TestStreamIsItsList(t *testing.T) {
	for name, w := range openKinds() {
		for _, durationNs := range []int64{0, 9e9} {
			w.DurationNs, w.WarmupNs = durationNs, durationNs/9
			cfg := openPair(t, w)
			stream := run(t, cfg)
			cfg.Workload = listOf(w, cfg.Seed)
			list := run(t, cfg)
			if !sameResult(stream, list) {
				t.Errorf("%s for %d ns: the stream shows\n%+v\nits list\n%+v", name, durationNs, stream, list)
			}
			if stream.Requests < 50 || len(stream.Classes) != 2 || math.IsNaN(stream.GoodputReqPerS) {
				t.Errorf("%s: hardly anything happened: %+v", name, stream)
			}
		}
	}
}

func TestStretchesChangeNothingInOpenWorkloads(t *testing.T) {
	for name, w := range openKinds() {
		cfg := openPair(t, w)
		checkStretches(t, name, cfg)
		cfg.HandoffNs, cfg.NoReuse = 3*msNs/2, true
		checkStretches(t, name+" with hand-offs, without reuse", cfg)
		cfg.Models[0].KVTokens, cfg.Models[1].KVTokens = 3000, 2000
		checkStretches(t, name+" under KV pressure", cfg)
		cfg.Workload.DurationNs, cfg.Workload.WarmupNs = 9876543210, 1234567890
		checkStretches(t, name+" cut by warm-up and end", cfg)
		one := cfg
		one.Models, one.Algorithm, one.Rule = models(linear{4 * msNs, 0}), algorithms.Never{}, scheduler.Eager{}
		one.Models[0].Time, one.Thresholds = growing{4 * msNs, 17}, scheduler.Thresholds{{1}}
		merged, single := checkStretches(t, name+" at one model", one)
		if merged.Events*2 > single.Events {
			t.Errorf("%s: %d events with stretches, %d step by step: nothing was merged", name, merged.Events, single.Events)
		}
	}
}

// Other systems take open workloads too.
func TestSystemsTakeStreams(t *testing.T) {
	for name, w := range openKinds() {
		for system, compose := range map[string]func(*Config){
			"a dispatcher": func(c *Config) { c.Dispatcher = &Dispatcher{FixedNs: msNs, NsPerToken: 100} },
			"static":       func(c *Config) { c.Static, c.Reread = true, true },
			"interference": func(c *Config) { c.Interference = [][]float64{{1, 1.5}, {1.2, 1}} },
		} {
			cfg := openPair(t, w)
			compose(&cfg)
			stream := run(t, cfg)
			cfg.Workload = listOf(w, cfg.Seed)
			if list := run(t, cfg); !sameResult(stream, list) {
				t.Errorf("%s, %s: the stream shows\n%+v\nits list\n%+v", name, system, stream, list)
			}
		}
		cfg := openPair(t, w)
		cfg.Algorithm, cfg.QueryShare = algorithms.Never{}, []float64{0.7, 0.3}
		if r := run(t, cfg); r.Steps[0] == 0 || r.Steps[1] == 0 || r.Aborted != 0 {
			t.Errorf("%s at one model each: %+v", name, r)
		}
	}
}

// Rules and thresholds change when tokens come, not which.
func TestRulesDoNotChangeOpenRequests(t *testing.T) {
	for name, w := range openKinds() {
		cfg := openPair(t, w)
		want := run(t, cfg)
		for _, rule := range []scheduler.Rule{scheduler.Eager{}, scheduler.Alternate{}, scheduler.Lockstep{}, scheduler.Delayed{}} {
			cfg.Rule = rule
			r := run(t, cfg)
			if r.Tokens != want.Tokens || r.Requests != want.Requests || !slices.Equal(r.TokenShare, want.TokenShare) ||
				r.Classes[0].Tokens != want.Classes[0].Tokens {
				t.Errorf("%s, %v: %d tokens of %d requests, want %d of %d", name, rule, r.Tokens, r.Requests, want.Tokens, want.Requests)
			}
		}
	}
}

// Classes part what the whole sums up.
func TestClassesSumUp(t *testing.T) {
	for name, w := range openKinds() {
		r := run(t, openPair(t, w))
		var requests, tokens int64
		e2e, good := 0.0, 0.0
		for _, c := range r.Classes {
			requests, tokens = requests+c.Requests, tokens+c.Tokens
			e2e += c.E2EMs.Mean * float64(c.Requests)
		}
		good = r.Classes[0].GoodShare*float64(r.Classes[0].Requests) + float64(r.Classes[1].Requests)
		if requests != r.Requests || tokens != r.Tokens || math.Abs(e2e/float64(requests)/r.E2EMs.Mean-1) > 1e-9 ||
			math.Abs(good/float64(requests)-r.GoodShare) > 1e-9 || !math.IsNaN(r.Classes[1].GoodputReqPerS) {
			t.Errorf("%s: classes %+v do not sum up to %+v", name, r.Classes, r.Summary)
		}
		if r.GoodShare <= 0 || r.Classes[0].GoodShare >= 1 {
			t.Errorf("%s: limits that all or none keep show nothing: %+v", name, r.Classes[0])
		}
	}
}

// Two equal prompts, the second after the first has been fed: it reads its
// last, unshared block alone.
func TestSharedPrefixesAreReadOnce(t *testing.T) {
	w := Workload{Kind: Open, Arrivals: workload.Arrivals{Process: workload.Poisson, RatePerS: 0.001}, Requests: 2,
		Mix: &workload.Mix{Classes: []workload.Class{{Share: 1, Lengths: workload.Lengths{Prompt: workload.Fixed(100), Output: workload.Fixed(1)}}},
			Prefix: workload.Prefix{Share: 1, Distinct: 1, Tokens: 70}}}
	cfg := Config{Models: models(linear{4 * msNs, 0}), Algorithm: algorithms.Never{}, Rule: scheduler.Eager{}, Thresholds: scheduler.Thresholds{{1}}, Workload: w}
	for _, c := range []struct {
		name    string
		noReuse bool
		want    float64 // rows a step, two steps in all
	}{{"with reuse", false, (100 + 100 - 64) / 2.}, {"without", true, 100}} {
		cfg.NoReuse = c.noReuse
		if r := run(t, cfg); r.MeanRows[0] != c.want || r.Steps[0] != 2 {
			t.Errorf("%s: %g rows in %d steps, want %g in 2", c.name, r.MeanRows[0], r.Steps[0], c.want)
		}
	}
}

// A lone request at a model of B = 4 waits as long as that model's own rule
// says, and no model waits by another's.
func TestModelsHaveDelaysOfTheirOwn(t *testing.T) {
	w := Workload{Kind: Listed, List: []Request{{PromptTokens: 5, OutputTokens: 1}, {PromptTokens: 5, OutputTokens: 1, Home: 1}}}
	cfg := Config{Models: models(linear{10, 0}, linear{500, 0}), Algorithm: algorithms.Never{}, Rule: scheduler.Delayed{},
		Thresholds: scheduler.Thresholds{{4, 4}}, Workload: w}
	cfg.Models[0].Rule, cfg.Models[1].Rule = scheduler.Delayed{MaxDelayNs: 100}, scheduler.Delayed{MaxDelayNs: 300}
	// Of two live requests ΣB ≤ 3 is in force: 2 and 1, so the second does not wait.
	r := run(t, cfg)
	if r.E2EMs.P99 != 500e-6 || r.E2EMs.P50 != 110e-6 {
		t.Errorf("latencies %+v ms, want 110 and 500 ns", r.E2EMs)
	}
}

// However many requests there are, records are kept of those that overlap, and
// a request costs next to no allocation.
func TestOpenWorkloadsKeepNothing(t *testing.T) {
	cfg := openPair(t, openKinds()["poisson"])
	cfg.Models = models(linear{msNs, 0}, linear{2 * msNs, 0})
	var allocs [2]float64
	for i, n := range []int{1000, 6000} {
		cfg.Workload.Requests = n
		allocs[i] = testing.AllocsPerRun(1, func() { run(t, cfg) })
	}
	if each := (allocs[1] - allocs[0]) / 5000; each > 0.1 {
		t.Errorf("%g allocations a request", each)
	}
	w, err := newWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.run()
	if w.load.open != 0 || cap(w.load.records) > 4096 || w.load.base < 3000 {
		t.Errorf("%d requests open, room for %d records, %d forgotten of 6000", w.load.open, cap(w.load.records), w.load.base)
	}
}
