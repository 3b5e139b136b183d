package subserver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// dispatch runs the plan by standard serving and holds it to the law.
func (p plan) dispatch(t *testing.T, cost DispatchCost) {
	synctest.Test(t, func(t *testing.T) {
		cfg := p.config(t)
		d, err := StartDispatcher(cfg, cost)
		if err != nil {
			t.Fatal(err)
		}
		out := p.ask(t, func(int) submitter { return d })
		time.Sleep(time.Minute) // steps with submissions that were broken off
		synctest.Wait()
		for m, st := range d.Stats() {
			if st.KVHeld != 0 || st.Counts != (scheduler.Counts{}) || st.Model != cfg.Models[m].Name {
				t.Errorf("%s is left with %+v", st.Model, st)
			}
		}
		for _, tap := range d.taps {
			if len(tap.told) > 0 {
				t.Errorf("%d submissions are still listened to", len(tap.told))
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		p.judge(t, cfg.Algorithm, out)
	})
}

// Standard serving writes the same tokens, only slower.
func TestDispatcherKeepsTheLaw(t *testing.T) {
	for i, src := range sources {
		p := plan{algorithm: src.name, params: src.params, rule: scheduler.Eager{}, b: 1, concurrency: 4, requests: 12, homes: i%2 == 0, noReuse: i%3 == 0,
			kvTokens: 400, blockTokens: 4, chunk: 8, maxRunning: 4, seed: uint64(i)}
		if i%4 == 1 {
			p.cancels = 0.5
		}
		t.Run(src.name, func(t *testing.T) {
			p.dispatch(t, DispatchCost{})
			p.dispatch(t, DispatchCost{FixedNs: 1e6, NsPerToken: 1e4})
			p.kvTokens, p.cancels = 40, 0
			p.dispatch(t, DispatchCost{})
			p.fails = make([]int, p.params.Models)
			p.fails[i%2] = 9
			p.dispatch(t, DispatchCost{})
		})
	}
}

// A submission costs its transit, which other requests do not wait for.
func TestDispatcherCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := small()
		p.algorithm, p.params = "never", algorithms.Params{Models: 1}
		cfg := p.config(t)
		watch := &firstModel{}
		cfg.Observer = watch
		d, err := StartDispatcher(cfg, DispatchCost{FixedNs: 1e9, NsPerToken: 1e6})
		if err != nil {
			t.Fatal(err)
		}
		serve := func(requests scheduler.RequestID) time.Duration {
			before := d.NowNs()
			var open []*Stream
			for id := range requests {
				s, err := d.Submit(t.Context(), long(100*requests+id, 2))
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, s)
			}
			for _, s := range open {
				if o := read(t, long(1, 2), s, -1); o.err != nil || len(o.tokens) != 2 {
					t.Errorf("%v %v", o.tokens, o.err)
				}
			}
			return time.Duration(d.NowNs() - before)
		}
		// Submissions of 3 and 4 tokens, and steps of as many rows, at 10 ms and
		// 1 ms a row: their beginning fills no block that could be shared.
		if got, want := serve(1), 2*time.Second+7*time.Millisecond+20*time.Millisecond+7*time.Millisecond; got != want {
			t.Errorf("took %v, want %v", got, want)
		}
		if watch.steps != 2 {
			t.Errorf("the observer saw %d steps", watch.steps)
		}
		if got := serve(4); got > 2200*time.Millisecond {
			t.Errorf("four at once took %v", got)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// What a client is told of cached tokens is what its home had, though the token
// written there is dropped and another server's is the first that it sees.
func TestDispatcherTellsWhatTheHomeHad(t *testing.T) {
	p := small()
	p.params.Matrix = [][]float64{{0, 1}, {0, 1}}
	synctest.Test(t, func(t *testing.T) {
		d, err := StartDispatcher(p.config(t), DispatchCost{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			routing Routing
			home    int
			want    int
		}{
			{Routing{Alone: true}, 1, 0}, // now the large model has the prompt
			{Routing{}, 0, 0},
			{Routing{}, 0, 12}, // now both have it, in blocks of 4
		} {
			r := long(0, 3)
			r.Prompt, r.Home, r.Routing = slices.Repeat(r.Prompt, 5), c.home, c.routing
			s, err := d.Submit(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			asked := d.NowNs()
			for _, chunk := range chunks(t, s) {
				if chunk.BegunNs != asked || chunk.Cached != c.want { // an idle server begins at once
					t.Errorf("%+v: begun at %d ns, want %d; %d tokens were cached", c, chunk.BegunNs, asked, chunk.Cached)
				}
			}
			if s.Cached() != c.want {
				t.Errorf("%+v: %d tokens were cached", c, s.Cached())
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// firstModel counts the steps of model 0.
type firstModel struct {
	steps int
}

func (f *firstModel) Stepped(model int, _, _ int64, _ *scheduler.Batch, _ int) {
	if model == 0 {
		f.steps++
	}
}
func (f *firstModel) Event(int, *scheduler.Event)              {}
func (f *firstModel) Messages(int, int64, []scheduler.Message) {}

func TestDispatcherRefuses(t *testing.T) {
	p := small()
	for _, c := range []struct {
		spoil func(*Config)
		cost  DispatchCost
		want  string
	}{
		{func(c *Config) { c.Algorithm = nil }, DispatchCost{}, "Algorithm must be set"},
		{func(c *Config) { c.Models = nil }, DispatchCost{}, "Models must be set"},
		{func(c *Config) { c.Models[1].ChunkTokens = 1 }, DispatchCost{}, "ChunkTokens is 1"},
		{func(c *Config) { c.Transport = new(wireEnd) }, DispatchCost{}, "no Transport"},
		{func(*Config) {}, DispatchCost{FixedNs: -1}, "cannot cost"},
	} {
		cfg := p.config(t)
		c.spoil(&cfg)
		if _, err := StartDispatcher(cfg, c.cost); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		d, err := StartDispatcher(p.config(t), DispatchCost{})
		if err != nil {
			t.Fatal(err)
		}
		for want, spoil := range map[string]func(r *Request){
			"Home is model 2":   func(r *Request) { r.Home = 2 },
			"Stop needs":        func(r *Request) { r.Stop = []string{"x"} },
			"Routing threshold": func(r *Request) { r.Routing.Threshold = half() },
			"MaxTokens is 0":    func(r *Request) { r.MaxTokens = 0 },
		} {
			r := long(1, 3)
			spoil(r)
			if _, err := d.Submit(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		if err := d.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := d.Submit(t.Context(), long(1, 3)); !errors.Is(err, ErrDraining) {
			t.Errorf("after Drain: %v", err)
		}
		if d.Err() != nil || d.Close() != nil || d.Close() == nil {
			t.Error("it does not close once")
		}
	})
}
