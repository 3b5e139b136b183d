package sim

import (
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// carryOut does what a core asked for (duty 5).
func (w *world) carryOut(m int, out []scheduler.Message) {
	if w.cfg.Observer != nil {
		w.cfg.Observer.Messages(m, w.nowNs, out)
	}
	if w.hooks != nil {
		w.hooks.called(m)
	}
	for i := range out {
		msg := &out[i]
		switch msg.Kind {
		case scheduler.Emit:
			if w.disp != nil {
				w.disp.wrote = msg.Tokens[0]
				continue
			}
			if n := int64(len(msg.Tokens)) - w.told; n > 0 {
				w.rec.Emitted(&w.load.record(msg.Request).times, w.nowNs, n, msg.Writer)
			}
		case scheduler.Send:
			w.ship(m, msg.To, scheduler.Event{Kind: scheduler.PeerArrived, Req: msg.Req})
		case scheduler.Return:
			w.ship(m, msg.To, scheduler.Event{Kind: scheduler.PeerReturned, Req: msg.Req})
		case scheduler.Release:
			w.ship(m, msg.To, scheduler.Event{Kind: scheduler.Released, Request: msg.Request})
		case scheduler.Finish:
			w.finished(msg.Request, msg.Reason == scheduler.ReasonAbort)
		case scheduler.Refuse:
			w.finished(msg.Request, true)
		case scheduler.WakeAt:
			w.clock.set(m, outside, scheduler.Event{Kind: scheduler.Wake, AtNs: msg.AtNs})
		case scheduler.State:
			w.tellPeers(m, msg)
		case scheduler.Live:
			if w.disp == nil { // a dispatcher's servers do not know each other
				w.live += msg.Delta
				w.liveMoved = true
			}
		case scheduler.Retract:
			// The metrics see it as waiting for KV; an Observer sees it as such.
		}
	}
}

// ship delivers between two models, after the transit time if there is one.
func (w *world) ship(from, to int, ev scheduler.Event) {
	ev.AtNs = w.nowNs + w.cfg.HandoffNs
	copies := 1
	if w.hooks != nil {
		ev, copies = w.hooks.shipped(from, to, ev)
	}
	for range copies {
		if ev.AtNs > w.nowNs {
			w.transit++
			w.clock.set(to, from, ev)
		} else {
			w.inbox = append(w.inbox, due{model: to, from: from, event: ev})
		}
	}
}

func (w *world) tellPeers(m int, msg *scheduler.Message) {
	for p := range w.nodes {
		if p != m {
			w.inbox = append(w.inbox, due{model: p, from: m, event: scheduler.Event{
				Kind: scheduler.PeerState, AtNs: w.nowNs, Peer: m, Busy: msg.Busy, Ready: msg.Ready}})
		}
	}
}

// finished is a core's word that a request is over.
func (w *world) finished(id scheduler.RequestID, aborted bool) {
	if w.disp != nil {
		w.answered(id, aborted)
		return
	}
	w.ended(id, aborted)
}

// ended closes a request's record; a closed user sends the next one at once.
func (w *world) ended(id scheduler.RequestID, aborted bool) {
	rec := w.load.record(id)
	if rec.over {
		panic("sim: a request ended twice")
	}
	rec.over = true
	w.load.open--
	w.rec.Ended(&rec.times, w.nowNs, aborted)
	user, turn, atNs := int(rec.user), int(rec.turn), w.nowNs
	if aborted && rec.times.ArrivedNs == w.nowNs {
		atNs += backOffNs // refused at the door: without a pause time would stand still
	}
	w.load.forget()
	if w.cfg.Workload.Kind == Closed {
		w.arriveNext(user, turn+1, atNs)
	}
}

// backOffNs is how long a closed user waits after a refusal: the least that an
// HTTP server can ask for by Retry-After, in whole seconds.
const backOffNs = 1_000_000_000

func (w *world) firstArrivals() {
	switch w.cfg.Workload.Kind {
	case Listed:
		for i := range w.cfg.Workload.List {
			r := &w.cfg.Workload.List[i]
			id := scheduler.RequestID(i + 1)
			w.clock.set(r.Home, outside, scheduler.Event{Kind: scheduler.Arrived, AtNs: r.ArrivalNs,
				Arrival: w.load.arrival(id, w.load.of.Request(i+1))})
		}
	case Open:
		w.announce()
	default:
		for u := range w.cfg.Workload.Users {
			w.arriveNext(u, 0, w.nowNs)
		}
	}
}

// announce sets the clock to the next request of an open workload. The request
// itself is made when it arrives, so that only one is ever waiting.
func (w *world) announce() {
	if !w.load.advance() {
		return
	}
	r := &w.load.coming
	w.clock.set(w.home(r.Seed), outside, scheduler.Event{Kind: scheduler.Arrived, AtNs: r.ArrivalNs})
}

// arriveOpen makes the request that was announced, and announces the next.
func (w *world) arriveOpen() *scheduler.Arrival {
	r := w.load.coming
	w.announce()
	return w.load.arrival(scheduler.RequestID(r.Index+1), r)
}

// arriveNext lets a user's next request arrive.
func (w *world) arriveNext(user, turn int, atNs int64) {
	a, ok := w.load.next(user, turn, atNs)
	if !ok {
		return
	}
	ev := scheduler.Event{Kind: scheduler.Arrived, AtNs: atNs, Arrival: a}
	if atNs > w.nowNs {
		w.clock.set(w.home(a.Seed), outside, ev)
		return
	}
	w.inbox = append(w.inbox, due{model: w.home(a.Seed), from: outside, event: ev})
}

func (w *world) result() *Result {
	busy := make([]int64, len(w.nodes))
	for m := range w.nodes {
		if n := &w.nodes[m]; n.endNs != never {
			busy[m] = w.nowNs - max(n.startNs, w.cfg.Workload.WarmupNs)
		}
	}
	users := 0
	if w.cfg.Workload.Kind == Steady {
		users = w.cfg.Workload.Users
	}
	return &Result{Summary: w.rec.Summary(w.nowNs, busy, users), EndNs: w.nowNs, Events: w.events}
}
