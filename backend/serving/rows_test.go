package serving

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const ms = time.Millisecond

// leave asks and goes away once the system works on it.
func (s *site) leave(body string, works func() bool) {
	s.t.Helper()
	leave := s.stay(body)
	s.until("the request is worked on", works)
	leave()
}

func (s *site) running() int {
	n := 0
	for _, st := range s.service.Stats() {
		n += st.Running
	}
	return n
}

// A socket that is closed in the middle of a stream ends the request: no step more
// than those under way.
func TestRow01ClosedInTheMiddleOfAStream(t *testing.T) {
	s := plan{threshold: 0.5, delay: [2]time.Duration{5 * ms, 5 * ms}, texts: []string{strings.Repeat("no end ", 500)}}.open(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Replace(asks(0, `"stream":true,"ignore_eos":true`), `"max_tokens":200`, `"max_tokens":3000`, 1)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", textPath, len(body), body)
	in := bufio.NewReader(conn)
	for events := 0; events < 3; {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "data: ") {
			events++
		}
	}
	conn.Close()
	s.idle()
	steps := func() int64 { all := s.service.Stats(); return all[0].Steps + all[1].Steps }
	before := steps()
	time.Sleep(50 * ms)
	if after := steps(); after != before || after > 200 {
		t.Errorf("%d steps when all was idle, %d later", before, after)
	}
}

func TestRow02DropsFreeTheirPlaces(t *testing.T) {
	s := plan{maxRunning: 2, delay: [2]time.Duration{5 * ms, 5 * ms}, threshold: 0.5, texts: []string{strings.Repeat("no end ", 500)}}.open(t)
	leave := [2]func(){s.stay(asks(0, `"stream":true`)), s.stay(asks(1, `"stream":true`))}
	s.until("both places are taken", func() bool { st := s.service.Stats()[0]; return st.Running+st.Pending == 2 })
	third := make(chan result)
	go func() { third <- s.ask(asks(2, `"max_tokens":3`)) }()
	s.until("the third waits", func() bool { return s.service.Stats()[0].Waiting == 1 })
	leave[0]()
	leave[1]()
	if r := <-third; len(r.ids) != 3 {
		t.Errorf("the third got %+v", r)
	}
	s.idle()
}

func TestRow03DropsWhileReadingThePrompt(t *testing.T) {
	long := strings.Replace(asks(0, ""), "go on:", strings.Repeat("x", 10000), 1)
	for name, c := range map[string]struct { // order: each is a case of its own.
		more    string
		answers float64
	}{"a chunk of 10,000 tokens": {`"stream":true`, 1}, "four answers": {`"n":4`, 4}, "four streams": {`"n":4,"stream":true`, 4}} {
		t.Run(name, func(t *testing.T) {
			s := plan{context: 20000, chunk: 64, delay: [2]time.Duration{5 * ms, 5 * ms}, threshold: 0.5}.open(t)
			s.leave(strings.Replace(long, `"seed":0`, `"seed":0,`+c.more, 1), func() bool { return s.service.Stats()[0].KVHeld > 200 })
			s.idle()
			if n := s.metric("vllm:time_to_first_token_seconds_count"); n != 0 {
				t.Errorf("%g first tokens are counted, and there was none", n)
			}
			s.within2s("all are counted as aborted", func() bool { return s.labelled("vllm:request_success_total", `"abort"`) == c.answers })
		})
	}
}

func TestRow04DropThenTheNextTurn(t *testing.T) {
	s := plan{delay: [2]time.Duration{2 * ms, 2 * ms}, threshold: 0.5}.open(t)
	prompt := strings.Repeat("what was said before ", 20)
	for i := range 5 {
		first := strings.Replace(asks(i, `"stream":true`), "go on:", prompt, 1)
		s.leave(first, func() bool { return s.running() > 0 || s.service.Stats()[0].Pending > 0 })
		r := s.ask(strings.Replace(asks(i, ""), "go on:", prompt+"and then", 1))
		if err := r.exact(s.plan.texts[0]); err != nil {
			t.Error(err)
		}
	}
	s.idle()
}

func TestRow05DropOfWhoWantsNoStream(t *testing.T) {
	s := plan{delay: [2]time.Duration{5 * ms, 5 * ms}, texts: []string{strings.Repeat("no end ", 500)}}.open(t)
	s.leave(asks(0, `"ignore_eos":true`), func() bool { return s.running() > 0 })
	s.idle()
	if n := s.service.Stats()[0].Sampled; n > 150 { // of 200
		t.Errorf("%d tokens were written for nobody", n)
	}
}

func TestRow10PromptsBeyondTheMemory(t *testing.T) {
	s := plan{kvTokens: 256, delay: [2]time.Duration{2 * ms, 2 * ms}, threshold: 0.5}.open(t)
	var users sync.WaitGroup
	for seed := range 4 { // a queue that must go on
		users.Go(func() {
			if r := s.ask(asks(seed, `"max_tokens":30`)); len(r.ids) != 30 {
				t.Errorf("got %+v", r)
			}
		})
	}
	status, text, err := s.try(t.Context(), textPath, strings.Replace(asks(0, ""), "go on:", strings.Repeat("x", 300), 1))
	if err != nil || status != 400 || !strings.Contains(text, "memory") {
		t.Errorf("%d %v: %s", status, err, text)
	}
	users.Wait()
	s.idle()
}

