package measure

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/internal/workload"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// clockwork takes a millisecond a step and breaks after so many.
type clockwork struct {
	breaks int // 0: never
	steps  int
}

var errBroken = errors.New("the engine broke")

func (c *clockwork) Info() backend.Info {
	return backend.Info{Model: "clockwork", Vocab: 1000, MaxContext: 200, BlockTokens: 16, Blocks: 64}
}
func (c *clockwork) Close() error { return nil }
func (c *clockwork) Forward(*backend.Step, []backend.Result) error {
	time.Sleep(time.Millisecond)
	if c.steps++; c.steps == c.breaks {
		return errBroken
	}
	return nil
}

func alone(e backend.Engine, load workload.Load) Config {
	return Config{
		Load: load, Vocab: 1000, Home: func(int, uint64) int { return 0 },
		System: subserver.Config{Algorithm: algorithms.Never{}, Rule: scheduler.Eager{}, Thresholds: scheduler.Thresholds{{1}}, QueueLimit: 100,
			Models: []subserver.Model{{Name: "one", Engine: e, MaxRunning: 4, ChunkTokens: 64, KVTokens: 1024, BlockTokens: 16}}},
	}
}

var short = workload.Lengths{Prompt: workload.Fixed(10), Output: workload.Fixed(20)}

// Users who ask one after the other get all that they ask for, then the run is
// over.
func TestRunEndsWithItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Run(t.Context(), alone(&clockwork{}, workload.Load{Kind: workload.Closed, Seed: 1, Users: 3, Limit: 7, Mix: workload.Single(short)}))
		if err != nil {
			t.Fatal(err)
		}
		if r.Requests != 7 || r.Tokens != 7*20 || r.Aborted != 0 {
			t.Errorf("%d requests, %d tokens, %d aborted", r.Requests, r.Tokens, r.Aborted)
		}
		// Three users, then three, then one, of 20 steps of a millisecond each.
		if ms := r.EndNs / 1e6; ms < 60 || ms > 66 {
			t.Errorf("the run took %d ms, want a little over 60", ms)
		}
	})
}

// A duration ends what never ends by itself, to the nanosecond.
func TestRunEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := alone(&clockwork{}, workload.Load{Kind: workload.Steady, Seed: 1, Users: 2, Prompt: 10, Mix: workload.Single(short)})
		cfg.OutputMax = 50
		cfg.DurationNs, cfg.WarmupNs = 500e6, 100e6
		start := time.Now()
		r, err := Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 510*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if r.ThroughputTokPerS < 1900 || r.ThroughputTokPerS > 2000 || r.MeanBatch[0] < 1.9 {
			t.Errorf("%g token/s in batches of %g: want two requests, a token a millisecond each", r.ThroughputTokPerS, r.MeanBatch[0])
		}
	})
}

// Requests that no pool holds are refused; their users pause and ask again.
func TestRefusedUsersPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := workload.Lengths{Prompt: workload.Fixed(900), Output: workload.Fixed(20)}
		cfg := alone(&clockwork{}, workload.Load{Kind: workload.Closed, Seed: 1, Users: 2, Mix: workload.Single(long)})
		cfg.DurationNs = 5_500e6
		r, err := Run(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), "10 requests were refused or cut off: are they too long") {
			t.Errorf("nothing but refusals gives %v", err)
		}
		if r.Aborted != 10 || r.Tokens != 0 { // what happens at the start is not later than warm-up
			t.Errorf("%d refused in 5.5 s by two users, want 10; %d tokens", r.Aborted, r.Tokens)
		}
	})
}

func TestRunFails(t *testing.T) {
	t.Run("engine", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cfg := alone(&clockwork{breaks: 30}, workload.Load{Kind: workload.Closed, Seed: 1, Users: 2, Mix: workload.Single(short)})
			cfg.DurationNs = 10e9
			if _, err := Run(t.Context(), cfg); !errors.Is(err, subserver.ErrFailed) {
				t.Errorf("a broken engine gives %v", err)
			}
		})
	})
	t.Run("interrupt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			cfg := alone(&clockwork{}, workload.Load{Kind: workload.Closed, Seed: 1, Users: 2, Mix: workload.Single(short)})
			cfg.DurationNs = 10e9
			if _, err := Run(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("an interrupted run gives %v", err)
			}
		})
	})
	t.Run("nothing in the window", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cfg := alone(&clockwork{}, workload.Load{Kind: workload.Closed, Seed: 1, Users: 1, Limit: 1, Mix: workload.Single(short)})
			cfg.WarmupNs = 10e9
			// However long the run goes on: no figure is made of nothing.
			for _, duration := range []int64{0, 11e9} {
				cfg.DurationNs = duration
				if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "before warm-up did, at 10 s") {
					t.Errorf("a run without figures gives %v", err)
				}
			}
		})
	})
}
