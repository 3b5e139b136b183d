package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenrouter/tokenrouter/internal/metrics"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// mixOf is one class of requests.
func mixOf(prompt, output int) *workload.Mix {
	return workload.Single(workload.Lengths{Prompt: workload.Fixed(prompt), Output: workload.Fixed(output)})
}

// measure runs a load against a handler in virtual time.
func measure(t *testing.T, h http.HandlerFunc, cfg Config, check func(*Result, error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Target = &Client{Server: inProcess(t, h)}
		cfg.Models = 1
		if cfg.Patience == 0 {
			cfg.Patience = time.Minute
		}
		check(Run(t.Context(), &cfg, nil))
	})
}

func all(x float64) metrics.Quantiles { return metrics.Quantiles{Mean: x, P50: x, P95: x, P99: x} }

// near compares figures; ITL comes from a histogram of 0.1 % width.
func near(t *testing.T, what string, got, want metrics.Quantiles) {
	t.Helper()
	for _, p := range [][2]float64{{got.Mean, want.Mean}, {got.P50, want.P50}, {got.P95, want.P95}, {got.P99, want.P99}} {
		if !(math.Abs(p[0]-p[1]) <= 0.002*want.Mean) {
			t.Errorf("%s is %+v, want %+v", what, got, want)
			return
		}
	}
}

func TestFiguresOfAPacedServer(t *testing.T) {
	const users, requests, tokens = 4, 12, 10
	load := workload.Load{Kind: workload.Closed, Users: users, Limit: requests, Mix: mixOf(20, tokens), Seed: 1}
	load.Mix.Classes[0].Limits = workload.Limits{TTFTMs: 100, TPOTMs: 10}
	measure(t, paced(100*time.Millisecond, 10*time.Millisecond), Config{Load: load}, func(r *Result, err error) {
		if err != nil {
			t.Fatal(err)
		}
		near(t, "TTFT", r.TTFTMs, all(100))
		near(t, "TPOT", r.TPOTMs, all(10))
		near(t, "ITL", r.ITLMs, all(10))
		near(t, "E2E", r.E2EMs, all(190))
		// Three turns of 190 ms.
		if r.Requests != requests || r.Tokens != requests*tokens || r.EndNs != 570e6 || r.Aborted != 0 || r.Sent != requests || r.Ended != requests {
			t.Errorf("%d requests, %d tokens in %d ns", r.Requests, r.Tokens, r.EndNs)
		}
		if got, want := r.ThroughputTokPerS, 120/0.57; math.Abs(got-want) > 1e-6 {
			t.Errorf("%g tok/s, want %g", got, want)
		}
		if r.GoodShare != 1 || math.Abs(r.GoodputReqPerS-12/0.57) > 1e-6 {
			t.Errorf("goodput %g, share %g", r.GoodputReqPerS, r.GoodShare)
		}
		if r.Counted != [sources]int{ByTokenIDs: requests} || r.OtherLength != 0 || r.PromptTokens != 7 || r.Disagree != 0 {
			t.Errorf("counted %v, prompts %g", r.Counted, r.PromptTokens)
		}
	})
}

func TestLimitsAreMissed(t *testing.T) {
	load := workload.Load{Kind: workload.Closed, Users: 1, Limit: 4, Mix: mixOf(5, 3), Seed: 1}
	load.Mix.Classes[0].Limits = workload.Limits{TTFTMs: 99}
	measure(t, paced(100*time.Millisecond, 10*time.Millisecond), Config{Load: load}, func(r *Result, err error) {
		if r.GoodShare != 0 || r.Requests != 4 {
			t.Errorf("%d requests, share of good ones %g", r.Requests, r.GoodShare)
		}
	})
}

// The window begins at the end of warm-up, and what it cuts is left out: tokens
// one by one, requests whole.
func TestWindow(t *testing.T) {
	cfg := Config{Load: workload.Load{Kind: workload.Closed, Users: 1, Mix: mixOf(5, 10), Seed: 1}, WarmupNs: 145e6, DurationNs: 345e6}
	measure(t, paced(100*time.Millisecond, 10*time.Millisecond), cfg, func(r *Result, err error) {
		// Tokens at 150…190 of the first, 290…340 of the second, cut at 345.
		if err != nil || r.Tokens != 5+6 || r.Requests != 1 || r.EndNs != 345e6 || r.Sent != 2 || len(r.Failures) != 0 {
			t.Errorf("%v: %d tokens, %d requests of %d, until %d", err, r.Tokens, r.Requests, r.Sent, r.EndNs)
		}
		near(t, "TTFT", r.TTFTMs, all(100))
	})
}

