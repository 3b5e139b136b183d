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

// slowed keeps what the chain says of a point at full speed and at SlowFactor.
type slowed struct {
	once       sync.Once
	full, slow float64
}

// QuickUsers and quickModels bound what the chain answers in milliseconds.
const QuickUsers, quickModels = 16, 2

// Slowed is TokenRouter's throughput at the point by the chain, in token/s, as it
// is assumed and with steps that stretch by SlowFactor. Both are NaN where the
// chain does not know, or would take long to say.
func (p *Point) Slowed() (full, slow float64) {
	p.slowed.once.Do(func() {
		p.slowed.full, p.slowed.slow = math.NaN(), math.NaN()
		if w := &p.Spec.Workload; w.Concurrency <= QuickUsers && len(p.Spec.Models) <= quickModels {
			p.slowed.full, p.slowed.slow = p.predictAt(p.Spec.ColocationFactor), p.predictAt(SlowFactor)
		}
	})
	return p.slowed.full, p.slowed.slow
}

func (p *Point) predictAt(colocationFactor float64) float64 {
	spec := *p.Spec
	spec.ColocationFactor = colocationFactor
	at := &Point{Spec: &spec, Settings: p.Settings, Swept: p.Swept}
	out := Evaluate(context.Background(), Cell{Point: at, System: SystemTokenRouter, On: OnChain})
	if out.Status != StatusOK {
		return math.NaN()
	}
	return out.Summary.ThroughputTokPerS
}
