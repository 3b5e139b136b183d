package experiments

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// example is the file of the project's first description.
const example = `question = "Which threshold B suits a 32B model beside a 0.6B one?"
on       = ["dtmc", "sim"]
systems  = ["tokenrouter", "async", "alternate", "lockstep"]
seeds    = [1, 2, 3]
home     = "small"                     # default: the first model

[[models]]
name    = "small"
profile = "a100-80gb/sglang-0.5.10/qwen3-0.6b-tp1"
gpus    = [0]
[[models]]
name    = "large"
step_ms = { base = 32.0, per_request = 0.1, per_row = 0.0 }
gpus    = [0, 1]
B       = 4
kv_tokens = 200000
max_running = 64
chunk_tokens = 2048

[routing]
algorithm = "matrix"
matrix    = [[0.9, 0.1], [1.0, 0.0]]
routed_token = "dropped"               # or "kept"

[handoff]
ms = 0.0

[workload]
kind = "steady"
concurrency = 8
prompt_tokens = 100
output_tokens = 2048
duration_s = 600
warmup_s = 60

[sweep]
"models.large.B" = [1, 2, 3, 4, 5, 6, 7, 8]
"workload.concurrency" = [4, 8, 16]
`

func load(t *testing.T, src string, set ...string) *Plan {
	t.Helper()
	plan, err := Load("x.toml", []byte(src), set...)
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, src)
	}
	return plan
}

func TestExample(t *testing.T) {
	plan := load(t, example)
	if got, want := len(plan.Cells), 8*3*4*(1+3); got != want {
		t.Errorf("%d cells, want %d", got, want)
	}
	if diff := cmp.Diff([]string{"models.large.B", "workload.concurrency"}, plan.Swept); diff != "" {
		t.Errorf("swept (-want +got):\n%s", diff)
	}
	spec := plan.Points[1].Spec
	want := &Spec{
		Models: []Model{
			{Name: "small", Profile: "a100-80gb/sglang-0.5.10/qwen3-0.6b-tp1", GPUs: []int{0}, B: Threshold{1},
				KVTokens: 1_000_000, MaxRunning: 256, ChunkTokens: 2048, BlockTokens: 16},
			{Name: "large", StepMs: &StepMs{32, 0.1, 0}, GPUs: []int{0, 1}, B: Threshold{1},
				KVTokens: 200_000, MaxRunning: 64, ChunkTokens: 2048, BlockTokens: 16},
		},
		Routing: Routing{Algorithm: "matrix", Matrix: [][]float64{{0.9, 0.1}, {1, 0}}, Large: 1},
		Workload: Workload{Kind: "steady", Concurrency: 8, PromptTokens: workload.Fixed(100),
			OutputTokens: workload.Fixed(2048), DurationS: 600, WarmupS: 60},
		Scheduler: Scheduler{QueueLimit: maxUsers, PrefixReuse: true},
		Official:  Official{Visits: VisitsKept}, Dispatcher: Dispatcher{5, 5}, QueryLargeShare: 0.4,
	}
	if diff := cmp.Diff(want, spec, cmpopts.IgnoreFields(Model{}, "Prices")); diff != "" {
		t.Errorf("second point (-want +got):\n%s", diff)
	}
}

// every holds each key of the table once, one a line, each with a value that
// is right by itself. Keys that exclude each other stand side by side: that is
// found later than what this file is used for.
const every = `question = "q"
on = ["sim"]
systems = ["async"]
seeds = [1]
home = "small"
[[models]]
name = "small"
profile = "a100-80gb/sglang-0.5.10/qwen3-0.6b-tp1"
gpus = [0]
B = 1
kv_tokens = 1000
max_running = 8
chunk_tokens = 16
block_tokens = 16
eager_ms = 20.0
colocation_factor = 1.5
[models.roofline]
gpu = "h200"
config = "qwen3-8b"
tp = 1
engine = "sglang-0.5.10"
variant = "eager"
[models.step_ms]
base = 1.0
per_request = 1.0
per_row = 1.0
[routing]
algorithm = "bursty"
matrix = [[1.0]]
routed_token = "kept"
small = "small"
large = "small"
threshold = 0.5
weights = [1.0]
mean_gap = 7.0
gap_cv = 1.0
gap_lag1 = 0.1
return_probability = 1.0
scripts = ["S"]
[handoff]
ms = 0.0
[workload]
kind = "closed"
concurrency = 8
requests = 8
rate_per_s = 2.0
arrival_cv = 2.0
burst_requests = 10.0
trace = "x.csv"
repeat = 2
speedup = 1.5
lengths = "aime-low"
classes = [{ name = "a" }]
prompt_tokens = 100
output_tokens = 2048
duration_s = 600
warmup_s = 60
[workload.prefix]
tokens = 64
share = 0.5
distinct = 3
[workload.limits]
ttft_ms = 500.0
tpot_ms = 50.0
[scheduler]
prefix_reuse = false
max_delay_ms = 1.0
queue_limit = 1
[colocation]
factor = 1.5
[official]
visits = "reread"
[dispatcher]
ms = 5.0
ms_per_1k_tokens = 5.0
[query]
large_share = 0.4
[dtmc]
quantum_ms = 1.0
[plot]
x = "system"
y = "throughput_tok_per_s"
series = "on"
facet = "on"
kind = "line"
[published]
source = "a paper"
figure = "e2e_ms.mean"
tokenrouter = 372.48
async = 296.86
alternate = 230.79
lockstep = 188.0
official = 134.9
std-serving = 100.0
query-level = 100.0
[models.cpu]
model = "toy:qwen3"
threads = 1
kv_tokens = 100
[measure]
duration_s = 5.0
warmup_s = 1.0
`

