package sim

import (
	"math"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/workload"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Dispatcher describes standard serving: one ordinary server a model, and a
// program outside that routes token by token. It submits a request for one
// token, reads the answer, decides who writes the next one, and submits all
// tokens so far as a new request to that model's server, where the prefix cache
// may still hold them. The zero value costs nothing.
type Dispatcher struct {
	// FixedNs is what one submission costs in transit and handling; NsPerToken
	// what each token of its prompt adds: both are latencies, so submissions of
	// different requests overlap.
	FixedNs    int64
	NsPerToken float64
}

func (d *Dispatcher) costNs(tokens int) int64 {
	return d.FixedNs + int64(math.Round(d.NsPerToken*float64(tokens)))
}

// dispatched is a client's request as the dispatcher knows it.
type dispatched struct {
	arrival scheduler.Arrival
	model   int // whose server has it
	tokens  []scheduler.Token
	stay    stay
	hops    int
}

// dispatcher holds the requests that are open. Submissions get ids of their
// own, above those of clients.
type dispatcher struct {
	cost   Dispatcher
	open   map[scheduler.RequestID]*dispatched // by client's id
	client map[scheduler.RequestID]scheduler.RequestID
	lastID scheduler.RequestID
	wrote  scheduler.Token // the token of the submission that is ending
	view   algorithms.View
	req    algorithms.PeerReq
}

// firstSubmission is above any number of client requests.
const firstSubmission = scheduler.RequestID(1) << 48

func newDispatcher(cost Dispatcher) *dispatcher {
	return &dispatcher{cost: cost, lastID: firstSubmission,
		open: map[scheduler.RequestID]*dispatched{}, client: map[scheduler.RequestID]scheduler.RequestID{}}
}

// token makes the token of a submission up.
func (p *dispatcher) token(e *scheduler.Entry) scheduler.Token {
	if e.Position >= p.open[p.client[e.ID]].stay.last {
		return workload.EOS
	}
	return workload.MadeUp(e.Seed, e.Position, workload.PurposeToken)
}

// take takes a client's request at the dispatcher's door.
func (w *world) take(home int, a *scheduler.Arrival) {
	own := *a
	d := &dispatched{arrival: own, model: home, tokens: append([]scheduler.Token(nil), a.Prompt...)}
	w.disp.open[a.ID] = d
	w.startStay(d)
	w.submit(d)
}

// startStay asks the source how long the request stays at its model.
func (w *world) startStay(d *dispatched) {
	d.stay = stay{id: d.arrival.ID, start: len(d.tokens), last: w.load.last(d.arrival.ID), leave: math.MaxInt}
	v := &w.disp.view
	*v = algorithms.View{Request: d.arrival.ID, Seed: d.arrival.Seed, Model: d.model, Home: w.home(d.arrival.Seed),
		Position: len(d.tokens), StayStart: len(d.tokens), Hops: d.hops}
	kept, dest := w.stays.Stay(v)
	d.stay.leave, d.stay.dest = len(d.tokens)+kept, dest
}

// submit sends all tokens so far to the model's server, for one more.
func (w *world) submit(d *dispatched) {
	w.disp.lastID++
	id := w.disp.lastID
	w.disp.client[id] = d.arrival.ID
	ev := scheduler.Event{Kind: scheduler.Arrived, AtNs: w.nowNs + w.disp.cost.costNs(len(d.tokens)),
		Arrival: &scheduler.Arrival{ID: id, Seed: d.arrival.Seed, Prompt: d.tokens, MaxTokens: 1}}
	if ev.AtNs > w.nowNs {
		w.clock.set(d.model, outside, ev)
		return
	}
	w.inbox = append(w.inbox, due{model: d.model, from: outside, event: ev})
}

// answered is the dispatcher's turn after a submission has ended: it drops or
// shows the token, and ends the request or submits it again.
func (w *world) answered(id scheduler.RequestID, failed bool) {
	client, ok := w.disp.client[id]
	if !ok {
		panic("sim: an answer to a submission that the dispatcher does not know")
	}
	delete(w.disp.client, id)
	d := w.disp.open[client]
	if failed {
		delete(w.disp.open, client)
		w.ended(client, true)
		return
	}
	position := len(d.tokens)
	leaves := position >= d.stay.leave
	kept := true
	if leaves {
		w.disp.req = algorithms.PeerReq{ID: client, Seed: d.arrival.Seed, Home: w.home(d.arrival.Seed), From: d.model}
		kept = w.cfg.Algorithm.Send(algorithms.Departure{From: d.model, To: d.stay.dest.Model(), Home: w.disp.req.Home,
			Position: position, Token: w.disp.wrote}, &w.disp.req)
	}
	if kept {
		d.tokens = append(d.tokens, w.disp.wrote)
		w.rec.Emitted(&w.load.record(client).times, w.nowNs, 1, d.model)
		if position >= d.stay.last || len(d.tokens)-len(d.arrival.Prompt) >= d.arrival.MaxTokens {
			delete(w.disp.open, client)
			w.ended(client, false)
			return
		}
	}
	if leaves {
		d.model = d.stay.dest.Model()
		d.hops++
		w.startStay(d)
	}
	w.submit(d)
}