// A request counts from when it was due. In an open load requests do not wait
// for each other.
func TestOpenLoad(t *testing.T) {
	arrivals := &workload.Arrivals{Process: workload.Poisson, RatePerS: 100}
	load := workload.Load{Kind: workload.Open, Arrivals: arrivals, Mix: mixOf(5, 2), Limit: 50, Seed: 3}
	lastNs := int64(0)
	for s := workload.NewStream(arrivals, load.Mix, 3, 50); ; {
		q, ok := s.Next()
		if !ok {
			break
		}
		lastNs = q.ArrivalNs
	}
	measure(t, paced(time.Second, 100*time.Millisecond), Config{Load: load}, func(r *Result, err error) {
		if err != nil || r.Requests != 50 || r.EndNs != lastNs+1100e6 || r.LateMs != 0 {
			t.Errorf("%v: %d requests until %d, %g ms late; the last was due at %d", err, r.Requests, r.EndNs, r.LateMs, lastNs)
		}
		near(t, "E2E", r.E2EMs, all(1100))
	})
}

func TestListedLoad(t *testing.T) {
	list := []workload.Request{{Seed: 1, Prompt: 5, Output: 3}, {Index: 1, Seed: 2, Prompt: 5, Output: 1, ArrivalNs: 5e6}}
	measure(t, paced(10*time.Millisecond, time.Millisecond), Config{Load: workload.Load{Kind: workload.Listed, List: list}}, func(r *Result, err error) {
		if err != nil || r.Requests != 2 || r.Tokens != 4 || r.EndNs != 15e6 {
			t.Errorf("%v: %d requests, %d tokens until %d", err, r.Requests, r.Tokens, r.EndNs)
		}
	})
}

// Ctrl-C gives the results so far.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond+time.Nanosecond)
		defer cancel()
		var p Progress
		r, err := Run(ctx, &Config{Target: &Client{Server: inProcess(t, paced(100*time.Millisecond, 10*time.Millisecond))}, Models: 1, Patience: time.Minute,
			Load: workload.Load{Kind: workload.Closed, Users: 2, Mix: mixOf(5, 10), Seed: 1}}, &p)
		if !errors.Is(err, context.DeadlineExceeded) || r.Requests != 4 || r.Tokens != 2*20 || r.EndNs != 400e6+1 || r.Aborted != 0 {
			t.Errorf("%v: %d requests, %d tokens until %d", err, r.Requests, r.Tokens, r.EndNs)
		}
		if p.Sent.Load() != 6 || p.Ended.Load() != 4 || p.Tokens.Load() != 40 {
			t.Errorf("progress: %d sent, %d ended, %d tokens", p.Sent.Load(), p.Ended.Load(), p.Tokens.Load())
		}
	})
}

