package experiments

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/internal/metrics"
)

// compared is what Compare makes of figures by place, one plan of one point.
func compared(t *testing.T, tol Tolerance, by map[string]Outcome) []Comparison {
	t.Helper()
	plan, err := Load("x.toml", []byte(pacedFile), "on=dtmc,sim,paced", "systems=tokenrouter,async", "sweep.models.large.B=[1, 2]")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), plan, Options{Evaluate: func(_ context.Context, c Cell) Outcome { return by[c.On] }})
	if err != nil {
		t.Fatal(err)
	}
	return Compare(r, tol)
}

func showing(tokPerS, relSE, overheadUs float64) Outcome {
	s := unobserved()
	s.ThroughputTokPerS, s.ThroughputRelSE = tokPerS, relSE
	s.Steps, s.Utilisation, s.WindowS = []int64{100, 50}, []float64{0.5, 1}, 2
	return Outcome{Status: StatusOK, Summary: s, OverheadUs: metrics.Quantiles{P50: overheadUs, P99: 2 * overheadUs}}
}

func TestVerdicts(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name                 string
		chain, sim, measured Outcome
		tol                  Tolerance
		want                 Verdict
		why                  string
	}{
		{"within", showing(100, nan, nan), showing(101, 0, nan), showing(99, 0, 20), Tolerance{Rel: 0.03, OverheadUs: 30}, Agrees, ""},
		{"too slow", showing(100, nan, nan), showing(101, 0, nan), showing(95, 0, 20), Tolerance{Rel: 0.03}, Differs, "-5.9 % against the simulator, more than 3 %"},
		{"too fast", showing(100, nan, nan), showing(100, 0, nan), showing(110, 0, 20), Tolerance{Rel: 0.03}, Differs, "+10.0 % against the simulator"},
		// Against the chain, what is chance in the measurement is allowed for.
		{"noisy", showing(100, nan, nan), showing(95, 0, nan), showing(94, 0.02, 20), Tolerance{Rel: 0.03}, Agrees, ""},
		{"off the chain", showing(100, nan, nan), showing(91, 0, nan), showing(91, 0.01, 20), Tolerance{Rel: 0.03}, Differs, "-9.0 % against the chain, more than 5 %"},
		{"no chain", NotApplicable("cannot"), showing(100, 0, nan), showing(99, 0, 20), Tolerance{Rel: 0.03}, Agrees, ""},
		{"slow hand-offs", showing(100, nan, nan), showing(100, 0, nan), showing(99, 0, 200), Tolerance{Rel: 0.03, OverheadUs: 100}, Differs, "200 µs between two steps, more than 100"},
		{"nothing beside it", NotApplicable("cannot"), NotApplicable("cannot"), showing(99, 0, 20), Tolerance{Rel: 0.03}, Unmeasured, "nothing to compare it with"},
		{"not here", showing(100, nan, nan), showing(100, 0, nan), NotApplicable("no such thing"), Tolerance{Rel: 0.03}, Unmeasured, "no such thing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := compared(t, c.tol, map[string]Outcome{OnChain: c.chain, OnSim: c.sim, OnPaced: c.measured})
			// Two thresholds of tokenrouter, and async once.
			if len(all) != 3 {
				t.Fatalf("%d comparisons, want 3", len(all))
			}
			for _, got := range all {
				if got.Verdict != c.want || !strings.Contains(got.Why, c.why) {
					t.Errorf("%s: %q, want %s: %q", got.Verdict, got.Why, c.want, c.why)
				}
			}
			if c.want == Agrees && !slices.Equal(all[0].StepMs, []float64{10, 40}) {
				t.Errorf("steps of %v ms, want 10 and 40", all[0].StepMs)
			}
		})
	}
}

