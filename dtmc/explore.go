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
	transit        *transit
	stretch        [][]float64 // by model and set of models in flight; nil without interference
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

// ahead is what happens up to the next completion of a state: how many quanta
// pass, and what is left of each step in flight.
type ahead struct {
	quanta float64
	left   [maxStations]left // of what is in flight
}

// ends is the chance that the step is over.
func (r left) ends() float64 {
	if r.floor > 0 {
		return 0
	}
	return 1 - r.above
}

// ahead looks at the models in flight: the same ones until the next completion,
// so that the work of each shrinks at one pace.
func (c *chain) ahead(key uint64) (a ahead) {
	l := &c.layout
	busy := 0
	a.quanta = math.Inf(1)
	for m := range l.stations() {
		if l.inFlight[m].get(key) > 0 {
			busy |= 1 << m
		}
	}
	for m := range l.stations() {
		if busy>>m&1 != 0 {
			a.quanta = min(a.quanta, float64(l.remaining[m].get(key))*c.pace(m, busy))
		}
	}
	for m := range l.stations() {
		if busy>>m&1 == 0 {
			continue
		}
		rest := float64(l.remaining[m].get(key)) - a.quanta/c.pace(m, busy)
		if m < l.models {
			a.left[m] = c.quanta.grid(m, rest)
		} else {
			whole := math.Floor(rest + wholeWork)
			a.left[m] = left{int(whole), 1, max(0, rest-whole)}
		}
	}
	return a
}

func (c *chain) pace(m, busy int) float64 {
	if c.stretch == nil || m >= c.layout.models {
		return 1
	}
	return c.stretch[m][busy&(1<<c.layout.models-1)]
}

// stretches tabulates by how much the work of each model takes longer, by the
// set of models in flight; nil if none ever does.
func stretches(interference [][]float64) [][]float64 {
	some := false
	out := make([][]float64, len(interference))
	for m, row := range interference {
		out[m] = make([]float64, 1<<len(row))
		for busy := range out[m] {
			out[m][busy] = 1
			for j, f := range row {
				if j != m && busy>>j&1 != 0 {
					out[m][busy] *= f
					some = some || f > 1
				}
			}
		}
	}
	if !some {
		return nil
	}
	return out
}

// alike reports whether the models in flight always slow down by one factor: then
// whole quanta of work stay whole.
func alike(stretch [][]float64) bool {
	for busy := range 1 << len(stretch) {
		common := 0.0
		for m := range stretch {
			switch f := stretch[m][busy]; {
			case busy>>m&1 == 0:
			case common == 0:
				common = f
			case f != common:
				return false
			}
		}
	}
	return true
}

// expand adds the transitions of one state: time jumps to the next completion,
// every step that ends then scatters its requests, and the rule decides.
func (c *chain) expand(key uint64) {
	next := c.ahead(key)
	var ending [maxStations][]split
	c.pass(0, &next, ending[:0], -1, key, 1)
}

// pass lets time pass for the models from m on; last has ended so far.
func (c *chain) pass(m int, next *ahead, ending [][]split, last int, key uint64, p float64) {
	l := &c.layout
	for ; m < l.stations(); m++ {
		b := l.inFlight[m].get(key)
		if b == 0 {
			continue
		}
		rest := next.left[m]
		key = l.remaining[m].clear(key)
		if rest.above > 0 {
			c.pass(m+1, next, ending, last, key|l.remaining[m].add(rest.floor+rest.step), p*rest.above)
			p *= 1 - rest.above
		}
		if rest.floor > 0 {
			key |= l.remaining[m].add(rest.floor)
			continue
		}
		key = l.inFlight[m].clear(key)
		ending = append(ending, c.splits[m][b])
		if m < l.models {
			last = m
		}
	}
	if c.turns && last >= 0 {
		key = l.last.clear(key) | l.last.add(last+1)
	}
	c.scatter(ending, key, p)
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

// settle sends off what has just been handed over, then lets the rule decide.
func (c *chain) settle(key uint64, p float64) {
	if len(c.layout.ways) == 0 {
		c.decide(key, p)
		return
	}
	c.depart(0, key, p)
}

// depart puts what the ways from w on have just been given under way.
func (c *chain) depart(w int, key uint64, p float64) {
	l := &c.layout
	for ; w < len(l.ways); w++ {
		at := l.models + w
		b := l.inFlight[at].get(key)
		if b == 0 || l.remaining[at].get(key) > 0 {
			continue
		}
		for _, x := range c.transit.lengths {
			next := key | l.remaining[at].add(x.quanta)
			if x.quanta == 0 { // there at once
				next = l.inFlight[at].clear(key) + l.waiting[l.ways[w].to].add(b)
			}
			c.depart(w+1, next, p*x.p)
		}
		return
	}
	c.decide(key, p)
}

// decide lets the rule decide for every idle model, from what it finds before
// any of them starts, and starts those steps.
func (c *chain) decide(key uint64, p float64) {
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
	for m := range l.stations() {
		if l.inFlight[m].get(key) > 0 {
			c.reach(key, p)
			return
		}
	}
	c.err = errors.New("dtmc: rule " + c.rule.String() + " starts nothing although nothing is in flight: it can stall")
}

func (c *chain) decideTurns(key uint64, starting *[maxModels]bool) bool {
	l := &c.layout
	for w := range l.ways { // whoever takes turns waits for what is under way
		if l.inFlight[l.models+w].get(key) > 0 {
			return false
		}
	}
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
