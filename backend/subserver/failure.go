package subserver

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// onBroken ends everything that the engine of this model was to do. Clients of
// this home are told at once; visitors go home as failed.
func (s *subserver) onBroken(err error) {
	s.broken = err
	s.counted.Broken = err.Error()
	s.sys.fail(fmt.Errorf("model %s: %w", s.sys.cfg.Models[s.model].Name, err))
	for _, id := range s.ids() {
		k := s.known[id]
		switch {
		case k.home == s.model:
			k.cause, k.detail = ErrFailed, s.brokenText()
			s.stepEvent(&scheduler.Event{Kind: scheduler.Aborted, Request: id})
		case k.sentTo < 0:
			s.failVisit(id, k, s.brokenText())
			fallthrough
		default:
			s.endedNow = append(s.endedNow, id)
			s.stepEvent(&scheduler.Event{Kind: scheduler.Released, Request: id})
		}
	}
	s.settle()
	// Nobody is left in the step that failed, so any answer ends it.
	for i := range s.batch.Entries {
		e := &s.batch.Entries[i]
		s.answers[i] = scheduler.Result{ID: e.ID, Sampled: e.Samples}
	}
	s.stepEvent(&scheduler.Event{Kind: scheduler.StepDone, Results: s.answers})
}

// onLost ends what another model's process was to do, and its own requests.
func (s *subserver) onLost(model int, err error) {
	if s.lost[model] {
		return
	}
	s.lost[model] = true
	if s.live[model] != 0 {
		s.live[model] = 0
		s.liveMoved = true
	}
	problem := fmt.Sprintf("%s is lost: %v", s.sys.cfg.Models[model].Name, err)
	for _, id := range s.ids() {
		k := s.known[id]
		switch {
		case k.home == model:
			s.endedNow = append(s.endedNow, id)
			s.stepEvent(&scheduler.Event{Kind: scheduler.Released, Request: id})
		case k.home != s.model && k.sentTo == model:
			s.failVisit(id, k, problem)
		case k.home == s.model && (s.turnstile.on || s.core.Pending(id)):
			// Home cannot tell whether the visit has got there, by way of others.
			// And nobody takes turns with a model that does not answer.
			k.cause, k.detail = ErrFailed, problem
			s.stepEvent(&scheduler.Event{Kind: scheduler.Aborted, Request: id})
		}
	}
	if s.turnstile.on && s.broken == nil {
		s.broken = errors.New(problem)
	}
	for _, p := range s.turnstile.open() {
		s.onParcel(p)
	}
}

// ids lists the requests in order, so that failures look alike in every run.
func (s *subserver) ids() []scheduler.RequestID { return slices.Sorted(maps.Keys(s.known)) }
