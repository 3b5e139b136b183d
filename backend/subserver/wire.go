package subserver

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Processes speak in frames: the length of the body as four bytes, big endian,
// then the body. The first frame each way is a hello, all others are parcels;
// an empty one says that the sender is alive. Bodies are JSON, an event in them
// the line that logs hold: it parses back to the same bits, and whoever looks
// at a packet capture can read it.

// frameMax bounds a body: the longest request that an experiment may ask for
// has ten million tokens, about 80 MB as text.
const frameMax = 128 << 20

// wireVersion changes whenever frames do.
const wireVersion = 2

// hello is what a process says of itself.
type hello struct {
	Version  int      `json:"version"`
	Models   []string `json:"models"`   // of the whole system
	Has      []int    `json:"has"`      // those of the sender
	Settings string   `json:"settings"` // what all processes must agree on
}

// wireParcel is a Parcel as written.
type wireParcel struct {
	From     int               `json:"from"`
	To       int               `json:"to"`
	Event    string            `json:"event,omitempty"`
	Round    int64             `json:"round,omitempty"`
	Gate     *GateWord         `json:"gate,omitempty"`
	Sampling *backend.Sampling `json:"sampling,omitempty"`
	Logprobs int               `json:"logprobs"`
	Routing  Routing           `json:"routing"`
	Top      []wireTop         `json:"top,omitempty"`
	Problem  string            `json:"problem,omitempty"`
	Lost     int               `json:"lost,omitempty"`
}

// wireTop holds the log probabilities of one token. JSON knows no infinity, so
// floats go as their bits.
type wireTop struct {
	Token algorithms.Token `json:"token"`
	Bits  uint64           `json:"bits"`
	Top   []wireLogprob    `json:"top,omitempty"`
}

type wireLogprob struct {
	Token algorithms.Token `json:"token"`
	Bits  uint64           `json:"bits"`
}

// writeFrame writes a frame in one call, so that small ones cross in one packet.
func writeFrame(w io.Writer, body []byte) error {
	if len(body) > frameMax {
		return fmt.Errorf("a frame of %d bytes, at most %d may cross", len(body), frameMax)
	}
	frame := make([]byte, 4, 4+len(body))
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	_, err := w.Write(append(frame, body...))
	return err
}

// readFrame reads a body. A length that lies costs no more memory than what
// really comes.
func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > frameMax {
		return nil, fmt.Errorf("a frame of %d bytes, at most %d may come: not a tokenrouter process?", n, frameMax)
	}
	if n <= 64<<10 {
		body := make([]byte, n)
		_, err := io.ReadFull(r, body)
		return body, err
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(body) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	return body, err
}

// encodeParcel is the body of a parcel's frame.
func encodeParcel(p *Parcel) ([]byte, error) {
	w := wireParcel{From: p.From, To: p.To, Round: p.Round, Gate: p.Gate,
		Sampling: p.Sampling, Logprobs: p.Logprobs, Routing: p.Routing, Problem: p.Problem, Lost: p.Lost}
	if p.Gate == nil && p.Lost == 0 {
		w.Event = p.Event.String()
	}
	for _, t := range p.Top {
		out := wireTop{Token: t.Token, Bits: math.Float64bits(t.Logprob)}
		for _, l := range t.Top {
			out.Top = append(out.Top, wireLogprob{l.Token, math.Float64bits(l.Logprob)})
		}
		w.Top = append(w.Top, out)
	}
	return json.Marshal(&w)
}

// decodeParcel reads the body of a parcel's frame, for a system of that many
// models. What it returns would not break a core by its shape.
func decodeParcel(body []byte, models int) (*Parcel, error) {
	var w wireParcel
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, fmt.Errorf("a parcel that is not JSON: %w", err)
	}
	p := &Parcel{From: w.From, To: w.To, Round: w.Round, Gate: w.Gate,
		Sampling: w.Sampling, Logprobs: w.Logprobs, Routing: w.Routing, Problem: w.Problem, Lost: w.Lost}
	if p.From < 0 || p.From >= models || p.To < 0 || p.To >= models || p.From == p.To {
		return nil, fmt.Errorf("a parcel from model %d to model %d of %d", p.From, p.To, models)
	}
	for _, t := range w.Top {
		out := backend.Result{Token: t.Token, Logprob: math.Float64frombits(t.Bits)}
		for _, l := range t.Top {
			out.Top = append(out.Top, backend.TokenLogprob{Token: l.Token, Logprob: math.Float64frombits(l.Bits)})
		}
		p.Top = append(p.Top, out)
	}
	if w.Lost < 0 || w.Lost > models {
		return nil, fmt.Errorf("a parcel that tells of model %d of %d", w.Lost-1, models)
	}
	if w.Lost > 0 {
		return p, nil
	}
	if w.Gate != nil {
		return p, checkGateWord(w.Gate, models)
	}
	ev, err := scheduler.ParseEvent(w.Event)
	if err != nil {
		return nil, fmt.Errorf("a parcel with an %w", err)
	}
	p.Event = ev
	return p, checkParcel(p, models)
}

func checkGateWord(g *GateWord, models int) error {
	if !g.Ask && (len(g.Sent) != models || len(g.Stepped) != models) {
		return fmt.Errorf("a report to the launch gate about %d and %d models, want %d", len(g.Sent), len(g.Stepped), models)
	}
	return nil
}

func checkParcel(p *Parcel, models int) error {
	switch p.Event.Kind {
	case scheduler.PeerArrived, scheduler.PeerReturned:
		return checkReq(p, models)
	case scheduler.PeerState:
		if p.Event.Peer >= models {
			return fmt.Errorf("the state of model %d of %d", p.Event.Peer, models)
		}
	case scheduler.Released, scheduler.LiveChanged, scheduler.Flush:
	default:
		return fmt.Errorf("a parcel with the event %v, which is no peer's to send", p.Event.Kind)
	}
	return nil
}

func checkReq(p *Parcel, models int) error {
	r := p.Event.Req
	visit := r.Status == algorithms.Visit
	switch {
	case r.Home >= models || r.From >= models || len(r.Anchors) > models:
		return errors.New("a request that names a model beyond the last")
	case visit != (p.Event.Kind == scheduler.PeerArrived):
		return fmt.Errorf("a request of status %v with the event %v", r.Status, p.Event.Kind)
	case visit && (p.Sampling == nil || len(r.Anchors) != models || r.Start+len(r.Suffix) < 1):
		return errors.New("a visit without sampling, tokens or anchors")
	case len(p.Top) > len(r.Suffix):
		return fmt.Errorf("log probabilities of %d tokens beside %d", len(p.Top), len(r.Suffix))
	}
	for _, t := range r.Suffix {
		if t < 0 {
			return fmt.Errorf("token %d in a request", t)
		}
	}
	return nil
}
