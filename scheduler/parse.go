package scheduler

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// ParseEvent reads the line that Event.String prints. Fields may stand in any
// order. An error names the field that is missing, unknown, given twice or
// wrong.
func ParseEvent(line string) (Event, error) {
	kind, f, err := splitLine(line, eventNames[:])
	if err != nil {
		return Event{}, fmt.Errorf("event: %w", err)
	}
	e := Event{Kind: EventKind(kind), AtNs: f.int64("at", 0)}
	switch e.Kind {
	case Arrived:
		e.Arrival = f.arrival()
		e.Request = e.Arrival.ID
	case PeerArrived, PeerReturned:
		e.Req = f.req()
		e.Request = e.Req.ID
	case StepDone:
		e.Results = f.results("results")
	case PeerState:
		e.Peer, e.Busy, e.Ready = f.count("peer"), f.bool("busy"), f.count("ready")
	case LiveChanged:
		e.Live = f.int("live")
	case Aborted, Stop, Released:
		e.Request = f.id()
	}
	if err := f.done(); err != nil {
		return Event{}, fmt.Errorf("event %s: %w", e.Kind, err)
	}
	return e, nil
}

// ParseMessage reads the line that Message.String prints, like ParseEvent.
func ParseMessage(line string) (Message, error) {
	kind, f, err := splitLine(line, messageNames[:])
	if err != nil {
		return Message{}, fmt.Errorf("message: %w", err)
	}
	m := Message{Kind: MessageKind(kind)}
	switch m.Kind {
	case Send, Return:
		m.To, m.Req = f.count("to"), f.req()
		m.Request = m.Req.ID
	case Emit:
		m.Request, m.Start, m.Writer = f.id(), f.count("start"), f.count("writer")
		m.Tokens = f.tokens("tokens")
	case Finish:
		m.Request, m.Reason, m.Start = f.id(), f.reason(), f.count("length")
	case Refuse:
		m.Request, m.Reason = f.id(), f.reason()
	case Retract:
		m.Request = f.id()
	case Release:
		m.Request, m.To = f.id(), f.count("to")
	case WakeAt:
		m.AtNs = f.int64("at", 0)
	case State:
		m.Busy, m.Ready = f.bool("busy"), f.count("ready")
	case Live:
		m.Delta = f.int("delta")
	}
	if err := f.done(); err != nil {
		return Message{}, fmt.Errorf("message %s: %w", m.Kind, err)
	}
	return m, nil
}

// fields are the key=value pairs of a line. Reading takes them out; the first
// error stays.
type fields struct {
	keys, values []string
	err          error
}

func splitLine(line string, kinds []string) (kind int, f *fields, err error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return 0, nil, errors.New("the line is empty; want a kind and key=value fields")
	}
	for kind = 0; kind < len(kinds) && kinds[kind] != words[0]; kind++ {
	}
	if kind == len(kinds) {
		return 0, nil, fmt.Errorf("kind %q is none of %s", words[0], strings.Join(kinds, ", "))
	}
	f = new(fields)
	for _, w := range words[1:] {
		key, value, ok := strings.Cut(w, "=")
		if !ok {
			return 0, nil, fmt.Errorf("%s: %q is not key=value", words[0], w)
		}
		for _, k := range f.keys {
			if k == key {
				return 0, nil, fmt.Errorf("%s: field %s is given twice", words[0], key)
			}
		}
		f.keys, f.values = append(f.keys, key), append(f.values, value)
	}
	return kind, f, nil
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("field "+format, args...)
	}
}

// done returns the first error; a field that nobody asked for is one.
func (f *fields) done() error {
	if f.err == nil && len(f.keys) > 0 {
		f.fail("%s is unknown", f.keys[0])
	}
	return f.err
}

// optional takes out a field.
func (f *fields) optional(key string) (value string, ok bool) {
	for i, k := range f.keys {
		if k == key {
			value = f.values[i]
			f.keys = append(f.keys[:i], f.keys[i+1:]...)
			f.values = append(f.values[:i], f.values[i+1:]...)
			return value, true
		}
	}
	return "", false
}

func (f *fields) need(key string) (value string, ok bool) {
	value, ok = f.optional(key)
	if !ok {
		f.fail("%s is missing", key)
	}
	return value, ok
}

