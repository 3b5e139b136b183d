package profiling

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tokenrouter/tokenrouter/backend"
)

// Grid says which steps to time.
type Grid struct {
	Requests []int // that feed one row each, from 1
	Contexts []int // of each request
	// Rows are those that one request feeds at once, from 1: extends and prefill
	// chunks, at the first context.
	Rows    []int
	Repeats int           // of the whole grid at most, after one to warm up
	Budget  time.Duration // no further repeat begins after that; 0: no limit
}

// Steps that nobody can be without, and a number of repeats from which a median
// shrugs off a disturbed one.
const (
	repeatsMin     = 3
	repeatsDefault = 9
)

// DefaultGrid covers steps of up to so many requests and rows, with contexts
// from one half to twice of what is expected.
func DefaultGrid(requests, rows, context int) Grid {
	g := Grid{Requests: doubling(requests), Rows: doubling(rows), Repeats: repeatsDefault}
	for _, c := range []int{context / 2, context, 2 * context} {
		if c = max(c, 1); !slices.Contains(g.Contexts, c) {
			g.Contexts = append(g.Contexts, c)
		}
	}
	return g
}

// doubling lists 1, 2, 3, 4, 6, 8, 12 … up to most: steps of at most one half,
// since where a kernel's cost jumps is not known.
func doubling(most int) []int {
	var out []int
	for x := 1; x < most; x *= 2 {
		out = append(out, x)
		if between := x + x/2; x >= 2 && between < most {
			out = append(out, between)
		}
	}
	return append(out, most)
}

// points lists what is timed, each once, and the held out ones: in the middle
// between grid points, where the profile must guess.
func (g *Grid) points() (grid, heldOut []Point) {
	add := func(list []Point, p Point) []Point {
		if slices.Contains(list, p) {
			return list
		}
		return append(list, p)
	}
	for _, r := range g.Requests {
		for _, c := range g.Contexts {
			grid = add(grid, Point{r, r, c})
		}
	}
	for _, rows := range g.Rows {
		grid = add(grid, Point{1, rows, g.Contexts[0]})
	}
	last := g.Contexts[len(g.Contexts)-1]
	middle := (g.Contexts[0] + last) / 2
	for i := 1; i < len(g.Requests); i += 2 {
		r := g.Requests[i]
		heldOut = add(heldOut, Point{r, r, middle})
		if extends := 4 * r; extends <= g.Rows[len(g.Rows)-1] && extends <= 4*middle {
			heldOut = add(heldOut, Point{r, extends, middle})
		}
	}
	heldOut = slices.DeleteFunc(heldOut, func(p Point) bool { return slices.Contains(grid, p) })
	return grid, heldOut
}

// Blocks is how many KV blocks of that many tokens an engine needs for the grid.
func (g *Grid) Blocks(blockTokens int) int {
	most := 0
	grid, heldOut := g.points()
	for _, p := range append(grid, heldOut...) {
		most = max(most, p.blocks(blockTokens))
	}
	return most
}

// axisMost bounds each axis: more than any machine holds, and products of two and
// the tokens of a block stay far from the largest integer.
const axisMost = 1 << 24

// Check says what is wrong with the grid.
func (g *Grid) Check() error {
	for _, axis := range []struct {
		name   string
		values []int
		from1  bool
	}{{"requests", g.Requests, true}, {"rows", g.Rows, true}, {"context", g.Contexts, false}} {
		v := axis.values
		if len(v) == 0 || v[0] < 1 || axis.from1 && v[0] != 1 || !slices.IsSorted(v) || len(slices.Compact(slices.Clone(v))) != len(v) {
			if axis.from1 {
				return errors.New(axis.name + " must rise from 1")
			}
			return errors.New(axis.name + " must rise, from 1 at least")
		}
		if most := v[len(v)-1]; most > axisMost {
			return fmt.Errorf("%s goes up to %d, and must not beyond %d", axis.name, most, axisMost)
		}
	}
	return nil
}

// Timed is a kind of step with what it took, each time.
type Timed struct {
	Point
	HeldOut bool // no profile is made from it
	Ms      []float64
}

// MedianMs is the middle one of the times.
func (t *Timed) MedianMs() float64 { return median(slices.Clone(t.Ms)) }

// Times are those of a grid.
type Times struct {
	Info  backend.Info
	Grid  Grid
	Steps []Timed
}

// Measure times an engine's steps. The whole grid is gone through again and
// again, in a new order each time, so that a machine that gets hot or busy does
// not make some kinds of step look slower than others.
func Measure(ctx context.Context, e backend.Engine, g Grid, progress func(done, total int)) (*Times, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	if g.Repeats < 1 {
		g.Repeats = repeatsDefault
	}
	s := newStepper(e)
	t := &Times{Info: e.Info(), Grid: g}
	grid, heldOut := g.points()
	for _, p := range grid {
		t.Steps = append(t.Steps, Timed{Point: p})
	}
	for _, p := range heldOut {
		t.Steps = append(t.Steps, Timed{Point: p, HeldOut: true})
	}
	order := make([]int, len(t.Steps))
	for i := range order {
		order[i] = i
		if err := s.check(t.Steps[i].Point); err != nil {
			return nil, err
		}
	}
	draw := rand.New(rand.NewPCG(1, 2)) // any order will do
	start := time.Now()
	for repeat := range g.Repeats + 1 {
		if repeat > repeatsMin && g.Budget > 0 && time.Since(start) > g.Budget {
			break
		}
		draw.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for n, i := range order {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			took, err := s.run(t.Steps[i].Point)
			if err != nil {
				return nil, err
			}
			if repeat > 0 {
				t.Steps[i].Ms = append(t.Steps[i].Ms, took.Seconds()*1e3)
			}
			if progress != nil {
				progress(repeat*len(order)+n+1, (g.Repeats+1)*len(order))
			}
		}
	}
	return t, nil
}

// GBPerS is at what rate a step of one request reads the weights: what bounds
// it on most machines.
func (t *Times) GBPerS() float64 {
	return float64(t.Info.WeightBytes) / t.of(Point{1, 1, t.Grid.Contexts[0]}) / 1e6
}

// of is the median of a kind of step; it must be there.
func (t *Times) of(p Point) float64 {
	for i := range t.Steps {
		if t.Steps[i].Point == p {
			return t.Steps[i].MedianMs()
		}
	}
	panic("profiling: " + p.String() + " was not timed")
}

func median(x []float64) float64 {
	slices.Sort(x)
	middle := len(x) / 2
	if len(x)%2 == 1 {
		return x[middle]
	}
	return (x[middle-1] + x[middle]) / 2
}
