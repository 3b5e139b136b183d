package loadtest

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// toy is a language model: all that it says is a hash of its name and of the
// tokens so far.
type toy uint64

func (m toy) next(tokens []int) (token int, maxProb float64) {
	h := uint64(m)
	for i, t := range tokens {
		h = algorithms.Bits(h, i, algorithms.Purpose(t))
	}
	return int(h % 500), algorithms.Draw(h, 0, 1)
}

// serve answers for one token, as vLLM or SGLang do.
func (m toy) serve(names bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a := read(r)
		if r.URL.Path == "/generate" {
			m.generate(w, &a)
			return
		}
		token, p := m.next(a.ids())
		choice := object{"index": 0, "text": "x", "finish_reason": "length"}
		if a.Logprobs != nil {
			name := fmt.Sprint("word ", token)
			if a.AsIDs && names {
				name = fmt.Sprint(tokenName, token)
			}
			l := object{"tokens": []any{name}, "token_logprobs": []any{math.Log(p / 2)}, "top_logprobs": []any{nil}}
			if *a.Logprobs > 0 {
				l["top_logprobs"] = []any{object{"a": math.Log(p), "b": math.Log(p / 2)}}
			}
			choice["logprobs"] = l
		}
		if a.TokenIDs {
			choice["token_ids"] = []int{token}
		}
		if a.MaxTokens != 1 || a.MinTokens != 1 || !a.IgnoreEOS || a.Stream {
			choice = object{"text": "asked for more than one token"}
		}
		writer{w}.json(object{"choices": []any{choice}})
	}
}

func (m toy) generate(w http.ResponseWriter, a *asked) {
	token, p := m.next(a.InputIDs)
	meta := object{"finish_reason": object{"type": "length", "length": 1}}
	if a.ReturnLogprob && a.Top == 1 {
		meta["output_token_logprobs"] = []any{[]any{math.Log(p / 2), token, nil}}
		meta["output_top_logprobs"] = []any{[]any{[]any{math.Log(p), 7, nil}}}
	}
	writer{w}.json(object{"text": "x", "output_ids": []int{token}, "meta_info": meta})
}

// plainLoop is one request by itself, with the models at hand.
func plainLoop(a algorithms.Algorithm, models []toy, prompt []int, r *workload.Request) (output []algorithms.Token, writers []int) {
	tokens := slices.Clone(prompt)
	at, hops, start := 0, 0, len(prompt)
	for len(writers) < r.Output {
		token, p := models[at].next(tokens)
		v := algorithms.View{Seed: r.Seed, Model: at, Position: len(tokens), StayStart: start, Hops: hops,
			Token: algorithms.Token(token), Signals: algorithms.Signals{MaxProb: p}}
		dest := a.Route(&v)
		keep := dest == algorithms.Stay
		if !keep {
			keep = a.Send(algorithms.Departure{From: at, To: dest.Model(), Position: v.Position, Token: v.Token}, &algorithms.PeerReq{Seed: r.Seed, From: at})
		}
		if keep {
			tokens = append(tokens, token)
			output, writers = append(output, v.Token), append(writers, at)
		}
		if dest != algorithms.Stay {
			at, hops, start = dest.Model(), hops+1, len(tokens)
		}
	}
	return output, writers
}

// watched keeps the answers of a target.
type watched struct {
	Target
	mu      sync.Mutex
	answers map[int]*Answer
}

func (w *watched) Ask(ctx context.Context, r *workload.Request, a *Answer) error {
	err := w.Target.Ask(ctx, r, a)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[r.Index] = a
	return err
}

func writersOf(a *Answer) (writers []int) {
	for _, m := range a.moments {
		for range m.tokens {
			writers = append(writers, int(m.writer))
		}
	}
	return writers
}

