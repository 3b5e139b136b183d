package dtmc

import "math"

// split is one way in which the requests of a finished step scatter: delta adds
// them to the waiting fields of a packed state.
type split struct {
	delta uint64
	p     float64
}

// newSplits lists the multinomial splits of every batch of every model. Where
// requests are told apart, those that go on are counted as such.
func newSplits(l *layout, m *moves, maxBatch []int, users int, toldApart []bool) [][][]split {
	all := make([][][]split, l.stations())
	for i := range l.models {
		all[i] = make([][]split, maxBatch[i]+1)
		s := splitter{row: append(append([]float64(nil), m.to[i]...), m.stay[i])}
		for j := range l.models {
			s.one = append(s.one, l.arrival(i, j))
		}
		s.one = append(s.one, l.waiting[i].add(1))
		if toldApart[i] {
			s.one[l.models] += l.remaining[i].add(1)
		}
		for b := 1; b <= maxBatch[i]; b++ {
			s.out = nil
			s.add(0, b, 0, 1)
			all[i][b] = s.kept()
		}
	}
	for w, way := range l.ways {
		for b := range users + 1 {
			all[l.models+w] = append(all[l.models+w], []split{{l.waiting[way.to].add(b), 1}})
		}
	}
	return all
}

// arrival is what one request that goes from a model to another adds to a state.
func (l *layout) arrival(from, to int) uint64 {
	for w, way := range l.ways {
		if way.from == from && way.to == to {
			return l.inFlight[l.models+w].add(1)
		}
	}
	return l.waiting[to].add(1)
}

type splitter struct {
	row []float64 // chances of coming to each model, then of going on
	one []uint64  // what one request of each adds to a state
	out []split
}

// add scatters left requests over the entries of the row from j on, given that they went to
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
		s.out = append(s.out, split{delta + uint64(left)*s.one[j], p})
		return
	case s.row[j] == 0:
		s.add(j+1, left, delta, p)
		return
	}
	for i := range left + 1 {
		q := binomial(left, i, s.row[j]/rest, further/rest)
		s.add(j+1, left-i, delta+uint64(i)*s.one[j], p*q)
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
