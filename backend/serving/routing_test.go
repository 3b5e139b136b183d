package serving

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend/frontdoor"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// R1 to R8 are what protocol.md calls the pains of others, turned on routing.

func TestR1NeverAndAlways(t *testing.T) {
	s := plan{threshold: 0.5}.open(t)
	text := s.plan.texts[0]
	small, large := s.ask(asks(0, `"model":"small"`)), s.ask(asks(0, `"model":"large"`))
	if small.text != written(text, 0) || large.text != written(text, 1) {
		t.Fatalf("alone they write %q and %q", small.text, large.text)
	}
	for _, c := range []struct {
		threshold string
		want      result
	}{{"-1", small}, {"2", large}} {
		body := strings.Replace(asks(0, ""), `"custom_params":{`, `"custom_params":{"threshold":`+c.threshold+`,`, 1)
		if r := s.ask(body); fmt.Sprint(r.ids) != fmt.Sprint(c.want.ids) || fmt.Sprint(r.writers) != fmt.Sprint(c.want.writers) {
			t.Errorf("threshold %s: got %+v, want %+v", c.threshold, r, c.want)
		}
	}
	// The error that names the two says which is which.
	body := strings.Replace(asks(0, ""), `"custom_params":{`, `"custom_params":{"threshold":3,`, 1)
	if status, text, _ := s.try(t.Context(), textPath, body); status != 400 || !strings.Contains(text, "-1 to route never, or 2 to route always") {
		t.Errorf("threshold 3: %d: %s", status, text)
	}
	never := &Service{cfg: &subserver.Config{Algorithm: algorithms.Never{}, Params: algorithms.Params{Models: 2, Large: 1}}}
	if !s.service.Thresholds() || never.Thresholds() {
		t.Errorf("confidence takes thresholds: %t, never: %t", s.service.Thresholds(), never.Thresholds())
	}
	// A model can be forced on a request to the routed name, too.
	body = strings.Replace(asks(0, ""), `"custom_params":{`, `"custom_params":{"model":"large",`, 1)
	if r := s.ask(body); r.text != large.text {
		t.Errorf("forced: got %q", r.text)
	}
	if r := s.ask(asks(0, "")); r.text == small.text || r.text == large.text {
		t.Errorf("nothing was routed: %q", r.text)
	}
}

func TestR2TheSameAtAnyConcurrency(t *testing.T) {
	texts := []string{"one sentence of some length", "another that is a little longer than that", "short", "日本語のテキスト and some more"}
	want := map[int]string{}
	for _, p := range []plan{{b: 1}, {b: 4}, {b: 1, rule: scheduler.Alternate{}}, {b: 1, rule: scheduler.Lockstep{}}, {b: 2, maxRunning: 3, chunk: 8}} {
		p.texts, p.threshold = texts, 0.5
		s := p.open(t)
		var mu sync.Mutex
		for _, concurrency := range []int{1, 8} {
			var users sync.WaitGroup
			for u := range concurrency {
				users.Go(func() {
					for seed := u; seed < 16; seed += concurrency {
						r := s.ask(asks(seed, `"stream":`+fmt.Sprint(seed%2 == 0)+streamOptions(seed%2 == 0)))
						got := fmt.Sprint(r.text, r.ids, r.writers, r.finish)
						mu.Lock()
						if w, ok := want[seed]; ok && w != got {
							t.Errorf("seed %d, %v, B %d: got %s, want %s", seed, s.plan.rule, s.plan.b, got, w)
						}
						want[seed] = got
						mu.Unlock()
					}
				})
			}
			users.Wait()
		}
		s.idle()
	}
}

func streamOptions(stream bool) string {
	if stream {
		return `,"stream_options":{"include_usage":true}`
	}
	return ""
}

