package serving

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// What has to happen when a client goes is section 1.6 of the protocol: wherever
// its request is, and whether it is streamed or not, it leaves every model.

// stays are where a request may be when its client goes.
var stays = []struct {
	name, prompt, more string
	reached            func(s *site) bool
}{
	{"queued", "go on:", ``, func(s *site) bool { return s.service.Stats()[0].Waiting > 0 }},
	{"in its prompt", strings.Repeat("x", 10000), ``, func(s *site) bool { return s.service.Stats()[0].KVHeld > 200 }},
	{"decoding", "go on:", `"ignore_eos":true,"model":"small"`, func(s *site) bool { return s.service.Stats()[0].Sampled > 3 }},
	{"pending at a peer", "go on:", ``, func(s *site) bool { return s.service.Stats()[0].Pending > 0 }},
}

func TestDisconnect(t *testing.T) {
	for _, stay := range stays {
		for _, stream := range []string{"true", "false"} {
			t.Run(stay.name+", streamed "+stream, func(t *testing.T) {
				s := plan{context: 20000, chunk: 64, maxRunning: 1, threshold: 2, delay: [2]time.Duration{15 * ms, 40 * ms}, texts: []string{strings.Repeat("no end ", 500)}}.open(t)
				more := `"stream":` + stream
				if stay.more != "" {
					more += "," + stay.more
				}
				gone, leave := 1.0, func() {}
				if stay.name == "queued" { // behind one that has the only place
					gone, leave = 2, s.stay(asks(1, `"model":"small"`))
					defer leave()
					s.until("the place is taken", func() bool { return s.service.Stats()[0].Running > 0 })
				}
				s.leave(strings.Replace(asks(0, more), "go on:", stay.prompt, 1), func() bool { return stay.reached(s) })
				s.within2s("nobody waits", func() bool { return s.service.Stats()[0].Waiting == 0 })
				leave()
				s.idle()
				s.within2s("gauges are back", func() bool {
					return s.metric("vllm:num_requests_running")+s.metric("vllm:num_requests_waiting")+s.metric("sglang:num_running_reqs")+s.metric("sglang:num_queue_reqs")+s.metric("sglang:num_used_tokens") == 0
				})
				if n := s.labelled("vllm:request_success_total", `finished_reason="abort"`); n != gone || s.metric("sglang:num_aborted_requests_total") != gone {
					t.Errorf("vLLM's counter of aborts is %g, SGLang's %g, want %g", n, s.metric("sglang:num_aborted_requests_total"), gone)
				}
				if r := s.ask(asks(0, `"max_tokens":3`)); len(r.ids) != 3 {
					t.Errorf("the next got %+v", r)
				}
				if n := s.metric("vllm:e2e_request_latency_seconds_count"); n != 1 {
					t.Errorf("%g answers have a latency, want that of the next alone", n)
				}
			})
		}
	}
}

// A request that is gone is sent to nobody any more, and what a peer still answers
// leaves no trace: no token, and no line on standard error.
func TestDisconnectSendsNothingMore(t *testing.T) {
	said, before := &lockedBuffer{}, log.Writer()
	log.SetOutput(said)
	defer log.SetOutput(before)
	var events bytes.Buffer
	p := plan{threshold: 0.6, delay: [2]time.Duration{ms, 20 * ms}, texts: []string{strings.Repeat("no end ", 50)}}
	cfg := p.config(t)
	cfg.Log = &events
	service, err := Start(cfg, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := p.serve(t, service)
	for seed := range 10 {
		s.leave(asks(seed, `"stream":`+fmt.Sprint(seed%2 == 0)), func() bool { return s.service.Stats()[0].Pending > 0 })
		s.idle()
	}
	s.end()
	if err := service.Close(); err != nil {
		t.Fatal(err)
	}
	if text := said.String(); text != "" {
		t.Errorf("the server says: %s", text)
	}
	checkSilence(t, events.String())
}

// Whoever knows a request's id can end it, and its client is told.
func TestAbortLeavesEveryModel(t *testing.T) {
	s := plan{threshold: 2, delay: [2]time.Duration{ms, 20 * ms}, texts: []string{strings.Repeat("no end ", 50)}}.open(t)
	for _, body := range []string{`{"rid":"one"}`, `{"abort_all":true}`} {
		told := make(chan result, 1)
		go func() { told <- s.ask(asks(0, `"rid":"one"`)) }()
		s.until("it is pending", func() bool { return s.service.Stats()[0].Pending > 0 })
		if status, text, err := s.try(t.Context(), "/abort_request", body); err != nil || status != 200 {
			t.Fatalf("%d %v: %s", status, err, text)
		}
		s.idle()
		if r := <-told; r.finish != "abort" || len(r.ids) > 150 { // of 200
			t.Errorf("the client got %d tokens and the end %q", len(r.ids), r.finish)
		}
	}
	if n := s.metric("sglang:num_aborted_requests_total"); n != 2 {
		t.Errorf("%g aborts are counted, want 2", n)
	}
}

var logLine = regexp.MustCompile(`^0 ([+>]) ([a-z-]+) .*\bid=(\d+)`)

// checkSilence reads an event log: home does nothing more for a request that was
// aborted, but for telling the models that may have it.
func checkSilence(t *testing.T, text string) {
	t.Helper()
	gone, away, pending := map[string]bool{}, map[string]bool{}, 0
	for line := range strings.Lines(text) {
		m := logLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		said, what, id := m[1] == ">", m[2], m[3]
		switch {
		case !said && what == "aborted":
			gone[id] = true
			if away[id] {
				pending++
			}
		case said && gone[id] && (what == "send" || what == "emit"):
			t.Errorf("after its client has gone: %s", line)
		case what == "send", what == "peer-returned":
			away[id] = what == "send"
		}
	}
	if pending < 5 {
		t.Errorf("only %d were pending when their clients went: the test shows little", pending)
	}
}

// lockedBuffer is what several goroutines write into.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// stay asks, and goes when the function that it returns is called, the first time.
func (s *site) stay(body string) (leave func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	gone := make(chan struct{})
	go func() {
		s.try(ctx, textPath, body)
		close(gone)
	}()
	return func() {
		cancel()
		<-gone
	}
}

// within2s waits for what has to be true so soon after a client has gone.
func (s *site) within2s(what string, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(2 * time.Second); !holds(); time.Sleep(ms) {
		if time.Now().After(end) {
			s.t.Fatalf("not within 2 s: %s", what)
		}
	}
}
