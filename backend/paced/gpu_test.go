package paced

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/backend"
)

const ms = time.Millisecond

// shared makes a GPU with an engine for each step length.
func shared(t *testing.T, interference [][]float64, steps ...time.Duration) []*Engine {
	t.Helper()
	gpu, err := NewGPU(interference)
	if err != nil {
		t.Fatal(err)
	}
	var engines []*Engine
	for place, step := range steps {
		engines = append(engines, engine(t, Options{Time: fixed(step), GPU: gpu, Place: place}))
	}
	return engines
}

// TestInterference: steps that overlap stretch, by hand.
func TestInterference(t *testing.T) {
	for _, c := range []struct {
		name         string
		interference [][]float64
		steps        []time.Duration
		starts, ends []time.Duration
	}{
		{"one after the other", [][]float64{{1, 2}, {2, 1}}, []time.Duration{10 * ms, 10 * ms},
			[]time.Duration{0, 10 * ms}, []time.Duration{10 * ms, 20 * ms}},
		// A has 5 ms left when B comes, which take 10; then B has 5 left, alone.
		{"half way", [][]float64{{1, 2}, {2, 1}}, []time.Duration{10 * ms, 10 * ms},
			[]time.Duration{0, 5 * ms}, []time.Duration{15 * ms, 20 * ms}},
		{"from the start", [][]float64{{1, 1.5}, {1.5, 1}}, []time.Duration{4 * ms, 10 * ms},
			[]time.Duration{0, 0}, []time.Duration{6 * ms, 12 * ms}},
		// B hurts A threefold and does not notice A: A did 2 of 8 ms, then 4/3 in
		// 4 ms, and the rest alone.
		{"one way", [][]float64{{1, 3}, {1, 1}}, []time.Duration{8 * ms, 4 * ms},
			[]time.Duration{0, 2 * ms}, []time.Duration{10666667, 6 * ms}},
		// Three at once: factor 4 each until B's 1 ms is done, then 2 for A and C.
		{"factors multiply", [][]float64{{1, 2, 2}, {2, 1, 2}, {2, 2, 1}}, []time.Duration{3 * ms, 1 * ms, 3 * ms},
			[]time.Duration{0, 0, 0}, []time.Duration{8 * ms, 4 * ms, 8 * ms}},
		{"nothing shared", [][]float64{{1, 1}, {1, 1}}, []time.Duration{7 * ms, 9 * ms},
			[]time.Duration{0, 1 * ms}, []time.Duration{7 * ms, 10 * ms}},
	} {
		synctest.Test(t, func(t *testing.T) {
			engines := shared(t, c.interference, c.steps...)
			zero := time.Now()
			var all sync.WaitGroup
			for i, e := range engines {
				all.Go(func() {
					time.Sleep(c.starts[i])
					forward(t, e, decode(1, 1))
					if at := time.Since(zero); at != c.ends[i] {
						t.Errorf("%s: step %d ended at %v, want %v", c.name, i, at, c.ends[i])
					}
				})
			}
			all.Wait()
		})
	}
}

// TestCloseFreesTheGPU: an engine that is closed slows nobody down any more, and
// its place can be taken again.
func TestCloseFreesTheGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engines := shared(t, [][]float64{{1, 2}, {2, 1}}, 10*ms, time.Hour)
		zero := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			forward(t, engines[0], decode(1, 1))
			if at := time.Since(zero); at != 13*ms {
				t.Errorf("ended at %v, want 13ms: 3 ms of work in 6, the rest alone", at)
			}
		})
		all.Go(func() {
			err := engines[1].Forward(&backend.Step{Sequences: []backend.Sequence{decode(1, 1)}}, make([]backend.Result, 1))
			if !errors.Is(err, ErrClosed) {
				t.Errorf("error %v", err)
			}
		})
		time.Sleep(6 * ms)
		engines[1].Close()
		all.Wait()
		engine(t, Options{GPU: engines[0].gpu, Place: 1})
	})
}

// TestRepeatable: what overlaps how does not depend on who is faster to ask.
func TestRepeatable(t *testing.T) {
	run := func() (ends []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			engines := shared(t, [][]float64{{1, 1.25}, {1.5, 1}}, 700*time.Microsecond, 1900*time.Microsecond)
			zero := time.Now()
			of := make([][]time.Duration, len(engines))
			var all sync.WaitGroup
			for i, e := range engines {
				all.Go(func() {
					for position := range 40 {
						forward(t, e, decode(1, position+1))
						of[i] = append(of[i], time.Since(zero))
						time.Sleep(time.Duration(i+1) * 13 * time.Microsecond)
					}
				})
			}
			all.Wait()
			ends = append(of[0], of[1]...)
		})
		return ends
	}
	first := run()
	for range 5 {
		for i, at := range run() {
			if at != first[i] {
				t.Fatalf("step %d ended at %v, before at %v", i, at, first[i])
			}
		}
	}
}

// TestSharedOnTheWall: at a factor of 2 two engines together get on no faster
// than one alone, so 60 ms of work take 60 ms at least, however late steps are.
// Most steps here stretch or shrink when the alarm is set already.
func TestSharedOnTheWall(t *testing.T) {
	engines := shared(t, [][]float64{{1, 2}, {2, 1}}, 1500*time.Microsecond, 1500*time.Microsecond)
	start := time.Now()
	var all sync.WaitGroup
	for _, e := range engines {
		all.Go(func() {
			for position := range 20 {
				forward(t, e, decode(1, position+1))
			}
		})
	}
	all.Wait()
	if passed := time.Since(start); passed < 60*ms {
		t.Errorf("took %v", passed)
	}
	for _, e := range engines {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNewGPURefuses(t *testing.T) {
	for _, c := range []struct {
		interference [][]float64
		want         string
	}{
		{[][]float64{{1, 2}, {1}}, "row 1 of the interference has 1 entries for 2 models"},
		{[][]float64{{1, 0.9}, {1, 1}}, "interference 0, 1 is 0.9, want 1 to 1000"},
	} {
		if _, err := NewGPU(c.interference); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// TestLateIsNoWork: a step that is taken off late slowed the others down until
// it should have ended, and those that started since not at all.
func TestLateIsNoWork(t *testing.T) {
	for _, c := range []struct {
		name        string
		onA         float64 // by which A stretches
		bStarts     time.Duration
		aTaken, end time.Duration
	}{
		{"in time", 1.5, 0, 6 * ms, 12 * ms},
		{"late", 1.5, 0, 8 * ms, 12 * ms},
		{"late, and the other came after its end", 1.5, 5 * ms, 8 * ms, 15 * ms},
		{"the same, unnoticed", 1, 5 * ms, 8 * ms, 15 * ms},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := shared(t, [][]float64{{1, c.onA}, {1.5, 1}}, ms, ms)[0].gpu
			zero := time.Now()
			a, _ := g.start(0, int64(4*ms), nil)
			time.Sleep(c.bStarts)
			b, _ := g.start(1, int64(10*ms), nil)
			time.Sleep(c.aTaken - c.bStarts)
			if err := g.end(a); err != nil {
				t.Fatal(err)
			}
			ends, err := g.ends(b)
			if at := ends.Sub(zero); at != c.end || err != nil {
				t.Errorf("%s: the other ends at %v, want %v (%v)", c.name, at, c.end, err)
			}
		})
	}
}
