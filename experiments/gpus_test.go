package experiments

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A model takes as many GPUs as its profile says, wherever the profile comes
// from and whatever it is called.
func TestProfilesSayHowManyGPUs(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mine.toml"), profileText(t, "a100-80gb/sglang-0.5.10/qwen3-32b-tp4"))
	for _, test := range []struct {
		way  string
		set  []string
		want []int // of large; small has one before it
	}{
		{`profile = "a100-80gb/sglang-0.5.10/qwen3-32b-tp2"`, nil, []int{1, 2}},
		{`profile = "mine.toml"`, nil, []int{1, 2, 3, 4}},
		{`profile = "mine.toml"`, []string{"models.small.profile=a100-80gb/sglang-0.5.10/qwen3-0.6b-tp2"}, []int{2, 3, 4, 5}},
		{"step_ms = { base = 32.0 }", nil, []int{1}},
		{"step_ms = { base = 32.0 }", []string{"models.small.gpus=[0, 1]"}, []int{2}},
		{`profile = "mine.toml"`, []string{"models.small.gpus=[2]"}, []int{0, 1, 3, 4}},
		{"step_ms = { base = 32.0 }", []string{"models.large.gpus=[0, 5]"}, []int{0, 5}},
		{`profile = "mine.toml"`, []string{"models.large.gpus=[3, 2, 1, 0]"}, []int{3, 2, 1, 0}},
	} {
		plan, err := Load(filepath.Join(dir, "x.toml"), priced(test.way), test.set...)
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.Points[0].Spec.Models[1].GPUs; !slices.Equal(got, test.want) {
			t.Errorf("%s %v: GPUs %v, want %v", test.way, test.set, got, test.want)
		}
	}
}

// What the tokens cost counts every GPU of a model that is split: more of them
// are faster and dearer.
func TestTokensCostEveryGPU(t *testing.T) {
	src, err := carried.ReadFile("gpu-budget.toml")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := Load("gpu-budget.toml", src, "on=dtmc", "workload.concurrency=4")
	if err != nil {
		t.Fatal(err)
	}
	cost := map[string]float64{}
	for _, c := range plan.Cells {
		gpus, names := 0, []string{}
		for _, s := range c.Point.Swept {
			name := s.Value.(string)
			names = append(names, name[len(name)-3:])
			gpus += int(name[len(name)-1] - '0')
		}
		out := Evaluate(t.Context(), c)
		if out.Status != StatusOK {
			t.Fatal(out.Reason)
		}
		got, want := out.Summary.GPUSecondsPer1kTok, float64(gpus)*1000/out.Summary.ThroughputTokPerS
		if math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%v: %g GPU-seconds, want %g on %d GPUs", names, got, want, gpus)
		}
		cost[strings.Join(names, " ")] = got
	}
	if len(cost) != 9 || !(cost["tp1 tp1"] < cost["tp2 tp2"] && cost["tp2 tp2"] < cost["tp4 tp4"]) {
		t.Errorf("costs %v: want more GPUs dearer", cost)
	}
}

// A listing shows the GPUs of every point, not only those of the first.
func TestValueText(t *testing.T) {
	plan := load(t, string(priced(`roofline = { gpu = "h200", config = "qwen3-8b" }`))+`"models.large.roofline.tp" = [1, 2]`)
	for path, want := range map[string]string{
		"models.large.gpus": "[1] or [1, 2]", "models.small.gpus": "[0]", "models.large.roofline.tp": "1 or 2",
	} {
		if got := plan.ValueText(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
