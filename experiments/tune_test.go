package experiments

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/dtmc"
)

// tunable is a pair that a B above 1 suits.
const tunable = `question = "q"
systems = ["tokenrouter"]
seeds = [1, 2]
[[models]]
name = "small"
step_ms.base = 4
[[models]]
name = "large"
step_ms.base = 27
B = "tuned"
[routing]
matrix = [[0.6, 0.4], [1.0, 0.0]]
[workload]
concurrency = 6
duration_s = 20
warmup_s = 2
`

// Every place uses the threshold that the chain finds best, and says so in
// b_in_force.
func TestTunedThreshold(t *testing.T) {
	for _, test := range []struct {
		name  string
		set   []string
		tuned dtmc.TuneOptions
	}{
		{"the peer", nil, dtmc.TuneOptions{}},
		{"one beside a fixed one", []string{"models.small.B=2"}, dtmc.TuneOptions{Search: dtmc.SearchOne, Model: 1}},
		{"home alone", []string{"models.small.B=tuned", "models.large.B=1"}, dtmc.TuneOptions{Search: dtmc.SearchOne, Model: 0}},
		{"both", []string{"models.small.B=tuned"}, dtmc.TuneOptions{Search: dtmc.SearchAll}},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan := load(t, tunable, test.set...)
			s, err := newSetup(plan.Cells[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range s.thresholds { // those that are not tuned
				for i := range row {
					row[i] = max(1, row[i])
				}
			}
			config, reason := s.chain()
			if reason != "" {
				t.Fatal(reason)
			}
			want, err := dtmc.Tune(config, test.tuned)
			if err != nil {
				t.Fatal(err)
			}
			if sum := want.Best.B[0] + want.Best.B[1]; test.name == "the peer" && sum < 3 {
				t.Fatalf("the best B is %v: choose a pair that B matters to", want.Best.B)
			}
			for _, c := range plan.Cells {
				o := Evaluate(context.Background(), c)
				if o.Status != StatusOK || fmt.Sprint(o.Summary.BInForce) != fmt.Sprint(want.Best.B) {
					t.Errorf("%s: %s %s, B in force %v, want %v", c.On, o.Status, o.Reason, o.Summary.BInForce, want.Best.B)
				}
			}
		})
	}
}

func TestTunedIsSweptBesideNumbers(t *testing.T) {
	plan := load(t, tunable, `sweep.models.large.B=[1, "tuned"]`, "workload.concurrency=4", "on=dtmc")
	results, err := Run(context.Background(), plan, Options{Evaluate: Evaluate})
	if err != nil {
		t.Fatal(err)
	}
	if len(results.Records) != 2 || results.Failures() > 0 {
		t.Fatalf("got %+v", results.Records)
	}
	if one, best := results.Records[0].Values[0], results.Records[1].Values[0]; !(best > one) {
		t.Errorf("throughput %v with B = 1, %v tuned: want more", one, best)
	}
	if line := string(results.JSON(1)); !strings.Contains(line, `"models.large.B":"tuned"`) {
		t.Errorf("the settings do not say tuned: %s", line)
	}
}

func TestTunedNeedsTheChain(t *testing.T) {
	const none = `B = "tuned" asks the chain for the best B, and it has none to give: `
	for _, test := range []struct {
		set  string
		want string
	}{
		{"workload.kind=poisson", none + "the chain has a fixed number of requests"},
		{"scheduler.max_delay_ms=5", none + "MaxDelay of 5000000 ns depends"},
		{"workload.concurrency=1000", none},
	} {
		set := []string{"on=sim", "models.small.max_running=1024", "models.large.max_running=1024", "models.small.kv_tokens=10000000",
			"models.large.kv_tokens=10000000", test.set}
		if strings.HasSuffix(test.set, "poisson") {
			set = append(set, "workload.rate_per_s=1")
		}
		src := tunable
		if strings.HasSuffix(test.set, "poisson") {
			src = strings.Replace(src, "concurrency = 6\n", "", 1)
		}
		plan := load(t, src, set...)
		if o := Evaluate(context.Background(), plan.Cells[0]); o.Status != StatusNotApplicable || !strings.HasPrefix(o.Reason, test.want) {
			t.Errorf("%s: %s %q, want not applicable: %s", test.set, o.Status, o.Reason, test.want)
		}
	}
	// A system that reads no threshold asks for none.
	plan := load(t, tunable, "on=sim", "systems=async", "scheduler.max_delay_ms=5")
	if o := Evaluate(context.Background(), plan.Cells[0]); o.Status != StatusOK {
		t.Errorf("async: %s %s", o.Status, o.Reason)
	}
}

// A cell whose B is tuned comes to the same as one that is told that B: where it
// is measured, it is measured once, and compared once.
func TestTunedIsMeasuredOnce(t *testing.T) {
	found := load(t, tunable).Points[0].Settled()[1][0]
	plan := load(t, tunable, "on=dtmc,paced", "seeds=[1]", "measure.duration_s=1", "measure.warmup_s=0",
		fmt.Sprintf(`sweep.models.large.B=[1, "tuned", %d]`, found))
	measured := map[string]int{}
	r, err := Run(t.Context(), plan, Options{Workers: 1, Evaluate: func(ctx context.Context, c Cell) Outcome {
		if c.On != OnPaced {
			return Evaluate(ctx, c)
		}
		measured[sweptText(c.Point)]++
		return showing(float64(100+len(measured)), 0, 20)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(measured) != 2 || measured["{models.large.B=1}"] != 1 || measured[`{models.large.B="tuned"}`] != 1 {
		t.Errorf("measured %v, want each system once", measured)
	}
	rows := r.Rows()
	throughput := func(row int) float64 { return rows[row].Mean[0] }
	// Two places a point, in the order of the sweep.
	if throughput(3) != throughput(5) || throughput(1) == throughput(3) {
		t.Errorf("measured %v, %v and %v token/s, want the last two alike", throughput(1), throughput(3), throughput(5))
	}
	all := Compare(r, Tolerance{Rel: 10})
	if len(all) != 2 || len(all[1].Same) != 1 || all[1].Same[0] != plan.Points[2] || all[1].Settled[1][0] != found {
		t.Errorf("compared %+v", all)
	}
}

// What the chain cannot tune stays as it was asked for.
func TestSettledWithoutTheChain(t *testing.T) {
	if got := load(t, tunable, "workload.kind=closed", "models.small.kv_tokens=5000").Points[0].Settled(); !got[1].IsTuned() {
		t.Errorf("settled on %v without an answer", got)
	}
}
