package law

import (
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// hold runs cells, several at a time, since each waits for its own steps.
func hold(t *testing.T, cells []cell) *figures {
	f := new(figures)
	var next, done atomic.Int64
	var workers sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(cells) && !t.Failed(); i = next.Add(1) - 1 {
				c := &cells[i]
				if problems := c.obey(t, f); len(problems) > 0 {
					t.Errorf("%s\n%v\nagain: LAW_CELL=%d go test -count=1 -run %s -artifacts ./experiments/internal/law", strings.Join(problems, "\n"), c, c.number, t.Name())
				}
				if n := done.Add(1); n%500 == 0 {
					t.Logf("%d of %d cells", n, len(cells))
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d cells, %d requests, %d tokens, %d of them of another model than the home's, %d requests stopped, %d steps, %d with several requests, %d tokens cached, %d retractions, %d logs replayed",
		done.Load(), f.requests.Load(), f.tokens.Load(), f.routed.Load(), f.stopped.Load(), f.steps.Load(), f.batched.Load(), f.cached.Load(), f.retracted.Load(), f.replayed.Load())
	return f
}

// chosen are the cells that a test runs: all of the grid under LONG=1, which make
// bench sets, else a sample of LAW_SEED, or 1. LAW_CELL is the number of the only
// one to run.
func chosen(t *testing.T, sample int) []cell {
	cells := grid()
	if n, ok := setting(t, "LAW_CELL"); ok {
		if n >= len(cells) {
			t.Fatalf("LAW_CELL is %d, the grid ends at %d", n, len(cells)-1)
		}
		return cells[n : n+1]
	}
	if testing.Short() {
		sample /= 5
	}
	if os.Getenv("LONG") != "" {
		sample = len(cells)
	}
	seed, ok := setting(t, "LAW_SEED")
	if !ok {
		seed = 1
	}
	var some []cell
	for _, i := range rand.New(rand.NewPCG(uint64(seed), 5)).Perm(len(cells))[:sample] {
		some = append(some, cells[i])
	}
	return some
}

func TestLongLaw(t *testing.T) {
	some := chosen(t, 100)
	f := hold(t, some)
	for _, c := range []struct {
		what string
		n    int64
	}{{"token of a peer", f.routed.Load()}, {"request stopped", f.stopped.Load()}, {"step with several requests", f.batched.Load()},
		{"cached token", f.cached.Load()}, {"retraction", f.retracted.Load()}} {
		if c.n == 0 && len(some) > 1 {
			t.Errorf("no %s: the cells do not reach what the law speaks of", c.what)
		}
	}
}

// setting is a whole number from the environment, if it is there.
func setting(t *testing.T, name string) (n int, ok bool) {
	text := os.Getenv(name)
	if text == "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s is %q, want a whole number", name, text)
	}
	return n, true
}

// Standard serving routes the same tokens from outside, also if clients leave and
// the engine of a model fails.
func TestStandardServing(t *testing.T) {
	for i, source := range sources {
		c := cell{number: i, source: source, b: 1, users: 6, warm: i%2 == 0, kv: []int{tinyKV, largeKV}[i%2], text: uint64(i), blockTokens: 4, chunk: 24, maxRows: 16, threads: 1}
		t.Run(source.String(), func(t *testing.T) { c.dispatch(t) })
		c.trouble = &trouble{leaves: true, fails: 30 * (i % 3), broken: i % source.params.Models}
		t.Run(source.String()+"/trouble", func(t *testing.T) { c.dispatch(t) })
	}
	nobodyIsLeft(t)
}

// dispatch runs the cell behind a dispatcher.
func (c *cell) dispatch(t *testing.T) {
	f := new(figures)
	var o *ordeal
	if c.trouble != nil {
		o = newOrdeal(c, f)
	}
	cfg := c.config(t, o)
	d, err := subserver.StartDispatcher(subserver.Config{Models: cfg.Models, Algorithm: cfg.Algorithm, QueueLimit: cfg.QueueLimit,
		NoReuse: cfg.NoReuse, NewDetokenizer: cfg.NewDetokenizer}, subserver.DispatchCost{})
	if err != nil {
		t.Fatal(err)
	}
	var users sync.WaitGroup
	for u := range c.users {
		users.Go(func() {
			for i := u; i < c.requests(); i += c.users {
				if p := c.judge(t, d, f, o, c.request(i)); p != "" {
					t.Error(p)
				}
			}
		})
	}
	users.Wait()
	holds := func(st subserver.Stats) bool { return st.KVHeld > 0 || st.Counts != (scheduler.Counts{}) }
	for left := patience; slices.ContainsFunc(d.Stats(), holds); left -= time.Millisecond {
		if left < 0 {
			t.Fatalf("something is left: %+v", d.Stats())
		}
		time.Sleep(time.Millisecond)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for m := range cfg.Models {
		if err := cfg.Models[m].Engine.Close(); err != nil {
			t.Error(err)
		}
	}
	if o != nil {
		if o.misused.Load() > 0 || o.failed.Load() && !errors.Is(d.Err(), errBroken) {
			t.Errorf("the engine that failed was asked %d times more, and the dispatcher says %v", o.misused.Load(), d.Err())
		}
		t.Log(&f.troubles)
	}
}
