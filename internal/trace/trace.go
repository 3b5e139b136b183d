// Package trace writes what happens in the cores of a system as text: one JSON
// object a line, in order of time, for scripts and notebooks. The first three
// members are on every line; the others depend on the kind.
//
//	time_ns  whole nanoseconds since the run began
//	kind     what happened; see below
//	model    name of the model where it happened
//	request  id, from 1; under a dispatcher each submission has one of its own,
//	         from 2^48 on
//
//	arrived        a client's request entered: tokens of its prompt, max_tokens
//	               unless it never ends
//	peer-arrived   a request came to be extended: tokens that came along, from
//	peer-returned  tokens came home: tokens, from, and the visit's status:
//	               running, returned, finished, refused or failed
//	step           a step ended: start_ns, requests and rows in it, tokens of
//	               context, and the threshold in force when it started
//	emit           the client saw tokens, the first at position start, written
//	               by the model writer
//	send, return   a request left for the model to, with tokens that it lacks
//	release        a model was told that a request is over: to
//	finish         a request ended: reason
//	refuse         it was not taken: reason
//	retract        it lost its KV here and will be read again
//	live           the number of live requests in the system changed: live
//	cut            the last line, if more would follow than were asked for
package trace

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Writer writes events. It is an Observer of a simulation.
type Writer struct {
	w      *bufio.Writer
	models [][]byte // names as JSON
	limit  int64
	lines  int64
	live   int
	lastNs int64
	cut    bool
	err    error
	line   []byte
}

// NewWriter returns a writer that writes at most limit events, and one line
// more to say so.
func NewWriter(w io.Writer, models []string, limit int64) *Writer {
	t := &Writer{w: bufio.NewWriterSize(w, 1<<16), limit: limit}
	for _, name := range models {
		text, err := json.Marshal(name)
		if err != nil {
			panic("trace: a name is not JSON: " + err.Error())
		}
		t.models = append(t.models, text)
	}
	return t
}

// Enough reports whether further events would be left out.
func (t *Writer) Enough() bool { return t.cut || t.err != nil }

// Close writes what is left. It returns how many events were written, and
// whether there were more.
func (t *Writer) Close() (events int64, cut bool, err error) {
	if t.cut {
		t.line = append(strconv.AppendInt(append(t.line[:0], `{"time_ns":`...), t.lastNs, 10), `,"kind":"cut","model":""}`+"\n"...)
		t.write()
	}
	if err := t.w.Flush(); t.err == nil {
		t.err = err
	}
	return t.lines, t.cut, t.err
}

// begin starts a line, unless there are enough.
func (t *Writer) begin(atNs int64, kind string, model int) bool {
	if t.lines >= t.limit {
		t.cut = true
		return false
	}
	t.lines++
	t.lastNs = atNs
	t.line = strconv.AppendInt(append(t.line[:0], `{"time_ns":`...), atNs, 10)
	t.line = append(append(append(t.line, `,"kind":"`...), kind...), `","model":`...)
	t.line = append(t.line, t.models[model]...)
	return true
}

func (t *Writer) number(name string, n int64) {
	t.line = append(append(append(t.line, `,"`...), name...), `":`...)
	t.line = strconv.AppendInt(t.line, n, 10)
}

func (t *Writer) model(name string, model int) {
	t.line = append(append(append(t.line, `,"`...), name...), `":`...)
	t.line = append(t.line, t.models[model]...)
}

// word writes one of our own names, which need no escapes.
func (t *Writer) word(name, value string) {
	t.line = append(append(append(append(append(t.line, `,"`...), name...), `":"`...), value...), '"')
}

func (t *Writer) end() {
	t.line = append(t.line, '}', '\n')
	t.write()
}

func (t *Writer) write() {
	if t.err == nil {
		_, t.err = t.w.Write(t.line)
	}
}

// endless is more tokens than a request that ends may write.
const endless = 1 << 40

// Stepped writes the end of a step.
func (t *Writer) Stepped(model int, startNs, endNs int64, batch *scheduler.Batch, threshold int) {
	if !t.begin(endNs, "step", model) {
		return
	}
	t.number("start_ns", startNs)
	t.number("requests", int64(len(batch.Entries)))
	t.number("rows", int64(batch.Rows))
	t.number("tokens", int64(batch.ContextTokens))
	t.number("threshold", int64(threshold))
	t.end()
}

// Event writes what went into a core.
func (t *Writer) Event(model int, ev *scheduler.Event) {
	switch ev.Kind {
	case scheduler.Arrived:
		if t.begin(ev.AtNs, ev.Kind.String(), model) {
			t.number("request", int64(ev.Arrival.ID))
			t.number("tokens", int64(len(ev.Arrival.Prompt)))
			if ev.Arrival.MaxTokens < endless {
				t.number("max_tokens", int64(ev.Arrival.MaxTokens))
			}
			t.end()
		}
	case scheduler.PeerArrived, scheduler.PeerReturned:
		if t.begin(ev.AtNs, ev.Kind.String(), model) {
			t.number("request", int64(ev.Req.ID))
			t.number("tokens", int64(len(ev.Req.Suffix)))
			t.model("from", ev.Req.From)
			if ev.Kind == scheduler.PeerReturned {
				t.word("status", ev.Req.Status.String())
			}
			t.end()
		}
	case scheduler.LiveChanged:
		// Every core hears of it.
		if ev.Live != t.live && t.begin(ev.AtNs, ev.Kind.String(), model) {
			t.live = ev.Live
			t.number("live", int64(ev.Live))
			t.end()
		}
	}
}

// Messages writes what came out of a core.
func (t *Writer) Messages(model int, atNs int64, out []scheduler.Message) {
	for i := range out {
		m := &out[i]
		switch m.Kind {
		case scheduler.WakeAt, scheduler.State, scheduler.Live:
			continue // the driver's own business; live comes back as an event
		}
		if !t.begin(atNs, m.Kind.String(), model) {
			return
		}
		t.number("request", int64(m.Request))
		switch m.Kind {
		case scheduler.Emit:
			t.number("start", int64(m.Start))
			t.number("tokens", int64(len(m.Tokens)))
			t.model("writer", m.Writer)
		case scheduler.Send, scheduler.Return:
			t.model("to", m.To)
			t.number("tokens", int64(len(m.Req.Suffix)))
		case scheduler.Release:
			t.model("to", m.To)
		case scheduler.Finish, scheduler.Refuse:
			t.word("reason", m.Reason.String())
		}
		t.end()
	}
}
