package serving

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/backend/frontdoor"
	"github.com/tokenrouter/tokenrouter/backend/tokenizer"
)

// BenchmarkFrontDoor streams to 64 clients over sockets from models whose steps
// take no time, and from models that write a token each 10 ms. The first tells
// how many tokens a second the door carries, clients included, which run in the
// same process; the second how late tokens are that are not late by themselves.
// Beside each stands the same without the door.
func BenchmarkFrontDoor(b *testing.B) {
	text := strings.Repeat("abcdefgh", 64)
	b.Run("tokens", func(b *testing.B) {
		s := plan{texts: []string{text}, threshold: 0.1, context: 1024}.open(b)
		// Fewer runs tell nothing, since each client wants several answers.
		for b.Loop() {
			start := time.Now()
			n := s.load(b, 64, 8, nil)
			door := float64(n) / time.Since(start).Seconds()
			start = time.Now()
			n = s.direct(b, 64, 8, nil)
			direct := float64(n) / time.Since(start).Seconds()
			b.ReportMetric(door, "door_tok/s")
			b.ReportMetric(direct, "direct_tok/s")
			b.ReportMetric(direct/door, "ratio")
		}
	})
	b.Run("latency", func(b *testing.B) {
		s := plan{texts: []string{text}, threshold: -1, context: 1024, delay: [2]time.Duration{10 * ms, 10 * ms}}.open(b)
		var door, direct gaps
		for b.Loop() {
			s.direct(b, 64, 1, &direct)
			s.load(b, 64, 1, &door)
		}
		for _, p := range []struct {
			name string
			of   float64
		}{{"p50", 0.5}, {"p99", 0.99}} {
			b.ReportMetric(door.percentile(p.of)-direct.percentile(p.of), "added_"+p.name+"_ms")
			b.ReportMetric(door.percentile(p.of), "door_"+p.name+"_ms")
		}
	})
}

// gaps are times between tokens, in milliseconds.
type gaps struct {
	mu  sync.Mutex
	all []float64
}

func (g *gaps) add(list []float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, list...)
}

func (g *gaps) percentile(p float64) float64 {
	slices.Sort(g.all)
	return g.all[int(p*float64(len(g.all)-1))]
}

// load streams answers to clients, each on a connection of its own, and counts
// the events with text.
func (s *site) load(b *testing.B, clients, answers int, g *gaps) (tokens int) {
	b.Helper()
	var mu sync.Mutex
	var users sync.WaitGroup
	for u := range clients {
		users.Go(func() {
			client := &http.Client{Transport: &http.Transport{WriteBufferSize: 4 << 10}}
			defer client.CloseIdleConnections()
			for a := range answers {
				n, list, err := s.stream(client, u*answers+a)
				if err != nil {
					b.Error(err)
					return
				}
				if g != nil {
					g.add(list)
				}
				mu.Lock()
				tokens += n
				mu.Unlock()
			}
		})
	}
	users.Wait()
	return tokens
}

func (s *site) stream(client *http.Client, seed int) (tokens int, list []float64, err error) {
	resp, err := client.Post(s.url+chatPath, "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"go on"}],"max_tokens":512,"stream":true}`))
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	reader := bufio.NewReader(resp.Body)
	last := time.Time{}
	for {
		line, err := reader.ReadSlice('\n')
		if err == io.EOF {
			return tokens, list, nil
		}
		if err != nil {
			return 0, nil, err
		}
		if !strings.Contains(string(line), `"content":"`) || strings.Contains(string(line), `"role"`) {
			continue
		}
		tokens++
		now := time.Now()
		if !last.IsZero() {
			list = append(list, float64(now.Sub(last).Nanoseconds())/1e6)
		}
		last = now
	}
}

// direct does the same without HTTP.
func (s *site) direct(b *testing.B, clients, answers int, g *gaps) (tokens int) {
	b.Helper()
	var mu sync.Mutex
	var users sync.WaitGroup
	for range clients {
		users.Go(func() {
			for range answers {
				n, list := s.read(b)
				if g != nil {
					g.add(list)
				}
				mu.Lock()
				tokens += n
				mu.Unlock()
			}
		})
	}
	users.Wait()
	return tokens
}

func (s *site) read(b *testing.B) (tokens int, list []float64) {
	house := tokenizer.Bytes(vocab)
	r := &frontdoor.Request{Model: frontdoor.Routed, Prompt: house.Encode("go on", false), MaxTokens: 512, Logprobs: -1, Text: house.NewDecoder(true)}
	stream, err := s.service.Submit(b.Context(), r)
	if err != nil {
		b.Error(err)
		return 0, nil
	}
	last := time.Time{}
	for {
		c, err := stream.Next(b.Context())
		if err == io.EOF {
			return tokens, list
		}
		if err != nil {
			b.Error(err)
			return 0, nil
		}
		tokens += len(c.Tokens)
		now := time.Now()
		if !last.IsZero() {
			list = append(list, float64(now.Sub(last).Nanoseconds())/1e6)
		}
		last = now
	}
}
