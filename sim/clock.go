package sim

import "github.com/tokenrouter/tokenrouter/scheduler"

// due is an event with the core that it is for. Events of one instant are
// handled together, so among them the order does not matter; seq makes it
// definite all the same.
type due struct {
	atNs  int64
	seq   uint64
	model int
	from  int // model that sent it, or outside
	event scheduler.Event
}

// outside is where events come from that no model sent.
const outside = -1

// clock is a binary heap of events that lie ahead, first by time and then by
// the order in which they were set. Step ends are not in it: there is at most
// one a core, so the world looks at those itself.
type clock struct {
	heap []due
	seq  uint64
}

func (c *clock) set(model, from int, ev scheduler.Event) {
	c.seq++
	c.heap = append(c.heap, due{ev.AtNs, c.seq, model, from, ev})
	for i := len(c.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !c.before(i, up) {
			break
		}
		c.heap[i], c.heap[up] = c.heap[up], c.heap[i]
		i = up
	}
}

func (c *clock) pop() due {
	top := c.heap[0]
	n := len(c.heap) - 1
	c.heap[0] = c.heap[n]
	c.heap[n] = due{}
	c.heap = c.heap[:n]
	for i := 0; ; {
		first := i
		for down := 2*i + 1; down <= 2*i+2 && down < n; down++ {
			if c.before(down, first) {
				first = down
			}
		}
		if first == i {
			return top
		}
		c.heap[i], c.heap[first] = c.heap[first], c.heap[i]
		i = first
	}
}

func (c *clock) before(i, j int) bool {
	a, b := &c.heap[i], &c.heap[j]
	return a.atNs < b.atNs || a.atNs == b.atNs && a.seq < b.seq
}
