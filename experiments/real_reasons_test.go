package experiments

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tokenrouter/tokenrouter/internal/metrics"
)

// What a place in real time cannot show, it says.
func TestRealReasons(t *testing.T) {
	const closed = "kind = \"closed\"\noutput_tokens = 5\nprompt_tokens = 5"
	for _, c := range []struct{ workload, system, on, set, want string }{
		{"", "tokenrouter", "paced", "handoff.ms=1", "handoff.ms = 0"},
		{"", "query-level", "paced", "seeds=[1]", "workload.kind closed, not steady"},
		{"", "std-serving", "cpu", "seeds=[1]", "workload.kind closed, not steady"},
		{"", "official", "paced", "official.visits=reread", "workload.kind closed, not steady"},
		{closed, "official", "paced", "seeds=[1]", "a static batch takes in who is there at one instant"},
		{"", "official", "cpu", "seeds=[1]", "published code runs without CUDA graphs"},
	} {
		plan, err := Load("x.toml", []byte(pacedFile+c.workload), "systems="+c.system, "on="+c.on, c.set,
			"models.small.cpu.model=toy:qwen3", "models.large.cpu.model=toy:llama")
		if err != nil {
			t.Fatal(err)
		}
		o := Evaluate(t.Context(), plan.Cells[0])
		if o.Status != StatusNotApplicable || !strings.Contains(o.Reason, c.want) {
			t.Errorf("%s on %s: %s %q, want %q", c.system, c.on, o.Status, o.Reason, c.want)
		}
	}
}

// Models run without step times; what needs them says where to get them.
func TestUntimedModels(t *testing.T) {
	src := `question = "q"
on = ["dtmc", "sim", "paced", "cpu"]
models = [{ name = "small", cpu.model = "toy:qwen3" }, { name = "large", cpu.model = "toy:llama" }]
[routing]
matrix = [[0.8, 0.2], [1.0, 0.0]]
[workload]
concurrency = 3
prompt_tokens = 4
output_tokens = 8
[measure]
duration_s = 0.4
warmup_s = 0.1
`
	plan, err := Load("x.toml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	if plan.Timed() {
		t.Error("the plan says that its models have step times")
	}
	for _, cell := range plan.Cells[:3] {
		if o := Evaluate(t.Context(), cell); o.Status != StatusNotApplicable || !strings.Contains(o.Reason, "tokenrouter validate") {
			t.Errorf("on %s: %s %s", cell.On, o.Status, o.Reason)
		}
	}
	o := Evaluate(t.Context(), plan.Cells[3])
	if o.Status != StatusOK || o.Summary.Tokens < 10 || o.Large != 1 {
		t.Fatalf("on cpu: %s %s, %d tokens", o.Status, o.Reason, o.Summary.Tokens)
	}
	if share := o.Summary.TokenShare[1]; share < 0.05 || share > 0.4 {
		t.Errorf("the large model wrote %.3g of the tokens, want about 1/6", share)
	}
	if !slices.ContainsFunc(o.Warnings, func(w Warning) bool { return strings.HasPrefix(w.String(), "on cpu a steady request") }) {
		t.Errorf("warnings: %v", o.Warnings)
	}
}

