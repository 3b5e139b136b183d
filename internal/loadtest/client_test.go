package loadtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// each writes 1 token after 10 ms, 3 at once after 5 ms more, and 1 after 5 more.
func each(chunk func(n, sum int)) {
	time.Sleep(5 * time.Millisecond)
	sum := 0
	for _, n := range []int{1, 3, 1} {
		time.Sleep(5 * time.Millisecond)
		sum += n
		chunk(n, sum)
	}
}

// oneChoice is a chunk whose choice has these fields beside the usual ones.
func oneChoice(fields object, more object) object {
	c := object{"index": 0, "finish_reason": nil}
	maps.Copy(c, fields)
	all := object{"choices": []any{c}}
	maps.Copy(all, more)
	return all
}

func word(more object) object { return oneChoice(object{"text": " word"}, more) }
func delta(d, fields object) object {
	fields["delta"] = d
	return oneChoice(fields, nil)
}

// waysToCount all write the tokens of each.
var waysToCount = []struct {
	name    string
	api     API
	want    Source
	handler func(s writer)
}{
	{"token ids", Completions, ByTokenIDs, func(s writer) {
		each(func(n, _ int) { s.text(make([]int, n)...) })
		s.text() // text that was held back is no token
		s.end(5)
	}},
	{"ids without text", Completions, ByTokenIDs, func(s writer) {
		each(func(n, _ int) { s.event(oneChoice(object{"text": "", "token_ids": make([]int, n)}, nil)) })
		s.end(5)
	}},
	{"running usage", Completions, ByRunningUsage, func(s writer) {
		each(func(_, sum int) { s.event(word(object{"usage": object{"prompt_tokens": 7, "completion_tokens": sum}})) })
		s.end(5)
	}},
	{"final usage", Completions, ByFinalUsage, func(s writer) {
		each(func(int, int) { s.text() })
		s.end(5)
	}},
	{"no usage", Completions, ByChunks, func(s writer) {
		each(func(n, _ int) {
			for range n {
				s.text()
			}
		})
		s.raw("data: [DONE]\n\n")
	}},
	{"no end", Completions, ByFinalUsage, func(s writer) {
		each(func(int, int) { s.text() })
		s.event(oneChoice(object{"text": "", "finish_reason": "length"}, object{"usage": object{"completion_tokens": 5}}))
	}},
	{"half tokens", Completions, ByFinalUsage, func(s writer) {
		each(func(n, _ int) {
			for range n {
				s.text()
			}
		})
		s.text()
		s.text()
		s.end(5)
	}},
	{"chat by ids", Chat, ByTokenIDs, func(s writer) {
		s.event(delta(object{"role": "assistant", "content": ""}, object{"token_ids": nil}))
		each(func(n, _ int) { s.event(delta(object{"content": "x"}, object{"token_ids": make([]int, n)})) })
		s.event(delta(object{}, object{"finish_reason": "length"}))
		s.end(5)
	}},
	{"chat that reasons", Chat, ByFinalUsage, func(s writer) {
		s.event(delta(object{"role": "assistant", "content": ""}, object{}))
		each(func(int, int) { s.event(delta(object{"reasoning_content": "x"}, object{})) })
		s.event(delta(object{}, object{"finish_reason": "length"}))
		s.end(5)
	}},
	{"generate", Generate, ByRunningUsage, func(s writer) {
		each(func(_, sum int) {
			s.event(object{"text": strings.Repeat("x", sum), "output_ids": make([]int, sum),
				"meta_info": object{"prompt_tokens": 7, "completion_tokens": sum, "finish_reason": nil}})
		})
		s.raw("data: [DONE]\n\n")
	}},
}

// However a server tells its tokens, the figures are the same.
func TestWaysToCount(t *testing.T) {
	for _, c := range waysToCount {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				target := &Client{Server: inProcess(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					read(r)
					c.handler(stream(w))
				}))}
				target.API = c.api
				r, err := Run(t.Context(), &Config{Target: target, Models: 1, Patience: time.Minute, Load: workload.Load{Kind: workload.Closed, Users: 1, Limit: 2, Mix: mixOf(7, 5)}}, nil)
				if err != nil || r.Tokens != 10 || r.OtherLength != 0 || r.Counted[c.want] != 2 || len(r.Failures) != 0 || r.Disagree != 0 {
					t.Fatalf("%v: %d tokens, counted %v, %v", err, r.Tokens, r.Counted, r.Failures)
				}
				near(t, "TTFT", r.TTFTMs, all(10))
				near(t, "TPOT", r.TPOTMs, all(2.5))
				near(t, "E2E", r.E2EMs, all(20))
				if got := r.ITLMs; got.Mean < 2.499 || got.Mean > 2.501 || got.P50 != 0 || got.P99 < 4.99 || got.P99 > 5.01 {
					t.Errorf("ITL %+v, want gaps 5, 0, 0, 5", got)
				}
			})
		})
	}
}

