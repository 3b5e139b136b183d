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
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tokenrouter/tokenrouter/internal/workload"
	"github.com/tokenrouter/tokenrouter/scheduler"
	"github.com/tokenrouter/tokenrouter/sim"
)

// open is a correct file to spoil: one small model under Poisson arrivals of
// two classes.
const open = `question = "q"
on = ["sim"]
[[models]]
name = "small"
step_ms.base = 4
[workload]
kind = "poisson"
rate_per_s = 2
requests = 40
prefix = { tokens = 32, distinct = 2 }
[workload.limits]
ttft_ms = 300
[[workload.classes]]
name = "chat"
output_tokens = { mean = 200, cv = 1.5, max = 900 }
[[workload.classes]]
name = "agent"
share = 0.5
lengths = "swe-smith"
tpot_ms = 30
`

const traceHeader = "arrived_at,num_prefill_tokens,num_decode_tokens\n"

// openRules spoils it one way at a time.
var openRules = []struct {
	name, old, new string
	set            []string
	want           string
}{
	{"no rate", "rate_per_s = 2", "", nil, "x.toml:6: workload.rate_per_s: is missing: kind \"poisson\" needs it\n  fix: for example rate_per_s = 2.0"},
	{"no rate of bursts", "rate_per_s = 2", "", []string{"workload.kind=bursty"}, "x.toml:6: workload.rate_per_s: is missing: kind \"bursty\" needs it"},
	{"no trace", "rate_per_s = 2", "", []string{"workload.kind=trace"}, "x.toml:6: workload.trace: is missing: kind \"trace\" needs it\n  fix: trace = \"requests.csv\", beside this file"},
	{"users", "rate_per_s = 2", "rate_per_s = 2\nconcurrency = 3", nil,
		"x.toml:9: workload.concurrency: has no meaning for kind \"poisson\"\n  fix: remove it, or write kind = \"steady\""},
	{"bursts", "rate_per_s = 2", "rate_per_s = 2\nburst_requests = 3", nil,
		"x.toml:9: workload.burst_requests: has no meaning for kind \"poisson\"\n  fix: remove it, or write kind = \"bursty\""},
	{"infeasible bursts", `kind = "poisson"`, "kind = \"bursty\"\narrival_cv = 3\nburst_requests = 4", nil,
		"x.toml:8: workload.arrival_cv: 3 cannot be reached by bursts of 4 requests: even with gaps of 0 inside a burst it is 2.646\n  fix: raise burst_requests to 5 or more"},
	{"two ends", "requests = 40", "requests = 40\nduration_s = 9", nil,
		"x.toml:10: workload.duration_s: the run would have two ends: workload.requests and this\n  fix: remove one of them"},
	{"lengths", "requests = 40", "requests = 40\nlengths = 'aime-lo'", nil,
		"x.toml:10: workload.lengths: \"aime-lo\" is not known\n  fix: did you mean aime-low?, or a .csv file"},
	{"lengths twice", "requests = 40", "requests = 40\nlengths = 'aime-low'\nprompt_tokens = 3", nil,
		"x.toml:11: workload.prompt_tokens: lengths are given twice: by workload.lengths and this\n  fix: remove one of them"},
	{"prefix", "prefix = { tokens = 32, distinct = 2 }", "prefix = { distinct = 2 }", nil,
		"x.toml:10: workload.prefix.distinct: means nothing without workload.prefix.tokens\n  fix: for example tokens = 512"},
	{"kv below the longest prompt", "step_ms.base = 4", "step_ms.base = 4\nkv_tokens = 16000", nil,
		"x.toml:6: models.small.kv_tokens: must hold a prompt of 16384 tokens and one more, got 16000 in blocks of 16"},
	{"script", `kind = "poisson"`, `kind = "script"`, nil,
		"x.toml:12: workload.limits.ttft_ms: has no meaning for kind \"script\"\n  fix: remove it"},
	{"no such file", "requests = 40", "requests = 40\nlengths = 'none.csv'", nil,
		"x.toml:10: workload.lengths: cannot open none.csv: no such file or directory\n  fix: the name is relative to the experiment file; on the command line, to the current folder"},
	{"class sweep", "[workload.limits]", "[sweep]\n'workload.classes' = [[{ name = 'a' }]]\n[workload.limits]", nil,
		"x.toml:12: sweep.\"workload.classes\": cannot be swept"},

	{"lognormal without end", "max = 900 }", "}", nil, "x.toml:15: workload.classes[0].output_tokens: lacks max\n  fix: write { mean = 800, cv = 1.2, max = 8192 }"},
	{"lognormal key", "max = 900 }", "max = 900, maxx = 3 }", nil, "x.toml:15: workload.classes[0].output_tokens.maxx: unknown key\n  fix: did you mean max?"},
	{"lognormal bounds", "max = 900 }", "max = 900, min = 901 }", nil, "x.toml:15: workload.classes[0].output_tokens: min 901 is more than max 900\n  fix: swap them"},
	{"lognormal spread", "cv = 1.5", "cv = -1.5", nil, "x.toml:15: workload.classes[0].output_tokens.cv: must be at least 0, got -1.5"},
	{"histogram", "{ mean = 200, cv = 1.5, max = 900 }", "{ bounds = [1, 5, 4], weights = [1, 1] }", nil,
		"x.toml:15: workload.classes[0].output_tokens: bounds must rise, got 4 after 5"},
	{"histogram weights", "{ mean = 200, cv = 1.5, max = 900 }", "{ bounds = [1, 5], weights = 1 }", nil,
		"x.toml:15: workload.classes[0].output_tokens.weights: must be an array of numbers, got 1\n  fix: write [1]"},
	{"two of a name", `name = "agent"`, `name = "chat"`, nil, "x.toml:17: workload.classes[1].name: two classes are named \"chat\""},
	{"no name", `name = "agent"`, "", nil, "x.toml:16: workload.classes[1].name: is missing\n  fix: name = \"chat\""},
	{"bad name", `name = "agent"`, `name = "a.b"`, nil, "x.toml:17: workload.classes[1].name: must be letters, digits, - and _ only, got \"a.b\""},
	{"class lengths twice", `lengths = "swe-smith"`, "lengths = 'swe-smith'\nprompt_tokens = 5", nil,
		"x.toml:20: workload.classes[1].prompt_tokens: lengths are given twice: by lengths and this\n  fix: remove one of them"},
	{"class lengths", `lengths = "swe-smith"`, "lengths = 'swe'", nil, "x.toml:19: workload.classes[1].lengths: \"swe\" is not known"},
}