// Signals of real models route on cpu, and standard serving sees them too.
func TestSignalsOnCPU(t *testing.T) {
	src := `question = "q"
on = ["cpu"]
systems = ["tokenrouter", "std-serving"]
models = [{ name = "small", cpu.model = "toy:qwen3" }, { name = "large", cpu.model = "toy:llama" }]
[routing]
algorithm = "confidence"
threshold = 0.4
[workload]
kind = "closed"
concurrency = 2
requests = 6
prompt_tokens = { min = 3, max = 9 }
output_tokens = 12
[dispatcher]
ms = 0.0
ms_per_1k_tokens = 0.0
`
	plan, err := Load("x.toml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	var shares []float64
	for _, cell := range plan.Cells {
		o := Evaluate(t.Context(), cell)
		if o.Status != StatusOK || o.Summary.Requests != 6 || o.Summary.Tokens != 6*12 {
			t.Fatalf("%s: %s %s, %d requests, %d tokens", cell.System, o.Status, o.Reason, o.Summary.Requests, o.Summary.Tokens)
		}
		shares = append(shares, o.Summary.TokenShare[1])
	}
	if shares[0] != shares[1] || shares[0] == 0 || shares[0] == 1 {
		t.Errorf("the large model wrote %v of the tokens: want the same share of both systems, and not all or none", shares)
	}
}

// A pool that the machine cannot hold is refused before it is made.
func TestKVBeyondMemory(t *testing.T) {
	_, err := Load("x.toml", []byte(pacedFile), "on=cpu", "models.small.cpu.model=random:qwen3-58m", "models.large.cpu.model=random:qwen3-58m",
		"models.small.cpu.kv_tokens=1000000000")
	if err == nil || !strings.Contains(err.Error(), "models.small.cpu.kv_tokens: no memory for random:qwen3-58m: it takes 16384.0 GB of KV") {
		t.Error(err)
	}
}

// Cells in real time run one by one, after all others.
func TestMeasuredCellsRunAlone(t *testing.T) {
	plan, err := Load("x.toml", []byte(pacedFile), "on=paced,sim,dtmc", "seeds=[1, 2, 3]", "sweep.models.large.B=[1, 2]")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	running, measured := 0, 0
	r, err := Run(t.Context(), plan, Options{Workers: 4, Evaluate: func(_ context.Context, c Cell) Outcome {
		mu.Lock()
		running++
		if IsReal(c.On) {
			measured++
		}
		if IsReal(c.On) && running > 1 || !IsReal(c.On) && measured > 0 {
			t.Errorf("%s runs beside %d others, after %d measured ones", c.On, running-1, measured)
		}
		mu.Unlock()
		defer func() {
			mu.Lock()
			running--
			mu.Unlock()
		}()
		return Outcome{Status: StatusOK, Summary: unobserved(), OverheadUs: metrics.Quantiles{P50: 7, P99: 9}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if measured != 6 {
		t.Errorf("%d measured runs, want 6", measured)
	}
	for i, c := range plan.Cells {
		line := string(r.JSON(i))
		if strings.Contains(line, `"measured":true`) != IsReal(c.On) || !strings.Contains(line, `"overhead_us":{"p50":7,"p99":9}`) {
			t.Errorf("on %s: %s", c.On, line)
		}
	}
	if !strings.Contains(string(r.CSV()), "overhead_p50_us,") {
		t.Error("results.csv lacks the overhead")
	}
}

// A plan that gains a place in real time keeps what it has found elsewhere.
func TestResultsOutliveAnotherPlace(t *testing.T) {
	dir := t.TempDir()
	ran := func(on string) (n int) {
		plan, err := Load("x.toml", []byte(pacedFile), "on="+on)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), plan, Options{Out: dir, Evaluate: func(context.Context, Cell) Outcome {
			return Outcome{Status: StatusOK, Summary: unobserved()}
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range r.Records {
			if len(record.Values) != len(r.Figures) {
				t.Errorf("%d values for %d figures", len(record.Values), len(r.Figures))
			}
		}
		return r.Ran
	}
	for i, c := range []struct {
		on   string
		want int
	}{{"dtmc,sim", 2}, {"dtmc,sim,paced", 1}, {"dtmc,sim,paced", 0}, {"dtmc,sim", 0}} {
		if got := ran(c.on); got != c.want {
			t.Errorf("run %d: %d evaluations, want %d", i, got, c.want)
		}
	}
}

// The keys of models that run here are checked against each other and the files.
func TestCPUModelRules(t *testing.T) {
	empty := t.TempDir()
	if err := os.WriteFile(filepath.Join(empty, "config.json"), []byte(`{"model_type": "bert"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ set, want string }{
		{"on=cpu", "models.small: lacks cpu.model, which it needs to run on cpu\n  fix: cpu.model = \"toy:qwen3\""},
		{"models.small.cpu.threads=2", "--set: models.small.cpu.threads: means nothing without cpu.model"},
		{"models.small.cpu.model=toy:qwen", `--set: models.small.cpu.model: there is no toy "qwen"; use toy:qwen3 or toy:llama`},
		{"models.small.cpu.model=random:qwen3-0.6", "did you mean random:qwen3-0.6b"},
		{"models.small.cpu.model=nowhere", "nowhere: no such file or directory"},
		{"models.small.cpu.model=" + empty, `model_type is "bert"`},
		{"measure.warmup_s=30", "x.toml:12: measure.duration_s: must be more than warmup_s 30, got 20"},
	} {
		_, err := Load("x.toml", []byte(pacedFile), c.set)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("--set %s: %v, want %q", c.set, err, c.want)
		}
	}
}

// A model's own factor goes before the one for all, in one direction only.
func TestOwnFactors(t *testing.T) {
	plan, err := Load("x.toml", []byte(pacedFile), "models.small.gpus=[0]", "models.large.gpus=[0]",
		"models.small.colocation_factor=1.5", "colocation.factor=1.2")
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSetup(plan.Cells[0])
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.interference()); got != "[[1 1.5] [1.2 1]]" {
		t.Errorf("factors %s", got)
	}
}
