package frontdoor

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// answer submits an ask and writes what comes of it.
func (d *Door) answer(ctx context.Context, w http.ResponseWriter, a *ask) {
	choices := a.choices(d.seed(a.house))
	t := d.metrics.begin(a, choices)
	defer t.end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil) // whatever is still open has nobody to read it
	for _, c := range choices {
		var err error
		if c.stream, err = a.house.Service.Submit(ctx, &c.request); err != nil {
			t.refuse(reason(ctx, err))
			writeError(w, reason(ctx, err))
			return
		}
	}
	next := merge(ctx, choices)
	if a.stream {
		d.writeStream(ctx, w, a, choices, next, t)
		return
	}
	for left := len(choices); left > 0; {
		n := next()
		if err := n.settle(ctx); err != nil {
			t.refuse(err)
			writeError(w, err)
			return
		}
		t.hear(&n)
		if n.choice.over {
			left--
		}
	}
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d.options.WriteWait))
	writeJSON(w, http.StatusOK, a.form.whole(a, choices))
}

// writeStream answers with events. Headers wait for the first word of the
// models, so that what goes wrong before it is an error of HTTP.
func (d *Door) writeStream(ctx context.Context, w http.ResponseWriter, a *ask, choices []*choice, next func() news, t *tally) {
	n := next()
	if err := n.settle(ctx); err != nil {
		t.refuse(err)
		writeError(w, err)
		return
	}
	s := newEvents(w, d.options.WriteWait)
	for _, c := range choices {
		s.write(a.form.opening(c))
	}
	for left := len(choices); ; {
		t.hear(&n)
		if n.choice.over {
			s.write(a.form.closing(n.choice))
			left--
		} else {
			s.write(a.form.piece(n.choice, &n.chunk))
		}
		if left == 0 {
			s.write(a.form.tail(a, choices))
			break
		}
		if s.flush() != nil {
			return // nobody reads this any more
		}
		n = next()
		if err := n.settle(ctx); err != nil {
			s.write(asError(err).event())
			break
		}
	}
	s.done()
}

// failure is an event about what went wrong. Nested, or clients of OpenAI take
// it for an answer without text.
type failure struct {
	Error struct {
		errorBody
		Retryable bool `json:"retryable"` // the same request may do well later, as SGLang tells
	} `json:"error"`
}

func (e *Error) event() (f failure) {
	f.Error.errorBody, f.Error.Retryable = e.body(), e.Status == http.StatusServiceUnavailable
	return f
}

// events writes server-sent events: each is one line of data and an empty line.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	wait    time.Duration
	buffer  bytes.Buffer
	json    *json.Encoder
	err     error
}

func newEvents(w http.ResponseWriter, wait time.Duration) *events {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // proxies of nginx would hold events back
	w.WriteHeader(http.StatusOK)
	s := &events{w: w, control: http.NewResponseController(w), wait: wait}
	s.json = json.NewEncoder(&s.buffer)
	s.json.SetEscapeHTML(false)
	return s
}

// write adds an event; nil is none.
func (s *events) write(event any) {
	if event == nil {
		return
	}
	s.buffer.WriteString("data: ")
	if err := s.json.Encode(event); err != nil { // which ends its line
		panic("frontdoor: an event that is no JSON: " + err.Error())
	}
	s.buffer.WriteByte('\n')
}

// flush sends the events that were added. The error is the first there was.
func (s *events) flush() error {
	if s.err != nil || s.buffer.Len() == 0 {
		return s.err
	}
	s.control.SetWriteDeadline(time.Now().Add(s.wait))
	if _, s.err = s.w.Write(s.buffer.Bytes()); s.err == nil {
		s.err = s.control.Flush()
	}
	s.buffer.Reset()
	return s.err
}

// done ends the stream.
func (s *events) done() {
	s.buffer.WriteString("data: [DONE]\n\n")
	s.flush()
}
