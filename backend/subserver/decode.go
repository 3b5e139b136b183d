package subserver

import (
	"sync"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// subserver is one model of the system: its core, its engine and its loops.
type subserver struct {
	sys    *System
	model  int
	engine backend.Engine
	core   *scheduler.Core

	inbox   *mailbox[word]       // of the decode loop
	clients *mailbox[clientWord] // of the client loop
	outbox  *mailbox[*Parcel]    // of the peer loop; nil if all models are here
	jobs    chan struct{}        // a step is built: run it
	ended   chan struct{}        // closed when the decode loop has ended

	// What follows belongs to the decode loop.
	nowNs     int64
	known     map[scheduler.RequestID]*known
	busy      bool // the engine runs a step
	live      []int64
	liveMoved bool
	lost      []bool // models whose process is gone
	broken    error  // the engine is lost
	timer     *time.Timer
	said      []clientWord // for the client loop, at the end of the turn
	spent     []word
	turnstile turnstile
	log       coreLog
	endedNow  []scheduler.RequestID

	// The step in flight: the engine goroutine has it while busy.
	batch     scheduler.Batch
	step      backend.Step
	results   []backend.Result
	answers   []scheduler.Result
	routes    []algorithms.Algorithm // by sequence; nil: it stays
	startNs   int64
	threshold int
	view      algorithms.View

	counted Stats // what publish shows next

	statsMu sync.Mutex
	stats   Stats
}

// known is what a core does not know of a request that it holds.
type known struct {
	home     int
	sampling *backend.Sampling
	logprobs int
	routing  Routing
	route    algorithms.Algorithm // that it asks for; nil: it stays where it is
	counted  int                  // tokens of the client's prompt
	fed      bool                 // it was in a step here
	cached   int                  // tokens of it that the first of them found in KV
	begunNs  int64                // when the first of them began
	retracts int                  // times that it lost its KV here
	sentTo   int                  // model that it was last sent to as a visit, -1 for none
	hops     int                  // of it then
	cause    error                // of an abort
	detail   string
	tops     map[int]backend.Result // by position, of tokens that home has not shown
}

// word is what the decode loop hears.
type word struct {
	event   scheduler.Event // from a client, or the engine's answer
	request *Request        // with Arrived
	parcel  *Parcel         // from a peer
	endNs   int64           // with StepDone
	err     error           // with StepDone: the engine is lost; with gone: why
	gone    int             // 1 + model whose process is lost
}

func (s *System) newSubserver(model int) (*subserver, error) {
	m := &s.cfg.Models[model]
	if m.Engine == nil {
		return nil, nil
	}
	core, err := scheduler.New(coreConfig(&s.cfg, model))
	if err != nil {
		return nil, err
	}
	sub := &subserver{
		sys: s, model: model, engine: m.Engine, core: core,
		inbox: newMailbox[word](), clients: newMailbox[clientWord](),
		jobs: make(chan struct{}, 1), ended: make(chan struct{}),
		known: map[scheduler.RequestID]*known{},
		live:  make([]int64, len(s.cfg.Models)), lost: make([]bool, len(s.cfg.Models)),
	}
	sub.step.Needs, sub.step.TopK = s.cfg.Algorithm.Needs(model), s.cfg.TopK
	sub.turnstile.init(s)
	sub.counted.Model = m.Name
	if s.cfg.Transport != nil {
		sub.outbox = newMailbox[*Parcel]()
	}
	return sub, nil
}

// begin starts the loops.
func (s *subserver) begin() {
	s.log = s.sys.log.core(s.model)
	s.sys.running.Add(3)
	go s.clientLoop()
	go s.decodeLoop()
	go s.forwardLoop()
	if s.outbox != nil {
		s.sys.running.Add(1)
		go s.peerLoop()
	}
}

// decodeLoop owns the core (duty 1): no other goroutine touches it.
func (s *subserver) decodeLoop() {
	defer s.sys.running.Done()
	defer close(s.ended)
	defer close(s.jobs)
	if s.turnstile.on {
		s.report()
	}
	s.publish()
	for {
		words, ok := s.inbox.take(s.spent)
		if !ok {
			if s.timer != nil {
				s.timer.Stop()
			}
			return
		}
		s.turn(words)
		s.spent = words
	}
}

// turn is one instant of the core: everything that has come is stepped, then
// the core is settled and asked to launch (duties 2 and 3). What the others
// send because of it comes later, at an instant of its own.
func (s *subserver) turn(words []word) {
	s.nowNs = max(s.nowNs, s.sys.NowNs())
	if s.turnstile.on {
		words = s.answerGate(words)
	}
	for i := range words {
		s.take(&words[i])
	}
	s.settle()
	if s.turnstile.on {
		s.report()
	} else {
		for s.launch() {
			s.settle()
		}
	}
	s.forget()
	if len(s.said) > 0 {
		s.clients.put(s.said...)
		clear(s.said)
		s.said = s.said[:0]
	}
	s.log.flush()
	s.publish()
}

// settle settles the core until nothing is left, its own share of the live
// count included (duty 6).
func (s *subserver) settle() {
	for {
		s.log.call("settle")
		s.carryOut(s.core.Settle())
		if !s.liveMoved {
			return
		}
		s.stepLive()
	}
}

func (s *subserver) stepLive() {
	s.liveMoved = false
	sum := int64(0)
	for _, n := range s.live {
		sum += n
	}
	s.stepEvent(&scheduler.Event{Kind: scheduler.LiveChanged, Live: int(sum)})
}

// take steps what one word tells.
func (s *subserver) take(w *word) {
	switch {
	case w.gone > 0:
		s.onLost(w.gone-1, w.err)
	case w.parcel != nil:
		s.onParcel(w.parcel)
	case w.event.Kind == scheduler.StepDone:
		s.onStepDone(w)
	case w.event.Kind == scheduler.Flush:
		s.stepEvent(&w.event)
		for m, sub := range s.sys.subs {
			if sub == nil {
				s.tell(m, scheduler.Event{Kind: scheduler.Flush})
			}
		}
	case w.event.Kind == scheduler.Arrived:
		s.onArrived(w)
	default:
		// The time of a Wake is the one that was asked for or later, even if the
		// timer's clock and ours differ by a little: a core asks only once.
		s.nowNs = max(s.nowNs, w.event.AtNs)
		s.stepEvent(&w.event)
	}
}

// stepEvent steps one event and does what follows.
func (s *subserver) stepEvent(ev *scheduler.Event) {
	ev.AtNs = s.nowNs
	s.turnstile.stepped(ev.Kind)
	if s.sys.cfg.Observer != nil {
		s.sys.cfg.Observer.Event(s.model, ev)
	}
	s.log.event(ev)
	s.carryOut(s.core.Step(ev))
}

func (s *subserver) onArrived(w *word) {
	r := w.request
	if s.broken != nil {
		s.say(clientWord{kind: over, id: r.ID, reason: scheduler.ReasonAbort, cause: ErrFailed, detail: s.broken.Error()})
		return
	}
	route := s.sys.cfg.checkedRoute(&r.Routing)
	s.known[r.ID] = &known{home: s.model, sampling: &r.Sampling, logprobs: r.Logprobs, routing: r.Routing, route: route, counted: r.counted, sentTo: -1}
	s.stepEvent(&w.event)
}

// launch asks the core whether a step starts now, and starts it. It reports
// whether something has happened at this instant, so that the core has to be
// settled and asked again.
func (s *subserver) launch() (again bool) {
	s.log.call("launch")
	batch, out, ok := s.core.Launch()
	s.carryOut(out)
	if ok {
		s.log.launched(&batch)
		s.startNs, s.threshold, s.batch, s.busy = s.nowNs, s.core.B(), batch, true
		s.build()
		s.jobs <- struct{}{} // never full: one step at a time
	}
	if s.liveMoved {
		s.stepLive()
		return true
	}
	return false
}

// build writes the batch down as the engine wants it.
func (s *subserver) build() {
	n := len(s.batch.Entries)
	s.step.Sequences = grow(s.step.Sequences, n)
	s.results = grow(s.results, n)
	s.answers = grow(s.answers, n)
	s.routes = grow(s.routes, n)
	for i := range s.batch.Entries {
		e := &s.batch.Entries[i]
		k := s.known[e.ID]
		if k == nil {
			panic("subserver: a step has a request whose settings are missing")
		}
		q := &s.step.Sequences[i]
		*q = backend.Sequence{Tokens: e.Tokens, Start: e.Start, Blocks: e.Blocks, Context: e.Context, Samples: e.Samples,
			Seed: e.Seed, Sampling: k.sampling, Prompt: k.counted, Logprobs: k.logprobs}
		if e.Samples && k.sampling.ReadsHistory() {
			q.History, _ = s.core.History(e)
		}
		s.results[i], s.routes[i] = backend.Result{}, k.route
		if !k.fed {
			k.fed, k.cached, k.begunNs = true, e.Start, s.startNs
			s.counted.Entered += int64(e.Position)
			s.counted.Cached += int64(e.Start)
		}
	}
}

func grow[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, n, 2*n)
	}
	return list[:n]
}

