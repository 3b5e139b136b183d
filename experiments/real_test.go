package experiments

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
)

// pacedFile is a small experiment for the real runtime.
const pacedFile = `question = "q"
on = ["sim", "paced"]
[[models]]
name = "small"
step_ms = { base = 3.0, per_request = 0.1, per_row = 0.02 }
[[models]]
name = "large"
step_ms = { base = 20.0, per_request = 0.5, per_row = 0.05 }
[routing]
matrix = [[0.8, 0.2], [1.0, 0.0]]
[measure]
duration_s = 20
warmup_s = 2
[workload]
`

// inBubble evaluates a cell in a bubble, where the real runtime keeps the time
// of its steps exactly and costs none itself.
func inBubble(t *testing.T, c Cell) (o Outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { o = Evaluate(t.Context(), c) })
	return o
}

// Where nothing but the steps takes time, the real runtime shows what the
// simulator does: the same requests, hand-offs, batches and figures.
func TestPacedIsWhatTheSimulatorPlays(t *testing.T) {
	// Closed loads run longer: their 99th percentile hangs on a few gaps, which the
	// order of one instant's events shifts.
	const shared = "models.small.gpus=[0] models.large.gpus=[0] models.small.colocation_factor=1.6 models.large.colocation_factor=1.2"
	for _, c := range []struct{ name, workload, systems, set string }{
		{"steady", "concurrency = 8\nduration_s = 20\nwarmup_s = 2", "tokenrouter async alternate lockstep official single:small single:large", ""},
		{"steady", "concurrency = 8\nduration_s = 20\nwarmup_s = 2", "tokenrouter lockstep", shared},
		{"closed", "kind = \"closed\"\nconcurrency = 6\nprompt_tokens = { min = 20, max = 200 }\noutput_tokens = { min = 10, max = 60 }\nduration_s = 60\nwarmup_s = 2", "tokenrouter alternate query-level std-serving", "measure.duration_s=60"},
		{"poisson", "kind = \"poisson\"\nrate_per_s = 4.0\nprompt_tokens = 50\noutput_tokens = { min = 10, max = 60 }\nduration_s = 20\nwarmup_s = 2\nlimits = { ttft_ms = 300.0 }", "tokenrouter async", ""},
	} {
		for _, system := range strings.Fields(c.systems) {
			t.Run(c.name+"/"+system, func(t *testing.T) {
				plan, err := Load("x.toml", []byte(pacedFile+c.workload), append(strings.Fields(c.set), "systems="+system, "models.large.B=3")...)
				if err != nil {
					t.Fatal(err)
				}
				simulated, measured := Evaluate(t.Context(), plan.Cells[0]), inBubble(t, plan.Cells[1])
				if simulated.Status != StatusOK || measured.Status != StatusOK {
					t.Fatalf("simulated %s %s, measured %s %s", simulated.Status, simulated.Reason, measured.Status, measured.Reason)
				}
				a, b := newRecord(simulated, 2, 0, true), newRecord(measured, 2, 0, true)
				for i, f := range plan.Figures() {
					if x, y := a.Values[i], b.Values[i]; !sameFigure(c.name, f.Name, x, y) {
						t.Errorf("%s: simulated %g, measured %g", f.Name, x, y)
					}
				}
				if o := measured.OverheadUs; system != SystemStdServing && !(o.P99 < 1) {
					t.Errorf("between steps lie %g µs of a time that stands still", o.P99)
				}
			})
		}
	}
}

// sameFigure allows for what the order of one instant's events decides: in the
// simulator a user's next request comes at the instant at which the last one
// ends, and joins the step that starts then; here that step has started.
func sameFigure(workload, name string, simulated, measured float64) bool {
	latency := strings.HasPrefix(name, "ttft") || strings.HasPrefix(name, "tpot") || strings.HasPrefix(name, "e2e")
	switch {
	case strings.HasPrefix(name, "overhead_us"), name == "throughput_rel_se":
		return true
	case workload == "closed" && latency:
		return math.Abs(measured-simulated) <= 0.1*simulated+20
	case math.IsNaN(simulated) || math.IsNaN(measured):
		return math.IsNaN(simulated) == math.IsNaN(measured)
	}
	return math.Abs(measured-simulated) <= 0.03*math.Abs(simulated)+0.2
}