func TestR3NothingLostOrDoubled(t *testing.T) {
	for _, p := range []plan{{algorithm: "confidence"}, {algorithm: "rstitch"}, {algorithm: "rstitch", b: 3}} {
		p.threshold = 0.5
		s := p.open(t)
		for seed := range 8 {
			for _, stream := range []bool{false, true} {
				r := s.ask(asks(seed, `"stream":`+fmt.Sprint(stream)+streamOptions(stream)))
				if err := r.exact(s.plan.texts[0]); err != nil {
					t.Errorf("%s, seed %d, stream %t: %v", p.algorithm, seed, stream, err)
				}
				if n := strings.Count(strings.Join(r.writers, " "), "small"); n == 0 || n == len(r.writers) {
					t.Errorf("%s, seed %d: no hand-over: %v", p.algorithm, seed, r.writers)
				}
			}
		}
	}
}

func TestR4HandoversWithinCharactersAndStops(t *testing.T) {
	const text = "Ünïcödé 世界 🎉🎊 これは長い文章です 12-34-56 тест"
	s := plan{threshold: 0.5, texts: []string{text}}.open(t)
	for seed := range 6 {
		for _, stream := range []bool{false, true} {
			more := `"stream":` + fmt.Sprint(stream) + streamOptions(stream)
			r := s.ask(asks(seed, more))
			if strings.ContainsRune(r.text, '\ufffd') || !strings.EqualFold(r.text, text) {
				t.Errorf("seed %d: got %q", seed, r.text)
			}
			r = s.ask(asks(seed, more+`,"stop":["章です 12-34-56","nothing"]`))
			if want, _, _ := strings.Cut(text, "章です"); !strings.EqualFold(r.text, want) || r.finish != "stop" || r.stop != "章です 12-34-56" {
				t.Errorf("seed %d: got %+v", seed, r)
			}
			if r.usage != len(r.ids) {
				t.Errorf("seed %d: %d tokens billed, %d shown", seed, r.usage, len(r.ids))
			}
		}
	}
	s.idle()
}

func TestR5EndsAtThePeer(t *testing.T) {
	s := plan{threshold: 2}.open(t) // the large model writes everything
	text := written(s.plan.texts[0], 1)
	for _, c := range []struct {
		more, text, finish string
		stop               any
	}{
		{``, text, "stop", nil},
		{`"max_tokens":7`, text[:7], "length", nil},
		{`"stop":"BROWN"`, "THE QUICK ", "stop", "BROWN"},
		{`"stop_token_ids":[81]`, "THE ", "stop", 81.0},
	} {
		for _, stream := range []bool{false, true} {
			more := `"stream":` + fmt.Sprint(stream) + streamOptions(stream)
			if c.more != "" {
				more += "," + c.more
			}
			r := s.ask(strings.Replace(asks(0, more), `"max_tokens":200,`, map[bool]string{true: ``, false: `"max_tokens":200,`}[strings.Contains(c.more, "max_tokens")], 1))
			if r.text != c.text || r.finish != c.finish || r.stop != c.stop {
				t.Errorf("%s: got %+v, want %+v", c.more, r, c)
			}
		}
	}
	s.idle()
}

func TestR6GoneWhilePending(t *testing.T) {
	s := plan{threshold: 2, delay: [2]time.Duration{0, 50 * time.Millisecond}}.open(t)
	for _, body := range []string{asks(0, `"stream":true`), asks(0, ``), asks(0, `"n":4`)} {
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, _, err := s.try(ctx, textPath, body)
			gone <- err
		}()
		s.until("a request is pending", func() bool { return s.service.Stats()[0].Pending > 0 })
		leave()
		<-gone
		s.idle()
	}
	if n := s.metric("sglang:num_aborted_requests_total"); n != 6 {
		t.Errorf("%g aborts are counted, want 6", n)
	}
}