func (f *fields) int64(key string, least int64) int64 {
	s, ok := f.need(key)
	if !ok {
		return 0
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < least {
		f.fail("%s is %q, want a whole number from %d on", key, s, least)
	}
	return v
}

func (f *fields) uint64(key string) uint64 {
	s, ok := f.need(key)
	if !ok {
		return 0
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		f.fail("%s is %q, want a whole number from 0 to 2^64-1", key, s)
	}
	return v
}

func (f *fields) id() RequestID { return RequestID(f.uint64("id")) }

// int reads a number that may be negative, count one that may not.
func (f *fields) int(key string) int {
	s, ok := f.need(key)
	if !ok {
		return 0
	}
	return f.parseInt(key, s, -1<<31)
}

func (f *fields) count(key string) int {
	s, ok := f.need(key)
	if !ok {
		return 0
	}
	return f.parseInt(key, s, 0)
}

func (f *fields) parseInt(key, s string, least int64) int {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < least || int64(int(v)) != v {
		f.fail("%s is %q, want a whole number from %d on", key, s, least)
		return 0
	}
	return int(v)
}

func (f *fields) bool(key string) bool {
	s, ok := f.need(key)
	if ok && s != "true" && s != "false" {
		f.fail("%s is %q, want true or false", key, s)
	}
	return s == "true"
}

func (f *fields) reason() Reason {
	return Reason(f.name("reason", reasonNames[:]))
}

func (f *fields) name(key string, names []string) int {
	s, ok := f.need(key)
	if !ok {
		return 0
	}
	for i, n := range names {
		if s == n {
			return i
		}
	}
	f.fail("%s is %q, want one of %s", key, s, strings.Join(names, ", "))
	return 0
}

// list takes out an optional list of at least one entry.
func (f *fields) list(key string) []string {
	s, ok := f.optional(key)
	if !ok {
		return nil
	}
	return strings.Split(s, ",")
}

func (f *fields) tokens(key string) []Token {
	var tokens []Token
	for _, s := range f.list(key) {
		tokens = append(tokens, f.token(key, s))
	}
	return tokens
}

func (f *fields) token(key, s string) Token {
	v, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		f.fail("%s has %q, want token ids", key, s)
	}
	return Token(v)
}

func (f *fields) floats(key string, list []string) []float64 {
	var xs []float64
	for _, s := range list {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			f.fail("%s has %q, want numbers", key, s)
		}
		xs = append(xs, x)
	}
	return xs
}

func (f *fields) arrival() *Arrival {
	return &Arrival{ID: f.id(), Seed: f.uint64("seed"), MaxTokens: f.count("max"),
		EOS: f.tokens("eos"), Prompt: f.tokens("prompt")}
}

var statuses = func() (names []string) {
	for s := algorithms.Visit; s <= algorithms.Failed; s++ {
		names = append(names, s.String())
	}
	return names
}()

func (f *fields) req() *PeerReq {
	r := &PeerReq{
		ID: f.id(), Home: f.count("home"), From: f.count("from"),
		Status: algorithms.Status(f.name("status", statuses)), Seed: f.uint64("seed"),
		Prompt: f.count("prompt"), Budget: f.count("budget"), EOS: f.tokens("eos"),
		ArrivedNs: f.int64("arrived", 0), Hops: f.count("hops"),
	}
	for _, s := range f.list("anchors") {
		r.Anchors = append(r.Anchors, f.parseInt("anchors", s, 0))
	}
	r.Extra = f.floats("extra", f.list("extra"))
	r.Start, r.Suffix = f.count("start"), f.tokens("suffix")
	return r
}

// results reads id:run+token>dest{extra},… Commas stand inside braces too.
func (f *fields) results(key string) []Result {
	rest, ok := f.optional(key)
	var results []Result
	for ok {
		var one string
		end := strings.IndexByte(rest, ',')
		if open := strings.IndexByte(rest, '{'); open >= 0 && open < end {
			if shut := strings.IndexByte(rest, '}'); shut > open {
				end = strings.IndexByte(rest[shut:], ',')
				if end >= 0 {
					end += shut
				}
			}
		}
		if end >= 0 {
			one, rest = rest[:end], rest[end+1:]
		} else {
			one, ok = rest, false
		}
		results = append(results, f.result(key, one))
	}
	return results
}

func (f *fields) result(key, s string) Result {
	var r Result
	id, rest, ok := strings.Cut(s, ":")
	v, err := strconv.ParseUint(id, 10, 64)
	if !ok || err != nil {
		f.fail("%s has %q, want id:token>dest{extra}, id:run+token or id:-", key, s)
		return r
	}
	r.ID = RequestID(v)
	if rest == "-" {
		return r
	}
	r.Sampled = true
	if body, ok := strings.CutSuffix(rest, "}"); ok {
		var extra string
		if rest, extra, ok = strings.Cut(body, "{"); !ok {
			f.fail("%s has %q, where } has no {", key, s)
		}
		r.Extra = f.floats(key, strings.Split(extra, ","))
	}
	if token, dest, ok := strings.Cut(rest, ">"); ok {
		d, err := strconv.ParseInt(dest, 10, 32)
		if err != nil || d < 1 {
			f.fail("%s has %q, where the destination is not a model counted from 1", key, s)
		}
		rest, r.Dest = token, algorithms.Dest(d)
	}
	for earlier, last, ok := strings.Cut(rest, "+"); ok; earlier, last, ok = strings.Cut(rest, "+") {
		r.Run = append(r.Run, f.token(key, earlier))
		rest = last
	}
	r.Token = f.token(key, rest)
	return r
}
