package dtmc

import (
	"errors"
	"math"
)

// Budgets, in transitions: what the choice of a quantum aims at. About 6 million
// transitions are explored and solved in a second.
const (
	quantumBudget = 250_000
	// coarseBudget is what a chain may take before its quantum becomes coarser
	// than half the shortest step.
	coarseBudget = 4_000_000
)

// refinements bounds the probes for a system of three or more models, where the
// size of the chain is hard to foretell.
const refinements = 3

// chooseQuantum picks the unit of time from the step times and the number of
// users, never from the thresholds, so that predictions of one system with
// different thresholds share it. A unit that divides every step is best, for
// nothing is rounded then. Otherwise the error falls in proportion to the
// quantum, so the finest one that the budget allows is taken.
func (p *predictor) chooseQuantum() (int64, error) {
	least, common := p.durations.shortest(), p.durations.divisor()
	apace := alike(stretches(p.cfg.Interference))
	common = greatest(common, p.cfg.HandoffNs)
	if !apace {
		common = 1 // work is rounded at every completion, so no unit is exact
	}
	q := max(least/2, 1)
	if least/common <= 2 {
		q = common
	}
	size, err := p.probe(q, coarseBudget)
	switch {
	case errors.Is(err, ErrTooLarge):
		return least, nil // the solve itself says if even that is too fine
	case err != nil || common >= q:
		return q, err
	}
	// The remaining times of all busy models but the one that has just started
	// vary, so the chain grows like a power of the number of quanta.
	power := float64(max(p.visited()-1, 1))
	if p.cfg.HandoffNs > 0 {
		power++
	}
	if !apace || p.durations.vary() {
		power++ // and so do the lengths of a step, or the rest of the one that goes on
	}
	expected := float64(size) * math.Pow(float64(q)/float64(common), power)
	if power > 1 || expected <= 8*float64(quantumBudget) { // whole quanta need fewer: no step has two lengths
		if _, err := p.probe(common, quantumBudget); !errors.Is(err, ErrTooLarge) {
			return common, err
		}
	}
	for range refinements {
		finest := float64(q) * math.Pow(float64(size)/float64(quantumBudget), 1/power)
		if finest > 0.8*float64(q) {
			break
		}
		next := p.smoothest(int64(finest), common)
		if power == 1 {
			return next, nil
		}
		size, err = p.probe(next, quantumBudget)
		if errors.Is(err, ErrTooLarge) {
			break
		}
		if err != nil {
			return 0, err
		}
		q = next
	}
	return q, nil
}

// smoothest returns the quantum from finest up to a quarter more which the steps
// come closest to being multiples of: the one with the least mean variance of
// rounding.
func (p *predictor) smoothest(finest, common int64) int64 {
	finest = max(finest, 1)
	best, least := finest, math.Inf(1)
	for i := range int64(26) {
		q := finest + finest*i/100
		if common*8 <= q {
			q -= q % common
		}
		variance := 0.0
		for _, row := range p.durations.mean {
			for _, ns := range row[1:] {
				above := float64(ns%q) / float64(q)
				x := float64(q) / float64(ns)
				variance += above * (1 - above) * x * x / float64(len(row)-1)
			}
		}
		if variance < least*(1-1e-9) {
			best, least = q, variance
		}
	}
	return best
}

// probe counts the transitions with every threshold at 1 in the given quantum.
func (p *predictor) probe(quantumNs int64, budget int) (int, error) {
	if err := p.setQuantum(quantumNs); err != nil {
		return 0, err
	}
	c := &p.chain
	c.maxTransitions = budget
	c.inForce = c.inForce[:0]
	for range p.cfg.Models {
		c.inForce = append(c.inForce, 1)
	}
	if !c.turns {
		c.decideOnce()
	}
	if err := c.explore(p.farthest()); err != nil {
		return 0, err
	}
	return len(c.col), nil
}

func (p *predictor) visited() int {
	n := 0
	for _, share := range p.visits.share {
		if share > 0 {
			n++
		}
	}
	return n
}

func (d *durations) shortest() int64 {
	least := math.Inf(1)
	for _, mixes := range d.steps {
		least = min(least, shortestOf(mixes))
	}
	return int64(least)
}

func shortestOf(mixes [][]stepLaw) float64 {
	least := math.Inf(1)
	for goOn, row := range mixes {
		for came := range row {
			if goOn+came > 0 {
				least = min(least, row[came].leastNs())
			}
		}
	}
	return least
}

// divisor is the greatest common divisor of all step times; expected times that
// are no whole nanoseconds have none but 1.
func (d *durations) divisor() int64 {
	if !d.whole() {
		return 1
	}
	g := int64(0)
	for _, mixes := range d.steps {
		for _, row := range mixes {
			for _, s := range row {
				g = greatest(g, int64(s.meanNs))
			}
		}
	}
	return g
}

// greatest is the greatest common divisor; 0 divides like nothing.
func greatest(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