func TestRulesOfOpenWorkloads(t *testing.T) {
	for _, test := range openRules {
		t.Run(test.name, func(t *testing.T) {
			if !strings.Contains(open, test.old) {
				t.Fatalf("the file lacks %q", test.old)
			}
			_, err := Load("x.toml", []byte(strings.Replace(open, test.old, test.new, 1)), test.set...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got\n%v\nwant\n%s", err, test.want)
			}
		})
	}
}

// Each key of a class: of the wrong type, out of range, misspelt.
func TestEveryKeyOfAClassIsChecked(t *testing.T) {
	for i := range classKeys {
		k := &classKeys[i]
		src := func(line string) string {
			return strings.Replace(open, "name = \"agent\"\nshare = 0.5\nlengths = \"swe-smith\"\ntpot_ms = 30\n", "name = \"agent\"\n"+line+"\n", 1)
		}
		row := strings.Count(src("XX")[:strings.Index(src("XX"), "XX")], "\n") + 1
		at := "workload.classes[1]."
		for _, v := range append(wrongTypes(k), outside(k)...) {
			text := src(k.path + " = " + v)
			if k.path == "name" {
				text = strings.Replace(text, "name = \"agent\"\n", "\n", 1)
			}
			_, err := Load("x.toml", []byte(text))
			var first *SpecError
			if !errors.As(err, &first) || first.Line != row || !strings.HasPrefix(first.Path, at+k.path) {
				t.Errorf("%s = %s: want an error on line %d about %s, got %v", k.path, v, row, at+k.path, err)
			}
		}
		_, err := Load("x.toml", []byte(src(k.path+"x = 1")))
		if want := fmt.Sprintf("x.toml:%d: %s%sx: unknown key\n  fix: did you mean %s", row, at, k.path, k.path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	listed := 0
	for _, info := range Keys() {
		if strings.HasPrefix(info.Path, "workload.classes.") {
			listed++
		}
	}
	if listed != len(classKeys) {
		t.Errorf("%d keys of a class are listed, want %d", listed, len(classKeys))
	}
}

func TestOpenSpec(t *testing.T) {
	w := load(t, open, "systems=single:small").Points[0].Spec.Workload
	smith, _ := workload.FindLengths("swe-smith")
	want := Workload{Kind: KindPoisson, Requests: 40, PromptTokens: workload.Fixed(100), OutputTokens: workload.Lognormal(200, 1.5, 1, 900),
		Arrivals: workload.Arrivals{Process: workload.Poisson, RatePerS: 2},
		Mix: &workload.Mix{
			Classes: []workload.Class{
				{Name: "chat", Share: 1, Lengths: workload.Lengths{Prompt: workload.Fixed(100), Output: workload.Lognormal(200, 1.5, 1, 900)}, Limits: workload.Limits{TTFTMs: 300}},
				{Name: "agent", Share: 0.5, Lengths: smith.Lengths, Limits: workload.Limits{TTFTMs: 300, TPOTMs: 30}},
			},
			Prefix: workload.Prefix{Share: 1, Distinct: 2, Tokens: 32},
		},
		Assumed: []string{"swe-smith: " + smith.About + "."},
	}
	if diff := cmp.Diff(want, w); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Settings read back as what they are.
	for _, s := range load(t, open, "systems=single:small").Points[0].Settings {
		if s.Path != "workload.classes" {
			continue
		}
		again := strings.Replace(open[:strings.Index(open, "[workload.limits]")], "requests = 40", "requests = 40\nlimits.ttft_ms = 300\nclasses = "+s.Text(), 1)
		if diff := cmp.Diff(want, load(t, again, "systems=single:small").Points[0].Spec.Workload); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.Text(), diff)
		}
		if json := string(s.JSON()); !strings.HasPrefix(json, `[{"name":"chat","share":1,"output_tokens":{"mean":200,`) {
			t.Errorf("JSON is %s", json)
		}
	}
}

