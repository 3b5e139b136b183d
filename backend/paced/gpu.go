package paced

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// GPU is what several engines share: their steps slow each other down while
// they overlap. As in the simulator, factors of several models multiply, and
// what is left of a step stretches from the instant another one starts and
// shrinks back when that ends.
type GPU struct {
	mu           sync.Mutex
	interference [][]float64
	places       []place
}

// place is that of one engine.
type place struct {
	taken  bool
	flight *flight // its step under way, if there is one
}

// flight is a step under way.
type flight struct {
	place   int
	left    float64 // ns of work at since, as if no other were running
	factor  float64 // by which it stretches since then; 0 before it starts
	since   time.Time
	ends    time.Time // if nothing changes
	changed chan struct{}
	alarm   *alarm
}

// NewGPU makes a GPU for several engines: interference[i][j], at least 1, is the
// factor by which steps of the engine at place i stretch while one of that at
// place j runs. Engines that share nothing have 1.
func NewGPU(interference [][]float64) (*GPU, error) {
	for i, row := range interference {
		if len(row) != len(interference) {
			return nil, fmt.Errorf("paced: row %d of the interference has %d entries for %d models", i, len(row), len(interference))
		}
		for j, f := range row {
			if !(f >= 1 && f <= 1000) {
				return nil, fmt.Errorf("paced: interference %d, %d is %g, want 1 to 1000", i, j, f)
			}
		}
	}
	return &GPU{interference: interference, places: make([]place, len(interference))}, nil
}

// alone is a GPU for one engine.
func alone() *GPU { return &GPU{interference: [][]float64{{1}}, places: make([]place, 1)} }

// occupy takes a place.
func (g *GPU) occupy(p int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case p < 0 || p >= len(g.places):
		return fmt.Errorf("paced: Place is %d on a GPU for %d models", p, len(g.places))
	case g.places[p].taken:
		return fmt.Errorf("paced: Place %d of the GPU is taken", p)
	}
	g.places[p].taken = true
	return nil
}

// start begins a step of that much work, at the instant at which it has the
// lock, so that instants come in the order of calls. The flight's channel is the
// step's own: it has to belong to the bubble in which the step runs.
func (g *GPU) start(p int, ns int64, a *alarm) (*flight, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.places[p].taken:
		return nil, ErrClosed
	case g.places[p].flight != nil:
		panic("paced: Forward called while another one runs")
	case ns == 0:
		return nil, nil
	}
	now := time.Now()
	f := &flight{place: p, left: float64(ns), since: now, changed: make(chan struct{}, 1), alarm: a}
	g.places[p].flight = f
	g.retime(now)
	return f, nil
}

// ends returns when a step ends as things are.
func (g *GPU) ends(f *flight) (time.Time, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.places[f.place].flight != f {
		return time.Time{}, ErrClosed
	}
	return f.ends, nil
}

// end takes a step off the GPU. For the others it ended when it should have:
// that it was woken late is no work.
func (g *GPU) end(f *flight) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.places[f.place].flight != f {
		return ErrClosed
	}
	g.places[f.place].flight = nil
	g.retime(f.ends)
	return nil
}

// leave gives a place up, in the middle of a step too.
func (g *GPU) leave(p int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.places[p].flight; f != nil {
		f.interrupt()
		g.places[p].flight = nil
		g.retime(time.Now())
	}
	g.places[p].taken = false
}

// retime sets when the steps under way end, after one has started or ended.
func (g *GPU) retime(now time.Time) {
	for p := range g.places {
		f := g.places[p].flight
		if f == nil {
			continue
		}
		factor := g.factor(p)
		if factor == f.factor {
			continue
		}
		if f.factor > 0 { // it has run already, and somebody waits for it
			passed := max(now.Sub(f.since), 0)
			f.left = max(f.left-float64(passed)/f.factor, 0)
			f.since = f.since.Add(passed)
			f.interrupt()
		}
		f.factor = factor
		f.ends = f.since.Add(time.Duration(math.Ceil(f.left*factor - roundingNs)))
	}
}

// roundingNs is more than what rounding can add to a step of a year, and less
// than anybody can time.
const roundingNs = 1.0 / 1024

// factor is by how much steps of one place stretch now.
func (g *GPU) factor(p int) float64 {
	f := 1.0
	for o := range g.places {
		if o != p && g.places[o].flight != nil {
			f *= g.interference[p][o]
		}
	}
	return f
}

// interrupt makes the one who waits for f look again.
func (f *flight) interrupt() {
	select {
	case f.changed <- struct{}{}:
	default: // it has not yet looked since the last time
	}
	f.alarm.ring()
}