func newAlgorithm(t *testing.T, name string, p algorithms.Params) algorithms.Algorithm {
	t.Helper()
	p.Models, p.Large = 2, 1
	a, err := algorithms.New(name, p)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Over real sockets the tokens are those of the plain loop, whoever routes and
// however the servers tell ids.
func TestDispatchIsThePlainLoop(t *testing.T) {
	threshold := 0.3
	const prompt = 12
	for _, c := range []struct {
		name   string
		params algorithms.Params
	}{
		{"matrix", algorithms.Params{Matrix: [][]float64{{0.7, 0.3}, {0.6, 0.4}}}},
		{"matrix", algorithms.Params{Matrix: [][]float64{{0.7, 0.3}, {1, 0}}, RoutedKept: true}},
		{"bursty", algorithms.Params{MeanGap: 4, GapCV: 1.5, GapLag1: 0.1, ReturnProb: 0.5}},
		{"script", algorithms.Params{Scripts: []string{"SSLLSSLSSLLLLSSSSSSL", "LLSLSLSLSLSLSLSLSSSS"}, PromptTokens: prompt}},
		{"confidence", algorithms.Params{Threshold: &threshold}},
		{"never", algorithms.Params{}},
	} {
		a := newAlgorithm(t, c.name, c.params)
		for _, s := range []struct {
			name  string
			api   API
			names bool
		}{{"names", Completions, true}, {"ids", Completions, false}, {"generate", Generate, false}} {
			t.Run(c.name+" "+s.name, func(t *testing.T) { checkPlainLoop(t, a, s.api, s.names, prompt) })
		}
	}
}

func checkPlainLoop(t *testing.T, a algorithms.Algorithm, api API, names bool, prompt int) {
	models := []toy{1, 2}
	var servers []*Server
	for _, m := range models {
		s := httptest.NewServer(m.serve(names))
		defer s.Close()
		servers = append(servers, &Server{URL: s.URL, Model: "m", API: api, Vocab: 400, HTTP: s.Client()})
	}
	d, err := NewDispatcher(servers, a, 0)
	if err == nil {
		err = d.Probe(t.Context(), time.Minute)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{Target: d, answers: map[int]*Answer{}}
	load := workload.Load{Kind: workload.Closed, Users: 3, Limit: 6, Mix: mixOf(prompt, 20), Seed: 11}
	r, err := Run(t.Context(), &Config{Target: w, Models: 2, Patience: time.Minute, Load: load}, nil)
	if err != nil || r.Requests != 6 || r.Tokens != 6*20 || r.PromptTokens != float64(prompt) {
		t.Fatalf("%v: %d requests, %d tokens, %v", err, r.Requests, r.Tokens, r.Failures)
	}
	byLarge := 0
	for i := range 6 {
		q := load.Mix.Request(i, load.Seed)
		var ids []int
		for _, id := range servers[0].PromptIDs(&q) {
			ids = append(ids, int(id))
		}
		output, writers := plainLoop(a, models, ids, &q)
		if got := w.answers[i]; !slices.Equal(got.Output, output) || !slices.Equal(writersOf(got), writers) {
			t.Fatalf("request %d: %v by %v, want %v by %v", i, got.Output, writersOf(got), output, writers)
		}
		for _, writer := range writers {
			byLarge += writer
		}
	}
	if got, want := r.TokenShare[1], float64(byLarge)/120; math.Abs(got-want) > 1e-9 || (byLarge == 0) != (a.Name() == "never") {
		t.Errorf("share of large tokens %g, want %g", got, want)
	}
}

// The figures of a dispatcher are those of its tokens: at the small model 10 ms
// each, at the large one 50.
func TestDispatchFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var servers []*Server
		for i, step := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond} {
			answer := toy(i).serve(true)
			s := inProcess(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(step)
				answer(w, r)
			}))
			servers = append(servers, &s)
		}
		d, err := NewDispatcher(servers, newAlgorithm(t, "script", algorithms.Params{Scripts: []string{"SSLLS"}, PromptTokens: 4}), 0)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), &Config{Target: d, Models: 2, Patience: time.Second, Load: workload.Load{Kind: workload.Closed, Users: 1, Limit: 2, Mix: mixOf(4, 5)}}, nil)
		if err != nil || r.Requests != 2 {
			t.Fatalf("%v: %+v", err, r.Failures)
		}
		near(t, "TTFT", r.TTFTMs, all(10))
		near(t, "E2E", r.E2EMs, all(130))
		near(t, "TPOT", r.TPOTMs, all(30))
		if r.TokenShare[1] != 0.4 {
			t.Errorf("share %g", r.TokenShare[1])
		}
	})
}

