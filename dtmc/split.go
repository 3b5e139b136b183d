package dtmc

import "math"

// split is one way in which the requests of a finished step scatter: delta adds
// them to the waiting fields of a packed state.
type split struct {
	delta uint64
	p     float64
}

// newSplits lists the multinomial splits of every batch of every model.
func newSplits(l *layout, routing [][]float64, maxBatch []int) [][][]split {
	all := make([][][]split, l.models)
	for m := range all {
		all[m] = make([][]split, maxBatch[m]+1)
		for b := 1; b <= maxBatch[m]; b++ {
			s := splitter{layout: l, row: routing[m]}
			s.add(0, b, 0, 1)
			all[m][b] = s.kept()
		}
	}
	return all
}

type splitter struct {
	layout *layout
	row    []float64
	out    []split
}

// add scatters left requests over the models from j on, given that they went to
// none before: a binomial for j out of what is left of the row, then the rest.
func (s *splitter) add(j, left int, delta uint64, p float64) {
	rest := 0.0
	for _, q := range s.row[j:] {
		rest += q
	}
	further := 0.0
	for _, q := range s.row[j+1:] {
		further += q
	}
	switch {
	case left == 0:
		s.out = append(s.out, split{delta, p})
		return
	case further == 0:
		s.out = append(s.out, split{delta + s.layout.waiting[j].add(left), p})
		return
	case s.row[j] == 0:
		s.add(j+1, left, delta, p)
		return
	}
	for i := range left + 1 {
		q := binomial(left, i, s.row[j]/rest, further/rest)
		s.add(j+1, left-i, delta+s.layout.waiting[j].add(i), p*q)
	}
}

// rarest is the probability below which a split is left out: its whole effect
// is a hundred million times smaller than what rounding does to the others, and
// powers of tiny probabilities would underflow to edges that weigh nothing.
const rarest = 1e-24

// kept drops the rarest splits and makes the rest sum to 1.
func (s *splitter) kept() []split {
	kept := s.out[:0]
	sum := 0.0
	for _, x := range s.out {
		if x.p >= rarest {
			kept = append(kept, x)
			sum += x.p
		}
	}
	for i := range kept {
		kept[i].p /= sum
	}
	return kept
}

// binomial is the probability of i successes in n trials, by logarithms: exact
// to about 1e-14 up to thousands of trials.
func binomial(n, i int, p, q float64) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(i + 1))
	c, _ := math.Lgamma(float64(n - i + 1))
	return math.Exp(a - b - c + float64(i)*math.Log(p) + float64(n-i)*math.Log(q))
}
