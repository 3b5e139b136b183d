package experiments

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
)

// SlowFactor is the slow-down on a shared GPU at which answers that assume none
// are given once more: about what two decoding models cost each other where
// their kernels contend for more than the reading of weights.
const SlowFactor = 1.3

// FullSpeed lists the pairs of models that share a GPU and are taken to run as if
// each had it to itself, because nothing says otherwise: the factor is derived,
// and it is 1. It is empty where the plan asks about such factors.
func (p *Plan) FullSpeed() []Sharing {
	var out []Sharing
	for _, path := range p.Swept {
		if path == "colocation.factor" || strings.HasSuffix(path, ".colocation_factor") {
			return nil
		}
	}
	for _, point := range p.Points {
		for _, pair := range point.Spec.Sharing() {
			seen := slices.ContainsFunc(out, func(o Sharing) bool { return o.A == pair.A && o.B == pair.B })
			if !seen && !pair.Given && pair.OfA == 1 && pair.OfB == 1 {
				out = append(out, pair)
			}
		}
	}
	return out
}

// Overlaps reports whether models of a system ever run side by side.
func Overlaps(system string) bool {
	switch system {
	case SystemAlternate, SystemOfficial:
		return false
	}
	return !strings.HasPrefix(system, singlePrefix)
}

// QuickUsers and quickModels bound what the chain answers in milliseconds.
const QuickUsers, quickModels = 16, 2

// prediction keeps what the chain says of a point.
type prediction struct {
	once    sync.Once
	tokPerS float64
}

// AsAssumed is TokenRouter's throughput at the point by the chain, in token/s; NaN
// where the chain does not know, or would take long to say.
func (p *Point) AsAssumed() float64 { return p.assumed.ask(p, p.Spec.ColocationFactor) }

// Slowed is the same with steps that stretch by SlowFactor on a shared GPU.
func (p *Point) Slowed() float64 { return p.slowed.ask(p, SlowFactor) }

func (a *prediction) ask(p *Point, colocationFactor float64) float64 {
	a.once.Do(func() {
		a.tokPerS = math.NaN()
		if p.Spec.Workload.Concurrency > QuickUsers || len(p.Spec.Models) > quickModels {
			return
		}
		spec := *p.Spec
		spec.ColocationFactor = colocationFactor
		at := &Point{Spec: &spec, Settings: p.Settings, Swept: p.Swept}
		out := Evaluate(context.Background(), Cell{Point: at, System: SystemTokenRouter, On: OnChain})
		if out.Status == StatusOK {
			a.tokPerS = out.Summary.ThroughputTokPerS
		}
	})
	return a.tokPerS
}
