package dtmc

import (
	"fmt"
	"testing"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// bench reports milliseconds of one call beside its target.
func bench(b *testing.B, name string, targetMs float64, call func() error) {
	b.Run(name, func(b *testing.B) {
		for b.Loop() {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms")
		b.ReportMetric(targetMs, "target-ms")
	})
}

func predictCall(cfg Config) func() error {
	return func() error { _, err := Predict(cfg); return err }
}

func tuneCall(cfg Config, opt TuneOptions) func() error {
	return func() error { _, err := Tune(cfg, opt); return err }
}

func BenchmarkPredict(b *testing.B) {
	for _, p := range []float64{.02, .1, .4} {
		for _, back := range []float64{1, .35} {
			cell := fmt.Sprintf("p=%v/back=%v", p, back)
			bench(b, "whole-quanta/n=16/"+cell, 20, predictCall(ratio427(p, back, 16)))
			bench(b, "default-quantum/n=16/"+cell, 100, predictCall(pair(qwenSmall, qwenLarge, p, back, 16)))
			coarse := pair(linear{base: 4}, linear{base: 32}, p, back, 64)
			coarse.QuantumNs = 2e6 // 16 quanta
			bench(b, "16-quanta/n=64/"+cell, 2000, predictCall(coarse))
		}
	}
	rows := pair(linear{base: 4, perRow: .02}, linear{base: 27, perRow: .1}, .1, .35, 16)
	bench(b, "priced-rows/n=16", 100, predictCall(rows))
	rows.HandoffNs = 1e6
	bench(b, "hand-offs/n=16", 2000, predictCall(rows))
	rows.HandoffNs, rows.Closed, rows.PromptTokens, rows.OutputTokens = 0, true, 500, 1024
	bench(b, "closed/n=16", 2000, predictCall(rows))
	bench(b, "three-models/n=8", 2000, predictCall(threeModels()))
}

func threeModels() Config {
	return Config{
		Models:  []Model{{Time: linear{base: 4}}, {Time: linear{base: 12}}, {Time: linear{base: 32}}},
		Routing: [][]float64{{.5, .3, .2}, {.5, .3, .2}, {.5, .3, .2}},
		Users:   8,
		Rule:    scheduler.Delayed{},
	}
}

func BenchmarkTune(b *testing.B) {
	for _, p := range []float64{.1, .4} {
		cell := fmt.Sprintf("n=16/p=%v", p)
		bench(b, "large/whole-quanta/"+cell, 500, tuneCall(ratio427(p, 1, 16), TuneOptions{}))
		bench(b, "large/default-quantum/"+cell, 500, tuneCall(pair(qwenSmall, qwenLarge, p, 1, 16), TuneOptions{}))
		bench(b, "vector/whole-quanta/"+cell, 2000, tuneCall(ratio427(p, 1, 16), TuneOptions{Search: SearchAll}))
		bench(b, "vector/default-quantum/"+cell, 2000, tuneCall(pair(qwenSmall, qwenLarge, p, 1, 16), TuneOptions{Search: SearchAll}))
	}
	bench(b, "vector/three-models/n=8", 2000, tuneCall(threeModels(), TuneOptions{Search: SearchAll}))
}

// BenchmarkSolvers compares the ways to solve one chain, n = 8: elimination
// costs the cube of the states.
func BenchmarkSolvers(b *testing.B) {
	p := exploreOnly(b, ratio427(.1, 1, 8))
	b.Run("gth", func(b *testing.B) {
		for b.Loop() {
			p.solver.eliminate(&p.flow)
		}
	})
	b.Run("gauss-seidel+gmres", func(b *testing.B) {
		for b.Loop() {
			if _, err := p.solver.iterate(&p.flow, maxSweeps); err != nil {
				b.Fatal(err)
			}
		}
	})
}
