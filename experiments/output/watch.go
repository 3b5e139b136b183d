package output

import (
	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// phase is what a request is doing, at or on the way to a model.
type phase uint8

const (
	isReady phase = iota
	isInFlight
	isInTransit
	isDone
)

// watcher follows where each request is, from what goes into the cores of a
// simulation and comes out of them, and tells its listener of every change.
type watcher struct {
	listen listener
	where  map[scheduler.RequestID]place
	ready  []int // requests that are ready, by model
}

type place struct {
	phase phase
	model int
}

type listener interface {
	step(model int, startNs, endNs int64, batch *scheduler.Batch, threshold int)
	moved(id scheduler.RequestID, atNs int64, p phase, model int)
	readyCount(model int, atNs int64, n int)
	live(atNs int64, n int)
}

func newWatcher(models int, l listener) *watcher {
	return &watcher{listen: l, where: map[scheduler.RequestID]place{}, ready: make([]int, models)}
}

func (w *watcher) move(id scheduler.RequestID, atNs int64, p phase, model int) {
	old, known := w.where[id]
	if known && old == (place{p, model}) {
		return
	}
	if known && old.phase == isReady {
		w.count(old.model, atNs, -1)
	}
	if p == isReady {
		w.count(model, atNs, +1)
	}
	w.where[id] = place{p, model}
	if p == isDone {
		delete(w.where, id)
	}
	w.listen.moved(id, atNs, p, model)
}

func (w *watcher) count(model int, atNs int64, by int) {
	w.ready[model] += by
	w.listen.readyCount(model, atNs, w.ready[model])
}

// Stepped is called when a step ends; its requests were in flight since then.
func (w *watcher) Stepped(model int, startNs, endNs int64, batch *scheduler.Batch, threshold int) {
	for i := range batch.Entries {
		w.move(batch.Entries[i].ID, startNs, isInFlight, model)
	}
	w.listen.step(model, startNs, endNs, batch, threshold)
	for i := range batch.Entries {
		if !batch.Entries[i].Samples {
			w.move(batch.Entries[i].ID, endNs, isReady, model)
		}
	}
}

// Event sees what goes into a core.
func (w *watcher) Event(model int, ev *scheduler.Event) {
	switch ev.Kind {
	case scheduler.Arrived:
		w.move(ev.Arrival.ID, ev.AtNs, isReady, model)
	case scheduler.PeerArrived:
		w.move(ev.Req.ID, ev.AtNs, isReady, model)
	case scheduler.PeerReturned:
		if _, open := w.where[ev.Req.ID]; open && ev.Req.Status == algorithms.Returned {
			w.move(ev.Req.ID, ev.AtNs, isReady, model)
		}
	case scheduler.LiveChanged:
		if model == 0 {
			w.listen.live(ev.AtNs, ev.Live)
		}
	}
}

// Messages sees what comes out of a core.
func (w *watcher) Messages(model int, atNs int64, out []scheduler.Message) {
	for i := range out {
		m := &out[i]
		switch m.Kind {
		case scheduler.Emit:
			if m.Writer == model { // written here, so it stays until told otherwise
				w.move(m.Request, atNs, isReady, model)
			}
		case scheduler.Send:
			w.move(m.Request, atNs, isInTransit, m.To)
		case scheduler.Return:
			if m.Req.Status == algorithms.Running {
				w.move(m.Request, atNs, isReady, model)
			} else {
				w.move(m.Request, atNs, isInTransit, m.To)
			}
		case scheduler.Finish, scheduler.Refuse:
			w.move(m.Request, atNs, isDone, model)
		}
	}
}
