package serving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/frontdoor"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/backend/tokenizer"
	"github.com/tokenrouter/tokenrouter/internal/asktest"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// typist is an engine that writes known texts, a byte a token: the request's
// seed says which. The small one writes letters small, the large one large, so
// the text tells who wrote what.
type typist struct {
	plan  *plan
	model int
	steps int
}

const (
	blockTokens = 16
	vocab       = 512
	eos         = backend.Token(258)
)

var errTypist = errors.New("the typist has broken a finger")

func (y *typist) Info() backend.Info {
	return backend.Info{Model: names[y.model], Vocab: vocab, MaxContext: y.plan.context, BlockTokens: blockTokens, Blocks: y.plan.kvTokens / blockTokens,
		Signals: algorithms.NeedMaxProb | algorithms.NeedEntropy}
}

func (y *typist) Close() error { return nil }

func (y *typist) Forward(step *backend.Step, results []backend.Result) error {
	defer y.plan.meet.enter()()
	time.Sleep(y.plan.delay[y.model])
	if y.plan.hold != nil {
		<-y.plan.hold
	}
	if y.steps++; y.plan.fails[y.model] > 0 && y.steps >= y.plan.fails[y.model] {
		return errTypist
	}
	for i := range step.Sequences {
		if q := &step.Sequences[i]; q.Samples {
			results[i] = y.strike(q)
		}
	}
	return nil
}

// meeting sees whether both models were in a step at once.
type meeting struct {
	in  atomic.Int32
	met atomic.Bool
}

func (m *meeting) enter() (leave func()) {
	if m == nil {
		return func() {}
	}
	if m.in.Add(1) == 2 {
		m.met.Store(true)
	}
	return func() { m.in.Add(-1) }
}

func (m *meeting) both() bool { return m.met.Load() }

func (y *typist) strike(q *backend.Sequence) backend.Result {
	u := algorithms.Draw(q.Seed, q.Position(), algorithms.Purpose(100+y.model))
	r := backend.Result{Token: eos, Signals: algorithms.Signals{MaxProb: 1 - u, Entropy: u}}
	text := y.plan.text(q.Seed)
	if at := q.Position() - q.Prompt; at < len(text) {
		r.Token = backend.Token(written(text[at:at+1], y.model)[0])
	}
	if q.Logprobs >= 0 {
		r.Logprob = -float64(q.Position())
		for i := range q.Logprobs {
			r.Top = append(r.Top, backend.TokenLogprob{Token: r.Token, Logprob: r.Logprob - float64(i)})
		}
	}
	return r
}

// written is a text as one model writes it. It looks at bytes alone: characters
// come in parts.
func written(text string, model int) string {
	first, last := byte('A'), byte('Z')
	if model == 1 {
		first, last = 'a', 'z'
	}
	b := []byte(text)
	for i, c := range b {
		if c >= first && c <= last {
			b[i] = c ^ 'a' ^ 'A'
		}
	}
	return string(b)
}

var names = []string{"small", "large"}

// plan is a site to serve from. Zero values are filled in.
type plan struct {
	texts      []string
	delay      [2]time.Duration // of a step
	fails      [2]int           // step that fails, 0 for none
	meet       *meeting         // sees whether steps overlap; nil: nobody looks
	hold       chan struct{}    // steps wait until it is closed; nil: they do not
	algorithm  string
	threshold  float64
	context    int
	kvTokens   int
	maxRunning int
	queueLimit int
	chunk      int
	b          int
	rule       scheduler.Rule
	drain      time.Duration
	door       frontdoor.Options
}

func (p *plan) text(seed uint64) string { return p.texts[seed%uint64(len(p.texts))] }

func (p *plan) fill() {
	or := func(x *int, otherwise int) {
		if *x == 0 {
			*x = otherwise
		}
	}
	or(&p.context, 4096)
	or(&p.kvTokens, 65536)
	or(&p.maxRunning, 64)
	or(&p.queueLimit, 1000)
	or(&p.chunk, 512)
	or(&p.b, 1)
	if p.texts == nil {
		p.texts = []string{"the quick brown fox jumps over the lazy dog"}
	}
	if p.algorithm == "" {
		p.algorithm = "confidence"
	}
	if p.rule == nil {
		p.rule = scheduler.Delayed{MaxDelayNs: int64(20 * time.Millisecond)}
	}
	if p.drain == 0 {
		p.drain = 10 * time.Second
	}
}

func (p *plan) config(t testing.TB) subserver.Config {
	p.fill()
	params := algorithms.Params{Models: 2, Large: 1, Threshold: &p.threshold}
	alg, err := algorithms.New(p.algorithm, params)
	if err != nil {
		t.Fatal(err)
	}
	cfg := subserver.Config{Algorithm: alg, Params: params, Rule: p.rule, Thresholds: scheduler.Thresholds{{p.b, p.b}}, QueueLimit: p.queueLimit}
	for m, name := range names {
		cfg.Models = append(cfg.Models, subserver.Model{Name: name, Engine: &typist{plan: p, model: m}, MaxRunning: p.maxRunning,
			ChunkTokens: max(p.chunk, p.maxRunning+1), KVTokens: p.kvTokens, BlockTokens: blockTokens})
	}
	return cfg
}

// site is a served system on a real socket.
type site struct {
	t       testing.TB
	plan    *plan
	service *Service
	url     string
	stop    context.CancelFunc
	served  chan error
}