// What can go wrong is counted by its kind, and the other requests go on.
func TestFailures(t *testing.T) {
	hang := func(r *http.Request) { <-r.Context().Done() }
	for _, c := range []struct {
		kind, detail string
		handler      func(s writer, r *http.Request)
	}{
		{KindNoAnswer, "", func(_ writer, r *http.Request) { hang(r) }},
		{KindSilent, "after 2 tokens", func(s writer, r *http.Request) { s.text(1); s.text(2); hang(r) }},
		{KindSilent, "after 1 tokens", func(s writer, r *http.Request) {
			s.text(1)
			for r.Context().Err() == nil { // signs of life, but no token
				time.Sleep(time.Second)
				s.raw(": ping\n\n")
			}
		}},
		{KindCut, "the stream ended after 2 tokens", func(s writer, _ *http.Request) { s.text(1); s.text(2) }},
		{KindCut, "the stream ended after 1 tokens", func(s writer, _ *http.Request) { s.text(1); s.raw("data: {\"cho") }},
		{KindCut, "the stream ended after 1 tokens", func(s writer, _ *http.Request) { s.text(1); panic(http.ErrAbortHandler) }},
		{KindCut, "the stream ended after 0 tokens", func(s writer, _ *http.Request) { s.raw(`{"object":"text_completion"}`) }},
		{KindJunk, "at byte 1 of {nonsense", func(s writer, _ *http.Request) { s.text(1); s.raw("data: {nonsense\n\n") }},
		{KindJunk, "at byte 11 of", func(s writer, _ *http.Request) { s.raw("data: {\"choices\":7}\n\n") }},
		{KindJunk, "longer than the limit", func(s writer, _ *http.Request) { s.raw("data: %s\n\n", strings.Repeat("x", maxEventBytes+9000)) }},
		{KindError, "out of memory", func(s writer, _ *http.Request) {
			s.text(1)
			s.raw("data: {\"error\":{\"message\":\"out of memory\",\"code\":500}}\n\ndata: [DONE]\n\n")
		}},
		{KindError, "flat", func(s writer, _ *http.Request) {
			s.raw("data: {\"object\":\"error\",\"message\":\"flat\"}\n\ndata: [DONE]\n\n")
		}},
		{KindEmpty, "", func(s writer, _ *http.Request) { s.end(0) }},
		{KindOverrun, "where 5 were asked for", func(s writer, _ *http.Request) {
			for i := range 100 {
				s.text(i)
			}
		}},
		{KindOverrun, "2000000000 tokens where 5 were asked for", func(s writer, _ *http.Request) { s.text(); s.end(2_000_000_000) }},
		{KindOverrun, "2000000001 tokens where 5 were asked for", func(s writer, _ *http.Request) {
			s.raw(`data: {"choices":[{"text":"a"}],"usage":{"completion_tokens":1}}` + "\n\n")
			s.raw(`data: {"choices":[{"text":"a"}],"usage":{"completion_tokens":2000000001}}` + "\n\n")
		}},
	} {
		t.Run(c.kind+" "+c.detail, func(t *testing.T) {
			var n atomic.Int64
			handler := func(w http.ResponseWriter, r *http.Request) {
				if n.Add(1) == 2 {
					read(r)
					c.handler(stream(w), r)
					return
				}
				paced(time.Millisecond, time.Millisecond)(w, r)
			}
			measure(t, handler, Config{Load: workload.Load{Kind: workload.Closed, Users: 1, Limit: 3, Mix: mixOf(4, 5), Seed: 1}, Patience: 5 * time.Second}, func(r *Result, err error) {
				if err != nil || r.Requests != 2 || r.Aborted != 1 || len(r.Failures) != 1 {
					t.Fatalf("%v: %d requests, %d aborted, %v", err, r.Requests, r.Aborted, r.Failures)
				}
				if f := r.Failures[0]; f.Kind != c.kind || f.Count != 1 || !strings.Contains(f.First, c.detail) {
					t.Errorf("%+v, want %s with %q", f, c.kind, c.detail)
				}
			})
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{503, `{"object":"error","message":"The request queue is full.","code":503}`, "The request queue is full."},
		{400, `{"error":{"message":"bad \u0007 news","type":"BadRequestError"}}`, "bad \uFFFD news"},
		{401, `{"error":"Unauthorized"}`, "Unauthorized"},
		{422, `{"detail":[{"loc":["body"]}]}`, `[{"loc":["body"]}]`},
		{500, "<html>\n oops", "<html> oops"},
		{502, strings.Repeat("é", 400), strings.Repeat("é", maxDetail/2) + "…"},
	} {
		handler := func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		}
		measure(t, handler, Config{Load: workload.Load{Kind: workload.Closed, Users: 2, Limit: 30, Mix: mixOf(4, 5), Seed: 1}}, func(r *Result, err error) {
			want := []Failures{{fmt.Sprintf("http %d", c.status), patientFailures, c.want}}
			if diff := cmp.Diff(want, r.Failures); err != nil || !r.Hopeless || diff != "" {
				t.Errorf("%v, hopeless %t (-want +got)\n%s", err, r.Hopeless, diff)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		p.Close()
		target := &Client{Server: Server{URL: "http://fake", Vocab: 100, HTTP: NewHTTPClient(1, p.dial)}}
		r, err := Run(t.Context(), &Config{Target: target, Models: 1, Patience: time.Second, Load: workload.Load{Kind: workload.Closed, Users: 1, Limit: 40, Mix: mixOf(4, 5)}}, nil)
		if err != nil || !r.Hopeless || len(r.Failures) != 1 || r.Failures[0].Kind != KindConnect {
			t.Errorf("%v: %+v", err, r.Failures)
		}
	})
}

// Without hope a run ends; with one success it goes on.
func TestHopeIsKept(t *testing.T) {
	var n atomic.Int64
	handler := func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			paced(0, 0)(w, r)
			return
		}
		http.Error(w, "no", 500)
	}
	measure(t, handler, Config{Load: workload.Load{Kind: workload.Closed, Users: 3, Limit: 40, Mix: mixOf(4, 5)}}, func(r *Result, err error) {
		if r.Hopeless || r.Ended != 40 || r.Failures[0].Count != 39 {
			t.Errorf("%+v", r.Failures)
		}
	})
}

// The same seed asks the same, whatever the server does.
func TestSameRequests(t *testing.T) {
	prompts := func(h http.HandlerFunc) (out []string) {
		got := make(chan string, 100)
		mix := workload.Single(workload.Lengths{Prompt: workload.Uniform(3, 9), Output: workload.Uniform(1, 5)})
		measure(t, func(w http.ResponseWriter, r *http.Request) {
			var body strings.Builder
			r.Body = copied(r.Body, &body)
			h(w, r)
			got <- body.String()
		}, Config{Load: workload.Load{Kind: workload.Closed, Users: 3, Limit: 20, Mix: mix, Seed: 5}}, func(*Result, error) {})
		close(got)
		for p := range got {
			out = append(out, p)
		}
		slices.Sort(out)
		return out
	}
	a, b := prompts(paced(time.Millisecond, time.Millisecond)), prompts(paced(0, time.Second))
	if len(a) != 20 || !slices.Equal(a, b) {
		t.Errorf("other requests:\n%q\n%q", a, b)
	}
}