// What goes wrong at either server ends the one request, with what was written.
func TestDispatchFailures(t *testing.T) {
	for _, c := range []struct {
		kind, detail string
		handler      http.HandlerFunc
	}{
		{"http 500", "out of memory", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "out of memory", 500) }},
		{KindCut, "EOF", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{KindCut, "EOF", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"choices":`)
		}},
		{KindJunk, "<html>", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }},
		{KindError, "worse", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"error":{"message":"worse"}}`) }},
		{KindToken, `{"choices":[]}`, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"choices":[]}`) }},
		{KindToken, "", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"choices":[{"token_ids":[1,2],"logprobs":{"tokens":["token_id:x"]}}]}`)
		}},
		{KindSilent, "", func(_ http.ResponseWriter, r *http.Request) { read(r); <-r.Context().Done() }},
	} {
		for broken := range 2 {
			t.Run(fmt.Sprint(c.kind, broken), func(t *testing.T) { checkDispatchFailure(t, c.kind, c.detail, c.handler, broken) })
		}
	}
}

func checkDispatchFailure(t *testing.T, kind, detail string, fail http.HandlerFunc, broken int) {
	synctest.Test(t, func(t *testing.T) {
		var servers []*Server
		var calls atomic.Int64
		for i := range 2 {
			answer := toy(i).serve(true)
			s := inProcess(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Millisecond)
				if i == broken && calls.Add(1) == 3 {
					fail(w, r)
					return
				}
				answer(w, r)
			}))
			servers = append(servers, &s)
		}
		d, err := NewDispatcher(servers, newAlgorithm(t, "script", algorithms.Params{Scripts: []string{"SLSLSLSL"}, PromptTokens: 4}), 0)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), &Config{Target: d, Models: 2, Patience: time.Minute, Load: workload.Load{Kind: workload.Closed, Users: 1, Limit: 3, Mix: mixOf(4, 8)}}, nil)
		if err != nil || r.Requests != 2 || r.Aborted != 1 || len(r.Failures) != 1 || r.Failures[0].Kind != kind || !strings.Contains(r.Failures[0].First, detail) {
			t.Errorf("%v: %d requests, %d aborted, %+v; want %s with %q", err, r.Requests, r.Aborted, r.Failures, kind, detail)
		}
		if r.Tokens <= 16 || r.Tokens >= 24 {
			t.Errorf("%d tokens: those before the failure count", r.Tokens)
		}
	})
}