func TestUsageThatDisagrees(t *testing.T) {
	measure(t, func(w http.ResponseWriter, r *http.Request) {
		read(r)
		s := stream(w)
		time.Sleep(time.Millisecond)
		s.text(1, 2)
		s.end(3)
	}, Config{Load: workload.Load{Kind: workload.Closed, Users: 1, Limit: 1, Mix: mixOf(7, 3)}}, func(r *Result, err error) {
		if r.Disagree != 1 || r.OtherLength != 1 || r.Tokens != 2 {
			t.Errorf("%d disagree, %d have another length, %d tokens", r.Disagree, r.OtherLength, r.Tokens)
		}
	})
}

// picky refuses what a server may not know.
type picky struct {
	ids, extensions bool // taken
	vocab           int  // ids below it; 0: all
	usage           bool // told
	perWord, more   int

	mu   sync.Mutex
	seen []asked
}

func (p *picky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"first"},{"id":"second"}]}`)
		return
	}
	a := read(r)
	p.mu.Lock()
	p.seen = append(p.seen, a)
	p.mu.Unlock()
	refuse := func(what string) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":"%s is not known"}}`, what)
	}
	switch {
	case a.ids() != nil && !p.ids:
		refuse("prompt of ids")
	case a.ids() != nil && p.vocab > 0 && slices.Max(a.ids()) >= p.vocab:
		refuse("id beyond the vocabulary")
	case a.IgnoreEOS && !p.extensions:
		refuse("ignore_eos")
	case r.Header.Get("Authorization") != "Bearer key":
		w.WriteHeader(http.StatusUnauthorized)
	default:
		s := stream(w)
		for range a.MaxTokens {
			time.Sleep(time.Millisecond)
			s.text()
		}
		if p.usage {
			s.event(object{"choices": []any{}, "usage": object{"prompt_tokens": p.length(&a), "completion_tokens": a.MaxTokens}})
		}
		s.raw("data: [DONE]\n\n")
	}
}

func (p *picky) length(a *asked) int {
	if ids := a.ids(); ids != nil {
		return len(ids)
	}
	var text string
	_ = json.Unmarshal(a.Prompt, &text) // "" if it is a chat
	if len(a.Messages) > 0 {
		text = a.Messages[0].Content
	}
	return p.perWord*len(strings.Fields(text)) + p.more
}

func TestProbe(t *testing.T) {
	for _, c := range []struct {
		name    string
		server  *picky
		api     API
		want    Client // what it turns to
		prompts string
		notes   string
		length  float64 // of prompts of 100
	}{
		{"takes all", &picky{ids: true, extensions: true, usage: true}, Completions, Client{}, "token ids", "", 100},
		{"small vocabulary", &picky{ids: true, extensions: true, usage: true, vocab: 300}, Completions, Client{}, "token ids", "id beyond the vocabulary is not known", 100},
		{"wants text", &picky{extensions: true, usage: true, perWord: 2, more: 10}, Completions, Client{Text: true, TokensPer: 2, TokensMore: 10}, "words", "prompt of ids is not known", 100},
		{"plain", &picky{usage: true, perWord: 1}, Completions, Client{Text: true, Plain: true, TokensPer: 1}, "words", "no ignore_eos", 100},
		{"tells nothing", &picky{extensions: true}, Completions, Client{Text: true}, "words", "a word is taken for a token", 0},
		{"chat", &picky{extensions: true, usage: true, perWord: 1, more: 12}, Chat, Client{Text: true, TokensPer: 1, TokensMore: 12}, "words", "", 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				target := &Client{Server: inProcess(t, c.server)}
				target.Model, target.Key, target.API = "", "key", c.api
				p, err := target.Probe(t.Context(), time.Second)
				if err != nil {
					t.Fatal(err)
				}
				if target.Model != "first" || target.Text != c.want.Text || target.Plain != c.want.Plain || target.TokensPer != c.want.TokensPer || target.TokensMore != c.want.TokensMore ||
					p.Prompts != c.prompts || (len(p.Notes) == 0) != (c.notes == "") || !strings.Contains(strings.Join(p.Notes, "\n"), c.notes) {
					t.Errorf("%+v, %+v", target, p)
				}
				r, err := Run(t.Context(), &Config{Target: target, Models: 1, Patience: time.Second, Load: workload.Load{Kind: workload.Closed, Users: 2, Limit: 4, Mix: mixOf(100, 6)}}, nil)
				if err != nil || r.Requests != 4 || r.Tokens != 24 || r.PromptTokens != c.length {
					t.Errorf("%v: %d requests, prompts of %g, %v", err, r.Requests, r.PromptTokens, r.Failures)
				}
			})
		})
	}
}