// lineOf finds where every gives a value to the key at path.
func lineOf(t *testing.T, path string) (row int, name string) {
	t.Helper()
	table, name := "", path
	if cut := strings.LastIndexByte(path, '.'); cut >= 0 {
		table, name = path[:cut], path[cut+1:]
	}
	now := ""
	for i, line := range strings.Split(every, "\n") {
		if strings.HasPrefix(line, "[") {
			now = strings.Trim(line, "[]")
			now = strings.Replace(now, "models", "models.*", 1)
		}
		if now == table && strings.HasPrefix(line, name+" = ") {
			return i + 1, name
		}
	}
	t.Fatalf("the test's file lacks %s", path)
	return 0, ""
}

// replaced is every with another line for one key.
func replaced(row int, line string) string {
	lines := strings.Split(every, "\n")
	lines[row-1] = line
	return strings.Join(lines, "\n")
}

// outside lists values of a key that are of the right type but out of range.
func outside(k *key) []string {
	var values []string
	number := func(x float64) string {
		if k.kind == kindFloat || k.kind == kindFloats || k.kind == kindMatrix {
			return fmt.Sprintf("%.3f", x)
		}
		return fmt.Sprintf("%.0f", x)
	}
	numbers := []string{}
	if k.kind != kindString && k.kind != kindStrings {
		numbers = append(numbers, number(k.min-1), number(k.max+1))
		if k.above {
			numbers = append(numbers, number(k.min))
		}
		if k.kind == kindFloat {
			numbers = append(numbers, "nan", "inf")
		}
	}
	for _, n := range numbers {
		switch k.kind {
		case kindInts, kindFloats:
			values = append(values, "["+n+"]")
		case kindMatrix:
			values = append(values, "[["+n+"]]")
		case kindThreshold:
			values = append(values, n, "[2, "+n+"]")
		case kindLength:
			values = append(values, n, "{ min = "+n+", max = 5 }")
		default:
			values = append(values, n)
		}
	}
	switch k.kind {
	case kindString:
		values = append(values, `""`)
	case kindStrings:
		values = append(values, `[]`, `[""]`)
	case kindInts, kindFloats, kindMatrix:
		values = append(values, `[]`)
	}
	return values
}

func wrongTypes(k *key) []string {
	values := []string{"true", "1979-05-27", "{ a = 1 }", "[true]", "[[true]]"}
	if k.kind != kindString {
		values = append(values, `"x"`)
	}
	switch k.kind {
	case kindBool:
		values[0] = "1"
	case kindInt, kindInts, kindThreshold, kindLength:
		values = append(values, "1.5", "[1.5]")
	case kindString, kindStrings:
		values = append(values, "1", "[1]")
	case kindFloat:
		values = append(values, "[1.0]", `"1.0"`)
	}
	return values
}

func TestEveryKeyIsChecked(t *testing.T) {
	if _, err := Load("x.toml", []byte(every)); err == nil || strings.Contains(err.Error(), "unknown") {
		t.Fatalf("want complaints about keys that exclude each other only, got %v", err)
	}
	for i := range keys {
		k := &keys[i]
		row, name := lineOf(t, k.path)
		t.Run(k.path, func(t *testing.T) {
			want := strings.Replace(k.path, "*", "small", 1)
			if name == "name" {
				want = "models[0].name"
			}
			for _, v := range append(wrongTypes(k), outside(k)...) {
				src := replaced(row, name+" = "+v)
				if k.path == "models.*.name" {
					// Whatever refers to the model is then wrong as well.
					src = strings.NewReplacer(`home = "small"`, "", `small = "small"`, "", `large = "small"`, "").Replace(src)
				}
				_, err := Load("x.toml", []byte(src))
				var first *SpecError
				if !errors.As(err, &first) || first.Line != row || !strings.HasPrefix(first.Path, want) {
					t.Errorf("%s = %s: want an error on line %d about %s, got %v", name, v, row, want, err)
				}
			}
			if name == "name" {
				return
			}
			// Misspelt by one letter too many, the name is offered.
			src := replaced(row, name+"x = 1")
			if k.path == "question" {
				src = src + "\n" // Then question is missing too: see below.
			}
			_, err := Load("x.toml", []byte(src))
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("x.toml:%d: %sx: unknown key", row, want)) ||
				!strings.Contains(err.Error(), "did you mean") || !strings.Contains(err.Error(), name) {
				t.Errorf("%sx: want it unknown on line %d, got %v", name, row, err)
			}
		})
	}
}

func TestEveryKeyCanBeSet(t *testing.T) {
	for i := range keys {
		path := strings.Replace(keys[i].path, "*", "small", 1)
		if strings.HasSuffix(path, ".name") {
			continue
		}
		_, err := Load("x.toml", []byte(example), path+"=true")
		if keys[i].kind == kindBool {
			_, err = Load("x.toml", []byte(example), path+"=1")
		}
		if keys[i].kind == kindString {
			_, err = Load("x.toml", []byte(example), path+"= ")
		}
		if err == nil || !strings.HasPrefix(err.Error(), "--set: "+path) {
			t.Errorf("--set %s to the wrong type: got %v", path, err)
		}
	}
}