// onStepDone takes in the engine's answer.
func (s *subserver) onStepDone(w *word) {
	s.busy = false
	if w.err != nil {
		s.onBroken(w.err)
		return
	}
	s.counted.Steps++
	s.counted.Rows += int64(s.batch.Rows)
	s.counted.BusyNs += w.endNs - s.startNs
	for i := range s.answers {
		if !s.answers[i].Sampled {
			continue
		}
		s.counted.Sampled++
		e := &s.batch.Entries[i]
		if k := s.known[e.ID]; k != nil && k.logprobs >= 0 {
			k.note(e.Position, s.results[i])
		}
	}
	if s.sys.cfg.Observer != nil {
		s.sys.cfg.Observer.Stepped(s.model, s.startNs, w.endNs, &s.batch, s.threshold)
	}
	s.stepEvent(&scheduler.Event{Kind: scheduler.StepDone, Results: s.answers})
}

// forget drops what was noted about requests that the core has dropped.
func (s *subserver) forget() {
	for _, id := range s.endedNow {
		if !s.core.Knows(id) {
			delete(s.known, id)
		}
	}
	s.endedNow = s.endedNow[:0]
}

// publish lets Stats see how things stand.
func (s *subserver) publish() {
	if s.sys.cfg.hooks.check {
		s.core.Check()
		s.checkTables()
	}
	s.counted.Counts = s.core.Counts()
	s.counted.KVHeld, s.counted.KVCached, s.counted.KVFree = s.core.KVBlocks()
	s.counted.Threshold, s.counted.StepStartNs = s.core.B(), s.startNs
	s.counted.Abroad = 0
	for m, n := range s.live {
		if s.sys.subs[m] == nil && s.broken == nil { // a lost engine helps nobody
			s.counted.Abroad += n
		}
	}
	s.statsMu.Lock()
	defer s.statsMu.Unlock()
	s.stats = s.counted
}

// checkTables panics if something is noted about a request that the core does
// not hold, or nothing about one that it holds.
func (s *subserver) checkTables() {
	for id := range s.known { // order: each is checked by itself
		if !s.core.Knows(id) {
			panic("subserver: a request that is over is still in the table")
		}
	}
	over := s.core.Counts().InFlight // some of which may be over
	if n, held := len(s.known), s.core.Requests(); n > held || n < held-over {
		panic("subserver: a request is missing from the table")
	}
}
