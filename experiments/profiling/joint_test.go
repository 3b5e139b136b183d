package profiling

import (
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/backend"
)

// paired is an engine that takes longer while its other half is in flight.
type paired struct {
	fake
	running atomic.Int32
	other   *paired
	alone   time.Duration
	beside  time.Duration
}

func (p *paired) Forward(*backend.Step, []backend.Result) error {
	p.running.Store(1)
	defer p.running.Store(0)
	const slice = 100 * time.Microsecond
	for done := 0.0; done < float64(p.alone); {
		time.Sleep(slice)
		if p.other.running.Load() == 1 {
			done += float64(slice) * float64(p.alone) / float64(p.beside)
		} else {
			done += float64(slice)
		}
	}
	return nil
}

// An engine that breaks at the very moment at which the other has run enough
// ends the run all the same.
func TestJointEndsWithABrokenEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steady := &fake{t: t, ms: func(int, int, int) float64 { return 1 }, sleep: true}
		broken := &breaking{fake{t: t}}
		one := Point{1, 1, 16}
		_, _, err := together(t.Context(), newStepper(steady), newStepper(broken), one, one, 20*time.Millisecond)
		if !errors.Is(err, errBroken) {
			t.Errorf("got %v, want %v", err, errBroken)
		}
	})
}

// breaking is an engine whose first step fails, after a while.
type breaking struct{ fake }

var errBroken = errors.New("made to fail")

func (b *breaking) Forward(*backend.Step, []backend.Result) error {
	time.Sleep(19500 * time.Microsecond)
	return errBroken
}

// In a bubble, where time is exact, the factors come out as they were made.
func TestJointFindsTheFactors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &paired{fake: fake{t: t}, alone: 4 * time.Millisecond, beside: 5 * time.Millisecond}
		b := &paired{fake: fake{t: t}, alone: 20 * time.Millisecond, beside: 36 * time.Millisecond, other: a}
		a.other = b
		ofA, ofB, err := Joint(t.Context(), Part{a, Point{1, 1, 16}}, Part{b, Point{1, 1, 16}}, 3, 100*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(ofA.Factor-1.25) > 0.05 || math.Abs(ofB.Factor-1.8) > 0.05 {
			t.Errorf("factors %+v and %+v, want 1.25 and 1.8", ofA, ofB)
		}
	})
}
