package loadtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// BenchmarkClient is the most that the client measures: 64 streams of a server
// that writes as fast as it can, a chunk and a flush for each token, over real
// sockets. Beside it stands a client that throws the same bytes away; server and
// client share the machine's cores.
func BenchmarkClient(b *testing.B) {
	const users, tokens = 64, 512
	event := []byte("data: " + benchChunk + "\n\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range tokens {
			_, _ = w.Write(event)
			w.(http.Flusher).Flush()
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	defer server.Close()
	client := &Client{Server: Server{URL: server.URL, Vocab: DefaultVocab, HTTP: NewHTTPClient(users, nil)}, TokenIDs: true}
	perS := func(streams int, run func() (tokens int64)) float64 {
		start := time.Now()
		n := run()
		if n != int64(streams)*tokens {
			b.Fatalf("%d tokens of %d streams", n, streams)
		}
		return float64(n) / time.Since(start).Seconds()
	}
	thrown := perS(4*users, func() int64 { return throwAway(b, client, users, 4, int64(len(event))) })
	var measured float64
	for b.Loop() {
		measured = perS(4*users, func() int64 {
			r, err := Run(b.Context(), &Config{Target: client, Models: 1, Patience: time.Minute,
				Load: workload.Load{Kind: workload.Closed, Users: users, Limit: 4 * users, Mix: mixOf(100, tokens), Seed: 1}}, nil)
			if err != nil {
				b.Fatal(err)
			}
			return r.Tokens
		})
	}
	b.ReportMetric(measured, "tokens/s")
	b.ReportMetric(measured/thrown, "of-a-client-that-throws-away")
}

// throwAway reads streams without looking at them and returns how many events
// they held by their bytes.
func throwAway(b *testing.B, c *Client, users, turns int, eventBytes int64) int64 {
	var mu sync.Mutex
	var streams sync.WaitGroup
	sum := int64(0)
	q := mixOf(100, 512).Request(0, 1)
	body := c.body(&q)
	for range users {
		streams.Go(func() {
			for range turns {
				resp, err := c.post(b.Context(), apiPaths[c.API], body)
				if err != nil {
					b.Error(err)
					return
				}
				n, _ := io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				mu.Lock()
				sum += n / eventBytes
				mu.Unlock()
			}
		})
	}
	streams.Wait()
	return sum
}

// BenchmarkDispatcher is what a token costs standard serving where the servers
// take no time: a request over a real socket each, beside bare posts of a body
// that never changes.
func BenchmarkDispatcher(b *testing.B) {
	const users, tokens, prompt = 16, 32, 500
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"choices":[{"text":"x","logprobs":{"tokens":["token_id:17"],"token_logprobs":[-0.5],"top_logprobs":[{"x":-0.5}]}}]}`)
	}))
	defer server.Close()
	s := &Server{URL: server.URL, Model: "m", Vocab: DefaultVocab, HTTP: NewHTTPClient(users, nil)}
	a, err := algorithms.New("matrix", algorithms.Params{Models: 2, Matrix: [][]float64{{0.9, 0.1}, {1, 0}}})
	if err != nil {
		b.Fatal(err)
	}
	d, err := NewDispatcher([]*Server{s, s}, a, 0)
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	bare := (&Client{Server: *s}).body(&workload.Request{Prompt: prompt, Output: 1})
	var posts sync.WaitGroup
	for range users {
		posts.Go(func() {
			for range 4 * tokens {
				if resp, err := s.post(b.Context(), apiPaths[s.API], bare); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
		})
	}
	posts.Wait()
	bareS := time.Since(start).Seconds() / (users * 4 * tokens)
	var own float64
	for b.Loop() {
		start := time.Now()
		r, err := Run(b.Context(), &Config{Target: d, Models: 2, Patience: time.Minute,
			Load: workload.Load{Kind: workload.Closed, Users: users, Limit: 4 * users, Mix: mixOf(prompt, tokens), Seed: 1}}, nil)
		if err != nil || r.Good != 4*users {
			b.Fatal(err, r.Failures)
		}
		own = time.Since(start).Seconds() / float64(r.Tokens)
	}
	b.ReportMetric(1/own, "tokens/s")
	b.ReportMetric(own/bareS, "bare-posts")
}
