package main

import (
	"slices"
	"testing"

	"github.com/tokenrouter/tokenrouter/experiments"
)

// A profile that was measured without further flags holds for an experiment that
// leaves the lengths of requests at their defaults: no step is extrapolated.
func TestDefaultGridCoversDefaultWorkload(t *testing.T) {
	plan, err := experiments.Load("x.toml", []byte("question = \"q\"\nmodels = [{ name = \"one\", step_ms = { base = 1.0 } }]\n"))
	if err != nil {
		t.Fatal(err)
	}
	w := &plan.Points[0].Spec.Workload
	context := int(w.PromptTokens.Mean() + w.OutputTokens.Mean()/2)
	g := (&measureOptions{}).grid()
	if err := g.Check(); err != nil {
		t.Error(err)
	}
	if low, high := g.Contexts[0], slices.Max(g.Contexts); context < low || context > high {
		t.Errorf("the default context is %d, and %d to %d are measured", context, low, high)
	}
	if most := slices.Max(g.Requests); w.Concurrency > most {
		t.Errorf("the default is %d users, and up to %d requests are measured", w.Concurrency, most)
	}
}
