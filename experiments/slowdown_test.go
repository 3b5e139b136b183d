package experiments

import (
	"math"
	"testing"
)

// roomy is a pair that shares a GPU whose bandwidth both do not use up.
func roomy(t *testing.T, set ...string) *Plan {
	t.Helper()
	src, err := carried.ReadFile("quickstart.toml")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := Load("quickstart.toml", src, append([]string{"workload.concurrency=4", "routing.matrix=[[0.9, 0.1], [1, 0]]"}, set...)...)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestFullSpeed(t *testing.T) {
	for _, test := range []struct {
		name string
		set  []string
		want bool
	}{
		{"derived", nil, true},
		{"said", []string{"colocation.factor=1"}, false},
		{"slower", []string{"colocation.factor=1.2"}, false},
		{"own", []string{"models.small.colocation_factor=1.2", "models.large.colocation_factor=1.1"}, false},
		{"asked about", []string{"sweep.colocation.factor=[0, 1.5]"}, false},
		{"apart", []string{"models.small.gpus=[2]"}, false},
		{"no room", []string{"models.small.profile=a100-80gb/sglang-0.5.10/qwen3-8b-tp1"}, false},
	} {
		if got := roomy(t, test.set...).FullSpeed(); len(got) > 1 || (len(got) == 1) != test.want {
			t.Errorf("%s: %+v, want any: %t", test.name, got, test.want)
		}
	}
}

// What the chain says of a slow-down is what an experiment that asks for it shows.
func TestSlowed(t *testing.T) {
	point := roomy(t).Points[0]
	full, slow := point.AsAssumed(), point.Slowed()
	for _, test := range []struct {
		set  string
		want float64
	}{{"colocation.factor=1", full}, {"colocation.factor=1.3", slow}} {
		plan := roomy(t, test.set, "on=dtmc", "systems=tokenrouter")
		out := Evaluate(t.Context(), plan.Cells[0])
		if got := out.Summary.ThroughputTokPerS; got != test.want {
			t.Errorf("%s: %g token/s, but Slowed says %g", test.set, got, test.want)
		}
	}
	if !(slow < full) {
		t.Errorf("slowed down %g token/s, else %g", slow, full)
	}
	if slow := roomy(t, "workload.concurrency=64").Points[0].Slowed(); !math.IsNaN(slow) {
		t.Errorf("of 64 users it says %g: that takes too long", slow)
	}
	if slow := roomy(t, "workload.kind=closed", "models.small.kv_tokens=5000").Points[0].Slowed(); !math.IsNaN(slow) {
		t.Errorf("the chain knows no KV pressure, but says %g", slow)
	}
}
