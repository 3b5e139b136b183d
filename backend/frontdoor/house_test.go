package frontdoor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/tokenizer"
)

// order is what a prompt asks of the stage, written into it as JSON between @
// signs: the models behind the door do as they are told.
type order struct {
	Say    string  // text to write, a token a byte, and then EOS
	Tokens []Token // instead: tokens to write
	Chunk  int     // tokens that come at once; 0 stands for 1
	Fail   int     // if above 0: so many tokens, and then an engine fails
	Refuse string  // full: the queue is; long: the prompt is; wordy: and much is made of it
	Twin   Token   // if above 0: the second most probable token, always
	Lost   int     // times that its KV is taken away
	Cached int     // tokens of the prompt that are there already
	Hold   int     // if above 0: so many tokens, then wait for release
}

// stage is a Service without models. Writers take turns, a chunk each.
type stage struct {
	mu      sync.Mutex
	open    int // requests that have not ended
	lost    error
	seeds   []uint64
	asked   []*Request
	release chan struct{}
	flushed int
}

const (
	stageVocab   = 512
	stageContext = 4096
	stageEOS     = Token(258)
)

func (s *stage) Submit(ctx context.Context, r *Request) (Stream, error) {
	o := s.orderOf(r)
	switch o.Refuse {
	case "full":
		return nil, ErrQueueFull
	case "wordy":
		return nil, badRequest("prompt", "the prompt is %s", strings.Repeat("far too long, ", 100_000))
	case "long":
		return nil, badRequest("prompt", "the prompt is longer than the KV memory")
	}
	s.mu.Lock()
	s.open++
	s.seeds, s.asked = append(s.seeds, r.Seed), append(s.asked, r)
	if len(s.asked) > 1000 { // a fuzz target asks millions of times
		s.seeds, s.asked = nil, nil
	}
	s.mu.Unlock()
	a := &act{stage: s, ctx: ctx, request: r, order: o, end: End{Begun: time.Now(), Retracted: o.Lost, Cached: o.Cached}, stops: tokenizer.NewStopMatcher(r.Stop, r.ShowStop)}
	context.AfterFunc(ctx, a.close)
	return a, nil
}

func (s *stage) orderOf(r *Request) (o order) {
	text := tokenizer.Bytes(stageVocab).Decode(r.Prompt, false)
	if _, after, ok := strings.Cut(text, "@"); ok {
		if body, _, ok := strings.Cut(after, "@"); ok {
			json.Unmarshal([]byte(body), &o) // what is no order says nothing
		}
	}
	if len(o.Tokens) == 0 {
		for _, b := range []byte(o.Say) {
			o.Tokens = append(o.Tokens, Token(b))
		}
		o.Tokens = append(o.Tokens, stageEOS)
	}
	o.Chunk = max(o.Chunk, 1)
	return o
}

// act is one request on stage.
type act struct {
	stage   *stage
	ctx     context.Context
	request *Request
	order   order
	stops   *tokenizer.StopMatcher
	at      int
	turn    int
	end     End
	ended   bool
	once    sync.Once
}

func (a *act) close() {
	a.once.Do(func() {
		a.stage.mu.Lock()
		a.stage.open--
		a.stage.mu.Unlock()
	})
}

func (a *act) Cancel()  { a.close() }
func (a *act) End() End { return a.end }

func (a *act) Next(ctx context.Context) (Chunk, error) {
	if a.ended {
		a.close()
		return Chunk{}, io.EOF
	}
	if a.order.Fail > 0 && a.at >= a.order.Fail {
		a.close()
		return Chunk{}, unavailable("an engine has failed")
	}
	if a.order.Hold > 0 && a.at >= a.order.Hold {
		select {
		case <-a.stage.release:
		case <-ctx.Done():
			return Chunk{}, ctx.Err()
		}
	}
	if a.ctx.Err() != nil {
		return Chunk{}, ErrCanceled
	}
	return a.play(), nil
}

// play writes the next chunk, one token after the other.
func (a *act) play() Chunk {
	c := Chunk{Writer: a.turn % 2}
	a.turn++
	for range a.order.Chunk {
		t := a.order.Tokens[a.at]
		a.at++
		c.Tokens = append(c.Tokens, t)
		if a.request.Logprobs >= 0 {
			c.Top = append(c.Top, a.told(t))
		}
		shown, stopped := a.stops.Next(a.request.Text.Next([]Token{t}))
		c.Text += shown
		ends := false
		for _, e := range a.request.Ends {
			ends = ends || e == t
		}
		switch {
		case stopped:
			a.ended = true
			a.end.Stop, _ = a.stops.Matched()
			return c
		case ends || a.at == a.request.MaxTokens || a.at == len(a.order.Tokens):
			a.ended, a.end.Length = true, !ends
			shown, _ := a.stops.Next(a.request.Text.Rest())
			c.Text += shown + a.stops.Rest()
			return c
		}
	}
	return c
}

// told makes up log probabilities: those of tokens from z on are minus infinity.
func (a *act) told(t Token) backend.Result {
	logprob := func(t Token) float64 {
		if t == 'z' {
			return math.Inf(-1)
		}
		return -float64(t) / 64
	}
	r := backend.Result{Token: t, Logprob: logprob(t)}
	for i := range a.request.Logprobs {
		if i == 1 && a.order.Twin > 0 {
			r.Top = append(r.Top, backend.TokenLogprob{Token: a.order.Twin, Logprob: logprob(a.order.Twin)})
			continue
		}
		r.Top = append(r.Top, backend.TokenLogprob{Token: (t + Token(i)) % stageVocab, Logprob: logprob((t + Token(i)) % stageVocab)})
	}
	return r
}

