package experiments

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// small is a correct file to spoil: two models, nothing swept.
const small = `question = "q"
[[models]]
name = "small"
step_ms.base = 4
[[models]]
name = "large"
step_ms = { base = 32.0, per_request = 0.1 }
B = 4
[routing]
matrix = [[0.9, 0.1],
          [1.0, 0.0]]
[workload]
concurrency = 8
duration_s = 600
[sweep]
"workload.warmup_s" = [1, 60]
`

// rules spoils the small file, or sets over it, one way at a time.
var rules = []struct {
	name, old, new string
	set            []string
	want           string // how the error begins
}{
	{"row sum", "[1.0, 0.0]", "[0.9, 0.2]", nil,
		"x.toml:11: routing.matrix[1]: must sum to 1, got 1.1\n  fix: for example 0.1 as the chance to stay at large"},
	{"rows", "[[0.9, 0.1],", "[[0.9, 0.1], [1, 0],", nil,
		"x.toml:10: routing.matrix: must have one row for each of 2 models, got 3 rows"},
	{"entries", "[1.0, 0.0]", "[1.0]", nil,
		"x.toml:11: routing.matrix[1]: must have one entry for each of 2 models, got 1"},
	{"entry", "[1.0, 0.0]", "[1.5, -0.5]", nil,
		"x.toml:11: routing.matrix[1][0]: must be at most 1, got 1.5\nx.toml:11: routing.matrix[1][1]: must be between 0 and 1, got -0.5"},
	{"no matrix", "matrix = [[0.9, 0.1],\n          [1.0, 0.0]]", "", nil,
		"x.toml:9: routing.matrix: is missing; give one row per model, like [[0.9, 0.1], [1.0, 0.0]]"},
	{"B", "B = 4", "B = 0", nil, "x.toml:8: models.large.B: must be at least 1, got 0"},
	{"B table", "B = 4", "B = [\n1,\n0]", nil, "x.toml:10: models.large.B[1]: must be at least 1, got 0"},
	{"no step time", "step_ms.base = 4", "", nil,
		"x.toml:2: models.small: lacks its step times\n  fix: give a profile, step_ms = { base = 4.0, per_request = 0.05 } or roofline = { gpu = \"h200\", config = \"qwen3-8b\" }"},
	{"two step times", "B = 4", "profile = 'a100-80gb/sglang-0.5.10/qwen3-32b-tp2'", nil,
		"x.toml:8: models.large.profile: step times are given twice: profile and step_ms\n  fix: remove one of them"},
	{"no time", "step_ms.base = 4", "step_ms.base = 0", nil,
		"x.toml:4: models.small.step_ms: a step must last at least 1 ns, got 0 ms\n  fix: raise base"},
	{"chunk", "B = 4", "chunk_tokens = 256", nil,
		"x.toml:8: models.large.chunk_tokens: must be more than max_running 256, so that prefill gets on beside a full batch, got 256\n  fix: at least 257, or lower max_running"},
	{"kv below block", "B = 4", "kv_tokens = 8", nil,
		"x.toml:8: models.large.kv_tokens: must hold at least one block of 16 tokens, got 8"},
	{"kv below prompt", "B = 4", "kv_tokens = 111", nil,
		"x.toml:8: models.large.kv_tokens: must hold a prompt of 100 tokens and one more, got 111 in blocks of 16\n  fix: raise it, or shorten workload.prompt_tokens"},
	{"steady users", "B = 4", "max_running = 7", nil,
		"x.toml:8: models.large.max_running: must be at least workload.concurrency 8, since steady requests all run, got 7\n  fix: raise it to 8"},
	{"steady kv", "B = 4", "kv_tokens = 9071", nil, // 8 requests of 1124 tokens take 71 blocks each
		"x.toml:8: models.large.kv_tokens: must hold 8 steady requests of 1124 tokens each, got 9071"},
	{"gpu twice", "B = 4", "gpus = [1, 0,\n1]", nil, "x.toml:9: models.large.gpus[2]: GPU 1 is given twice"},
	{"too few gpus", "step_ms = { base = 32.0, per_request = 0.1 }\nB = 4", "profile = 'a100-80gb/sglang-0.5.10/qwen3-32b-tp4'\ngpus = [2]", nil,
		"x.toml:8: models.large.gpus: names 1 GPU, and profile a100-80gb/sglang-0.5.10/qwen3-32b-tp4 holds for a model split over 4 GPUs (tp = 4)\n  fix: [2, 3, 4, 5], or leave gpus out, or choose another profile"},
	{"too many gpus", "step_ms = { base = 32.0, per_request = 0.1 }\nB = 4", "roofline = { gpu = 'h200', config = 'qwen3-8b' }\ngpus = [1, 2]", nil,
		"x.toml:8: models.large.gpus: names 2 GPUs, and its roofline holds for a model split over 1 GPU (tp = 1)\n  fix: [1], or leave gpus out, or choose another roofline.tp"},
	{"warm-up", "duration_s = 600", "duration_s = 60", nil,
		"x.toml:14: workload.duration_s: must be more than warmup_s 60, got 60\n  fix: lower warmup_s or raise duration_s"},
	{"requests", "duration_s = 600", "requests = 5", nil,
		"x.toml:14: workload.requests: has no meaning for kind \"steady\", whose requests are not counted\n  fix: remove it, or write kind = \"closed\""},
	{"two ends", "duration_s = 600", "kind = 'closed'\nrequests = 5\nduration_s = 600", nil,
		"x.toml:16: workload.duration_s: the run would have two ends: workload.requests and this\n  fix: remove one of them"},
	{"home", `question = "q"`, "question = 'q'\nhome = 'smal'", nil,
		"x.toml:2: home: \"smal\" is not known\n  fix: did you mean small?"},
	{"single", `question = "q"`, "question = 'q'\nsystems = ['async',\n'single:larg']", nil,
		"x.toml:3: systems[1]: \"single:larg\" is not known\n  fix: did you mean single:large or single:small?"},
	{"profile", "step_ms.base = 4", "profile = 'a100-80gb/sglang-0.5.10/qwen3-0.6-tp1'", nil,
		"x.toml:4: models.small.profile: \"a100-80gb/sglang-0.5.10/qwen3-0.6-tp1\" is not known\n  fix: did you mean a100-80gb/sglang-0.5.10/qwen3-0.6b-tp1"},
	{"two of a name", `name = "large"`, `name = "small"`, nil,
		"x.toml:6: models[1].name: two models are named \"small\""},
	{"no name", `name = "large"`, ``, nil, "x.toml:5: models[1].name: is missing\n  fix: name = \"small\""},
	{"bad name", `name = "large"`, `name = "a.b"`, nil,
		"x.toml:6: models[1].name: must be letters, digits, - and _ only, got \"a.b\""},
	{"no question", `question = "q"`, ``, nil, "x.toml:1: question: is missing"},
	{"one models table", "[[models]]\nname = \"small\"\nstep_ms.base = 4\n[[models]]", "[models]", nil,
		"x.toml:2: models: must be an array of tables\n  fix: start each model with [[models]]"},
	{"misplaced", "[workload]", "[workload]\nkv_tokens = 3", nil,
		"x.toml:13: workload.kv_tokens: unknown key\n  fix: it belongs to a model, below [[models]]"},
	{"unknown table", "[workload]", "[workloads]", nil,
		"x.toml:12: workloads: unknown key\n  fix: did you mean workload?"},
	{"no table", "[workload]\nconcurrency = 8\nduration_s = 600", "", []string{"workload=3"},
		"--set: workload: names no key\n  fix: did you mean workload.arrival_cv or "},
	{"syntax", "concurrency = 8", "concurrency = = 8", nil, "x.toml:13: not TOML: "},
	{"key twice", "concurrency = 8", "concurrency = 8\nconcurrency = 9", nil, "x.toml:14: not TOML: "},
	{"seed twice", `question = "q"`, "question = 'q'\nseeds = [1,\n1]", nil, "x.toml:3: seeds[1]: is given twice"},
	{"script", "duration_s = 600\n[sweep]\n\"workload.warmup_s\" = [1, 60]", "kind = 'script'", nil,
		"x.toml:13: workload.concurrency: has no meaning for kind \"script\"\n  fix: remove it\nx.toml:14: workload.kind: \"script\" does not fit routing.algorithm \"matrix\"\n  fix: "},
	{"unread", "[routing]", "[routing]\nmean_gap = 7", nil,
		"x.toml:10: routing.mean_gap: algorithm matrix does not read it; remove it"},

	{"sweep unknown", `"workload.warmup_s"`, `"models.large.b"`, nil,
		"x.toml:16: sweep.\"models.large.b\": names no key\n  fix: did you mean models.large.B"},
	{"sweep model", `"workload.warmup_s"`, `"models.larg.B"`, nil,
		"x.toml:16: sweep.\"models.larg.B\": no model is named \"larg\"\n  fix: did you mean large?"},
	{"sweep seeds", `"workload.warmup_s"`, `seeds`, nil,
		"x.toml:16: sweep.seeds: cannot be swept\n  fix: give seeds itself a list, or leave it out"},
	{"sweep value", `[1, 60]`, "[1,\n-2]", nil,
		"x.toml:17: sweep.\"workload.warmup_s\"[1]: must be at least 0, got -2"},
	{"sweep repeat", `[1, 60]`, "[1, 1.0]", nil,
		"x.toml:16: sweep.\"workload.warmup_s\"[1]: the value 1 is given twice"},
	{"sweep scalar", `[1, 60]`, "1", nil,
		"x.toml:16: sweep.\"workload.warmup_s\": must be an array of values, got 1\n  fix: write [1]"},
	{"sweep empty", `[1, 60]`, "[]", nil, "x.toml:16: sweep.\"workload.warmup_s\": must not be empty"},
	{"sweep point", `[1, 60]`, "[1,\n600]", nil,
		"x.toml:14: workload.duration_s: must be more than warmup_s 600, got 600\n  fix: lower warmup_s or raise duration_s"},
	{"sweep row", `"workload.warmup_s" = [1, 60]`, "'routing.matrix' = [[[1, 0], [1, 0]],\n[[0.5, 0.4], [1, 0]]]", nil,
		"x.toml:17: routing.matrix[0]: must sum to 1, got 0.9\n  fix: for example 0.6 as the chance to stay at small"},
	{"plot", "[workload]", "[plot]\nx = 'workload.warmups'\n[workload]", nil,
		"x.toml:13: plot.x: \"workload.warmups\" is neither swept nor system nor on\n  fix: did you mean workload.warmup_s?"},

	{"plot figure", "[workload]", "[plot]\ny = 'ttft_ms.p90'\n[workload]", nil,
		"x.toml:13: plot.y: \"ttft_ms.p90\" is no figure\n  fix: did you mean ttft_ms."},
	{"set range", "", "", []string{"models.large.B=0"}, "--set: models.large.B: must be at least 1, got 0"},
	{"colocation", "", "", []string{"colocation.factor=0.9"},
		"--set: colocation.factor: must be 0, which derives it, or at least 1, got 0.9\n  fix: 1 is no slow-down"},
	{"set quantum", "", "", []string{"dtmc.quantum_ms=5"}, "--set: dtmc.quantum_ms: must be at most a step of small, 4 ms, got 5\n  fix: 0 lets the chain choose"},
	{"set name", "", "", []string{"models.large.Bs=1"}, "--set: models.large.Bs: names no key\n  fix: did you mean models.large.B"},
	{"set no value", "", "", []string{"models.large.B"}, "--set: \"models.large.B\" is not path=value"},
	{"set syntax", "", "", []string{"models.large.B=[1"}, "--set: models.large.B: \"[1\" is not a TOML value"},
	{"set two", "", "", []string{"models.large.B=1\nx=2"}, "--set: models.large.B: \"1\\nx=2\" is not a TOML value"},
	{"set rule", "", "", []string{"workload.warmup_s=1", "workload.duration_s=1"}, "--set: workload.duration_s: must be more than warmup_s 1, got 1"},
	{"set model name", "", "", []string{"models.large.name=huge"}, "--set: models.large.name: a model's name cannot be changed"},
	{"set sweep", "", "", []string{"sweep.models.large.B=[0]"}, "--set: sweep.\"models.large.B\"[0]: must be at least 1, got 0"},
}

