package sim

import (
	"math"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

func closedOf(users, requests int) Workload {
	return Workload{Kind: Closed, Users: users, Requests: requests, PromptMin: 100, PromptMax: 100, OutputMin: 50, OutputMax: 250}
}

func baseline(t testing.TB) Config {
	return Config{Models: models(linear{4 * msNs, msNs / 20}, linear{27 * msNs, msNs / 10}), Algorithm: matrix(t, 0.1, 1, false),
		Rule: scheduler.Eager{}, Thresholds: scheduler.Thresholds{{1, 1}}, Workload: closedOf(8, 80), Seed: 11}
}

// Standard serving routes the same tokens, only slower: how much its dispatcher
// costs is what it is told.
func TestStandardServingWritesTheSameTokens(t *testing.T) {
	want := run(t, baseline(t))
	cfg := baseline(t)
	cfg.Dispatcher = &Dispatcher{}
	free := run(t, cfg)
	cfg.Dispatcher = &Dispatcher{FixedNs: 5 * msNs, NsPerToken: 5000}
	slow := run(t, cfg)
	for _, r := range []*Result{free, slow} {
		if r.Tokens != want.Tokens || r.Requests != 80 || r.TokenShare[1] != want.TokenShare[1] {
			t.Errorf("standard serving: %d tokens of %d requests, share %g; TokenRouter: %d, share %g",
				r.Tokens, r.Requests, r.TokenShare[1], want.Tokens, want.TokenShare[1])
		}
	}
	if free.ThroughputTokPerS > 1.01*want.ThroughputTokPerS || slow.ThroughputTokPerS > 0.8*free.ThroughputTokPerS {
		t.Errorf("token/s: TokenRouter %.0f, standard serving %.0f, with a slow dispatcher %.0f",
			want.ThroughputTokPerS, free.ThroughputTokPerS, slow.ThroughputTokPerS)
	}
}

// One request alone: every token costs the dispatcher and one step.
func TestStandardServingOfOneRequest(t *testing.T) {
	cfg := baseline(t)
	cfg.Algorithm = algorithms.Never{}
	cfg.Dispatcher = &Dispatcher{FixedNs: 3 * msNs}
	cfg.Workload = Workload{Kind: Closed, Users: 1, Requests: 1, PromptMin: 100, PromptMax: 100, OutputMin: 40, OutputMax: 40}
	r := run(t, cfg)
	if want := 40 * (3 + 4.05); math.Abs(r.E2EMs.Mean-want) > 1e-9 {
		t.Errorf("40 tokens took %g ms, want %g", r.E2EMs.Mean, want)
	}
	// Blocks of 16: of a context of c tokens those in full blocks before the last
	// token are cached, all others are fed again.
	rows := 0
	for c := 100; c < 140; c++ {
		if c == 100 {
			rows += c
		} else {
			rows += c - (c-1)/16*16
		}
	}
	if got := r.MeanRows[0] * float64(r.Steps[0]); math.Abs(got-float64(rows)) > 1e-6 {
		t.Errorf("fed %g rows, want %d", got, rows)
	}
}

// Under a small pool prefixes are evicted between two tokens and read again:
// what makes standard serving lose more than its costs grow.
func TestStandardServingUnderKVPressure(t *testing.T) {
	cfg := baseline(t)
	cfg.Dispatcher = &Dispatcher{}
	cfg.Models[0].Time, cfg.Models[1].Time = growing{4 * msNs, 0}, growing{27 * msNs, 0}
	wide := run(t, cfg)
	cfg.Models[0].KVTokens, cfg.Models[1].KVTokens = 1200, 1200
	tight := run(t, cfg)
	if tight.Tokens != wide.Tokens || tight.MeanRows[0] < 2*wide.MeanRows[0] {
		t.Errorf("rows a step %.1f with room, %.1f without; tokens %d and %d", wide.MeanRows[0], tight.MeanRows[0], wide.Tokens, tight.Tokens)
	}
}

func TestQueryLevelRoutingKeepsARequestAtOneModel(t *testing.T) {
	cfg := baseline(t)
	cfg.Algorithm = algorithms.Never{}
	cfg.QueryShare = []float64{0.6, 0.4}
	cfg.Workload = closedOf(8, 2000)
	r := run(t, cfg)
	if share := r.TokenShare[1]; math.Abs(share-0.4) > 0.05 || r.Requests != 2000 {
		t.Errorf("the large model wrote %.3f of the tokens of %d requests, want about 0.4", share, r.Requests)
	}
}

// A static batch ends with its longest request; continuous batching refills.
func TestStaticAdmission(t *testing.T) {
	cfg := baseline(t)
	cfg.Algorithm = algorithms.Never{}
	cfg.Models = cfg.Models[:1]
	cfg.Thresholds = scheduler.Thresholds{{1}}
	cfg.Models[0].MaxRunning = 4
	continuous := run(t, cfg)
	cfg.Static = true
	static := run(t, cfg)
	if static.Tokens != continuous.Tokens || static.ThroughputTokPerS > 0.9*continuous.ThroughputTokPerS {
		t.Errorf("token/s: static %.0f, continuous %.0f", static.ThroughputTokPerS, continuous.ThroughputTokPerS)
	}
	cfg.Workload.OutputMin = cfg.Workload.OutputMax // equal lengths: nothing to gain
	static = run(t, cfg)
	cfg.Static = false
	if same := run(t, cfg); math.Abs(same.ThroughputTokPerS/static.ThroughputTokPerS-1) > 0.02 {
		t.Errorf("equal lengths: static %.0f token/s, continuous %.0f", static.ThroughputTokPerS, same.ThroughputTokPerS)
	}
}

func TestRereadFeedsTheWholeRequestAgain(t *testing.T) {
	cfg := baseline(t)
	kept := run(t, cfg)
	cfg.Reread = true
	again := run(t, cfg)
	if again.Tokens != kept.Tokens || again.MeanRows[1] < 5*kept.MeanRows[1] || again.MeanRows[0] != kept.MeanRows[0] {
		t.Errorf("rows a large step: %.1f, reading all again %.1f; small %.2f and %.2f",
			kept.MeanRows[1], again.MeanRows[1], kept.MeanRows[0], again.MeanRows[0])
	}
}

// Two steps that overlap, by hand: a lasts 10 ms alone, b arrives at 2 ms and
// lasts 4. While both run a goes at half speed and b at two thirds: b ends at
// 2 + 6 = 8, a has 8 − 3 = 5 ms left then and ends at 13.
func TestInterferenceByHand(t *testing.T) {
	cfg := Config{Models: models(linear{10 * msNs, 0}, linear{4 * msNs, 0}), Algorithm: algorithms.Never{}, Rule: scheduler.Eager{},
		Thresholds: scheduler.Thresholds{{1, 1}}, Interference: [][]float64{{1, 2}, {1.5, 1}},
		Workload: Workload{Kind: Listed, List: []Request{{Home: 0, PromptTokens: 1, OutputTokens: 1}, {ArrivalNs: 2 * msNs, Home: 1, PromptTokens: 1, OutputTokens: 1}}}}
	r := run(t, cfg)
	if r.EndNs != 13*msNs || math.Abs(r.E2EMs.Mean-(13+6)/2.) > 1e-9 {
		t.Errorf("ended at %d ns, mean latency %g ms; want 13 ms and 9.5 ms", r.EndNs, r.E2EMs.Mean)
	}
}

// Two models that are always busy stretch by the factor, no more and no less;
// a factor of 1 changes nothing.
func TestInterferenceOfBusyModels(t *testing.T) {
	cfg := Config{Models: models(linear{4 * msNs, 0}, linear{9 * msNs, 0}), Algorithm: algorithms.Never{}, Rule: scheduler.Eager{},
		Thresholds: scheduler.Thresholds{{1, 1}}, QueryShare: []float64{0.5, 0.5}, Workload: steady(16, 200e9, 1e9)}
	alone := run(t, cfg)
	cfg.Interference = [][]float64{{1, 1}, {1, 1}}
	if same := run(t, cfg); !sameResult(alone, same) {
		t.Errorf("factor 1 changes the result:\n%+v\n%+v", alone, same)
	}
	cfg.Interference = [][]float64{{1, 1.25}, {2, 1}}
	both := run(t, cfg)
	if a := float64(alone.Steps[0]) / float64(both.Steps[0]); math.Abs(a-1.25) > 0.001 {
		t.Errorf("the first model's steps stretch by %g, want 1.25", a)
	}
	if b := float64(alone.Steps[1]) / float64(both.Steps[1]); math.Abs(b-2) > 0.001 {
		t.Errorf("the second model's steps stretch by %g, want 2", b)
	}
}