func (s *stage) Stats() []Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []Stats{{Running: s.open, Ready: s.open, KVTotal: 1000, KVBlock: 20, KVHeld: 10 * s.open, Here: true}, {KVTotal: 1000, KVBlock: 20, Here: true}}
}

func (s *stage) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

func (s *stage) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open > 0 {
		return errors.New("requests are open")
	}
	s.flushed++
	return nil
}

func (s *stage) Drain(context.Context) error { return nil }

// onStage opens a door before a stage.
func onStage(s *stage) *House {
	return &House{Service: s, Names: []string{"routed", "alias/routed"}, Models: []Model{{Name: "small", Here: true}, {Name: "org/large", Here: true}, {Name: "elsewhere"}},
		Tokenizer: tokenizer.Bytes(stageVocab), EOS: []Token{stageEOS}, Vocab: stageVocab, Context: stageContext, MaxLogprobs: 20, Kind: "toy", Class: "Toy", Version: "test"}
}

// site is a door on a real socket.
type site struct {
	t     testing.TB
	stage *stage
	door  *Door
	url   string
	stop  context.CancelFunc // as SIGTERM does
	done  chan error
}

// open serves the stage until the test ends.
func open(t testing.TB, o Options) *site {
	s := closed(t, o)
	s.door.Open(onStage(s.stage))
	s.listen(10 * time.Second)
	return s
}

// openHouse serves a stage with something else about the house.
func openHouse(t testing.TB, change func(h *House)) *site {
	s := closed(t, Options{})
	h := onStage(s.stage)
	change(h)
	s.door.Open(h)
	s.listen(10 * time.Second)
	return s
}

// closed is a site that nobody can reach yet.
func closed(t testing.TB, o Options) *site {
	return &site{t: t, stage: &stage{release: make(chan struct{})}, door: New(o), done: make(chan error, 1)}
}

func (s *site) listen(drain time.Duration) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.url, s.stop = "http://"+l.Addr().String(), stop
	go func() { s.done <- s.door.Serve(ctx, l, drain) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-s.done; err != nil {
			s.t.Errorf("Serve: %v", err)
		}
		s.done <- nil
	})
}

// reply is an answer, as sent.
type reply struct {
	status int
	header http.Header
	body   string
}

func (s *site) do(method, path, body string, header ...string) reply {
	s.t.Helper()
	if s.url == "" { // a fuzz target has no socket
		r, w := httptest.NewRequest(method, path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Content-Type", "application/json")
		s.door.ServeHTTP(w, r)
		return reply{w.Code, w.Header(), w.Body.String()}
	}
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}

func (s *site) post(path, body string, header ...string) reply {
	s.t.Helper()
	return s.do("POST", path, body, header...)
}

func (s *site) get(path string) reply {
	s.t.Helper()
	return s.do("GET", path, "")
}

// prompt is an order in JSON, quoted for a body.
func (o order) prompt() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	quoted, err := json.Marshal("@" + string(text) + "@")
	if err != nil {
		panic(err)
	}
	return string(quoted)
}

// body makes the body of a request for a path from an order and more members.
func (o order) body(path, more string) string {
	member := `"prompt":` + o.prompt()
	switch path {
	case chatPath:
		member = `"messages":[{"role":"user","content":` + o.prompt() + `}]`
	case generatePath:
		member = `"text":` + o.prompt()
	}
	if more != "" {
		member += "," + more
	}
	return "{" + member + "}"
}

const (
	chatPath     = "/v1/chat/completions"
	textPath     = "/v1/completions"
	generatePath = "/generate"
)

// value digs into JSON by keys and indices.
func value(t testing.TB, text string, path ...any) any {
	t.Helper()
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				t.Fatalf("no object to find %q of %v in: %s", step, path, text)
			}
			if v, ok = m[step]; !ok {
				t.Fatalf("no member %q of %v in: %s", step, path, text)
			}
		case int:
			l, ok := v.([]any)
			if !ok || step >= len(l) {
				t.Fatalf("no entry %d of %v in: %s", step, path, text)
			}
			v = l[step]
		}
	}
	return v
}

// wants compares what stands at a path of JSON, in the way that fmt prints it.
func wants(t testing.TB, text, want string, path ...any) {
	t.Helper()
	if got := fmt.Sprint(value(t, text, path...)); got != want {
		t.Errorf("%v is %q, want %q in: %s", path, got, want, text)
	}
}

// eventsOf takes a stream apart, as strictly as the strictest client.
func eventsOf(t testing.TB, r reply) []string {
	t.Helper()
	if r.status != 200 || !strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("no stream: %d %s: %s", r.status, r.header.Get("Content-Type"), r.body)
	}
	var list []string
	lines := bufio.NewScanner(bytes.NewReader([]byte(r.body)))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			t.Fatalf("a line that begins no event: %q", lines.Text())
		}
		if !lines.Scan() || lines.Text() != "" {
			t.Fatalf("no empty line after the event %q", data)
		}
		list = append(list, data)
	}
	return list
}

// within waits until something holds.
func within(t testing.TB, wait time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(wait); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", wait, what)
		}
	}
}

func (s *site) settled() {
	s.t.Helper()
	within(s.t, 2*time.Second, "no request is open", func() bool {
		s.stage.mu.Lock()
		defer s.stage.mu.Unlock()
		return s.stage.open == 0
	})
}