// The simulator plays for as long as is measured, where a run has no end of its
// own.
func TestWindow(t *testing.T) {
	plan, err := Load("x.toml", []byte(pacedFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Window(); !slices.Equal(got, []string{"workload.duration_s=20", "workload.warmup_s=2"}) {
		t.Errorf("window %v", got)
	}
	plan, err = Load("x.toml", []byte(strings.Replace(pacedFile, "duration_s = 20\nwarmup_s = 2", "", 1)), "workload.kind=closed", "workload.requests=9")
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Window(); got != nil {
		t.Errorf("window %v of a run that its requests end", got)
	}
}

// Where KV is real, a pool holds the longest requests that may be there at once,
// unless the memory is too small or the file says a number.
func TestRealKV(t *testing.T) {
	for _, c := range []struct {
		workload string
		want     int
	}{
		// 100 + 1024 of context, and 2048 to write: 199 blocks and one more.
		{"concurrency = 3", 3 * 200 * 16},
		{"kind = \"closed\"\nconcurrency = 5\nprompt_tokens = { min = 4, max = 10 }\noutput_tokens = 6", 5 * 3 * 16},
		{"kind = \"poisson\"\nrate_per_s = 1.0\nprompt_tokens = 10\noutput_tokens = 6", openRequests * 3 * 16},
	} {
		plan, err := Load("x.toml", []byte(pacedFile+c.workload), "models.small.cpu.model=toy:qwen3", "models.large.cpu.model=toy:llama",
			"models.large.cpu.kv_tokens=777")
		if err != nil {
			t.Fatal(err)
		}
		spec := plan.Points[0].Spec
		if got := kvTokens(&spec.Models[0], spec.realRoom(), 1); got != c.want {
			t.Errorf("%s: %d tokens of KV, want %d", c.workload, got, c.want)
		}
		if got := kvTokens(&spec.Models[0], spec.realRoom(), math.MaxInt32); got >= c.want {
			t.Errorf("%s: %d tokens of KV at 2 GB each", c.workload, got)
		}
		if got := kvTokens(&spec.Models[1], spec.realRoom(), 1); got != 777 {
			t.Errorf("%s: %d tokens of KV, asked for 777", c.workload, got)
		}
	}
}

// What the chain and a simulation of a few seconds disagree on is chance, and
// within what the simulation says of its own: a long one shows it.
func TestLongSimulationIsWhatTheChainPredicts(t *testing.T) {
	src, err := carried.ReadFile("validate.toml")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := Load("validate.toml", src, "on=dtmc,sim,paced", "workload.duration_s=8", "workload.warmup_s=1")
	if err != nil {
		t.Fatal(err)
	}
	evaluate := func(ctx context.Context, c Cell) Outcome {
		if c.On == OnPaced {
			return showing(1, 0, 0)
		}
		return Evaluate(ctx, c)
	}
	r, err := Run(t.Context(), plan, Options{Evaluate: evaluate})
	if err != nil {
		t.Fatal(err)
	}
	long, err := Run(t.Context(), plan.Long(), Options{Evaluate: evaluate})
	if err != nil {
		t.Fatal(err)
	}
	all := Compare(r, Tolerance{})
	FillLong(all, long)
	worst := 0.0
	for _, c := range all {
		if off := math.Abs(c.LongSim/c.Chain - 1); !(off < 0.01) {
			t.Errorf("%s %s: chain %g, simulated for long %g", c.System, sweptText(c.Point), c.Chain, c.LongSim)
		}
		off := math.Abs(c.Sim/c.Chain - 1)
		if !(off < 3*c.SimRelSE) {
			t.Errorf("%s %s: chain %g, simulated %g with a relative error of %g", c.System, sweptText(c.Point), c.Chain, c.Sim, c.SimRelSE)
		}
		worst = max(worst, off)
	}
	if worst < 0.02 {
		t.Errorf("the short window strays by %g at most: there is nothing to explain", worst)
	}
	if plan.Points[0].Spec.Workload.DurationS != 8 {
		t.Error("the long plan changed the other")
	}
}