func TestRow11OneRequestOutgrowsTheMemory(t *testing.T) {
	s := plan{kvTokens: 128, threshold: 0.5, texts: []string{strings.Repeat("no end ", 100)}}.open(t)
	status, text, err := s.try(t.Context(), textPath, asks(0, `"stream":true`))
	r, bad := readResult(status, text)
	if err != nil || bad != nil || status != 200 || !r.done || r.finish != "" || !strings.Contains(r.failure, "outgrown") {
		t.Errorf("%d %v %v: %+v", status, err, bad, r)
	}
	if r := s.ask(asks(0, `"max_tokens":5`)); len(r.ids) != 5 {
		t.Errorf("the next got %+v", r)
	}
	if status, _ := s.get("/health"); status != 200 {
		t.Errorf("health is %d", status)
	}
	s.idle()
}

// With so little memory requests lose their KV and are read again: the text must
// not show it.
func TestRow12RetractedRequestsGoOnWhereTheyWere(t *testing.T) {
	p := plan{kvTokens: 192, threshold: 0.5, delay: [2]time.Duration{ms, ms}, texts: []string{strings.Repeat("0123456789 ", 8), strings.Repeat("abc ", 20)}}
	s := p.open(t)
	var users sync.WaitGroup
	for seed := range 8 {
		users.Go(func() {
			stream := seed%2 == 0
			r := s.ask(asks(seed, `"stream":`+fmt.Sprint(stream)+streamOptions(stream)))
			if err := r.exact(p.text(uint64(seed))); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
	users.Wait()
	s.idle()
	if s.metric("vllm:num_preemptions_total") == 0 {
		t.Error("nobody lost its KV: the test shows nothing")
	}
}

// The same while steps of both models run at once, and clients come and go.
func TestRow13LostKVWhileStepsOverlap(t *testing.T) {
	p := plan{kvTokens: 192, threshold: 0.5, delay: [2]time.Duration{2 * ms, 2 * ms}, meet: &meeting{}, texts: []string{strings.Repeat("0123456789 ", 8), strings.Repeat("abc ", 20)}}
	s := p.open(t)
	var users sync.WaitGroup
	for seed := range 8 {
		users.Go(func() {
			if r := s.ask(asks(seed, `"stream":true`+streamOptions(true))); r.exact(p.text(uint64(seed))) != nil {
				t.Errorf("seed %d: %v", seed, r.exact(p.text(uint64(seed))))
			}
		})
		users.Go(func() {
			leave := s.stay(asks(seed, ""))
			time.Sleep(time.Duration(1+10*seed) * ms)
			leave()
		})
	}
	users.Wait()
	s.idle()
	if s.metric("vllm:num_preemptions_total") == 0 || !p.meet.both() {
		t.Errorf("%g requests lost their KV, steps overlapped: %t: the test shows nothing", s.metric("vllm:num_preemptions_total"), p.meet.both())
	}
}

func TestRow20LogprobsAcrossHandovers(t *testing.T) {
	s := plan{threshold: 0.5}.open(t)
	for _, stream := range []string{"false", "true"} {
		_, text, err := s.try(t.Context(), textPath, asks(3, `"logprobs":2,"stream":`+stream))
		if err != nil {
			t.Fatal(err)
		}
		// The typists' log probabilities are minus the position.
		from := 0
		for i := range s.plan.texts[0] {
			want := fmt.Sprintf("-%d", len("go on:")+i)
			at := strings.Index(text[from:], `"token_logprobs":[`)
			if stream == "false" {
				if i > 0 {
					break
				}
				list, _, _ := strings.Cut(text[strings.Index(text, `"token_logprobs":[`)+len(`"token_logprobs":[`):], "]")
				if n := strings.Count(list, ",") + 1; n != len(s.plan.texts[0])+1 || !strings.HasPrefix(list, want+",") {
					t.Errorf("%d log probabilities: %s", n, list)
				}
				break
			}
			if at < 0 {
				t.Fatalf("no further log probabilities after %d", i)
			}
			from += at + len(`"token_logprobs":[`)
			if list, _, _ := strings.Cut(text[from:], "]"); !strings.HasPrefix(list, want) {
				// a chunk of several tokens tells of all of them
				if !strings.Contains(text[:from], want) {
					t.Fatalf("token %d has %s, want %s", i, list, want)
				}
			}
		}
	}
}

func TestX14TheQueueIsFull(t *testing.T) {
	s := plan{maxRunning: 1, queueLimit: 2, delay: [2]time.Duration{20 * ms, 20 * ms}}.open(t)
	var full, fine atomic.Int64
	var users sync.WaitGroup
	for seed := range 12 {
		users.Go(func() {
			status, text, err := s.try(t.Context(), textPath, asks(seed, `"max_tokens":5,"stream":true`))
			switch {
			case err == nil && status == 200:
				fine.Add(1)
			case err == nil && status == 503 && strings.Contains(text, "The request queue is full."):
				full.Add(1)
			default:
				t.Errorf("%d %v: %s", status, err, text)
			}
		})
	}
	users.Wait()
	if fine.Load() < 1 || full.Load() < 1 {
		t.Errorf("%d got answers and %d were refused", fine.Load(), full.Load())
	}
	s.idle()
}

func TestX15SIGTERMUnderLoad(t *testing.T) {
	for _, drain := range []time.Duration{time.Minute, 20 * ms} { // more than enough, and too little
		s := plan{threshold: 0.5, drain: drain, delay: [2]time.Duration{2 * ms, 2 * ms}, texts: []string{strings.Repeat("so long ", 23)}}.open(t)
		var finished, told, refused atomic.Int64
		var users sync.WaitGroup
		for seed := range 40 {
			users.Go(func() {
				status, text, err := s.try(t.Context(), textPath, asks(seed, `"stream":true,"stream_options":{"include_usage":true}`))
				r, bad := readResult(status, text)
				switch {
				case err != nil, status == 503: // it came too late
					refused.Add(1)
				case bad == nil && status == 200 && r.done && r.failure != "" && r.finish == "":
					told.Add(1)
				case bad == nil && status == 200 && r.done && r.exact(s.plan.texts[0]) == nil:
					finished.Add(1)
				default:
					t.Errorf("%d %v: %s", status, bad, text)
				}
			})
		}
		s.until("20 requests run", func() bool { return s.running() >= 20 })
		s.end()
		users.Wait()
		if drain > time.Second && told.Load() > 0 {
			t.Errorf("%d streams were broken off, and there was time", told.Load())
		}
		t.Logf("drain %v: %d finished, %d were told, %d refused", drain, finished.Load(), told.Load(), refused.Load())
		s.idle()
	}
}

// 200 clients, of whom a third go at random: for a minute if LONG is set, a
// second otherwise.
func TestManyClientsOfWhomSomeGo(t *testing.T) {
	wait := time.Second
	if os.Getenv("LONG") != "" {
		wait = time.Minute
	}
	texts := []string{"a sentence for many", "日本語 and others, a little longer", strings.Repeat("long ", 12)}
	s := plan{threshold: 0.5, b: 8, texts: texts, delay: [2]time.Duration{ms, 2 * ms}}.open(t)
	s.ask(asks(0, "")) // what is made once is there
	http.DefaultClient.CloseIdleConnections()
	s.idle()
	time.Sleep(50 * ms)
	before := runtime.NumGoroutine()
	var exact, gone atomic.Int64
	end := time.Now().Add(wait)
	var users sync.WaitGroup
	for u := range 200 {
		users.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(u)))
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for seed := u; time.Now().Before(end); seed += 200 {
				if s.visit(client, rng, seed) {
					exact.Add(1)
				} else {
					gone.Add(1)
				}
			}
		})
	}
	users.Wait()
	s.idle()
	if exact.Load() == 0 || gone.Load() == 0 {
		t.Errorf("%d finished, %d went", exact.Load(), gone.Load())
	}
	for _, family := range []string{"vllm:num_requests_running", "vllm:num_requests_waiting", "sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:num_used_tokens", "tokenrouter_pending_requests"} {
		if n := s.metric(family); n != 0 {
			t.Errorf("%s is %g", family, n)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	for wait := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(wait); {
		time.Sleep(10 * ms)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, before there were %d", n, before)
	}
	t.Logf("%d exact, %d went", exact.Load(), gone.Load())
}

// visit streams an answer, and a third of the time goes in the middle of it. It
// reports whether it stayed.
func (s *site) visit(client *http.Client, rng *rand.Rand, seed int) bool {
	ctx, leave := context.WithCancel(s.t.Context())
	defer leave()
	goes := rng.IntN(3) == 0
	if goes {
		time.AfterFunc(time.Duration(rng.IntN(60))*ms, leave)
	}
	r, err := http.NewRequestWithContext(ctx, "POST", s.url+textPath, strings.NewReader(asks(seed, `"stream":true,"stream_options":{"include_usage":true}`)))
	if err != nil {
		s.t.Error(err)
		return false
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err == nil {
		var text []byte
		text, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil {
			got, bad := readResult(resp.StatusCode, string(text))
			if bad != nil || !got.done {
				s.t.Errorf("seed %d: %d %v: %s", seed, resp.StatusCode, bad, text)
			} else if bad := got.exact(s.plan.text(uint64(seed))); bad != nil {
				s.t.Errorf("seed %d: %v", seed, bad)
			}
			return true
		}
	}
	if !goes {
		s.t.Errorf("seed %d: %v", seed, err)
	}
	return false
}
