package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// pipes is a network inside the process, so that a test may run in virtual time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case p.conns <- b:
		return a, nil
	case <-p.done:
	case <-ctx.Done():
	}
	return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// inProcess serves a handler inside the process until the test ends, which must
// be one in virtual time.
func inProcess(t *testing.T, h http.Handler) Server {
	t.Helper()
	p := newPipes()
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(p) }()
	client := NewHTTPClient(64, p.dial)
	t.Cleanup(func() {
		client.CloseIdleConnections()
		server.Close()
		time.Sleep(time.Hour) // for handlers that sleep to see it
	})
	return Server{URL: "http://fake", Model: "m", Vocab: DefaultVocab, HTTP: client}
}

// writer writes the events of one stream.
type writer struct {
	w http.ResponseWriter
}

func stream(w http.ResponseWriter) writer {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	return writer{w}
}

func (w writer) raw(format string, args ...any) {
	fmt.Fprintf(w.w, format, args...)
	w.w.(http.Flusher).Flush()
}

func (w writer) event(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.raw("data: %s\n\n", text)
}

func (w writer) json(v any) {
	w.w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w.w).Encode(v); err != nil {
		panic(err)
	}
}

type object = map[string]any

// text is a chunk of a completion that shows one token.
func (w writer) text(ids ...int) {
	choice := object{"index": 0, "text": " word", "finish_reason": nil}
	if ids != nil {
		choice["token_ids"] = ids
	}
	w.event(object{"object": "text_completion", "choices": []any{choice}})
}

// end finishes a completion.
func (w writer) end(tokens int) {
	w.event(object{"choices": []any{object{"index": 0, "text": "", "finish_reason": "length"}}})
	w.event(object{"choices": []any{}, "usage": object{"prompt_tokens": 7, "completion_tokens": tokens}})
	w.raw("data: [DONE]\n\n")
}

// asked is what tests look at in a request.
type asked struct {
	Model     string
	Prompt    json.RawMessage
	MaxTokens int  `json:"max_tokens"`
	MinTokens int  `json:"min_tokens"`
	IgnoreEOS bool `json:"ignore_eos"`
	TokenIDs  bool `json:"return_token_ids"`
	Logprobs  *int
	Seed      *uint64
	Stream    bool
	Messages  []struct{ Role, Content string }
	Options   struct {
		Usage   bool `json:"include_usage"`
		Running bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`

	InputIDs []int `json:"input_ids"`
	Sampling struct {
		MaxNew    int  `json:"max_new_tokens"`
		MinNew    int  `json:"min_new_tokens"`
		IgnoreEOS bool `json:"ignore_eos"`
	} `json:"sampling_params"`
	ReturnLogprob bool `json:"return_logprob"`
	Top           int  `json:"top_logprobs_num"`
	AsIDs         bool `json:"return_tokens_as_token_ids"`
}

// read reads a request; one that is no JSON is a fault of the client.
func read(r *http.Request) asked {
	var a asked
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		panic(fmt.Sprintf("%v in %q", err, text))
	}
	return a
}

func (a *asked) ids() []int {
	var ids []int
	if json.Unmarshal(a.Prompt, &ids) != nil {
		return nil
	}
	return ids
}

// paced answers with one token after first and then one after each gap.
func paced(first, gap time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a := read(r)
		s := stream(w)
		time.Sleep(first)
		for i := range a.MaxTokens {
			if i > 0 {
				time.Sleep(gap)
			}
			s.text(17 + i)
		}
		s.end(a.MaxTokens)
	}
}

// copied notes what is read.
func copied(r io.ReadCloser, into io.Writer) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.TeeReader(r, into), r}
}
