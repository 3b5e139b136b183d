package dtmc

import (
	"errors"
	"fmt"
	"math"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// chain is the explored state space: states in order of discovery and their
// transitions, row by row. Its storage is reused from one exploration to the
// next.
type chain struct {
	layout layout
	home   int
	users  int
	quanta quanta

	rule           scheduler.Rule
	turns          bool // rule.NeedsPeers()
	inForce        []int
	maxBatch       []int
	toldApart      []bool
	launches       [][]bool    // by model and ready requests; only for rules that take no turns
	splits         [][][]split // by model and batch
	maxStates      int
	maxTransitions int

	states   []uint64 // packed, by number
	rowStart []int    // len(states)+1
	col      []int32
	val      []float64
	table    stateTable
	seenAt   []int // by state: where the row under construction mentions it

	peers    []scheduler.PeerLoad
	rowBegin int
	err      error
}

// explore finds every state that can be reached from the starts: all requests
// ready at home, and all ready at model other.
func (c *chain) explore(other int) error {
	c.states = c.states[:0]
	c.rowStart = append(c.rowStart[:0], 0)
	c.col, c.val = c.col[:0], c.val[:0]
	c.seenAt = c.seenAt[:0]
	c.table.reset()
	c.err = nil
	for _, m := range []int{c.home, other} {
		// The starts are rows of no state: they only bring states to light.
		c.rowBegin = 0
		c.settle(c.layout.waiting[m].add(c.users), 1)
	}
	c.col, c.val = c.col[:0], c.val[:0]
	for i := range c.seenAt {
		c.seenAt[i] = -1
	}
	for s := 0; s < len(c.states) && c.err == nil; s++ {
		c.rowBegin = len(c.col)
		c.expand(c.states[s])
		c.rowStart = append(c.rowStart, len(c.col))
		if len(c.states) > c.maxStates || len(c.col) > c.maxTransitions {
			return fmt.Errorf("dtmc: %w: more than %d states or %d transitions; use a larger QuantumNs or MaxStates, or the simulator",
				ErrTooLarge, c.maxStates, c.maxTransitions)
		}
	}
	return c.err
}

// sojourn is the quanta until the next completion.
func (c *chain) sojourn(key uint64) int {
	least := math.MaxInt
	for m := range c.layout.models {
		if c.layout.inFlight[m].get(key) > 0 {
			least = min(least, c.layout.remaining[m].get(key))
		}
	}
	return least
}

// expand adds the transitions of one state: time jumps to the next completion,
// every step that ends then scatters its requests, and the rule decides.
func (c *chain) expand(key uint64) {
	l := &c.layout
	dt := c.sojourn(key)
	var ending [maxModels][]split
	ends, last := 0, -1
	for m := range l.models {
		b := l.inFlight[m].get(key)
		if b == 0 {
			continue
		}
		if l.remaining[m].get(key) > dt {
			key -= l.remaining[m].add(dt)
			continue
		}
		key = l.remaining[m].clear(l.inFlight[m].clear(key))
		ending[ends] = c.splits[m][b]
		ends++
		last = m
	}
	if c.turns {
		key = l.last.clear(key) | l.last.add(last+1)
	}
	c.scatter(ending[:ends], key, 1)
}

func (c *chain) scatter(ending [][]split, key uint64, p float64) {
	if len(ending) == 0 {
		c.settle(key, p)
		return
	}
	for _, s := range ending[0] {
		if len(ending) == 1 {
			c.settle(key+s.delta, p*s.p)
		} else {
			c.scatter(ending[1:], key+s.delta, p*s.p)
		}
	}
}

// settle lets the rule decide for every idle model, from what it finds before
// any of them starts, and starts those steps.
func (c *chain) settle(key uint64, p float64) {
	l := &c.layout
	var starting [maxModels]bool
	some := false
	if c.turns {
		some = c.decideTurns(key, &starting)
	} else {
		for m := range l.models {
			if l.inFlight[m].get(key) == 0 && c.launches[m][l.waiting[m].get(key)] {
				starting[m] = true
				some = true
			}
		}
	}
	if some {
		c.start(0, &starting, key, p)
		return
	}
	for m := range l.models {
		if l.inFlight[m].get(key) > 0 {
			c.reach(key, p)
			return
		}
	}
	c.err = errors.New("dtmc: rule " + c.rule.String() + " starts nothing although nothing is in flight: it can stall")
}

func (c *chain) decideTurns(key uint64, starting *[maxModels]bool) bool {
	l := &c.layout
	for m := range l.models {
		c.peers[m] = scheduler.PeerLoad{
			Busy:  l.inFlight[m].get(key) > 0,
			Ready: l.waiting[m].get(key),
		}
	}
	some := false
	load := scheduler.Load{Live: c.users, Peers: c.peers, LastRan: l.last.get(key) - 1}
	for m := range l.models {
		if c.peers[m].Busy {
			continue
		}
		load.Model, load.Ready, load.B = m, c.peers[m].Ready, c.inForce[m]
		starting[m] = c.rule.Launch(&load)
		some = some || starting[m]
	}
	return some
}

// start puts the steps of the starting models from m on in flight, with each of
// the lengths that they can have.
func (c *chain) start(m int, starting *[maxModels]bool, key uint64, p float64) {
	l := &c.layout
	for ; m < l.models; m++ {
		if !starting[m] {
			continue
		}
		b := min(l.waiting[m].get(key), c.maxBatch[m])
		goOn := 0
		if c.toldApart[m] {
			goOn = l.remaining[m].get(key)
			key = l.remaining[m].clear(key)
		}
		key += l.inFlight[m].add(b) - l.waiting[m].add(b)
		lengths := c.quanta.steps[m][goOn][b-goOn]
		last := len(lengths) - 1
		for _, x := range lengths[:last] {
			c.start(m+1, starting, key+l.remaining[m].add(x.quanta), p*x.p)
		}
		key += l.remaining[m].add(lengths[last].quanta)
		p *= lengths[last].p
	}
	c.reach(key, p)
}

// reach adds one transition, or adds p to it if the row has it already.
func (c *chain) reach(key uint64, p float64) {
	id, fresh := c.table.number(key, int32(len(c.states)))
	if fresh {
		c.states = append(c.states, key)
		c.seenAt = append(c.seenAt, -1)
	}
	if at := c.seenAt[id]; at >= c.rowBegin {
		c.val[at] += p
		return
	}
	c.seenAt[id] = len(c.col)
	c.col = append(c.col, id)
	c.val = append(c.val, p)
}

// decideOnce asks a rule that takes no turns about every number of ready
// requests that can occur: it sees nothing else that changes.
func (c *chain) decideOnce() {
	c.launches = make([][]bool, c.layout.models)
	for m := range c.launches {
		c.launches[m] = make([]bool, c.users+1)
		for ready := range c.launches[m] {
			load := scheduler.Load{Model: m, Ready: ready, Live: c.users, B: c.inForce[m], LastRan: -1}
			c.launches[m][ready] = c.rule.Launch(&load)
		}
	}
}
