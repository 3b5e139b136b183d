package experiments

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// pair is two models without a sweep, short enough to run in milliseconds.
const pair = `question = "q"
[[models]]
name = "small"
step_ms.base = 4
[[models]]
name = "large"
step_ms.base = 32
B = 3
[routing]
matrix = [[0.8, 0.2], [1.0, 0.0]]
[workload]
duration_s = 100
warmup_s = 10
`

// evaluated runs the experiment and returns the figures by name and cell.
func evaluated(t *testing.T, src string, set ...string) (*Results, func(cell int, figure string) float64) {
	t.Helper()
	r, err := Run(t.Context(), load(t, src, set...), Options{Evaluate: Evaluate})
	if err != nil {
		t.Fatal(err)
	}
	return r, func(cell int, figure string) float64 {
		for i, f := range r.Figures {
			if f.Name == figure && r.Records[cell].Status == StatusOK {
				return r.Records[cell].Values[i]
			}
		}
		t.Fatalf("cell %d has no %s: %+v", cell, figure, r.Records[cell])
		return 0
	}
}

func TestWhatAPlaceCannotShow(t *testing.T) {
	bursty := strings.Replace(pair, "matrix = [[0.8, 0.2], [1.0, 0.0]]", "algorithm = 'bursty'\nmean_gap = 5\ngap_cv = 2", 1)
	citer := strings.Replace(pair, "matrix = [[0.8, 0.2], [1.0, 0.0]]", "algorithm = 'citer'", 1)
	for _, c := range []struct {
		name, src string
		set       []string
		want      [2]string // reasons of the chain and the simulator; "" runs
	}{
		{"steady", pair, nil, [2]string{}},
		{"bursty", bursty, nil, [2]string{"geometric gaps", ""}},
		{"closed", pair, []string{"workload.kind=closed"}, [2]string{}},
		{"hand-off", pair, []string{"handoff.ms=50"}, [2]string{"hand-off", ""}},
		{"delay", pair, []string{"scheduler.max_delay_ms=50"}, [2]string{"MaxDelay", ""}},
		{"signals", citer, nil, [2]string{"citer states none", "citer reads"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := evaluated(t, c.src, c.set...)
			for i, want := range c.want {
				got := r.Records[i]
				if want == "" && got.Status != StatusOK || want != "" && (got.Status != StatusNotApplicable || !strings.Contains(got.Reason, want)) {
					t.Errorf("%s: %s %q, want reason %q", r.Plan.Cells[i].On, got.Status, got.Reason, want)
				}
			}
		})
	}
}

func TestAModelAlone(t *testing.T) {
	r, figure := evaluated(t, pair, "systems=single:small,single:large")
	for i, c := range r.Plan.Cells {
		alone, other, ms := "small", "large", 4.0
		share := 0.0
		if c.System == "single:large" {
			alone, other, ms, share = other, alone, 32, 1
		}
		want := map[string]float64{"throughput_tok_per_s": 8 / ms * 1000, "mean_batch." + alone: 8, "utilisation." + alone: 1, "large_token_share": share}
		for name, x := range want {
			if got := figure(i, name); math.Abs(got-x) > 1e-3*max(1, x) {
				t.Errorf("%s on %s: %s is %g, want %g", c.System, c.On, name, got, x)
			}
		}
		if got := figure(i, "utilisation."+other); !math.IsNaN(got) {
			t.Errorf("%s on %s: utilisation of the model that did not run is %g", c.System, c.On, got)
		}
	}
}

// Whatever a rule does not read must not change its results.
func TestThresholdsMatterToOneSystem(t *testing.T) {
	for system, matters := range map[string]bool{SystemTokenRouter: true, SystemAsync: false, SystemAlternate: false, SystemLockstep: false} {
		r, figure := evaluated(t, pair, "systems="+system, "sweep.models.large.B=[1, 6]")
		for i := range 2 {
			if got := figure(i, "throughput_tok_per_s") != figure(i+2, "throughput_tok_per_s"); got != matters {
				t.Errorf("%s on %s: B changes throughput: %t", system, r.Plan.Cells[i].On, got)
			}
		}
	}
}

// A table over live takes the entry for as many requests as are live: all, in
// a steady system.
func TestThresholdTable(t *testing.T) {
	_, figure := evaluated(t, pair, "sweep.models.large.B=[5, [1, 1, 1, 1, 1, 1, 1, 5], [5, 5, 5, 5, 5, 5, 5, 1]]")
	for on := range 2 {
		for _, name := range []string{"throughput_tok_per_s", "b_in_force.large"} {
			if a, b := figure(on, name), figure(on+2, name); a != b {
				t.Errorf("%s of B = 5 is %g, of a table that ends in 5 %g", name, a, b)
			}
			if a, b := figure(on, name), figure(on+4, name); a == b {
				t.Errorf("%s of B = 5 is that of a table that ends in 1", name)
			}
		}
	}
}

func TestThresholdsSideBySide(t *testing.T) {
	models := []Model{{B: Threshold{2}}, {B: Threshold{1, 3, 4}}}
	if diff := cmp.Diff(scheduler.Thresholds{{2, 1}, {2, 3}, {2, 4}}, thresholds(models, true)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(scheduler.Thresholds{{1, 1}}, thresholds(models, false)); diff != "" {
		t.Error(diff)
	}
}

func TestShippedExperimentsLoad(t *testing.T) {
	for _, name := range Names() {
		file, src, err := Source(name)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := Load(file, src)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if plan.Name != name || !strings.HasSuffix(plan.Question, "?") {
			t.Errorf("%s: name %q, question %q", name, plan.Name, plan.Question)
		}
	}
}
