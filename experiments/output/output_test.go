package output

import (
	"bytes"
	"context"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/experiments"
)

// small answers fast: a pair at 4 users, short runs.
const small = `
question = "Which B?"
on       = ["dtmc", "sim"]
systems  = ["tokenrouter", "async", "alternate"]
seeds    = [1, 2]
[[models]]
name    = "small"
step_ms = { base = 4.0, per_request = 0.05 }
[[models]]
name    = "large"
step_ms = { base = 32.0, per_request = 0.1 }
[routing]
matrix = [[0.6, 0.4], [1.0, 0.0]]
[workload]
concurrency = 4
duration_s  = 200
warmup_s    = 10
[sweep]
"routing.matrix" = [[[0.98, 0.02], [1.0, 0.0]], [[0.6, 0.4], [1.0, 0.0]]]
"models.large.B" = [1, 2, 3, 4]
`

func results(t *testing.T, src string, set ...string) *experiments.Results {
	t.Helper()
	plan, err := experiments.Load("small.toml", []byte(src), set...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := experiments.Run(context.Background(), plan, experiments.Options{Evaluate: experiments.Evaluate, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func write(t *testing.T, r *experiments.Results) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	names, err := Write(r, dir, "tokenrouter run small.toml")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || len(data) == 0 {
			t.Fatalf("%s: %d bytes, %v", name, len(data), err)
		}
		files[name] = data
	}
	if left, _ := os.ReadDir(dir); len(left) != len(names) {
		t.Errorf("%d files in the folder, %d named", len(left), len(names))
	}
	return files
}

func TestSweepOfB(t *testing.T) {
	r := results(t, small)
	files := write(t, r)
	for _, name := range []string{"small.png", "small.svg", "timeline.json", "report.html"} {
		if files[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	if img, err := png.Decode(bytes.NewReader(files["small.png"])); err != nil || img.Bounds().Dx() < 1000 {
		t.Errorf("small.png: %v, %v", img.Bounds(), err)
	}
	svg := string(files["small.svg"])
	for _, label := range []string{"p = 0.02", "p = 0.4", "best B = ", "tokenrouter, predicted", "tokenrouter, simulated", "async", "alternate"} {
		if !strings.Contains(svg, label) {
			t.Errorf("the figure lacks %q", label)
		}
	}
	answers, table := Summary(r)
	if len(answers) != 2 || !strings.Contains(answers[0], "hardly matters") || !strings.Contains(answers[1], "B matters") {
		t.Errorf("answers: %q", answers)
	}
	if len(table.Rows) != 2 || table.Rows[0][0] != "0.02" || table.Rows[1][0] != "0.4" || !slices.Equal(table.Emphasis, []int{1}) {
		t.Errorf("table: %v, emphasis %v", table.Rows, table.Emphasis)
	}
	html := string(files["report.html"])
	for _, part := range []string{"Which B?", "tokenrouter run small.toml", "timeline.json", "geometric", "throughput"} {
		if !strings.Contains(html, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	if body, _, _ := strings.Cut(html, "<script"); strings.Contains(body, "NaN") {
		t.Error("the page says NaN")
	}
}

func TestSameResultsSameBytes(t *testing.T) {
	a, b := write(t, results(t, small, "seeds=[1]")), write(t, results(t, small, "seeds=[1]"))
	for name, data := range a {
		if !bytes.Equal(data, b[name]) {
			t.Errorf("%s differs between two runs", name)
		}
	}
}

// The trace must be what the simulator did: as many steps as the models ran in
// the time it covers, none overlapping.
func TestTimelineShowsTheRun(t *testing.T) {
	r := results(t, small, "seeds=[1]")
	var trace struct {
		TraceEvents []struct {
			Name, Cat, Ph string
			Pid, Tid      int
			Ts, Dur       float64
			Args          map[string]any
		}
	}
	if err := json.Unmarshal(write(t, r)["timeline.json"], &trace); err != nil {
		t.Fatal(err)
	}
	steps := map[int]int{}
	end := map[int]float64{}
	requests := map[int]bool{}
	for _, e := range trace.TraceEvents {
		if e.Cat == "step" {
			steps[e.Tid]++
			if e.Ts < end[e.Tid] {
				t.Fatalf("steps of model %d overlap at %g µs", e.Tid, e.Ts)
			}
			end[e.Tid] = e.Ts + e.Dur - 1e-3
			if n := e.Args["requests"].(float64); n < 1 || n > 4 {
				t.Fatalf("a step of %g requests", n)
			}
		} else if e.Pid == 2 && e.Ph == "B" {
			requests[e.Tid] = true
		}
	}
	if len(steps) != 2 || len(requests) != 4 {
		t.Errorf("steps of %d models, spans of %d requests", len(steps), len(requests))
	}
	if n := steps[102]; n < 180 || n > 330 { // 10 s of steps of 32.4 ms and some waiting
		t.Errorf("%d large steps in 10 s", n)
	}
}

func TestScheduleFigures(t *testing.T) {
	_, src, err := experiments.Source("schedules")
	if err != nil {
		t.Fatal(err)
	}
	files := write(t, results(t, string(src)))
	gantt := string(files["small-gantt.svg"])
	for _, title := range []string{
		"tokenrouter: mean latency 8.67 ms (published 8.67)", "async: mean latency 10.83 ms (published 10.83)",
		"alternate: mean latency 13.00 ms (published 13.00)", "lockstep: mean latency 13.83 ms (published 13.33)"} {
		if !strings.Contains(gantt, title) {
			t.Errorf("the schedule lacks %q", title)
		}
	}
	if bars := string(files["small.svg"]); !strings.Contains(bars, "published") {
		t.Error("the bars lack what was published")
	}
}

// Every experiment that the program carries draws something.
func TestEveryCarriedExperimentDraws(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a short form of every experiment")
	}
	for _, name := range experiments.Names() {
		file, src, err := experiments.Source(name)
		if err != nil {
			t.Fatal(err)
		}
		set := []string{"seeds=[1]"}
		if plan, err := experiments.Load(file, src); err == nil {
			switch kind := plan.Points[0].Spec.Workload.Kind; {
			case kind == experiments.KindSteady:
				set = append(set, "workload.duration_s=20", "workload.warmup_s=2")
			case experiments.IsOpen(kind):
				set = append(set, "workload.requests=60", "workload.warmup_s=0")
			}
			if plan.Measures() {
				set = append(set, "measure.duration_s=0.3", "measure.warmup_s=0.1")
			}
			for _, m := range plan.Points[0].Spec.Models {
				if m.CPU != nil {
					set = append(set, "models."+m.Name+".cpu.model=toy:qwen3")
				}
			}
		}
		plan, err := experiments.Load(file, src, set...)
		if err != nil {
			t.Fatal(err)
		}
		r, err := experiments.Run(context.Background(), plan, experiments.Options{Evaluate: experiments.Evaluate, Version: "test"})
		if err != nil || r.Failures() > 0 {
			t.Fatalf("%s: %v, %d cells failed", name, err, r.Failures())
		}
		files := write(t, r)
		if answers, table := Summary(r); len(answers) == 0 || len(table.Rows) == 0 || len(files) < 3 {
			t.Errorf("%s: %d answers, %d rows, files %d", name, len(answers), len(table.Rows), len(files))
		}
	}
}

// What was measured alone draws too, and is called so.
func TestMeasuredAlone(t *testing.T) {
	_, src, err := experiments.Source("schedules")
	if err != nil {
		t.Fatal(err)
	}
	files := write(t, results(t, string(src), "on=paced"))
	if _, drawn := files["small-gantt.svg"]; drawn {
		t.Error("a schedule is drawn of a run that nobody simulated")
	}
	if page := string(files[ReportHTML]); !strings.Contains(page, "On paced the real runtime was measured") {
		t.Error("the report does not say that figures were measured")
	}
	svg := string(write(t, results(t, small, "on=dtmc,sim,paced", "seeds=[1]", "systems=tokenrouter", "workload.duration_s=20",
		"measure.duration_s=0.15", "measure.warmup_s=0.05", "sweep.models.large.B=[1, 2]"))["small.svg"])
	if !strings.Contains(svg, "measured on paced") {
		t.Error("the figure does not tell measured points")
	}
}

// A tuned threshold is no point of a curve over B: it may differ from cell to
// cell. It is compared by name.
func TestTunedBeside(t *testing.T) {
	r := results(t, small, "routing.matrix=[[0.6, 0.4], [1.0, 0.0]]", `sweep.models.large.B=[1, 2, "tuned"]`, "workload.duration_s=40", "seeds=[1]")
	answers, _ := Summary(r)
	if len(answers) != 1 || !strings.HasPrefix(answers[0], "Best throughput") || !strings.Contains(answers[0], "with B\u00a0=\u00a0tuned") {
		t.Errorf("answers: %q", answers)
	}
	if svg := string(write(t, r)["small.svg"]); !strings.Contains(svg, ">tuned<") {
		t.Error("the figure does not name tuned")
	}
	// Beside another key it is a panel of its own.
	r = results(t, small, "routing.matrix=[[0.6, 0.4], [1.0, 0.0]]", `sweep.models.large.B=[1, "tuned"]`,
		"sweep.workload.concurrency=[2, 4]", "workload.duration_s=40", "seeds=[1]")
	answers, _ = Summary(r)
	if len(answers) != 2 || !strings.HasPrefix(answers[1], "B\u00a0=\u00a0tuned: throughput") {
		t.Errorf("answers: %q", answers)
	}
}