func TestProbeFails(t *testing.T) {
	for _, c := range []struct {
		want    string
		handler http.HandlerFunc
	}{
		{"no list of models: http 404: nothing here", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "nothing here", 404) }},
		{"the server lists no model", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"data":[]}`) }},
		{"the list of models", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `<html>`) }},
		{"no answer", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/models" {
				fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
				return
			}
			read(r)
			<-r.Context().Done()
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			target := &Client{Server: inProcess(t, c.handler)}
			target.Model = ""
			if _, err := target.Probe(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// oddName is one that Go would quote in other ways than JSON.
const oddName = "a \"b\"\a\U000E0001"

// What is asked is what servers take: exact lengths, ids in the vocabulary.
func TestBodies(t *testing.T) {
	mix := mixOf(50, 9)
	mix.Prefix.Share, mix.Prefix.Distinct, mix.Prefix.Tokens = 1, 1, 20
	q, other := mix.Request(0, 1), mix.Request(1, 1)
	get := func(c *Client) (a, b asked) {
		c.Model, c.Vocab = oddName, 1500
		for i, body := range [][]byte{c.body(&q), c.body(&other)} {
			if err := json.Unmarshal(body, []*asked{&a, &b}[i]); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
		}
		return a, b
	}
	a, b := get(&Client{})
	x, y := a.ids(), b.ids()
	if len(x) != 50 || !slices.Equal(x[:20], y[:20]) || slices.Equal(x, y) || slices.Min(x) < 750 || slices.Max(x) >= 1500 {
		t.Errorf("ids %v and %v", x, y)
	}
	if a.Model != oddName || a.MaxTokens != 9 || a.MinTokens != 9 || !a.IgnoreEOS || !a.TokenIDs || !a.Stream || !a.Options.Usage || !a.Options.Running || *a.Seed == *b.Seed {
		t.Errorf("%+v", a)
	}
	if a, _ := get(&Client{TokenIDs: true}); a.Options.Running {
		t.Error("usage in each chunk is asked for though ids tell more")
	}
	if a, _ := get(&Client{Text: true, Plain: true}); a.IgnoreEOS || a.TokenIDs || a.Seed != nil || a.MaxTokens != 9 || !strings.HasPrefix(string(a.Prompt), `"`) {
		t.Errorf("beyond OpenAI's protocol: %+v", a)
	}
	a, b = get(&Client{Server: Server{API: Chat}, Text: true, TokensPer: 2})
	u, v := strings.Fields(a.Messages[0].Content), strings.Fields(b.Messages[0].Content)
	if len(u) != 25 || !slices.Equal(u[:10], v[:10]) || slices.Equal(u, v) || a.Messages[0].Role != "user" {
		t.Errorf("words %v and %v", u, v)
	}
	if a, _ = get(&Client{Server: Server{API: Generate}}); len(a.InputIDs) != 50 || a.Sampling.MaxNew != 9 || a.Sampling.MinNew != 9 || !a.Sampling.IgnoreEOS || !a.Stream {
		t.Errorf("%+v", a)
	}
}

func TestURLs(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"http://127.0.0.1:8000", "http://127.0.0.1:8000"},
		{"http://127.0.0.1:8000/", "http://127.0.0.1:8000"},
		{" https://x.example/v1/ ", "https://x.example"},
		{"http://x/base/v1", "http://x/base"},
		{"127.0.0.1:8000", ""}, {"localhost:8000", ""}, {"ftp://x", ""}, {"http://", ""}, {"http://x?y=1", ""}, {"http://x y", ""}, {"", ""},
	} {
		got, err := ParseURL(c.text)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q, %v", c.text, got, err)
		}
	}
}
