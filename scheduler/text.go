package scheduler

import (
	"strconv"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// An Event or a Message prints on one line: its kind, then key=value fields in
// a fixed order, times in nanoseconds, floats so that they parse back to the
// same bits. Empty lists are left out. The same text is the transcript of
// tests, the log on disk and the trace for replay:
//
//	arrived at=0 id=1 seed=7 max=10 eos=0 prompt=11,12,13
//	step-done at=4000000 results=1:52,2:-,3:7>2{0.25,1}
//	send to=1 id=1 home=0 from=0 status=visit seed=7 start=0 suffix=11,12,13 ...
//
// A result is id:token, then >dest if the request leaves (dest counts from 1,
// as Route does), then {…} if something travels; id:- is a chunk that sampled
// nothing.

// String is the event's line.
func (e Event) String() string { return string(e.append(nil)) }

// AppendText appends the event's line. The error is always nil.
func (e Event) AppendText(b []byte) ([]byte, error) { return e.append(b), nil }

// String is the message's line.
func (m Message) String() string { return string(m.append(nil)) }

// AppendText appends the message's line. The error is always nil.
func (m Message) AppendText(b []byte) ([]byte, error) { return m.append(b), nil }

func (e *Event) append(b []byte) []byte {
	b = append(b, e.Kind.String()...)
	b = appendInt(b, "at", e.AtNs)
	switch e.Kind {
	case Arrived:
		b = appendArrival(b, e.Arrival)
	case PeerArrived, PeerReturned:
		b = appendReq(b, e.Req)
	case StepDone:
		b = appendResults(b, e.Results)
	case PeerState:
		b = appendInt(b, "peer", int64(e.Peer))
		b = appendBool(b, "busy", e.Busy)
		b = appendInt(b, "ready", int64(e.Ready))
	case LiveChanged:
		b = appendInt(b, "live", int64(e.Live))
	case Aborted, Stop, Released:
		b = appendUint(b, "id", uint64(e.Request))
	}
	return b
}

func (m *Message) append(b []byte) []byte {
	b = append(b, m.Kind.String()...)
	switch m.Kind {
	case Send, Return:
		b = appendInt(b, "to", int64(m.To))
		b = appendReq(b, m.Req)
	case Emit:
		b = appendUint(b, "id", uint64(m.Request))
		b = appendInt(b, "start", int64(m.Start))
		b = appendInt(b, "writer", int64(m.Writer))
		b = appendTokens(b, "tokens", m.Tokens)
	case Finish:
		b = appendUint(b, "id", uint64(m.Request))
		b = appendText(b, "reason", m.Reason.String())
		b = appendInt(b, "length", int64(m.Start))
	case Refuse:
		b = appendUint(b, "id", uint64(m.Request))
		b = appendText(b, "reason", m.Reason.String())
	case Retract:
		b = appendUint(b, "id", uint64(m.Request))
	case Release:
		b = appendUint(b, "id", uint64(m.Request))
		b = appendInt(b, "to", int64(m.To))
	case WakeAt:
		b = appendInt(b, "at", m.AtNs)
	case State:
		b = appendBool(b, "busy", m.Busy)
		b = appendInt(b, "ready", int64(m.Ready))
	case Live:
		b = appendInt(b, "delta", int64(m.Delta))
	}
	return b
}

func appendArrival(b []byte, a *Arrival) []byte {
	if a == nil {
		return b
	}
	b = appendUint(b, "id", uint64(a.ID))
	b = appendUint(b, "seed", a.Seed)
	b = appendInt(b, "max", int64(a.MaxTokens))
	b = appendTokens(b, "eos", a.EOS)
	return appendTokens(b, "prompt", a.Prompt)
}

func appendReq(b []byte, r *PeerReq) []byte {
	if r == nil {
		return b
	}
	b = appendUint(b, "id", uint64(r.ID))
	b = appendInt(b, "home", int64(r.Home))
	b = appendInt(b, "from", int64(r.From))
	b = appendText(b, "status", r.Status.String())
	b = appendUint(b, "seed", r.Seed)
	b = appendInt(b, "prompt", int64(r.Prompt))
	b = appendInt(b, "budget", int64(r.Budget))
	b = appendTokens(b, "eos", r.EOS)
	b = appendInt(b, "arrived", r.ArrivedNs)
	b = appendInt(b, "hops", int64(r.Hops))
	if len(r.Anchors) > 0 {
		b = appendKey(b, "anchors")
		for i, a := range r.Anchors {
			b = appendComma(b, i)
			b = strconv.AppendInt(b, int64(a), 10)
		}
	}
	if len(r.Extra) > 0 {
		b = appendKey(b, "extra")
		b = appendFloats(b, r.Extra)
	}
	b = appendInt(b, "start", int64(r.Start))
	return appendTokens(b, "suffix", r.Suffix)
}

func appendResults(b []byte, results []Result) []byte {
	if len(results) == 0 {
		return b
	}
	b = appendKey(b, "results")
	for i := range results {
		r := &results[i]
		b = appendComma(b, i)
		b = strconv.AppendUint(b, uint64(r.ID), 10)
		b = append(b, ':')
		if !r.Sampled {
			b = append(b, '-')
			continue
		}
		for _, t := range r.Run {
			b = strconv.AppendInt(b, int64(t), 10)
			b = append(b, '+')
		}
		b = strconv.AppendInt(b, int64(r.Token), 10)
		if r.Dest != algorithms.Stay {
			b = append(b, '>')
			b = strconv.AppendInt(b, int64(r.Dest), 10)
		}
		if len(r.Extra) > 0 {
			b = append(b, '{')
			b = appendFloats(b, r.Extra)
			b = append(b, '}')
		}
	}
	return b
}

func appendKey(b []byte, key string) []byte {
	b = append(b, ' ')
	b = append(b, key...)
	return append(b, '=')
}

func appendText(b []byte, key, text string) []byte { return append(appendKey(b, key), text...) }

func appendInt(b []byte, key string, v int64) []byte {
	return strconv.AppendInt(appendKey(b, key), v, 10)
}

func appendUint(b []byte, key string, v uint64) []byte {
	return strconv.AppendUint(appendKey(b, key), v, 10)
}

func appendBool(b []byte, key string, v bool) []byte {
	return strconv.AppendBool(appendKey(b, key), v)
}

func appendTokens(b []byte, key string, tokens []Token) []byte {
	if len(tokens) == 0 {
		return b
	}
	b = appendKey(b, key)
	for i, t := range tokens {
		b = appendComma(b, i)
		b = strconv.AppendInt(b, int64(t), 10)
	}
	return b
}

// appendFloats prints each float with the fewest digits that parse back to it.
func appendFloats(b []byte, xs []float64) []byte {
	for i, x := range xs {
		b = appendComma(b, i)
		b = strconv.AppendFloat(b, x, 'g', -1, 64)
	}
	return b
}

func appendComma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}
