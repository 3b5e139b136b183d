package main

import (
	"slices"
	"testing"

	"github.com/tokenrouter/tokenrouter/experiments"
)

// A comparison names the B that was run: never a mean over requests that come and
// go, and not as it was asked for if it was cut.
func TestThresholdTexts(t *testing.T) {
	plan, err := loadPlan("figure-fit", []string{`sweep.models.large.B=[4, "tuned", [1, 3], 9999]`, "workload.concurrency=4"})
	if err != nil {
		t.Fatal(err)
	}
	four, tuned, table, most := plan.Points[0], plan.Points[1], plan.Points[2], plan.Points[3]
	b := func(large ...int) []experiments.Threshold { return []experiments.Threshold{{1}, large} }
	for _, test := range []struct {
		c    experiments.Comparison
		want string
	}{
		{experiments.Comparison{Point: four, System: "tokenrouter", Settled: b(4), B: []float64{1, 3.95}}, "4"},
		{experiments.Comparison{Point: four, System: "async", Settled: b(4), B: []float64{1, 1}}, "–"},
		{experiments.Comparison{Point: tuned, System: "tokenrouter", Settled: b(4), B: []float64{1, 3.95}}, "tuned: 4"},
		{experiments.Comparison{Point: tuned, System: "tokenrouter", Settled: []experiments.Threshold{{1}, experiments.Tuned}, B: []float64{1, 1}}, `"tuned"`},
		{experiments.Comparison{Point: four, System: "tokenrouter", Settled: b(4), B: []float64{1, 4}, Same: []*experiments.Point{tuned}}, "4 = tuned"},
		{experiments.Comparison{Point: tuned, System: "tokenrouter", Settled: b(4), B: []float64{1, 4}, Same: []*experiments.Point{four}}, "4 = tuned"},
		{experiments.Comparison{Point: table, System: "tokenrouter", Settled: b(1, 3), B: []float64{1, 2}}, "[1, 3]"},
		{experiments.Comparison{Point: most, System: "tokenrouter", Settled: b(9999), B: []float64{1, 4}}, "9999 (4 in force)"},
	} {
		if got := sweptTexts(plan, &test.c); !slices.Equal(got, []string{test.want}) {
			t.Errorf("%s: %q, want %q", test.c.Point.Swept[0].Text(), got, test.want)
		}
	}
}
