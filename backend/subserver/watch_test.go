package subserver

import (
	"sync"
	"testing"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// gateWatch holds launches to what the rules that take turns promise.
type gateWatch struct {
	t         testing.TB
	plan      *plan
	mu        sync.Mutex
	inFlight  map[int]int // round of the launch, by model
	decisions map[int][]decision
	steps     int
	events    int64
	messages  int64
	declined  int
	together  int            // rounds in which several started
	kinds     map[string]int // events, messages and reasons
}

func newGateWatch(t testing.TB, p *plan) *gateWatch {
	return &gateWatch{t: t, plan: p, inFlight: map[int]int{}, decisions: map[int][]decision{}, kinds: map[string]int{}}
}

func (w *gateWatch) Stepped(model int, startNs, endNs int64, batch *scheduler.Batch, threshold int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	if endNs < startNs || len(batch.Entries) == 0 || threshold < 1 {
		w.t.Errorf("a step of %d requests from %d to %d ns under B %d", len(batch.Entries), startNs, endNs, threshold)
	}
}

// Event sees the end of a step, of one that failed as well.
func (w *gateWatch) Event(model int, ev *scheduler.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events++
	w.kinds[ev.Kind.String()]++
	if ev.Kind == scheduler.StepDone {
		delete(w.inFlight, model)
	}
}

func (w *gateWatch) Messages(_ int, _ int64, out []scheduler.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.messages += int64(len(out))
	for _, m := range out {
		w.kinds[m.Kind.String()]++
		if m.Kind == scheduler.Finish || m.Kind == scheduler.Refuse {
			w.kinds[m.Reason.String()]++
		}
		if m.Kind == scheduler.Return {
			w.kinds[m.Req.Status.String()]++
		}
	}
}

func (w *gateWatch) decided(d decision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.launched {
		for m, round := range w.inFlight {
			if _, lockstep := w.plan.rule.(scheduler.Lockstep); !lockstep || round != d.round {
				w.t.Errorf("%v: model %d starts in round %d while model %d runs since round %d", w.plan.rule, d.model, d.round, m, round)
			}
		}
		w.inFlight[d.model] = d.round
	}
	w.decisions[d.round] = append(w.decisions[d.round], d)
}

// judge looks at whole rounds.
func (w *gateWatch) judge() {
	defer func() {
		w.kinds["declined"], w.kinds["together"] = w.declined, w.together
	}()
	for round, all := range w.decisions {
		launched := 0
		for _, d := range all {
			if d.launched {
				launched++
			}
			if d.declined {
				w.declined++
			}
		}
		if launched > 1 {
			w.together++
		}
		_, lockstep := w.plan.rule.(scheduler.Lockstep)
		for _, d := range all {
			if lockstep && launched > 0 && !d.launched && !d.declined && !d.starved && d.ready > 0 {
				w.t.Errorf("round %d: model %d leaves %d ready and stays behind", round, d.model, d.ready)
			}
			for _, o := range all {
				if o.model != d.model && !o.declined && !d.declined && o.sent[d.model] != d.stepped[o.model] {
					w.t.Errorf("round %d: model %d decided while a parcel of model %d was in transit", round, d.model, o.model)
				}
			}
		}
	}
	if w.plan.rule.NeedsPeers() != (len(w.decisions) > 0) {
		w.t.Errorf("%v: %d rounds, %d steps", w.plan.rule, len(w.decisions), w.steps)
	}
}
