package profiling

import (
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
