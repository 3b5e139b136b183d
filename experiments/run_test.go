package experiments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// pretend is an evaluator whose figures are a function of the cell; the chain
// cannot do lockstep, and one simulated cell breaks.
func pretend(_ context.Context, c Cell) Outcome {
	if c.On == OnChain && c.System == SystemLockstep {
		return NotApplicable("not here")
	}
	b := c.Point.Spec.Models[1].B[0]
	if !UsesB(c.System) {
		b = 1
	}
	s := unobserved()
	s.ThroughputTokPerS = float64(100*b) + 1/(3+float64(c.Seed))
	s.MeanBatch = []float64{1.5, math.NaN()}
	s.Tokens = 7
	return Outcome{Status: StatusOK, Summary: s, Large: 1}
}

func runInto(t *testing.T, out string, workers int, evaluate func(context.Context, Cell) Outcome, set ...string) *Results {
	t.Helper()
	r, err := Run(t.Context(), load(t, example, set...), Options{Evaluate: evaluate, Workers: workers, Out: out, Version: "v0", Build: "b"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// folder reads all files but the log.
func folder(t *testing.T, out string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == RunLog {
			continue
		}
		text, err := os.ReadFile(filepath.Join(out, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

func TestBytesDoNotDependOnWorkers(t *testing.T) {
	one, many := t.TempDir(), t.TempDir()
	runInto(t, one, 1, pretend)
	runInto(t, many, 7, pretend)
	a, b := folder(t, one), folder(t, many)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("1 and 7 workers (-1 +7):\n%s", diff)
	}
	if len(a) != 3 {
		t.Errorf("files %v", a)
	}
}

func TestCellsShareEvaluations(t *testing.T) {
	var calls atomic.Int64
	r := runInto(t, "", 2, func(ctx context.Context, c Cell) Outcome {
		calls.Add(1)
		return pretend(ctx, c)
	})
	// B changes tokenrouter only: 8 of it for each of 3 concurrencies, one of
	// each of the other three systems; each once by the chain and by 3 seeds.
	if want := int64(3 * (8 + 3) * 4); calls.Load() != want || r.Ran != int(want) {
		t.Errorf("%d evaluations, want %d", calls.Load(), want)
	}
	if len(r.Records) != 384 {
		t.Errorf("%d records, want one for each of 384 cells", len(r.Records))
	}
}

func TestInterruptedRunGoesOn(t *testing.T) {
	whole, out := t.TempDir(), t.TempDir()
	runInto(t, whole, 1, pretend)
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int64
	stopAfter := func(inner context.Context, c Cell) Outcome {
		if calls.Add(1) == 10 {
			cancel()
		}
		return pretend(inner, c)
	}
	_, err := Run(ctx, load(t, example), Options{Evaluate: stopAfter, Workers: 2, Out: out, Version: "v0", Build: "b"})
	var stopped *Interrupted
	if !errors.As(err, &stopped) || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want Interrupted", err)
	}
	if stopped.Done > 10 || stopped.Total != 132 {
		t.Errorf("%d of %d done, want at most 10 of 132", stopped.Done, stopped.Total)
	}
	// What a crash leaves of a line must not count.
	path := filepath.Join(out, finishedFile)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, `{"key":"abc","sta`)
	f.Close()
	var again atomic.Int64
	counted := func(ctx context.Context, c Cell) Outcome {
		again.Add(1)
		return pretend(ctx, c)
	}
	r := runInto(t, out, 3, counted)
	if got := int(again.Load()) + stopped.Done; got != 132 || r.Reused != stopped.Done {
		t.Errorf("%d evaluations in both runs, %d reused, want 132 and %d", got, r.Reused, stopped.Done)
	}
	if diff := cmp.Diff(folder(t, whole), folder(t, out)); diff != "" {
		t.Errorf("in one go and in two (-one +two):\n%s", diff)
	}
	if r := runInto(t, out, 2, counted); r.Ran != 0 {
		t.Errorf("a third run evaluates %d cells again", r.Ran)
	}
}

func TestChangedExperimentRunsWhatChanged(t *testing.T) {
	out := t.TempDir()
	runInto(t, out, 2, pretend)
	r := runInto(t, out, 2, pretend, "sweep.workload.concurrency=[8, 32]")
	if r.Ran != 44 || r.Reused != 44 {
		t.Errorf("ran %d, reused %d; want those of 32 users run and of 8 reused", r.Ran, r.Reused)
	}
	fresh := t.TempDir()
	runInto(t, fresh, 1, pretend, "sweep.workload.concurrency=[8, 32]")
	if diff := cmp.Diff(folder(t, fresh), folder(t, out)); diff != "" {
		t.Errorf("afresh and over old results (-afresh +over):\n%s", diff)
	}
}

func TestResultsOfOthersAreNotTakenOver(t *testing.T) {
	out := t.TempDir()
	runInto(t, out, 2, pretend)
	plan := load(t, example)
	r, err := Run(t.Context(), plan, Options{Evaluate: pretend, Out: out, Build: "another"})
	if err != nil || r.Reused != 0 {
		t.Errorf("another build of the program reuses %d cells: %v", r.Reused, err)
	}
	plan.Name = "other"
	if _, err := Run(t.Context(), plan, Options{Evaluate: pretend, Out: out}); err == nil || !strings.Contains(err.Error(), "--out") {
		t.Errorf("another experiment writes into the folder: %v", err)
	}
}

func TestABrokenCellCostsNoOther(t *testing.T) {
	out := t.TempDir()
	broken := true
	evaluate := func(ctx context.Context, c Cell) Outcome {
		if broken && c.System == SystemAsync && c.On == OnSim && c.Seed == 2 {
			panic("planted")
		}
		return pretend(ctx, c)
	}
	r := runInto(t, out, 2, evaluate)
	if got := r.Failures(); got != 8*3 {
		t.Errorf("%d failures, want those of one seed of async in 24 points", got)
	}
	log, err := os.ReadFile(filepath.Join(out, RunLog))
	if err != nil || !strings.Contains(string(log), "run_test.go") {
		t.Errorf("the log lacks the stack: %v", err)
	}
	broken = false
	if r = runInto(t, out, 2, evaluate); r.Failures() != 0 || r.Ran != 3 {
		t.Errorf("the next run made %d evaluations with %d failures, want the 3 broken ones again", r.Ran, r.Failures())
	}
}

func TestJSON(t *testing.T) {
	r := runInto(t, "", 1, pretend, "workload.concurrency=4", "models.large.B=3", "workload.output_tokens={min=5,max=9}")
	var got map[string]any
	if err := json.Unmarshal(r.JSON(1), &got); err != nil {
		t.Fatalf("%v in %s", err, r.JSON(1))
	}
	settings := got["settings"].(map[string]any)
	for path, want := range map[string]any{
		"models.large.B": 3.0, "routing.matrix": []any{[]any{0.9, 0.1}, []any{1.0, 0.0}}, "home": "small",
		"workload.output_tokens": map[string]any{"min": 5.0, "max": 9.0}, "models.small.gpus": []any{0.0},
	} {
		if diff := cmp.Diff(want, settings[path]); diff != "" {
			t.Errorf("settings.%s: %s", path, diff)
		}
	}
	delete(got, "settings")
	none := map[string]any{"mean": nil, "p50": nil, "p95": nil, "p99": nil}
	both := map[string]any{"small": nil, "large": nil}
	want := map[string]any{
		"experiment": "x", "system": "tokenrouter", "on": "sim", "seed": 1.0, "status": "ok",
		"throughput_tok_per_s": 300.25, "per_user_tok_per_s": nil,
		"ttft_ms": none, "tpot_ms": none, "itl_ms": none, "e2e_ms": none,
		"mean_batch": map[string]any{"small": 1.5, "large": nil}, "utilisation": both, "b_in_force": both,
		"waiting_ms_by_cause": map[string]any{"step": nil, "threshold": nil, "kv": nil, "peer": nil, "admission": nil},
		"large_token_share":   nil, "throughput_rel_se": nil, "tokens": 7.0, "requests": nil, "aborted": nil, "goodput_req_per_s": nil, "good_request_share": nil, "gpu_s_per_1k_tok": nil, "version": "v0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// lockstep by the chain: no figures, but the same members and the reason.
	last := string(r.JSON(12))
	if !strings.Contains(last, `"on":"dtmc","seed":null,"status":"not applicable","reason":"not here"`) || !strings.Contains(last, `"throughput_tok_per_s":null`) {
		t.Errorf("got %s", last)
	}
}

// The mean of 1, 2 and 4 is 7/3, their deviation 1.5275, and Student's t for two
// degrees of freedom 4.3027: half width 3.7946.
func TestIntervals(t *testing.T) {
	for _, c := range []struct{ x, want []float64 }{
		{nil, []float64{math.NaN(), math.NaN()}},
		{[]float64{5}, []float64{5, math.NaN()}},
		{[]float64{1, 2, 4}, []float64{7.0 / 3, 3.79457}},
	} {
		mean, half := interval(c.x)
		if diff := cmp.Diff(c.want, []float64{mean, half}, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-4)); diff != "" {
			t.Errorf("%v: %s", c.x, diff)
		}
	}
}

func TestCSV(t *testing.T) {
	r := runInto(t, "", 1, pretend, "systems=tokenrouter,lockstep", "sweep.workload.concurrency=[8]", "sweep.models.large.B=[1,4]")
	lines := strings.Split(strings.TrimSpace(string(r.CSV())), "\n")
	var got []string
	for _, line := range lines {
		got = append(got, strings.Join(strings.Split(line, ",")[:10], ","))
	}
	want := []string{
		"experiment,system,on,status,reason,seeds,models.large.B,workload.concurrency,throughput_tok_per_s,throughput_tok_per_s_ci95",
		"x,tokenrouter,dtmc,ok,,1,1,8,100.33333333333333,",
		"x,tokenrouter,sim,ok,,3,1,8,100.20555555555556,0.1041",
		"x,lockstep,dtmc,not applicable,not here,1,1,8,,",
		"x,lockstep,sim,ok,,3,1,8,100.20555555555556,0.1041",
		"x,tokenrouter,dtmc,ok,,1,4,8,400.3333333333333,",
		"x,tokenrouter,sim,ok,,3,4,8,400.2055555555556,0.1041",
		"x,lockstep,dtmc,not applicable,not here,1,4,8,,",
		"x,lockstep,sim,ok,,3,4,8,100.20555555555556,0.1041",
	}
	for i := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("line %d:\n%v\nwant\n%s", i+1, got, want[i])
			break
		}
	}
}

// Two evaluators, one truth: the fit of the published ablation, for which an
// independent simulation gave these figures.
func TestEvaluatorsAgreeOnTheFit(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand simulated seconds take minutes under the race detector")
	}
	const src = `question = "q"
systems = ["tokenrouter", "async", "alternate", "lockstep", "single:large"]
[[models]]
name = "small"
step_ms = { base = 4.0, per_request = 0.05 }
[[models]]
name = "large"
step_ms = { base = 32.0, per_request = 0.1 }
B = 7
[routing]
matrix = [[0.6, 0.4], [1.0, 0.0]]
`
	r, err := Run(t.Context(), load(t, src), Options{Evaluate: Evaluate})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		SystemTokenRouter: 374, SystemAsync: 304, SystemAlternate: 221, SystemLockstep: 188,
		"single:large": 8 / 0.0328,
	}
	for i, c := range r.Plan.Cells {
		record := r.Records[i]
		if record.Status != StatusOK {
			t.Errorf("%s on %s: %s: %s", c.System, c.On, record.Status, record.Reason)
			continue
		}
		if got := record.Values[0]; math.Abs(got/want[c.System]-1) > 0.03 {
			t.Errorf("%s on %s: %.1f token/s, want %.0f within 3 %%", c.System, c.On, got, want[c.System])
		}
	}
}
