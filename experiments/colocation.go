package experiments

import (
	"fmt"
	"slices"

	"github.com/tokenrouter/tokenrouter/internal/steptime"
)

// Sharing is what two models that share a GPU are taken to cost each other.
type Sharing struct {
	A, B   int     // models, by index; A < B
	GPU    int     // the first one that they share
	Factor float64 // by which steps of one stretch while one of the other runs, at least 1
	Given  bool    // by colocation.factor; else it is derived
	// OfA and OfB are the factors of the two, where models say their own.
	OfA, OfB float64
	// Demand is what the two ask for of the GPU's memory bandwidth, each running
	// alone; 0 if that is not known, and then the factor is 1.
	Demand float64
}

// Sharing lists the pairs of models that share a GPU.
//
// A derived factor takes decoding to be bound by the reading of weights: a model
// alone asks for the bandwidth at which a step of one request reads the weights
// of one GPU. Two models that ask for more than there is get their part of it, so
// both take as many times longer.
func (s *Spec) Sharing() []Sharing {
	var out []Sharing
	for b := range s.Models {
		for a := range b {
			gpu := sharedGPU(&s.Models[a], &s.Models[b])
			if gpu < 0 {
				continue
			}
			pair := Sharing{A: a, B: b, GPU: gpu, Factor: s.ColocationFactor, Given: s.ColocationFactor != 0}
			if !pair.Given {
				ofA, ofB := s.demand(a), s.demand(b)
				if ofA > 0 && ofB > 0 {
					pair.Demand = ofA + ofB
				}
				pair.Factor = max(1, pair.Demand)
			}
			pair.OfA, pair.OfB = pair.Factor, pair.Factor
			if own := s.Models[a].Stretch; own > 0 {
				pair.OfA = own
			}
			if own := s.Models[b].Stretch; own > 0 {
				pair.OfB = own
			}
			out = append(out, pair)
		}
	}
	return out
}

// demand is the share of a GPU's memory bandwidth that a model alone takes to
// read its weights; 0 if its size or its GPU is not known.
func (s *Spec) demand(model int) float64 {
	p := s.Models[model].Prices
	if p == nil || p.WeightBytes == 0 {
		return 0
	}
	bytesPerS, ok := steptime.MemoryBytesPerS(p.Profile.GPU)
	if !ok {
		return 0
	}
	_, t := p.variant(false)
	stepS := float64(t.Ns(1, 1, s.Workload.context())) / 1e9
	return float64(p.WeightBytes) / stepS / bytesPerS
}

// sharedGPU is the first GPU that two models share, or -1.
func sharedGPU(a, b *Model) int {
	for _, gpu := range a.GPUs {
		if slices.Contains(b.GPUs, gpu) {
			return gpu
		}
	}
	return -1
}

// interference lays the factors over all pairs of the models that run; nil if
// none slow each other down.
func (s *setup) interference() [][]float64 {
	if s.alone >= 0 {
		return nil
	}
	var out [][]float64
	for range s.models {
		out = append(out, slices.Repeat([]float64{1}, len(s.models)))
	}
	slow := false
	for _, pair := range s.spec.Sharing() {
		out[pair.A][pair.B], out[pair.B][pair.A] = pair.OfA, pair.OfB
		slow = slow || pair.OfA > 1 || pair.OfB > 1
	}
	if !slow {
		return nil
	}
	return out
}

// SharingTexts says in a sentence for each pair of models that share a GPU what
// its points take that to cost, and why.
func (p *Plan) SharingTexts() []string {
	type span struct {
		first          Sharing
		lo, hi         float64
		given, derived bool // in some point
		own            bool // models say their own
	}
	var pairs []span
	for _, point := range p.Points {
		for _, pair := range point.Spec.Sharing() {
			i := slices.IndexFunc(pairs, func(o span) bool { return o.first.A == pair.A && o.first.B == pair.B })
			if i < 0 {
				i = len(pairs)
				pairs = append(pairs, span{first: pair, lo: pair.OfA, hi: pair.OfA})
			}
			at := &pairs[i]
			at.lo, at.hi = min(at.lo, pair.OfA, pair.OfB), max(at.hi, pair.OfA, pair.OfB)
			own := point.Spec.Models[pair.A].Stretch > 0 && point.Spec.Models[pair.B].Stretch > 0
			at.own = at.own || own
			at.given, at.derived = at.given || pair.Given || own, at.derived || !pair.Given && !own
		}
	}
	var out []string
	for _, pair := range pairs {
		models := p.Points[0].Spec.Models
		text := fmt.Sprintf("%s and %s share GPU %d: ", models[pair.first.A].Name, models[pair.first.B].Name, pair.first.GPU)
		stretch := fmt.Sprintf("while both run, their steps are taken to stretch by %.4g to %.4g, ", pair.lo, pair.hi)
		switch {
		case pair.own && !pair.derived:
			text += stretch + "as their colocation_factor says"
		case pair.lo == pair.hi:
			text += pair.first.why()
		case !pair.derived:
			text += stretch + "as colocation.factor says"
		case !pair.given:
			text += stretch + "by what they ask for of its bandwidth to read their weights (derived)"
		default:
			text += stretch + "as colocation.factor says or, where it is 0, by what they ask for of its bandwidth to read their weights (derived)"
		}
		out = append(out, text+".")
	}
	return out
}

// why says what a pair's factor rests on.
func (s Sharing) why() string {
	stretch := fmt.Sprintf("while both run, their steps are taken to stretch by %.4g", s.Factor)
	if s.Factor == 1 {
		stretch = "no slow-down is assumed"
	}
	switch {
	case s.Given:
		return stretch + " (colocation.factor)"
	case s.Demand == 0:
		return "what they ask for of its bandwidth is not known, so " + stretch
	case s.Demand > 1:
		return fmt.Sprintf("to read their weights they ask for %.2f times its bandwidth together, so %s (derived)", s.Demand, stretch)
	}
	return fmt.Sprintf("to read their weights they ask for %.2f of its bandwidth together, so %s (derived)", s.Demand, stretch)
}
