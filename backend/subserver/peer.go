package subserver

import (
	"fmt"
	"slices"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// peerLoop carries parcels out to other processes, so that the decode loop
// never waits for a network.
func (s *subserver) peerLoop() {
	defer s.sys.running.Done()
	var spare []*Parcel
	for {
		parcels, ok := s.outbox.take(spare)
		if !ok {
			return
		}
		for _, p := range parcels {
			to := p.To
			if err := s.sys.cfg.Transport.Send(p); err != nil {
				s.sys.lost(to, err)
			}
		}
		spare = parcels
	}
}

// deliver takes a parcel from another process.
func (s *System) deliver(p *Parcel) {
	if p.To < 0 || p.To >= len(s.subs) || p.From < 0 || p.From >= len(s.subs) || s.subs[p.To] == nil {
		return // nobody here has that model
	}
	if p.Lost > 0 && p.Lost <= len(s.subs) {
		s.hearLoss(p)
		return
	}
	s.pass(p)
}

// pass puts a parcel into the mailbox of a model of this process.
func (s *System) pass(p *Parcel) {
	if g := p.Gate; g != nil && !g.Ask {
		if s.gate != nil {
			s.gate.report(p.From, g)
		}
		return
	}
	s.subs[p.To].inbox.put(word{parcel: p})
}

// lost is the transport's word that a process has gone with its model. Maybe it
// lives and only this process does not reach it. So all are told, itself too:
// others would go on sending it requests of homes that it gets no word to, or
// wait for turns that nobody grants.
func (s *System) lost(model int, err error) {
	if model < 0 || model >= len(s.subs) || s.subs[model] != nil || !s.firstLoss(model) {
		return
	}
	s.fail(fmt.Errorf("model %s is lost: %w", s.cfg.Models[model].Name, err))
	for _, sub := range s.subs {
		if sub == nil {
			continue
		}
		sub.inbox.put(word{gone: model + 1, err: err})
		for to := range s.subs {
			if s.subs[to] == nil {
				sub.outbox.put(&Parcel{From: sub.model, To: to, Lost: model + 1, Problem: err.Error()})
			}
		}
	}
}

// hearLoss takes another process's word of a loss: who has lost this process is
// lost to it.
func (s *System) hearLoss(p *Parcel) {
	why := fmt.Errorf("%s does not reach %s: %s", s.cfg.Models[p.From].Name, s.cfg.Models[p.Lost-1].Name, p.Problem)
	if s.subs[p.Lost-1] != nil {
		s.lost(p.From, why)
	} else {
		s.lost(p.Lost-1, why)
	}
}

// firstLoss reports whether a model was not known to be lost.
func (s *System) firstLoss(model int) bool {
	s.brokenMu.Lock()
	defer s.brokenMu.Unlock()
	if s.gone == nil {
		s.gone = make([]bool, len(s.subs))
	}
	was := s.gone[model]
	s.gone[model] = true
	return !was
}

// ship sends a parcel on its way. In one process it is in the other's mailbox
// at once; a core never waits for another.
func (s *subserver) ship(p *Parcel) {
	p.From, p.Round = s.model, s.turnstile.round
	if p.Gate == nil {
		s.turnstile.sent(p)
	}
	if s.sys.subs[p.To] != nil || p.Gate != nil && !p.Gate.Ask && s.sys.gate != nil {
		s.sys.pass(p)
		return
	}
	s.outbox.put(p)
}

// carryOut does what the core asked for, in order (duty 5).
func (s *subserver) carryOut(out []scheduler.Message) {
	if len(out) == 0 {
		return
	}
	if s.sys.cfg.Observer != nil {
		s.sys.cfg.Observer.Messages(s.model, s.nowNs, out)
	}
	s.log.messages(out)
	for i := range out {
		msg := &out[i]
		switch msg.Kind {
		case scheduler.Send:
			s.sendVisit(msg)
		case scheduler.Return:
			s.sendHome(msg)
		case scheduler.Emit:
			s.emit(msg)
		case scheduler.Finish, scheduler.Refuse:
			s.finish(msg)
		case scheduler.Release:
			s.tell(msg.To, scheduler.Event{Kind: scheduler.Released, Request: msg.Request})
		case scheduler.WakeAt:
			s.wakeAt(msg.AtNs)
		case scheduler.State:
			s.tellPeers(scheduler.Event{Kind: scheduler.PeerState, Peer: s.model, Busy: msg.Busy, Ready: msg.Ready})
		case scheduler.Live:
			s.live[s.model] += int64(msg.Delta)
			s.liveMoved = true
			s.tellPeers(scheduler.Event{Kind: scheduler.LiveChanged, Live: msg.Delta})
		case scheduler.Retract:
			s.counted.Retracted++
			if k := s.known[msg.Request]; k != nil {
				k.retracts++
			}
		}
	}
}

func (s *subserver) tellPeers(ev scheduler.Event) {
	for m := range s.sys.subs {
		if m != s.model {
			s.tell(m, ev)
		}
	}
}

// tell sends a peer an event, unless it is lost.
func (s *subserver) tell(model int, ev scheduler.Event) {
	if !s.lost[model] {
		s.ship(&Parcel{To: model, Event: ev})
	}
}

// wakeAt sets the timer (duty 8). A core asks for its oldest ready request, so
// its last word is the one that counts.
func (s *subserver) wakeAt(atNs int64) {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = time.AfterFunc(time.Duration(atNs-s.nowNs), func() {
		s.inbox.put(word{event: scheduler.Event{Kind: scheduler.Wake, AtNs: atNs}})
	})
}

func (s *subserver) sendVisit(msg *scheduler.Message) {
	k := s.known[msg.Request]
	k.sentTo, k.hops = msg.To, msg.Req.Hops
	if s.lost[msg.To] {
		s.failVisit(msg.Request, k, s.sys.cfg.Models[msg.To].Name+" is lost")
		return
	}
	s.ship(&Parcel{To: msg.To, Event: scheduler.Event{Kind: scheduler.PeerArrived, Request: msg.Request, Req: msg.Req},
		Sampling: k.sampling, Logprobs: k.logprobs, Routing: k.routing, Top: k.packTop(msg.Req.Start, msg.Req.Suffix)})
}

func (s *subserver) sendHome(msg *scheduler.Message) {
	p := &Parcel{To: msg.To, Event: scheduler.Event{Kind: scheduler.PeerReturned, Request: msg.Request, Req: msg.Req}}
	if k := s.known[msg.Request]; k != nil {
		p.Logprobs, p.Top = k.logprobs, k.packTop(msg.Req.Start, msg.Req.Suffix)
		clear(k.tops)
	}
	if msg.Req.Status == algorithms.Refused {
		s.endedNow = append(s.endedNow, msg.Request)
	}
	if !s.lost[msg.To] {
		s.ship(p)
	}
}

// failVisit tells home, which may be here, that a visit cannot go on.
func (s *subserver) failVisit(id scheduler.RequestID, k *known, problem string) {
	p := &Parcel{From: s.model, To: k.home, Problem: problem, Event: scheduler.Event{Kind: scheduler.PeerReturned, Request: id,
		Req: &algorithms.PeerReq{ID: id, Home: k.home, From: s.model, Status: algorithms.Failed, Hops: k.hops}}}
	switch {
	case k.home == s.model:
		s.inbox.put(word{parcel: p}) // not now: this may be in the middle of a step
	case !s.lost[k.home]:
		s.ship(p)
	}
}

func (s *subserver) emit(msg *scheduler.Message) {
	k := s.known[msg.Request]
	s.say(clientWord{kind: wrote, id: msg.Request, chunk: Chunk{
		Start: msg.Start, Tokens: slices.Clone(msg.Tokens), Writer: msg.Writer, AtNs: s.nowNs,
		BegunNs: k.begunNs, Cached: k.cached, Retracted: k.retracts, Top: k.showTop(msg.Start, msg.Tokens)}})
}

func (s *subserver) say(w clientWord) { s.said = append(s.said, w) }

// causes are what a client is told of the ends that are not the request's own.
var causes = map[scheduler.Reason]error{
	scheduler.ReasonTooLong: ErrTooLong, scheduler.ReasonQueueFull: ErrQueueFull, scheduler.ReasonDraining: ErrDraining,
}

func (s *subserver) finish(msg *scheduler.Message) {
	w := clientWord{kind: over, id: msg.Request, reason: msg.Reason, cause: causes[msg.Reason], chunk: Chunk{AtNs: s.nowNs, Writer: s.model}}
	if k := s.known[msg.Request]; k != nil && msg.Reason == scheduler.ReasonAbort {
		// Without another cause it is too large for a pool, here or at a peer.
		if w.cause, w.detail = k.cause, k.detail; w.cause == nil {
			w.cause = ErrOutgrown
		}
	}
	delete(s.known, msg.Request)
	s.say(w)
}

// onParcel steps what a peer sent, unless it comes too late.
func (s *subserver) onParcel(p *Parcel) {
	if s.lost[p.From] || s.turnstile.early(p) {
		return
	}
	s.turnstile.arrived(p)
	ev := &p.Event
	switch ev.Kind {
	case scheduler.PeerArrived:
		s.onVisit(p)
	case scheduler.PeerReturned:
		s.onReturn(p)
	case scheduler.Released:
		s.endedNow = append(s.endedNow, ev.Request)
		s.stepEvent(ev)
	case scheduler.LiveChanged:
		s.live[p.From] += int64(ev.Live)
		s.liveMoved = true
	case scheduler.PeerState, scheduler.Flush:
		s.stepEvent(ev)
	default:
		panic("subserver: a parcel holds what peers do not tell")
	}
}

func (s *subserver) onVisit(p *Parcel) {
	req := p.Event.Req
	if s.lost[req.Home] {
		return // home ended it by going
	}
	k := s.known[req.ID]
	if k == nil {
		k = &known{home: req.Home, sampling: p.Sampling, logprobs: p.Logprobs, routing: p.Routing, counted: req.Prompt, sentTo: -1}
	}
	route, err := s.sys.cfg.route(&k.routing)
	if err != nil { // of a process that was not built like this one
		k.hops = req.Hops
		s.failVisit(req.ID, k, err.Error())
		return
	}
	k.route = route
	if s.broken != nil {
		k.hops = req.Hops
		s.failVisit(req.ID, k, s.brokenText())
		return
	}
	s.known[req.ID] = k
	k.sentTo, k.hops = -1, req.Hops
	k.take(p, req.Start+len(req.Suffix))
	s.endedNow = append(s.endedNow, req.ID) // the core may not want it
	s.stepEvent(&p.Event)
}

func (s *subserver) onReturn(p *Parcel) {
	req := p.Event.Req
	if k := s.known[req.ID]; k != nil && k.home == s.model {
		switch req.Status {
		case algorithms.Failed:
			// Of an earlier visit, or home was told before.
			if !s.core.Pending(req.ID) || req.Hops < k.hops {
				return
			}
			k.cause, k.detail = ErrFailed, p.Problem
		case algorithms.Refused:
			k.cause, k.detail = ErrOutgrown, "of "+s.sys.cfg.Models[req.From].Name
		}
		k.take(p, req.Start+len(req.Suffix))
	}
	s.stepEvent(&p.Event)
}

// take notes the log probabilities that came along, up to position end.
func (k *known) take(p *Parcel, end int) {
	for i, res := range p.Top {
		if k.tops == nil {
			k.tops = map[int]backend.Result{}
		}
		k.tops[end-len(p.Top)+i] = res
	}
}

func (s *subserver) brokenText() string {
	return s.sys.cfg.Models[s.model].Name + ": " + s.broken.Error()
}
