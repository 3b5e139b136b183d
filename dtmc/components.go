package dtmc

import "slices"

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
