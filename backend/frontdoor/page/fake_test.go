package page_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tokenrouter/tokenrouter/backend/frontdoor/page"
)

// fake is a server of two models whose figures move with the clock.
type fake struct {
	key    string
	draws  bool // its routing has no threshold
	pauses bool // a tenth of the time there is work
	start  time.Time
	mu     sync.Mutex
	asked  []prompt
	state  page.State
	gone   chan struct{} // hears of each client that left in the middle
}

// prompt is the body of a completion as the page writes it.
type prompt struct {
	Path     string
	Model    string
	Prompt   string
	Messages []struct{ Role, Content string }
	Stream   bool
	Max      int      `json:"max_tokens"`
	Heat     *float64 `json:"temperature"`
	Params   struct {
		Writers   bool     `json:"return_writers"`
		Threshold *float64 `json:"threshold"`
	} `json:"custom_params"`
}

const flood = 4000 // tokens

func newFake() *fake {
	return &fake{start: time.Now().Add(-time.Minute), state: page.Serving, gone: make(chan struct{}, 1)}
}

func (f *fake) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", page.Handler(f.answer))
	mux.HandleFunc("POST /v1/chat/completions", f.complete)
	mux.HandleFunc("POST /v1/completions", f.complete)
	return mux
}

// answer tells the status to who has the key.
func (f *fake) answer(r *http.Request) page.Status {
	if f.key != "" && r.Header.Get("Authorization") != "Bearer "+f.key {
		return page.Status{StartedMs: f.start.UnixMilli(), NowMs: time.Now().UnixMilli(), State: page.Locked, KeyNeeded: true}
	}
	return f.status()
}

func (f *fake) setState(s page.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = s
}

func (f *fake) prompts() []prompt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]prompt(nil), f.asked...)
}

// status has a small and a large model at work whose load goes up and down.
func (f *fake) status() page.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.state == page.Starting {
		return page.Status{Version: "v0.4.0", StartedMs: f.start.UnixMilli(), NowMs: now.UnixMilli(), State: f.state}
	}
	s := now.Sub(f.start).Seconds()
	wave := math.Sin(s / 4)
	small := int64(500*s + 400*(1-math.Cos(s/4)))
	large := int64(60 * s)
	predicted, each := 580.0, 520.0
	batches := func(steps int64, mode int) []page.Batches {
		var list []page.Batches
		for i, upto := range []int{1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64, 128} {
			share := math.Exp(-math.Pow(float64(i-mode)/2, 2))
			list = append(list, page.Batches{Upto: upto, Steps: int64(float64(steps) * share / 3.5)})
		}
		return list
	}
	live := s
	if f.pauses {
		live = s / 10
	}
	return page.Status{
		Version: "v0.4.0", StartedMs: f.start.UnixMilli(), NowMs: now.UnixMilli(), State: f.state, KeyNeeded: f.key != "", Chat: true, Thresholds: !f.draws, LiveS: live,
		Names:   []page.Name{{Name: "routed", Routed: true}, {Name: "qwen3-0.6b"}, {Name: "qwen3-32b"}},
		Waiting: int(3 + 3*wave), Running: int(24 + 6*wave), PredictedTokPerS: &predicted,
		TTFT: &page.Percentiles{P50Ms: 83.2 + wave, P90Ms: 140, P99Ms: 412, Count: 90},
		ITL:  &page.Percentiles{P50Ms: 5.31, P90Ms: 38.4, P99Ms: 71.9 + wave, Count: 9000},
		Models: []page.Model{
			{Name: "qwen3-0.6b", Home: true, Here: true, Running: int(12 + 4*wave), Ready: 3, Pending: 6, Waiting: 2, B: 1, Steps: int64(180 * s),
				Sampled: small, BusyS: .86 * s, Batches: batches(int64(180*s), 4), KVHeld: 41000 + int(9000*wave), KVCached: 22000, KVTotal: 131072,
				Tokens: small, RoutedTokens: small, PredictedTokPerS: &each},
			{Name: "qwen3-32b", Here: true, Running: 5, Ready: 1, Away: 4, B: 4, Steps: int64(14 * s), Sampled: large, BusyS: .52 * s,
				Batches: batches(int64(14*s), 3), KVHeld: 38000, KVCached: 2000, KVTotal: 65536, Tokens: large, RoutedTokens: large},
		},
	}
}

// complete answers a prompt: forty tokens, of which each tenth is the large
// model's, as many as the client takes if the prompt is "endless", or thousands
// at once if it is "flood".
func (f *fake) complete(w http.ResponseWriter, r *http.Request) {
	if f.key != "" && r.Header.Get("Authorization") != "Bearer "+f.key {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":{"message":"Unauthorized"}}`)
		return
	}
	p := prompt{Path: r.URL.Path}
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.asked = append(f.asked, p)
	f.mu.Unlock()
	text := p.Prompt
	if len(p.Messages) > 0 {
		text = p.Messages[0].Content
	}
	if text == "refuse" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":{"message":"temperature is 9, want less"}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	events := 0
	event := func(delta map[string]any, writers []string, finish any) {
		choice := map[string]any{"index": 0, "delta": delta, "text": delta["content"], "finish_reason": finish}
		if writers != nil {
			choice["writers"] = writers
		}
		raw, _ := json.Marshal(map[string]any{"choices": []any{choice}})
		whole := fmt.Sprintf("data: %s\n\n", raw)
		// A network may cut anywhere, in a character or between the newlines.
		cut := events * 7 % len(whole)
		for _, part := range []string{whole[:cut], whole[cut:]} {
			fmt.Fprint(w, part)
			w.(http.Flusher).Flush()
		}
		events++
	}
	event(map[string]any{"role": "assistant", "content": ""}, nil, nil)
	words := strings.SplitAfter("Routing every token: a small model writes most of an answer, and a large one the few tokens that decide it. "+
		"<img src=x onerror=\"document.title='broken into'\"> 世界 🙂 ", " ")
	for n := 0; n < 40 || text == "endless" || text == "flood" && n < flood; n++ {
		writer := "qwen3-0.6b"
		if n%10 == 3 {
			writer = "qwen3-32b"
		}
		event(map[string]any{"content": words[n%len(words)]}, []string{writer}, nil)
		if text == "flood" {
			continue
		}
		select {
		case <-r.Context().Done():
			f.gone <- struct{}{}
			return
		case <-time.After(15 * time.Millisecond):
		}
	}
	if text == "break" {
		panic(http.ErrAbortHandler)
	}
	event(map[string]any{}, nil, "length")
	fmt.Fprint(w, "data: [DONE]\n\n")
}