func TestR6PeerLost(t *testing.T) {
	s := plan{threshold: 0.3, fails: [2]int{0, 12}, delay: [2]time.Duration{time.Millisecond, time.Millisecond}}.open(t)
	var users sync.WaitGroup
	for seed := range 8 {
		users.Go(func() {
			status, text, err := s.try(t.Context(), textPath, asks(seed, `"stream":true,"stream_options":{"include_usage":true}`))
			if err != nil {
				t.Error(err)
				return
			}
			r, err := readResult(status, text)
			switch {
			case err != nil:
				t.Error(err)
			case status == 503 && r.failure != "": // before its first token
			case status == 200 && r.done && r.failure == "":
				if err := r.exact(s.plan.texts[0]); err != nil {
					t.Error(err)
				}
			case status == 200 && r.done && r.finish == "" && strings.Contains(r.failure, "is lost"): // why, /health tells
			default:
				t.Errorf("%d: %s", status, text)
			}
		})
	}
	users.Wait()
	if status, text := s.get("/health"); status != 503 || !strings.Contains(text, "finger") {
		t.Errorf("health: %d %s", status, text)
	}
	s.idle()
}

func TestR7OneRequestDoesNotWaitForCompany(t *testing.T) {
	s := plan{threshold: 0.5, b: 16}.open(t)
	if r := s.ask(asks(1, "")); r.finish != "stop" {
		t.Errorf("got %+v", r)
	}
}

// One routed request beside many that the large model writes alone: those keep
// the system busy, and must not keep the small model waiting for company.
func TestR7NorBesideOthersThatAreNeverRouted(t *testing.T) {
	s := plan{threshold: 0.5, b: 8, delay: [2]time.Duration{time.Millisecond, time.Millisecond}, texts: []string{strings.Repeat("long ", 30)}}.open(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var others sync.WaitGroup
	for seed := range 15 {
		others.Go(func() {
			for ctx.Err() == nil {
				s.try(ctx, textPath, asks(seed, `"model":"large"`))
			}
		})
	}
	r := s.ask(asks(1, `"max_tokens":20`))
	if len(r.ids) != 20 {
		t.Errorf("got %+v", r)
	}
	leave()
	others.Wait()
	s.idle()
}

func TestStepsAreCountedBySize(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 0, 2: 1, 8: 1, 9: 2, 16384: 12, 16385: 13} {
		if got := bucket(frontdoor.StepBounds[:], n); got != want {
			t.Errorf("a step of %d is counted in %d, want %d", n, got, want)
		}
	}
	s := plan{threshold: 0.5}.open(t)
	s.ask(asks(0, `"n":4`))
	s.idle()
	for i, st := range s.service.Stats() {
		bySize, byRows := int64(0), int64(0)
		for b := range st.BySize {
			bySize, byRows = bySize+st.BySize[b], byRows+st.ByRows[b]
		}
		if bySize != st.Steps || byRows != st.Steps || st.Requests < st.Steps || st.Rows < st.Requests {
			t.Errorf("%s: %+v", names[i], st)
		}
	}
	if n := s.metric("vllm:iteration_tokens_total_count"); n != s.metric("tokenrouter_steps_total") || n == 0 {
		t.Errorf("%g steps are counted by rows, %g in all", n, s.metric("tokenrouter_steps_total"))
	}
}

func TestR8EachTokenCountsOnce(t *testing.T) {
	s := plan{threshold: 0.5}.open(t)
	sum := 0
	for seed := range 6 {
		sum += s.ask(asks(seed, `"n":2`)).usage
		sum += s.ask(asks(seed, `"model":"large"`)).usage
	}
	for _, family := range []string{"vllm:generation_tokens_total", "sglang:generation_tokens_total", "tokenrouter_written_tokens_total"} {
		if got := s.metric(family); got != float64(sum) {
			t.Errorf("%s is %g, want %d", family, got, sum)
		}
	}
	if n, want := s.metric("vllm:request_success_total"), 18.0; n != want || s.metric("vllm:e2e_request_latency_seconds_count") != want {
		t.Errorf("%g answers are counted, want %g", n, want)
	}
}

var _ frontdoor.Stream = (*answer)(nil)
