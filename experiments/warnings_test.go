package experiments

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenrouter/tokenrouter/sim"
)

// What lies beyond the range of a profile is said, by whoever finds it: all
// steps of large, since a steady request holds 40,100 tokens, and none of small.
func TestStepsOutOfRange(t *testing.T) {
	src := priced(`profile = "a100-80gb/sglang-0.5.10/qwen3-32b-tp2"`)
	const about = "outside the range in which a100-80gb/sglang-0.5.10/qwen3-32b-tp2 is known (1–256 requests, "
	for _, test := range []struct {
		on, output, want string
	}{
		{"sim", "80000", "models.large: 100 % of steps lay " + about},
		{"dtmc", "80000", "models.large: the chain's mean step lies " + about},
		{"sim", "2000", ""},
		{"dtmc", "2000", ""},
	} {
		plan := load(t, string(src), "on="+test.on, "workload.output_tokens="+test.output, "workload.duration_s=4", "workload.warmup_s=1")
		results, err := Run(context.Background(), plan, Options{Evaluate: Evaluate})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(results.Warnings(), "\n")
		if (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s, %s tokens: got %q, want %q", test.on, test.output, got, test.want)
		}
		line := string(results.JSON(0))
		if want := fmt.Sprintf(`,"warnings":[%s],"settings"`, appendString(nil, got)); strings.Contains(line, want) != (got != "") {
			t.Errorf("%s: want %s in %s", test.on, want, line)
		}
	}
}

// The share counts steps: those of a request that grows out of the range.
func TestShareOfStepsOutOfRange(t *testing.T) {
	src := strings.Replace(small, "step_ms.base = 4", `profile = "a100-80gb/sglang-0.5.10/qwen3-0.6b-tp1"`, 1)
	plan := load(t, src, "on=sim", "systems=single:small", "workload.kind=closed", "workload.concurrency=1",
		"workload.requests=1", "workload.warmup_s=0", "workload.prompt_tokens=1", "workload.output_tokens=20000")
	valid := plan.Points[0].Spec.Models[0].Prices.Profile.Range()
	o := Evaluate(context.Background(), plan.Cells[0])
	want := 1 - float64(valid.ContextTokens[1])/20000
	if len(o.Warnings) != 1 || o.Warnings[0].Share < want-.001 || o.Warnings[0].Share > want+.001 {
		t.Fatalf("%v: got %+v, want a share of %v", o.Reason, o.Warnings, want)
	}
	if _, err := SimConfig(plan.Cells[0]); err != nil {
		t.Fatal(err)
	}
}

func TestWarningsAreGathered(t *testing.T) {
	w := func(model string, share float64) Warning { return Warning{model, share, "of steps lay outside"} }
	r := Results{Records: []Record{
		{Warnings: []Warning{w("a", .2), w("b", .004)}},
		{Warnings: []Warning{w("a", .37), w("b", .004)}},
		{Warnings: []Warning{w("c", .999), {"c", 0, "the chain's mean step"}}},
	}}
	want := []string{"models.a: up to 37 % of steps lay outside", "models.b: less than 1 % of steps lay outside",
		"models.c: more than 99 % of steps lay outside", "models.c: the chain's mean step"}
	if diff := cmp.Diff(want, r.Warnings()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// BenchmarkSteps runs the same simulation with step times that count and with
// the profile's own.
func BenchmarkSteps(b *testing.B) {
	src := strings.Replace(small, "step_ms.base = 4", `profile = "a100-80gb/sglang-0.5.10/qwen3-0.6b-tp1"`, 1)
	plan, err := Load("x.toml", []byte(src), "on=sim", "systems=single:small", "workload.kind=closed", "workload.concurrency=16",
		"workload.requests=3000", "workload.warmup_s=0", "workload.output_tokens={ min = 900, max = 1100 }")
	if err != nil {
		b.Fatal(err)
	}
	for _, counts := range []bool{false, true} {
		b.Run(fmt.Sprintf("counted=%t", counts), func(b *testing.B) {
			for b.Loop() {
				s, err := newSetup(plan.Cells[0])
				if err != nil {
					b.Fatal(err)
				}
				config, _ := s.simulation(1)
				if counts {
					s.countSteps(&config)
				}
				if _, err := sim.Run(config); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Weights that no GPU holds are said: 140 GB of Llama-2-70B on one A100.
func TestWeightsBeyondTheGPU(t *testing.T) {
	for config, want := range map[string]string{
		`roofline = { gpu = "a100-80gb", config = "llama-2-70b", tp = 1 }`: "models.large: the weights on GPU 1 take 138 GB, and a100-80gb has 86",
		`roofline = { gpu = "a100-80gb", config = "llama-2-70b", tp = 2 }`: "",
		`roofline = { gpu = "h200", config = "llama-2-70b", tp = 1 }`:      "",
	} {
		plan := load(t, string(priced(config)), "on=sim", "workload.duration_s=4", "workload.warmup_s=1")
		results, err := Run(context.Background(), plan, Options{Evaluate: Evaluate})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(results.Warnings(), "\n"); got != want {
			t.Errorf("%s: warnings %q, want %q", config, got, want)
		}
	}
}
