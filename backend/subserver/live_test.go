package subserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Every core knows how many requests are live in the whole system, and clamps
// its threshold to it.
func TestLiveIsKnownEverywhere(t *testing.T) {
	for _, split := range []bool{false, true} {
		p := small()
		p.rule, p.b, p.maxRunning, p.chunk, p.split = scheduler.Delayed{}, 6, 8, 16, split
		synctest.Test(t, func(t *testing.T) {
			systems := p.start(t, p.config(t))
			var open []*Stream
			at := func(want scheduler.Counts, threshold int) {
				t.Helper()
				time.Sleep(50 * time.Millisecond)
				for m, sys := range systems {
					if st := sys.Stats()[m]; st.Live != want.Live || st.Threshold > threshold || st.Threshold < threshold-1 {
						t.Errorf("%s: %d live, threshold %d; want %d live, threshold %d or one less", st.Model, st.Live, st.Threshold, want.Live, threshold)
					}
				}
			}
			for id := range scheduler.RequestID(7) {
				r := long(id+1, 300)
				r.Home = int(id) % 2
				open = append(open, submit(t, systems[r.Home], r))
			}
			at(scheduler.Counts{Live: 7}, 4) // 4 + 4 = 7 live + 2 models - 1
			for _, s := range open[:5] {
				s.Cancel()
			}
			at(scheduler.Counts{Live: 2}, 2)
			for _, s := range open {
				s.Cancel()
			}
			time.Sleep(time.Minute)
			for m, sys := range systems {
				if st := sys.Stats()[m]; st.Counts != (scheduler.Counts{}) {
					t.Errorf("%+v is left", st)
				}
				if m == 0 || split {
					if err := sys.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// Over wires, too, models that are ready start together: what one has started
// is no news to the other before it has decided as well.
func TestLockstepStaysTogether(t *testing.T) {
	for seed := range uint64(8) {
		p := small()
		p.rule, p.split, p.seed = scheduler.Lockstep{}, seed%2 == 0, seed
		p.algorithm, p.params = "matrix", algorithms.Params{Models: 3, Large: 1, Matrix: [][]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}
		synctest.Test(t, func(t *testing.T) {
			cfg := p.config(t)
			watch := newGateWatch(t, &p)
			cfg.Observer, cfg.hooks.decided = watch, watch.decided
			systems := p.start(t, cfg)
			var open []*Stream
			for id := range scheduler.RequestID(6) {
				r := long(id+1, 40)
				r.Home = int(id) % 3
				open = append(open, submit(t, systems[r.Home], r))
			}
			for _, s := range open {
				read(t, long(1, 1), s, -1)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			watch.judge()
			apart := 0
			for _, all := range watch.decisions {
				launched := 0
				for _, d := range all {
					if d.launched {
						launched++
					}
				}
				if launched == 1 || launched == 2 {
					apart++
				}
			}
			// Requests do not all arrive at once, and may not all end at once.
			if apart > 6 || watch.together < 36 {
				t.Errorf("seed %d: in %d rounds not all started, in %d several", seed, apart, watch.together)
			}
			for m, sys := range systems {
				if m == 0 || p.split {
					if err := sys.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// A timer that rings early by its own clock still counts as the time that was
// asked for: a core asks only once.
func TestWakeIsNeverEarly(t *testing.T) {
	p := small()
	p.rule = scheduler.Delayed{MaxDelayNs: 1e6}
	cfg := p.config(t)
	cfg.hooks = new(hooks)
	sys := &System{cfg: cfg, start: time.Now()}
	sys.subs = make([]*subserver, 2)
	sub, err := sys.newSubserver(0)
	if err != nil {
		t.Fatal(err)
	}
	sub.turn([]word{{event: scheduler.Event{Kind: scheduler.Wake, AtNs: 1e15}}})
	if sub.nowNs < 1e15 {
		t.Errorf("it is %d ns, want what was asked for", sub.nowNs)
	}
}

// A request that waits alone at one model, below its threshold, starts when it
// has waited long enough, although nothing else happens there.
func TestMaxDelay(t *testing.T) {
	p := small()
	p.rule, p.b, p.maxRunning = scheduler.Delayed{MaxDelayNs: 40e6}, 2, 4
	p.params.Matrix = [][]float64{{1, 0}, {0, 1}}
	p.with(t, nil, func(t *testing.T, sys *System) {
		for id := range scheduler.RequestID(2) {
			submit(t, sys, long(id+1, 300))
		}
		time.Sleep(5 * time.Millisecond)
		r := long(9, 1)
		r.Home = 1
		before := sys.NowNs()
		c, err := submit(t, sys, r).Next(t.Context())
		if waited := c.AtNs - before; err != nil || waited < 40e6 || waited > 62e6 {
			t.Errorf("the first token came after %v, %v", time.Duration(waited), err)
		}
	})
}
