package subserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// small is a system of two models in which every second token is routed.
func small() plan {
	return plan{algorithm: "matrix", params: algorithms.Params{Models: 2, Large: 1, Matrix: [][]float64{{0.5, 0.5}, {0.5, 0.5}}},
		rule: scheduler.Eager{}, b: 1, requests: 4, kvTokens: 400, blockTokens: 4, chunk: 8, maxRunning: 2, seed: 4}
}

// with runs f on a system in a bubble and closes it.
func (p plan) with(t *testing.T, change func(*Config), f func(t *testing.T, sys *System)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := p.config(t)
		if change != nil {
			change(&cfg)
		}
		sys, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		f(t, sys)
		if err := sys.Close(); err != nil {
			t.Error(err)
		}
	})
}

// long is a request that takes n tokens.
func long(id scheduler.RequestID, n int) *Request {
	return &Request{ID: id, Prompt: []algorithms.Token{1, 2, 3}, MaxTokens: n, Seed: uint64(id), Logprobs: -1}
}

func submit(t *testing.T, sys *System, r *Request) *Stream {
	t.Helper()
	s, err := sys.Submit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantEmpty reports what is left in any model.
func wantEmpty(t *testing.T, sys *System) {
	t.Helper()
	synctest.Wait()
	for _, st := range sys.Stats() {
		if st.KVHeld != 0 || st.Counts != (scheduler.Counts{}) {
			t.Errorf("%s is left with %+v", st.Model, st)
		}
	}
}

// What is wrong with a request is said before anything knows of it, and the
// requests after it are served.
func TestSubmitRefuses(t *testing.T) {
	small().with(t, nil, func(t *testing.T, sys *System) {
		for _, c := range []struct {
			want  string
			spoil func(r *Request)
		}{
			{"Home is model 2", func(r *Request) { r.Home = 2 }},
			{"Home is model -1", func(r *Request) { r.Home = -1 }},
			{"Prompt is empty", func(r *Request) { r.Prompt = nil }},
			{"Prompt has token 64", func(r *Request) { r.Prompt = []algorithms.Token{1, 64} }},
			{"Prompt has token -1", func(r *Request) { r.Prompt = []algorithms.Token{-1} }},
			{"EOS has token 200000", func(r *Request) { r.EOS = []algorithms.Token{200000} }},
			{"MaxTokens is 0", func(r *Request) { r.MaxTokens = 0 }},
			{"Stop needs a tokenizer", func(r *Request) { r.Stop = []string{"x"} }},
			{"Logprobs is 65", func(r *Request) { r.Logprobs = 65 }},
			{"logit_bias names token 64", func(r *Request) { r.Sampling.LogitBias = []backend.TokenBias{{Token: 64}} }},
			{"temperature", func(r *Request) { r.Sampling.Temperature = math.NaN() }},
			{"longer than", func(r *Request) { r.Prompt = slices.Repeat(r.Prompt, 1<<19) }},
		} {
			r := long(9, 3)
			c.spoil(r)
			if _, err := sys.Submit(t.Context(), r); err == nil || !strings.Contains(err.Error(), c.want) {
				if !errors.Is(err, ErrTooLong) || c.want != "longer than" {
					t.Errorf("%v, want %q", err, c.want)
				}
			}
		}
		r := long(9, 3)
		if o := read(t, r, submit(t, sys, r), -1); o.err != nil || len(o.tokens) != 3 {
			t.Errorf("%v %v", o.tokens, o.err)
		}
	})
}

// What the scheduler refuses is told by the stream, of what kind it is.
func TestTypedRefusals(t *testing.T) {
	small().with(t, func(c *Config) { c.QueueLimit = 1 }, func(t *testing.T, sys *System) {
		tooLong := long(1, 1)
		tooLong.Prompt = slices.Repeat([]algorithms.Token{1}, 400)
		outgrows := long(2, 500)
		if o := read(t, tooLong, submit(t, sys, tooLong), -1); !errors.Is(o.err, ErrTooLong) || o.reason != scheduler.ReasonTooLong {
			t.Errorf("%v by %v, want %v", o.err, o.reason, ErrTooLong)
		}
		if o := read(t, outgrows, submit(t, sys, outgrows), -1); !errors.Is(o.err, ErrOutgrown) || o.reason != scheduler.ReasonAbort || len(o.tokens) < 390 {
			t.Errorf("%v by %v after %d tokens, want %v", o.err, o.reason, len(o.tokens), ErrOutgrown)
		}
		wantEmpty(t, sys)
		for id := range scheduler.RequestID(3) { // two run, one waits
			submit(t, sys, long(10+id, 20))
		}
		if _, err := sys.Submit(t.Context(), long(11, 5)); !errors.Is(err, ErrDuplicate) {
			t.Errorf("an id that is open: %v", err)
		}
		full := long(20, 1)
		if o := read(t, full, submit(t, sys, full), -1); !errors.Is(o.err, ErrQueueFull) {
			t.Errorf("%v, want %v", o.err, ErrQueueFull)
		}
		drained := make(chan error)
		go func() { drained <- sys.Drain(context.Background()) }()
		synctest.Wait()
		late := long(30, 1)
		if o := read(t, late, submit(t, sys, late), -1); !errors.Is(o.err, ErrDraining) || o.reason != scheduler.ReasonDraining {
			t.Errorf("%v by %v, want %v", o.err, o.reason, ErrDraining)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		wantEmpty(t, sys)
	})
}

// Drain gives up when its context does, and the requests go on.
func TestDrainGivesUp(t *testing.T) {
	small().with(t, nil, func(t *testing.T, sys *System) {
		r := long(1, 50)
		s := submit(t, sys, r)
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if err := sys.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if o := read(t, r, s, -1); o.err != nil || len(o.tokens) != 50 {
			t.Errorf("%d tokens, %v", len(o.tokens), o.err)
		}
	})
}

// A client that goes away in any state gives its place and its KV back.
func TestCancelAnywhere(t *testing.T) {
	for after := range 40 {
		small().with(t, nil, func(t *testing.T, sys *System) {
			ctx, cancel := context.WithCancel(t.Context())
			var gone []*Stream
			for id := range scheduler.RequestID(4) { // the last two wait for a place
				s, err := sys.Submit(ctx, long(id+1, 200))
				if err != nil {
					t.Fatal(err)
				}
				gone = append(gone, s)
			}
			time.Sleep(time.Duration(after) * 3 * time.Millisecond)
			if after%2 == 0 {
				cancel()
			}
			for _, s := range gone {
				s.Cancel()
				s.Cancel()
			}
			cancel()
			r := long(9, 4)
			if o := read(t, r, submit(t, sys, r), -1); o.err != nil || len(o.tokens) != 4 {
				t.Errorf("the next one: %d tokens, %v", len(o.tokens), o.err)
			}
			for _, s := range gone {
				for {
					if _, err := s.Next(t.Context()); err != nil {
						if !errors.Is(err, ErrCanceled) {
							t.Error(err)
						}
						break
					}
				}
			}
			wantEmpty(t, sys)
		})
	}
}

// A client that does not read delays nobody, and finds all its tokens.
func TestSlowClient(t *testing.T) {
	small().with(t, nil, func(t *testing.T, sys *System) {
		slow, quick := long(1, 60), long(2, 60)
		s := submit(t, sys, slow)
		if o := read(t, quick, submit(t, sys, quick), -1); len(o.tokens) != 60 {
			t.Errorf("%d tokens, %v", len(o.tokens), o.err)
		}
		time.Sleep(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if o := read(t, slow, s, -1); len(o.tokens) != 60 || o.err != nil {
			t.Errorf("%d tokens, %v", len(o.tokens), o.err)
		}
		if _, err := s.Next(ctx); err != io.EOF {
			t.Errorf("after the end: %v", err)
		}
		s.Cancel() // too late to matter
		if s.Err() != nil {
			t.Error(s.Err())
		}
	})
}

// Waiting for a token ends with the context, and the request goes on.
func TestNextGivesUp(t *testing.T) {
	small().with(t, nil, func(t *testing.T, sys *System) {
		r := long(1, 5)
		s := submit(t, sys, r)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, ended := s.Reason(); ended {
			t.Error("it has ended")
		}
		if o := read(t, r, s, -1); len(o.tokens) != 5 || o.err != nil {
			t.Errorf("%v %v", o.tokens, o.err)
		}
	})
}

// Close breaks off what is open; nothing is taken afterwards.
func TestCloseWithOpenRequests(t *testing.T) {
	for _, rule := range rules {
		p := small()
		p.rule = rule
		synctest.Test(t, func(t *testing.T) {
			sys, err := Start(p.config(t))
			if err != nil {
				t.Fatal(err)
			}
			var open []*Stream
			for id := range scheduler.RequestID(5) {
				open = append(open, submit(t, sys, long(id+1, 300)))
			}
			time.Sleep(77 * time.Millisecond)
			if err := sys.Close(); err != nil {
				t.Error(err)
			}
			for i, s := range open {
				if o := read(t, long(1, 1), s, -1); !errors.Is(o.err, ErrCanceled) {
					t.Errorf("request %d: %v", i+1, o.err)
				}
			}
			if _, err := sys.Submit(t.Context(), long(9, 1)); !errors.Is(err, ErrDraining) {
				t.Errorf("after Close: %v", err)
			}
			if sys.Close() == nil {
				t.Error("closed twice")
			}
		})
	}
}

// The system numbers requests that have no id.
func TestNumbers(t *testing.T) {
	small().with(t, nil, func(t *testing.T, sys *System) {
		seen := map[scheduler.RequestID]bool{}
		for i := range 8 {
			r := long(0, 2)
			r.Home = i % 2
			s := submit(t, sys, r)
			if seen[s.ID()] || s.ID() == 0 {
				t.Errorf("id %d twice", s.ID())
			}
			seen[s.ID()] = true
			if o := read(t, r, s, -1); len(o.tokens) != 2 {
				t.Errorf("%v %v", o.tokens, o.err)
			}
		}
	})
}

// A lone request below a threshold is served all the same: by MaxDelay, or
// because the threshold follows the live requests.
func TestLoneRequest(t *testing.T) {
	for _, rule := range []scheduler.Rule{scheduler.Delayed{}, scheduler.Delayed{MaxDelayNs: 1e9}} {
		p := small()
		p.rule, p.b, p.maxRunning, p.chunk = rule, 8, 8, 16
		p.with(t, nil, func(t *testing.T, sys *System) {
			r := long(1, 10)
			if o := read(t, r, submit(t, sys, r), -1); len(o.tokens) != 10 {
				t.Errorf("%v: %v %v", rule, o.tokens, o.err)
			}
		})
	}
}

// The next turn of a conversation finds its KV; what was found is told.
func TestCachedTokensAreTold(t *testing.T) {
	small().with(t, nil, func(t *testing.T, sys *System) {
		first := long(1, 9)
		o := read(t, first, submit(t, sys, first), -1)
		next := long(2, 1)
		next.Prompt = append(append(next.Prompt, o.tokens...), 7, 7, 7)
		s := submit(t, sys, next)
		read(t, next, s, -1)
		// 3 + 9 tokens, the last without KV: two blocks of 4.
		if s.Cached() != 8 {
			t.Errorf("%d tokens were cached", s.Cached())
		}
		if st := sys.Stats()[0]; st.Cached != 8 || st.Entered != 3+15 {
			t.Errorf("%d of %d tokens were cached", st.Cached, st.Entered)
		}
	})
}

// What comes after a flush is read anew, at every model, and the log replays.
func TestFlush(t *testing.T) {
	var log bytes.Buffer
	small().with(t, func(c *Config) { c.Log = &log }, func(t *testing.T, sys *System) {
		first := long(1, 9)
		s := submit(t, sys, first)
		if err := sys.Flush(); err != ErrBusy {
			t.Errorf("flushed while a request is open: %v", err)
		}
		want := read(t, first, s, -1)
		synctest.Wait()
		if st := sys.Stats(); st[0].KVCached == 0 || st[1].KVCached == 0 {
			t.Fatalf("nothing is cached: %+v", st)
		}
		if err := sys.Flush(); err != nil {
			t.Error(err)
		}
		again := long(2, 9)
		again.Seed = first.Seed
		s = submit(t, sys, again)
		got := read(t, again, s, -1)
		if s.Cached() != 0 || !slices.Equal(got.tokens, want.tokens) {
			t.Errorf("%d tokens were cached; got %v, want %v", s.Cached(), got.tokens, want.tokens)
		}
		synctest.Wait()
		if err := sys.Flush(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		for _, st := range sys.Stats() {
			if st.KVCached != 0 || st.KVHeld != 0 {
				t.Errorf("%s has %d blocks cached, %d held", st.Model, st.KVCached, st.KVHeld)
			}
		}
	})
	if _, err := Replay(&log); err != nil {
		t.Error(err)
	}
}

// The request that follows a flush at once finds nothing either, whatever its
// home.
func TestFlushGoesFirst(t *testing.T) {
	small().with(t, nil, func(t *testing.T, sys *System) {
		for i := range scheduler.RequestID(40) {
			r := long(2*i+1, 9)
			r.Home, r.Prompt = int(i)%2, slices.Repeat(r.Prompt, 5)
			read(t, r, submit(t, sys, r), -1)
			synctest.Wait()
			if err := sys.Flush(); err != nil {
				t.Fatal(err)
			}
			again := long(2*i+2, 9)
			again.Home, again.Prompt = r.Home, r.Prompt
			s := submit(t, sys, again)
			read(t, again, s, -1)
			if s.Cached() != 0 {
				t.Errorf("home %d: %d tokens were cached", r.Home, s.Cached())
			}
		}
	})
}

// A client may be gone before its request has come in.
func TestCancelComesFirst(t *testing.T) {
	small().with(t, nil, func(t *testing.T, sys *System) {
		r := sys.ownCopy(long(1, 1000000))
		home := sys.subs[0]
		s, err := sys.door.enter(r, 2, func(id scheduler.RequestID) { home.clients.put(clientWord{kind: canceled, id: id}) })
		if err != nil {
			t.Fatal(err)
		}
		s.Cancel()
		synctest.Wait()
		home.clients.put(clientWord{kind: submitted, id: 1, request: r, stream: s})
		if o := read(t, r, s, -1); !errors.Is(o.err, ErrCanceled) {
			t.Error(o.err)
		}
		time.Sleep(time.Second)
		wantEmpty(t, sys)
	})
}

// The same request again is answered the same, from a warm cache.
func TestWarmCache(t *testing.T) {
	p := small()
	p.requests, p.twice, p.concurrency, p.maxRunning = 8, true, 1, 2
	p.with(t, nil, func(t *testing.T, sys *System) {
		for i := 0; i < p.requests; i += 2 {
			cold, warm := p.request(i), p.request(i+1)
			cold.Prompt = append(slices.Repeat([]algorithms.Token{9}, 10+i), cold.Prompt...)
			warm.Prompt = cold.Prompt
			first := submit(t, sys, cold)
			a := read(t, cold, first, -1)
			second := submit(t, sys, warm)
			b := read(t, warm, second, -1)
			if !slices.Equal(a.tokens, b.tokens) || len(a.tokens) == 0 || second.Cached() < len(cold.Prompt)-4 {
				t.Errorf("cold %v, warm %v with %d of %d tokens cached", a.tokens, b.tokens, second.Cached(), len(warm.Prompt))
			}
		}
	})
}
