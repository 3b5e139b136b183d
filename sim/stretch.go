package sim

import (
	"math"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/workload"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// A stretch is a run of steps of one batch in which nothing happens but that
// every token stays: the simulator plays it as one event. The core says how
// long it would relaunch the batch unchanged, and the source where the first
// request leaves or ends. Whatever else happens to the core cuts the stretch at
// the last step end before, so results are those of single steps, bit for bit
// (TestStretchesChangeNothing).

// plan decides how many steps the batch that was just launched runs in a row,
// and when each ends.
func (w *world) plan(m int, n *node) {
	entries := len(n.batch.Entries)
	context := n.batch.ContextTokens
	time := w.cfg.Models[m].Time
	end := w.nowNs + time.Ns(entries, n.batch.Rows, context)
	n.ends = append(n.ends[:0], end)
	n.endNs = end
	n.left, n.factor = workOf(end-w.nowNs), 0
	steps := n.batch.Steps
	if steps == 1 || !w.stretches {
		return
	}
	for i := range n.batch.Entries {
		e := &n.batch.Entries[i]
		st := w.stay(m, n, e)
		steps = min(steps, min(st.leave, st.last)-e.Position+1)
	}
	steps = min(steps, maxStretch)
	// What happens elsewhere may well cut the stretch, so planning stops there.
	horizon := w.horizon(m)
	grows := entries
	if w.cfg.Workload.holdContext() > 0 {
		grows = 0
	}
	for len(n.ends) < steps && end < horizon {
		context += grows
		end += time.Ns(entries, entries, context)
		n.ends = append(n.ends, end)
	}
	n.endNs = end
}

// maxStretch bounds the memory of a stretch.
const maxStretch = 1 << 14

// horizon is when the next event outside core m is known to happen.
func (w *world) horizon(m int) int64 {
	at := int64(never)
	if len(w.clock.heap) > 0 {
		at = w.clock.heap[0].atNs
	}
	for o := range w.nodes {
		if o != m {
			at = min(at, w.nodes[o].endNs)
		}
	}
	return at
}

// cut ends a stretch of core m at its last step end up to atNs, because
// something happens to the core then. The step that is running at atNs goes on
// alone. At a step end the batch is launched again first only if the cores have
// been asked already at this instant, as in single steps.
func (w *world) cut(m int, atNs int64) {
	n := &w.nodes[m]
	if n.endNs == never || len(n.ends) == 1 || atNs >= n.endNs {
		return
	}
	done := 0
	for n.ends[done] <= atNs {
		done++
	}
	if done == 0 {
		n.ends = n.ends[:1]
		n.endNs = n.ends[0]
		return
	}
	n.ends = n.ends[:done]
	now := w.nowNs
	w.nowNs = n.ends[done-1]
	w.endStep(m)
	if w.nowNs < atNs || w.asked {
		stretches := w.stretches
		w.stretches = false
		if !w.launch(m) {
			panic("sim: the scheduler broke its word to launch a batch again")
		}
		w.stretches = stretches
	}
	w.nowNs = now
}

// finishStretch records all steps of a stretch but the last, whose tokens all
// stayed, and fills in their tokens. The last step is recorded like any other.
func (w *world) finishStretch(m int, n *node) {
	steps := len(n.ends)
	entries := len(n.batch.Entries)
	if steps == 1 {
		return
	}
	if need := entries * (steps - 1); cap(w.runs) < need {
		w.runs = make([]scheduler.Token, need)
	}
	from := n.startNs
	for i, end := range n.ends[:steps-1] {
		rows := entries
		if i == 0 {
			rows = n.batch.Rows
		}
		w.rec.Ran(m, from, end, entries, rows, n.b)
		from = end
	}
	n.startNs = from
	for i := range n.batch.Entries {
		e := &n.batch.Entries[i]
		run := w.runs[i*(steps-1) : (i+1)*(steps-1)]
		for k := range run {
			run[k] = workload.MadeUp(e.Seed, e.Position+k, workload.PurposeToken)
		}
		w.results[i].Run = run
		w.rec.Emitted(&w.load.record(e.ID).times, n.ends[0], 1, m)
		w.rec.Skip(&w.load.record(e.ID).times, n.ends[steps-2], int64(steps-2))
	}
	for k := 1; k < steps-1; k++ {
		w.rec.EmittedBy(entries, n.ends[k], n.ends[k]-n.ends[k-1], m)
	}
	w.emittedByClass(n)
	w.told = int64(steps - 1)
}

// emittedByClass tells the recorder of whose classes the tokens were that
// EmittedBy counted.
func (w *world) emittedByClass(n *node) {
	if len(w.ofClass) < 2 {
		return
	}
	clear(w.ofClass)
	for i := range n.batch.Entries {
		w.ofClass[w.load.record(n.batch.Entries[i].ID).times.Class]++
	}
	for class, requests := range w.ofClass {
		for k := 1; k < len(n.ends)-1; k++ {
			w.rec.EmittedByClass(class, requests, n.ends[k], n.ends[k]-n.ends[k-1])
		}
	}
}

// stay returns what the simulator knows of a request's stay at core m.
func (w *world) stay(m int, n *node, e *scheduler.Entry) *stay {
	for int(e.Slot) >= len(n.stays) {
		n.stays = append(n.stays, stay{})
	}
	st := &n.stays[e.Slot]
	if st.id != e.ID || st.start != e.StayStart || st.hops != e.Hops {
		w.beginStay(m, st, e)
	}
	return st
}

func (w *world) beginStay(m int, st *stay, e *scheduler.Entry) {
	*st = stay{id: e.ID, start: e.StayStart, hops: e.Hops, last: w.load.last(e.ID), leave: math.MaxInt}
	if w.stays == nil {
		return
	}
	v := &w.view
	*v = algorithms.View{Request: e.ID, Seed: e.Seed, Model: m, Home: e.Home,
		Position: e.StayStart, StayStart: e.StayStart, Hops: e.Hops}
	kept, dest := w.stays.Stay(v)
	st.leave, st.dest = e.StayStart+kept, dest
}