func (p plan) open(t testing.TB) *site {
	service, err := Start(p.config(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	s := p.serve(t, service)
	t.Cleanup(func() {
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.end)
	return s
}

// serve serves a service that is there.
func (p *plan) serve(t testing.TB, service *Service) *site {
	door := frontdoor.New(p.door)
	door.Open(&frontdoor.House{Service: service, Names: []string{"routed"}, Models: []frontdoor.Model{{Name: "small", Here: true}, {Name: "large", Here: true}},
		Tokenizer: tokenizer.Bytes(vocab), EOS: []backend.Token{eos}, Vocab: vocab, Context: p.context, MaxLogprobs: 20})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &site{t: t, plan: p, service: service, url: "http://" + l.Addr().String(), stop: stop, served: make(chan error, 1)}
	go func() { s.served <- door.Serve(ctx, l, p.drain) }()
	return s
}

// end is SIGTERM, and waits for what comes of it.
func (s *site) end() {
	s.stop()
	if err := <-s.served; err != nil {
		s.t.Errorf("Serve: %v", err)
	}
	s.served <- nil
}

const (
	chatPath = "/v1/chat/completions"
	textPath = "/v1/completions"
)

// asks is a body for a completion of a text.
func asks(seed int, more string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf(`{"prompt":"go on:","seed":%d,"max_tokens":200,"return_token_ids":true,"custom_params":{"return_writers":true}%s}`, seed, more)
}

// try posts; an error is the network's.
func (s *site) try(ctx context.Context, path, body string) (status int, text string, err error) {
	return asktest.Post(ctx, s.url+path, body)
}

func (s *site) get(path string) (status int, text string) {
	s.t.Helper()
	status, text, err := asktest.Get(s.t.Context(), s.url+path)
	if err != nil {
		s.t.Fatal(err)
	}
	return status, text
}

// result is an answer of one choice, streamed or not.
type result struct {
	text    string
	ids     []backend.Token
	writers []string
	finish  string
	stop    any
	usage   int // completion tokens
	prompt  int // tokens of it
	cached  int // those that were there already
	failure string
	done    bool // [DONE]
	events  int
}

type choiceJSON struct {
	Text    string
	Message struct{ Content string }
	IDs     []backend.Token `json:"token_ids"`
	Writers []string
	Finish  *string `json:"finish_reason"`
	Stop    any     `json:"stop_reason"`
}

type answerJSON struct {
	Choices []choiceJSON
	Usage   *struct {
		Prompt  int `json:"prompt_tokens"`
		Tokens  int `json:"completion_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Error *struct{ Message string }
}

func (r *result) add(body string) error {
	var a answerJSON
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	if a.Error != nil {
		r.failure = a.Error.Message
	}
	if a.Usage != nil {
		r.usage, r.prompt, r.cached = a.Usage.Tokens, a.Usage.Prompt, a.Usage.Details.Cached
	}
	for _, c := range a.Choices {
		r.text += c.Text
		r.ids, r.writers = append(r.ids, c.IDs...), append(r.writers, c.Writers...)
		if c.Finish != nil {
			r.finish, r.stop = *c.Finish, c.Stop
		}
	}
	return nil
}

func readResult(status int, text string) (r result, err error) {
	if status != 200 || !strings.HasPrefix(text, "data: ") {
		return r, r.add(text)
	}
	for line := range strings.SplitSeq(text, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || data == "[DONE]" {
			r.done = r.done || ok
			continue
		}
		r.events++
		if err := r.add(data); err != nil {
			return r, err
		}
	}
	return r, nil
}

// ask asks and wants an answer.
func (s *site) ask(body string) result {
	s.t.Helper()
	status, text, err := s.try(context.Background(), textPath, body)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := readResult(status, text)
	if err != nil || status != 200 {
		s.t.Fatalf("%d %v: %s", status, err, text)
	}
	return r
}

// exact checks an answer against the text that it must have.
func (r *result) exact(text string) error {
	if !strings.EqualFold(r.text, text) {
		return fmt.Errorf("the text is %q, want %q", r.text, text)
	}
	if r.usage != len(r.ids) || len(r.ids) != len(r.writers) {
		return fmt.Errorf("%d tokens are billed, %d shown, %d have writers", r.usage, len(r.ids), len(r.writers))
	}
	for i, id := range r.ids {
		if want := text + string(rune(0)); i < len(text) && !strings.EqualFold(string([]byte{byte(id)}), want[i:i+1]) {
			return fmt.Errorf("token %d is %d, want that of %q", i, id, want[i:i+1])
		}
		model := 0
		if r.writers[i] == names[1] {
			model = 1
		}
		if i < len(text) && written(text[i:i+1], model) != string([]byte{byte(id)}) {
			return fmt.Errorf("token %d is not by %s", i, r.writers[i])
		}
	}
	return nil
}

// until waits for what the test is about to interrupt.
func (s *site) until(what string, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("it never came that %s", what)
		}
	}
}

// idle waits until nothing of any request is left.
func (s *site) idle() {
	s.t.Helper()
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
		busy := ""
		for i, st := range s.service.Stats() {
			if st.Running != 0 || st.Waiting != 0 || st.Pending != 0 || st.Away != 0 || st.KVHeld != 0 || st.LostKV != 0 {
				busy += fmt.Sprintf("%s has %+v; ", names[i], st)
			}
		}
		if busy == "" {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("not idle within 2 s: %s", busy)
		}
	}
}

// metric sums the series of a family.
func (s *site) metric(family string) (sum float64) {
	s.t.Helper()
	return s.labelled(family, "")
}

// labelled sums those with a label.
func (s *site) labelled(family, with string) (sum float64) {
	s.t.Helper()
	_, text := s.get("/metrics")
	for line := range strings.SplitSeq(text, "\n") {
		if rest, ok := strings.CutPrefix(line, family+"{"); ok && strings.Contains(rest, with) {
			x, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
			if err != nil {
				s.t.Fatal(err)
			}
			sum += x
		}
	}
	return sum
}