// An idle model waits ten of its own steps where requests come by themselves,
// for ever in a closed workload, and as long as it is told otherwise.
func TestDelaysByWorkload(t *testing.T) {
	const pair = `question = "q"
[[models]]
name = "small"
step_ms = { base = 4.0, per_request = 0.5 }
[[models]]
name = "large"
step_ms.base = 32
[routing]
matrix = [[0.9, 0.1], [1.0, 0.0]]
[workload]
`
	for _, c := range []struct {
		workload     string
		set          []string
		small, large scheduler.Rule
		all          scheduler.Rule
	}{
		{"kind = 'poisson'\nrate_per_s = 1", nil, scheduler.Delayed{MaxDelayNs: 45e6}, scheduler.Delayed{MaxDelayNs: 320e6}, scheduler.Delayed{}},
		{"kind = 'poisson'\nrate_per_s = 1", []string{"scheduler.max_delay_ms=7"}, nil, nil, scheduler.Delayed{MaxDelayNs: 7e6}},
		{"kind = 'poisson'\nrate_per_s = 1", []string{"scheduler.max_delay_ms=0"}, nil, nil, scheduler.Delayed{}},
		{"kind = 'closed'", nil, nil, nil, scheduler.Delayed{}},
		{"", nil, nil, nil, scheduler.Delayed{}},
	} {
		config := simOf(t, load(t, pair+c.workload, append(c.set, "systems=tokenrouter", "on=sim")...))
		if config.Rule != c.all || config.Models[0].Rule != c.small || config.Models[1].Rule != c.large {
			t.Errorf("%q %v: %v, %v and %v", c.workload, c.set, config.Rule, config.Models[0].Rule, config.Models[1].Rule)
		}
	}
}