func TestRulesBetweenKeys(t *testing.T) {
	for _, test := range rules {
		t.Run(test.name, func(t *testing.T) {
			src := strings.Replace(small, test.old, test.new, 1)
			_, err := Load("x.toml", []byte(src), test.set...)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got\n%v\nwant\n%s", err, test.want)
			}
			var all SpecErrors
			errors.As(err, &all)
			if planted := len(regexp.MustCompile(`(?m)^(x.toml|--set):`).FindAllString(test.want, -1)); len(all) != planted {
				t.Errorf("%d errors, want the %d planted:\n%v", len(all), planted, err)
			}
		})
	}
}

func TestAllErrorsInOrderOfLines(t *testing.T) {
	src := strings.NewReplacer("B = 4", "B = 0", "concurrency = 8", "concurency = 8", `question = "q"`, "question = 1").Replace(small)
	_, err := Load("x.toml", []byte(src), "models.small.B=x")
	want := `x.toml:1: question: must be a string, got 1
  fix: write it in quotes: "1"
x.toml:8: models.large.B: must be at least 1, got 0
x.toml:13: workload.concurency: unknown key
  fix: did you mean workload.concurrency?
--set: models.small.B: "x" is not a TOML value`
	want = strings.Replace(want, "mean workload.concurrency", "mean concurrency", 1)
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSweepOrder(t *testing.T) {
	// Dotted keys without quotes name the same paths; the last changes fastest.
	src := strings.Replace(small, `"workload.warmup_s" = [1, 60]`, "workload.concurrency = [4, 2]\nmodels.large.B = [3, [1, 2]]", 1)
	plan := load(t, src, "on=sim", "systems=tokenrouter,async", "seeds=[5, 4]")
	var got []string
	for _, c := range plan.Cells[:10] {
		var s []string
		for _, v := range c.Point.Swept {
			s = append(s, v.Path+"="+v.Text())
		}
		got = append(got, strings.Join(s, " ")+" "+c.System+" "+c.On+" "+string(rune('0'+c.Seed)))
	}
	want := []string{
		"workload.concurrency=4 models.large.B=3 tokenrouter sim 5",
		"workload.concurrency=4 models.large.B=3 tokenrouter sim 4",
		"workload.concurrency=4 models.large.B=3 async sim 5",
		"workload.concurrency=4 models.large.B=3 async sim 4",
		"workload.concurrency=4 models.large.B=[1, 2] tokenrouter sim 5",
		"workload.concurrency=4 models.large.B=[1, 2] tokenrouter sim 4",
		"workload.concurrency=4 models.large.B=[1, 2] async sim 5",
		"workload.concurrency=4 models.large.B=[1, 2] async sim 4",
		"workload.concurrency=2 models.large.B=3 tokenrouter sim 5",
		"workload.concurrency=2 models.large.B=3 tokenrouter sim 4",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(plan.Cells); n != 16 {
		t.Errorf("%d cells, want 16", n)
	}
}

func TestSetPinsASweptKey(t *testing.T) {
	plan := load(t, small, "workload.warmup_s=2")
	if len(plan.Points) != 1 || plan.Points[0].Spec.Workload.WarmupS != 2 || len(plan.Swept) != 0 {
		t.Errorf("%d points, swept %v; want warmup_s 2 alone", len(plan.Points), plan.Swept)
	}
}

func TestSetReplacesStepTimes(t *testing.T) {
	const profile = "a100-80gb/sglang-0.5.10/qwen3-32b-tp2"
	plan := load(t, small, "models.large.profile="+profile)
	if m := plan.Points[0].Spec.Models[1]; m.Profile != profile || m.StepMs != nil {
		t.Errorf("got %+v, want the profile alone", m)
	}
	plan = load(t, small, "models.large.profile="+profile, "models.large.step_ms.base=3")
	if m := plan.Points[0].Spec.Models[1]; m.Profile != "" || m.StepMs == nil || *m.StepMs != (StepMs{Base: 3}) {
		t.Errorf("got %+v, want the step times alone", m)
	}
}

func TestSetReplacesTheEnd(t *testing.T) {
	plan := load(t, small, "workload.kind=closed", "workload.warmup_s=0", "workload.requests=20")
	if w := plan.Points[0].Spec.Workload; w.Requests != 20 || w.DurationS != 0 {
		t.Errorf("got %+v, want 20 requests and no duration", w)
	}
	// What the file sweeps is replaced as well.
	swept := strings.Replace(small, "duration_s = 600\n[sweep]\n\"workload.warmup_s\" = [1, 60]", "kind = 'closed'\n[sweep]\n'workload.requests' = [5, 9]", 1)
	plan = load(t, swept, "workload.duration_s=100")
	if w := plan.Points[0].Spec.Workload; len(plan.Points) != 1 || w.Requests != 0 || w.DurationS != 100 {
		t.Errorf("%d points, the first with %+v; want one of 100 s", len(plan.Points), w)
	}
}

// So is what hung on it: a plot's axis is none any more, unless it is swept again.
func TestSetReplacesWhatThePlotShows(t *testing.T) {
	const x = "models.large.step_ms.base"
	src := strings.Replace(small, "[sweep]\n", "[plot]\nx = '"+x+"'\n[sweep]\n'"+x+"' = [32, 64]\n", 1)
	const profiles = "['a100-80gb/sglang-0.5.10/qwen3-8b-tp1', 'a100-80gb/sglang-0.5.10/qwen3-32b-tp2']"
	for _, c := range []struct{ set, x string }{
		{x + "=16", ""}, {"models.large.profile=a100-80gb/sglang-0.5.10/qwen3-32b-tp2", ""},
		{"sweep.models.large.profile=" + profiles, ""}, {"sweep." + x + "=[16, 32, 64]", x},
	} {
		if plan := load(t, src, c.set); plan.Plot.X != c.x {
			t.Errorf("--set %s: the plot shows %q, want %q", c.set, plan.Plot.X, c.x)
		}
	}
}

func TestKeys(t *testing.T) {
	key := func(system, on string, set ...string) string {
		plan := load(t, small, append(set, "workload.warmup_s=2", "systems="+system, "on="+on)...)
		return plan.Cells[0].Key()
	}
	base := key("tokenrouter", "sim")
	if base != key("tokenrouter", "sim", "models.small.max_running=256", "question=other") {
		t.Error("the key depends on what changes nothing")
	}
	for _, other := range []string{
		key("async", "sim"), key("tokenrouter", "dtmc"), key("tokenrouter", "sim", "seeds=[2]"),
		key("tokenrouter", "sim", "models.large.B=3"), key("tokenrouter", "sim", "handoff.ms=1"),
	} {
		if other == base {
			t.Error("two cells that differ share a key")
		}
	}
	if key("async", "sim") != key("async", "sim", "models.large.B=3") {
		t.Error("a threshold that the rule does not read is in the key")
	}
	if key("tokenrouter", "dtmc") != key("tokenrouter", "dtmc", "seeds=[9]") {
		t.Error("the chain's key depends on the seed")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(example, "models.large.B=3")
	f.Add(every, "systems=async")
	f.Add(small, "sweep.models.large.B=[1, 2]")
	f.Add(small, "sweep.\xfa%!\n=[1")
	f.Add("models = [1]\nsweep = 3\n[workload.output_tokens]\nmin = 2", "=")
	f.Fuzz(func(t *testing.T, src, set string) { checkLoad(t, src, set) })
}

// FuzzValue puts any text in place of one value of a correct file, or of the
// file with all keys, so that most inputs are TOML.
func FuzzValue(f *testing.F) {
	for row := range strings.Count(every, "\n") {
		f.Add(true, uint8(row), "3")
	}
	for _, value := range []string{"[1, 2.5]", "{ min = 1 }", "inf", "[[0.5, 0.5], [1]]", "'x'", "\"\"\"\na\"\"\"", "[\n\n-1]", "1\n[sweep]\nhome = ['small']"} {
		f.Add(false, uint8(9), value)
		f.Add(false, uint8(15), value)
	}
	f.Fuzz(func(t *testing.T, all bool, row uint8, value string) {
		src := small
		if all {
			src = every
		}
		lines := strings.Split(src, "\n")
		line := &lines[int(row)%len(lines)]
		if name, _, ok := strings.Cut(*line, " = "); ok {
			*line = name + " = " + value
		} else {
			*line = value
		}
		checkLoad(t, strings.Join(lines, "\n"), "seeds=[1]")
	})
}

// checkLoad holds Load to what its documentation says of errors and plans.
func checkLoad(t *testing.T, src, set string) {
	plan, err := Load("x.toml", []byte(src), set)
	if err == nil {
		if len(plan.Cells) == 0 {
			t.Fatal("a plan without cells")
		}
		for _, c := range plan.Cells[:1] {
			c.Key()
		}
		return
	}
	last := 0
	for _, e := range err.(SpecErrors) {
		switch {
		case e.Msg == "" || strings.Contains(e.Msg, "%!") && !strings.Contains(src+set, "%"):
			t.Fatalf("bad message in %#v", e)
		case e.File == fromSet && e.Line == 0:
		case e.File == "x.toml" && e.Line >= max(last, 1) && e.Line <= strings.Count(src, "\n")+1:
			last = e.Line
		default:
			t.Fatalf("bad place in %#v", e)
		}
	}
}
