package dtmc

import (
	"cmp"
	"slices"
)

// flow is the recurrent part of a chain, its states renumbered in the order in
// which time flows through them, so that one sweep of Gauss-Seidel carries
// probability all the way round a cycle of the slowest model.
type flow struct {
	keys     []uint64 // packed states
	rowStart []int32
	col      []int32
	val      []float64
	leave    []float64 // 1 / (1 - probability of staying); +Inf if nothing leaves

	quanta []float64 // until the next completion
	tokens []float64 // visible tokens expected of that completion
	atHome []int32   // requests waiting or in flight at home

	number []int32  // by state of the chain; -1 if transient
	order  []ranked // scratch
}

type ranked struct {
	rank  uint64
	state int32
}

// arrange keeps the states of one closed class of c and puts them in flow
// order: the models from slow to fast, each first idle with few waiting, then
// idle with many, then in flight with much time left, then with little. Only a
// completion of the slowest model leads backwards, and within the states that
// it leaves unchanged only a completion of the next.
func (f *flow) arrange(c *chain, class []int32, v *visits) {
	l := &c.layout
	slow := slowest(&c.quanta)
	f.order = f.order[:0]
	for _, s := range class {
		f.order = append(f.order, ranked{rank(l, slow, c.states[s]), s})
	}
	slices.SortFunc(f.order, func(a, b ranked) int {
		if a.rank != b.rank {
			return cmp.Compare(a.rank, b.rank)
		}
		return cmp.Compare(a.state, b.state)
	})
	f.number = resize(f.number, len(c.states))
	for i := range f.number {
		f.number[i] = -1
	}
	f.keys = f.keys[:0]
	for i, r := range f.order {
		f.number[r.state] = int32(i)
		f.keys = append(f.keys, c.states[r.state])
	}
	f.rowStart = append(f.rowStart[:0], 0)
	f.col, f.val, f.leave = f.col[:0], f.val[:0], f.leave[:0]
	for i, r := range f.order {
		away := 0.0
		for e := c.rowStart[r.state]; e < c.rowStart[r.state+1]; e++ {
			j := f.number[c.col[e]]
			if int(j) == i {
				continue
			}
			f.col = append(f.col, j)
			f.val = append(f.val, c.val[e])
			away += c.val[e]
		}
		f.leave = append(f.leave, 1/away)
		f.rowStart = append(f.rowStart, int32(len(f.col)))
	}
	f.reward(c, v)
}

// reward tabulates what the states are worth.
func (f *flow) reward(c *chain, v *visits) {
	l := &c.layout
	f.quanta, f.tokens, f.atHome = f.quanta[:0], f.tokens[:0], f.atHome[:0]
	for _, key := range f.keys {
		next := c.ahead(key)
		tokens := 0.0
		for m := range l.models {
			if b := l.inFlight[m].get(key); b > 0 {
				tokens += float64(b) * v.tokens[m] * next.left[m].ends()
			}
		}
		f.quanta = append(f.quanta, next.quanta)
		f.tokens = append(f.tokens, tokens)
		f.atHome = append(f.atHome, int32(l.waiting[c.home].get(key)+l.inFlight[c.home].get(key)))
	}
}

func rank(l *layout, slow []int, key uint64) uint64 {
	r := uint64(0)
	for _, m := range slow {
		wait, rem := l.waiting[m], l.remaining[m]
		w := max(wait.width, rem.width) + 1
		r <<= w
		if l.inFlight[m].get(key) == 0 {
			r |= uint64(wait.get(key))
		} else {
			r |= 1<<(w-1) | (1<<(w-1) - 1 - uint64(rem.get(key)))
		}
	}
	return r
}

// slowest lists the models by their longest step, longest first.
func slowest(q *quanta) []int {
	order := make([]int, len(q.largest))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(q.largest[b], q.largest[a]) })
	return order
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
