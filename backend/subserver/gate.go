package subserver

import (
	"slices"
	"sync"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Under the rules that take turns a core decides from what its peers have told,
// so all must decide from the same news (duty 7). A coordinator, in the process
// that has model 0, lets them decide in rounds.
//
// Every core numbers its states and reports each to the coordinator, with how
// many parcels it has sent to and stepped from each model. Once the reports
// agree that what was sent was stepped, the coordinator asks every core, naming
// the state that it knows of. A core that is in another state by now declines;
// its new report will start another round. The others have not changed since
// their reports, and all reports were there before the first question was
// asked: so at that time nothing was in transit between them, and they decide
// from that one instant.
//
// What a core sends carries the number of the last round in which it decided,
// and is not read before the reader has decided in that round too. So no
// decision sees what another of the same round has caused, although nobody
// waits for a second word of the coordinator: a round costs one question and
// one answer.
type gate struct {
	sys *System

	mu      sync.Mutex
	reports []*GateWord // last of each model
	round   int64
	asked   []int64 // states named in the last round
}

func newGate(s *System) *gate {
	return &gate{sys: s, reports: make([]*GateWord, len(s.cfg.Models)), asked: make([]int64, len(s.cfg.Models))}
}

// report takes a core's report, and asks all cores if it is time.
func (g *gate) report(model int, w *GateWord) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reports[model] = w
	if !g.quiet() {
		return
	}
	g.round++
	for m, r := range g.reports {
		g.asked[m] = r.State
		p := &Parcel{From: 0, To: m, Gate: &GateWord{Ask: true, Round: g.round, State: r.State}}
		if g.sys.subs[m] != nil {
			g.sys.pass(p)
		} else {
			g.sys.subs[0].outbox.put(p)
		}
	}
}

// quiet reports whether all have answered the last round, nothing is in transit
// and something has changed since.
func (g *gate) quiet() bool {
	changed := false
	for m, r := range g.reports {
		if r == nil || r.Round != g.round || len(r.Sent) != len(g.reports) || len(r.Stepped) != len(g.reports) {
			return false
		}
		changed = changed || r.State != g.asked[m]
	}
	for m, r := range g.reports {
		for to, n := range r.Sent {
			if n != g.reports[to].Stepped[m] {
				return false
			}
		}
	}
	return changed
}

// decision is what a core answered in a round.
type decision struct {
	model, round int
	declined     bool // it had changed
	launched     bool
	ready        int  // that did not start
	starved      bool // some found no KV
	// Parcels before, by model.
	sent, stepped []int64
}

// turnstile is a core's side of the gate.
type turnstile struct {
	on                bool
	round             int64 // last in which it decided
	state             int64
	told              int64     // last state that was reported, and
	toldRound         int64     // the round then
	sentTo, steppedOf []int64   // parcels, by model
	waiting           []*Parcel // of later rounds, in order
	opened            bool      // no round follows
}

func (t *turnstile) init(s *System) {
	t.on, t.told = s.gated(), -1
	t.sentTo, t.steppedOf = make([]int64, len(s.cfg.Models)), make([]int64, len(s.cfg.Models))
}

// stepped notes that an event may have changed what the core would decide. The
// live count changes nothing for these rules.
func (t *turnstile) stepped(kind scheduler.EventKind) {
	if kind != scheduler.LiveChanged {
		t.state++
	}
}

// counts tells which parcels a decision depends on.
func (t *turnstile) counts(p *Parcel) bool {
	return t.on && p.Event.Kind != scheduler.LiveChanged && p.From != p.To
}

func (t *turnstile) sent(p *Parcel) {
	if t.counts(p) {
		t.sentTo[p.To]++
		t.state++
	}
}

// arrived counts a parcel that is about to be stepped. That alone is a change:
// the coordinator must hear of it.
func (t *turnstile) arrived(p *Parcel) {
	if t.counts(p) {
		t.steppedOf[p.From]++
		t.state++
	}
}

// early keeps a parcel whose sender has decided in a round that this core has
// not.
func (t *turnstile) early(p *Parcel) bool {
	if p.Round > t.round && !t.opened {
		t.waiting = append(t.waiting, p)
		return true
	}
	return false
}

// open lets in what waits for a round: none follows, since a model is lost. The
// coordinator may have gone between its questions, so that others have decided in
// a round that this core never heard of.
func (t *turnstile) open() []*Parcel {
	waiting := t.waiting
	t.waiting, t.opened = nil, true
	return waiting
}

// answerGate answers a question among the words before the others are stepped,
// so that what just came is no reason to decline. It returns the others, with
// the parcels in front that have waited for the answer.
func (s *subserver) answerGate(words []word) []word {
	t := &s.turnstile
	at := slices.IndexFunc(words, func(w word) bool { return w.parcel != nil && w.parcel.Gate != nil })
	if at < 0 {
		return words
	}
	g := words[at].parcel.Gate
	t.round = g.Round
	d := decision{model: s.model, round: int(g.Round), declined: g.State != t.state}
	decided := s.sys.cfg.hooks.decided
	if decided != nil {
		d.sent, d.stepped = slices.Clone(t.sentTo), slices.Clone(t.steppedOf)
	}
	if !d.declined && s.broken == nil {
		before, starved := s.busy, s.core.Counts().KVQueued
		s.launch()
		d.launched = s.busy && !before
		d.starved = s.core.Counts().KVQueued > starved
	}
	d.ready = s.core.Counts().Ready
	if d.launched {
		t.state++
	}
	if decided != nil {
		decided(d)
	}
	rest := make([]word, 0, len(words)+len(t.waiting))
	for _, p := range t.waiting {
		rest = append(rest, word{parcel: p})
	}
	t.waiting = t.waiting[:0]
	return append(append(rest, words[:at]...), words[at+1:]...)
}

// report tells the coordinator the core's state, if it has changed or answers a
// question.
func (s *subserver) report() {
	t := &s.turnstile
	if t.told == t.state && t.toldRound == t.round || s.lost[0] {
		return
	}
	t.told, t.toldRound = t.state, t.round
	s.ship(&Parcel{To: 0, Gate: &GateWord{Round: t.round, State: t.state, Sent: slices.Clone(t.sentTo), Stepped: slices.Clone(t.steppedOf)}})
}