func simOf(t *testing.T, p *Plan) sim.Config {
	t.Helper()
	config, err := SimConfig(p.Cells[0])
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestTraceBesideTheExperiment(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("load.csv", traceHeader+"5,100,3\n5.5,200,4\n")
	file := filepath.Join(dir, "x.toml")
	const src = "question = 'q'\non = ['sim']\nsystems = ['single:a']\n[[models]]\nname = 'a'\nstep_ms.base = 4\nkv_tokens = 160\n[workload]\nkind = 'trace'\ntrace = 'load.csv'\nrepeat = 3\n"
	plan, err := Load(file, []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	w := plan.Points[0].Spec.Workload
	if w.WarmupS != 0 || w.DurationS != 0 || w.Arrivals.Trace.Len() != 2 || w.PromptTokens.Mean() != 150 || w.Digest == "" {
		t.Errorf("got %+v", w)
	}
	results, err := Run(context.Background(), plan, Options{Evaluate: Evaluate})
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string) float64 {
		for i, f := range results.Figures {
			if f.Name == name {
				return results.Records[0].Values[i]
			}
		}
		t.Fatalf("no figure %s", name)
		return 0
	}
	// The prompt of 200 is beyond the pool and refused; the other is alone.
	if value("requests") != 3 || value("aborted") != 3 || value("tokens") != 9 || value("e2e_ms.mean") != 12 || !math.IsNaN(value("goodput_req_per_s")) {
		t.Errorf("%v", results.Records[0].Values)
	}
	key := plan.Cells[0].Key()
	write("load.csv", traceHeader+"5,100,3\n5.5,200,5\n")
	if plan, err = Load(file, []byte(src)); err != nil || plan.Cells[0].Key() == key {
		t.Errorf("another trace of the same name has the same key (%v)", err)
	}
	write("load.csv", traceHeader+"5,100,3\n4,200,5\n")
	_, err = Load(file, []byte(src))
	want := filepath.Join(dir, "load.csv") + ":3: arrived_at: 4 comes after 5"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	for name, want := range map[string]string{
		"none.csv": file + ":10: workload.trace: cannot open " + filepath.Join(dir, "none.csv") + ": no such file or directory",
		".":        file + ":10: workload.trace: " + dir + " is not a file",
	} {
		if _, err := Load(file, []byte(strings.Replace(src, "load.csv", name, 1))); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	// What comes from the command line is relative to the current folder.
	if _, err := Load(file, []byte(src), "workload.trace=load.csv"); err == nil || !strings.Contains(err.Error(), "cannot open load.csv") {
		t.Errorf("got %v", err)
	}
	write("lengths.csv", "num_prefill_tokens,num_decode_tokens\n7,8\n")
	closed := strings.Replace(src, "kind = 'trace'\ntrace = 'load.csv'\nrepeat = 3", "kind = 'closed'\nlengths = 'lengths.csv'", 1)
	if plan, err := Load(file, []byte(closed)); err != nil || plan.Points[0].Spec.Workload.Mix.Classes[0].Lengths.Output.Max != 8 {
		t.Errorf("got %v", err)
	}
}

// All names that a class brings are columns, and the GPUs that models share
// count once.
func TestFiguresOfClasses(t *testing.T) {
	plan := load(t, open, "systems=single:small", "seeds=[3]")
	results, err := Run(context.Background(), plan, Options{Evaluate: Evaluate})
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(results.CSV()), "\n")
	for _, column := range []string{"goodput_req_per_s", "good_request_share", "gpu_s_per_1k_tok", "class_chat_ttft_p99_ms", "class_agent_good_request_share"} {
		if !strings.Contains(head, ","+column+",") {
			t.Errorf("results.csv lacks %s", column)
		}
	}
	values := map[string]float64{}
	for i, f := range results.Figures {
		values[f.Name] = results.Records[0].Values[i]
	}
	if sum := values["class_chat.requests"] + values["class_agent.requests"]; sum != 40 || values["requests"] != 40 {
		t.Errorf("%g requests of classes, want 40", sum)
	}
	want := 1000 / values["throughput_tok_per_s"]
	if diff := cmp.Diff(want, values["gpu_s_per_1k_tok"], cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Errorf("GPU-seconds: %s", diff)
	}
	if n := gpusOf([]Model{{GPUs: []int{0, 1}}, {GPUs: []int{1, 2}}}); n != 3 {
		t.Errorf("%d GPUs, want 3", n)
	}
}

// A length of any form reads back from its own text.
func TestLengthsReadBack(t *testing.T) {
	for _, l := range []Length{
		workload.Fixed(7), workload.Uniform(3, 900), workload.Lognormal(800.5, 1.25, 1, 8192), workload.Lognormal(100, 0, 20, 400),
		workload.Histogram([]int{1, 512, 2048}, []float64{3, 0.5}),
	} {
		plan := load(t, open, "systems=single:small", "workload.prompt_tokens="+lengthText(l))
		if diff := cmp.Diff(l, plan.Points[0].Spec.Workload.PromptTokens); diff != "" {
			t.Errorf("%s (-want +got):\n%s", lengthText(l), diff)
		}
		var back any
		if err := json.Unmarshal(lengthJSON(l), &back); err != nil {
			t.Errorf("%s: %v", lengthJSON(l), err)
		}
	}
}

func TestWarmUpBeyondTheEnd(t *testing.T) {
	r, err := Run(context.Background(), load(t, open, "systems=single:small", "workload.warmup_s=5000"), Options{Evaluate: Evaluate})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Records[0]; got.Status != StatusError || !strings.Contains(got.Reason, "before warm-up did: lower workload.warmup_s") {
		t.Errorf("%s: %s", got.Status, got.Reason)
	}
}
