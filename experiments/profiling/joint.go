package profiling

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenrouter/tokenrouter/backend"
)

// Stretch is by how much an engine's steps take longer while another engine
// runs.
type Stretch struct {
	Factor    float64 // median over rounds, at least 1
	Low, High float64 // of the rounds
	AloneMs   float64
	BesideMs  float64
}

// Part is an engine's part in a joint run: the same step again and again.
type Part struct {
	Engine backend.Engine
	Step   Point
}

// Joint lets two engines run alone and side by side, in turns, and says by how
// much each one stretches while the other is in flight all the time. Turns are
// short, so that a machine that gets slower slows down both kinds alike.
func Joint(ctx context.Context, a, b Part, rounds int, turn time.Duration) (ofA, ofB Stretch, err error) {
	sa, sb := newStepper(a.Engine), newStepper(b.Engine)
	if err := errors.Join(sa.check(a.Step), sb.check(b.Step)); err != nil {
		return ofA, ofB, err
	}
	var ratios, lone, beside [2][]float64
	for round := range rounds + 1 {
		var ms [2][2][]float64 // [engine][alone or beside]
		if ms[0][0], err = alone(ctx, sa, a.Step, turn); err != nil {
			return ofA, ofB, err
		}
		if ms[1][0], err = alone(ctx, sb, b.Step, turn); err != nil {
			return ofA, ofB, err
		}
		if ms[0][1], ms[1][1], err = together(ctx, sa, sb, a.Step, b.Step, 2*turn); err != nil {
			return ofA, ofB, err
		}
		if round == 0 {
			continue // it warms up
		}
		for i := range ms {
			without, with := median(ms[i][0]), median(ms[i][1])
			lone[i], beside[i] = append(lone[i], without), append(beside[i], with)
			ratios[i] = append(ratios[i], with/without)
		}
	}
	return stretch(ratios[0], lone[0], beside[0]), stretch(ratios[1], lone[1], beside[1]), nil
}

func stretch(ratios, lone, beside []float64) Stretch {
	m := median(ratios) // it sorts
	return Stretch{Factor: max(m, 1), Low: ratios[0], High: ratios[len(ratios)-1], AloneMs: median(lone), BesideMs: median(beside)}
}

// stepsMin is how many steps a turn has at least, however long they take.
const stepsMin = 3

// alone runs steps of one engine for a while.
func alone(ctx context.Context, s *stepper, p Point, turn time.Duration) (ms []float64, err error) {
	for start := time.Now(); len(ms) < stepsMin || time.Since(start) < turn; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		took, err := s.run(p)
		if err != nil {
			return nil, err
		}
		ms = append(ms, took.Seconds()*1e3)
	}
	return ms, nil
}

// together runs steps of two engines side by side until both have run enough,
// or one has failed. The first and the last of each may have run alone and do
// not count.
func together(ctx context.Context, a, b *stepper, pa, pb Point, turn time.Duration) (msA, msB []float64, err error) {
	var running atomic.Int32 // engines that have not run enough yet
	var broken atomic.Bool
	var both sync.WaitGroup
	running.Store(2)
	start := time.Now()
	loop := func(s *stepper, p Point, ms *[]float64, failed *error) {
		enough := false
		for {
			if !enough && len(*ms) >= stepsMin+2 && time.Since(start) >= turn {
				enough = true
				running.Add(-1)
			}
			if running.Load() == 0 || broken.Load() {
				return
			}
			took, err := s.run(p)
			if err = errors.Join(err, ctx.Err()); err != nil {
				*failed = err
				broken.Store(true)
				return
			}
			*ms = append(*ms, took.Seconds()*1e3)
		}
	}
	var errA, errB error
	both.Go(func() { loop(a, pa, &msA, &errA) })
	both.Go(func() { loop(b, pb, &msB, &errB) })
	both.Wait()
	if err := errors.Join(errA, errB); err != nil {
		return nil, nil, err
	}
	return msA[1 : len(msA)-1], msB[1 : len(msB)-1], nil
}