func TestDispatchersThatCannotBe(t *testing.T) {
	servers := []*Server{{}, {}}
	for name, params := range map[string]algorithms.Params{"citer": {}, "fusion": {Weights: []float64{0.5, 0.5}}, "rstitch": {}} {
		if _, err := NewDispatcher(servers, newAlgorithm(t, name, params), 0); err == nil || !strings.Contains(err.Error(), name+" needs ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	late := lateJudge{newAlgorithm(t, "never", algorithms.Params{})}
	if _, err := NewDispatcher(servers, late, 0); err == nil || !strings.Contains(err.Error(), "judges a visit after its end") {
		t.Errorf("%v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		a, b := inProcess(t, toy(1).serve(true)), inProcess(t, toy(2).serve(true))
		d, err := NewDispatcher([]*Server{&a, &b}, stuckRouter{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), &Config{Target: d, Models: 2, Patience: time.Minute, Load: workload.Load{Kind: workload.Closed, Users: 1, Limit: 1, Mix: mixOf(4, 8)}}, nil)
		if err != nil || len(r.Failures) != 1 || !strings.Contains(r.Failures[0].First, "keeps no token") {
			t.Errorf("%v: %+v", err, r.Failures)
		}
	})
}

// lateJudge has a Receive of its own.
type lateJudge struct{ inner algorithms.Algorithm }

func (l lateJudge) Name() string                                   { return "late" }
func (l lateJudge) Needs(int) algorithms.Need                      { return 0 }
func (l lateJudge) Route(v *algorithms.View) algorithms.Dest       { return l.inner.Route(v) }
func (l lateJudge) Receive(*algorithms.PeerReq) []algorithms.Token { return nil }
func (l lateJudge) Send(d algorithms.Departure, q *algorithms.PeerReq) bool {
	return l.inner.Send(d, q)
}

// stuckRouter sends back and forth and keeps nothing.
type stuckRouter struct{ algorithms.AcceptAll }

func (stuckRouter) Name() string                                        { return "stuck" }
func (stuckRouter) Needs(int) algorithms.Need                           { return 0 }
func (stuckRouter) Route(v *algorithms.View) algorithms.Dest            { return algorithms.To(1 - v.Model) }
func (stuckRouter) Send(algorithms.Departure, *algorithms.PeerReq) bool { return false }

func TestDispatchProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := inProcess(t, toy(1).serve(true))
		for _, c := range []struct {
			want    string
			handler http.HandlerFunc
		}{
			{"it tells no token ids", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"choices":[{"text":"x"}]}`) }},
			{"http 404", http.NotFound},
			{"no answer", func(_ http.ResponseWriter, r *http.Request) { read(r); <-r.Context().Done() }},
		} {
			s := inProcess(t, c.handler)
			d, err := NewDispatcher([]*Server{&good, &s}, newAlgorithm(t, "never", algorithms.Params{}), 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Probe(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		}
	})
}

// Toys know 512 tokens: prompts for both servers are of ids that both know, and
// somebody is told. A server that would route by itself is told of too.
func TestADispatcherFindsWhatBothServersTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most atomic.Int64
		only := func(vocab int, names ...string) Server {
			s := inProcess(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					list := []any{}
					for _, name := range names {
						list = append(list, object{"id": name, "owned_by": "tokenrouter"})
					}
					writer{w}.json(object{"data": list})
					return
				}
				text, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(strings.NewReader(string(text)))
				a := read(r)
				if top := slices.Max(a.ids()); top >= vocab {
					w.WriteHeader(http.StatusBadRequest)
					writer{w}.json(object{"error": object{"message": "unknown token"}})
					return
				} else if int64(top) > most.Load() {
					most.Store(int64(top))
				}
				r.Body = io.NopCloser(strings.NewReader(string(text)))
				toy(7).serve(true)(w, r)
			}))
			s.Model = ""
			return s
		}
		large, small := only(DefaultVocab, "pair", "small", "large"), only(512, "one")
		d, err := NewDispatcher([]*Server{&large, &small}, newAlgorithm(t, "never", algorithms.Params{}), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Probe(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if large.Vocab != byteVocab || small.Vocab != byteVocab || large.Model != "pair" || small.Model != "one" {
			t.Errorf("vocabularies %d and %d, models %s and %s", large.Vocab, small.Vocab, large.Model, small.Model)
		}
		notes := strings.Join(d.Notes(), "\n")
		if len(d.Notes()) != 2 || !strings.Contains(notes, "--model names another: small, large") || !strings.Contains(notes, "ids below 256") {
			t.Errorf("notes %q", notes)
		}
		if most.Load() < 512 {
			t.Error("no prompt had an id that one of them lacks: the test shows nothing")
		}
	})
}
