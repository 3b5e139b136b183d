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
	scc    components
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
		dt := c.sojourn(key)
		tokens := 0.0
		for m := range l.models {
			if b := l.inFlight[m].get(key); b > 0 && l.remaining[m].get(key) == dt {
				tokens += float64(b) * v.tokens[m]
			}
		}
		f.quanta = append(f.quanta, float64(dt))
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

// components finds the strongly connected components of a chain (Tarjan, with
// an explicit stack).
type components struct {
	index, low []int32
	stack      []int32
	call       []frame
	closed     [][]int32 // components that nothing leaves
	owner      []int32   // component of a state, -1 while open
}

type frame struct {
	state int32
	edge  int
}

// find returns the closed components, each in the order in which the search
// left them.
func (t *components) find(c *chain) [][]int32 {
	n := len(c.states)
	t.index, t.low, t.owner = resize(t.index, n), resize(t.low, n), resize(t.owner, n)
	clear(t.index)
	for i := range t.owner {
		t.owner[i] = -1
	}
	t.closed = t.closed[:0]
	next, comps := int32(1), int32(0)
	for root := range int32(n) {
		if t.index[root] != 0 {
			continue
		}
		t.call = append(t.call[:0], frame{root, c.rowStart[root]})
		t.index[root], t.low[root] = next, next
		next++
		t.stack = append(t.stack[:0], root)
		for len(t.call) > 0 {
			f := &t.call[len(t.call)-1]
			if f.edge < c.rowStart[f.state+1] {
				to := c.col[f.edge]
				f.edge++
				if t.index[to] == 0 {
					t.index[to], t.low[to] = next, next
					next++
					t.stack = append(t.stack, to)
					t.call = append(t.call, frame{to, c.rowStart[to]})
				} else if t.owner[to] < 0 {
					t.low[f.state] = min(t.low[f.state], t.index[to])
				}
				continue
			}
			s := f.state
			t.call = t.call[:len(t.call)-1]
			if len(t.call) > 0 {
				up := t.call[len(t.call)-1].state
				t.low[up] = min(t.low[up], t.low[s])
			}
			if t.low[s] == t.index[s] {
				t.finish(c, s, comps)
				comps++
			}
		}
	}
	return t.closed
}

// finish takes the component of root off the stack and keeps it if no edge
// leaves it.
func (t *components) finish(c *chain, root, comp int32) {
	at := len(t.stack) - 1
	for t.stack[at] != root {
		at--
	}
	members := t.stack[at:]
	t.stack = t.stack[:at]
	for _, s := range members {
		t.owner[s] = comp
	}
	for _, s := range members {
		for e := c.rowStart[s]; e < c.rowStart[s+1]; e++ {
			if t.owner[c.col[e]] != comp {
				return
			}
		}
	}
	t.closed = append(t.closed, slices.Clone(members))
}
