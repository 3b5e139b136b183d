package experiments

import (
	"fmt"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/scheduler"
	"github.com/tokenrouter/tokenrouter/sim"
)

// Systems that an experiment may compare. A single model is asked for as
// "single:" and its name.
const (
	SystemTokenRouter = "tokenrouter"
	SystemAsync       = "async"
	SystemAlternate   = "alternate"
	SystemLockstep    = "lockstep"
	SystemOfficial    = "official"
	SystemStdServing  = "std-serving"
	SystemQueryLevel  = "query-level"
	singlePrefix      = "single:"
)

// System is a name with what it does.
type System struct{ Name, About string }

// Systems lists all but the single models.
var Systems = []System{
	{SystemTokenRouter, "starts a step when B requests are ready; hands requests over, their KV kept"},
	{SystemAsync, "the same, but as soon as anything is ready"},
	{SystemAlternate, "no two models at once, taking turns"},
	{SystemLockstep, "all models start together and wait for each other"},
	{SystemOfficial, "as published code: taking turns, a static batch, no CUDA graphs"},
	{SystemStdServing, "one ordinary server a model; a program outside submits token by token"},
	{SystemQueryLevel, "each request at one model alone, drawn by query.large_share"},
}

func systemsOf(models []string) []string {
	var names []string
	for _, s := range Systems {
		names = append(names, s.Name)
	}
	for _, m := range models {
		names = append(names, singlePrefix+m)
	}
	return names
}

// compose sets what the system is made of: a launch rule, who is admitted when,
// how requests change models, and with which step times.
func (s *setup) compose(c Cell) error {
	spec := c.Point.Spec
	switch c.System {
	case SystemTokenRouter:
		s.rule = scheduler.Delayed{MaxDelayNs: ns(spec.Scheduler.MaxDelayMs * 1e6)}
	case SystemAsync:
		s.rule = scheduler.Eager{}
	case SystemAlternate:
		s.rule = scheduler.Alternate{}
	case SystemLockstep:
		s.rule = scheduler.Lockstep{}
	case SystemOfficial:
		s.rule, s.static, s.eager = scheduler.Alternate{}, true, true
		s.reread = spec.Official.Visits == VisitsReread
	case SystemStdServing:
		s.rule = scheduler.Eager{}
		s.dispatcher = &sim.Dispatcher{FixedNs: ns(spec.Dispatcher.Ms * 1e6), NsPerToken: spec.Dispatcher.MsPer1kTokens * 1e3}
	case SystemQueryLevel:
		if len(spec.Models) != 2 {
			return fmt.Errorf("system %s needs two models, a small and a large one", SystemQueryLevel)
		}
		s.rule, s.algorithm = scheduler.Eager{}, algorithms.Never{}
		s.queryShare = make([]float64, 2)
		s.queryShare[spec.Routing.Large] = spec.QueryLargeShare
		s.queryShare[1-spec.Routing.Large] = 1 - spec.QueryLargeShare
	default:
		if s.alone = c.Single(); s.alone < 0 {
			return fmt.Errorf("system %q is not known", c.System)
		}
		s.models, s.home = spec.Models[s.alone:s.alone+1], 0
		s.rule, s.algorithm = scheduler.Eager{}, algorithms.Never{}
	}
	return nil
}

// compileTimes compiles the models' step times in the system's variant.
func (s *setup) compileTimes() error {
	s.times = nil
	for i := range s.models {
		m := s.models[i]
		t, err := m.stepTime(s.eager)
		if err != nil {
			s.times = nil
			return err
		}
		if floor := ns(m.EagerMs * 1e6); s.eager && floor > 0 {
			t = atLeast{t, floor}
		}
		s.times = append(s.times, t)
	}
	return nil
}

// atLeast is a step that lasts no less than its kernels take to launch.
type atLeast struct {
	steptime.StepTime
	floorNs int64
}

func (a atLeast) Ns(requests, rows, contextTokens int) int64 {
	return max(a.StepTime.Ns(requests, rows, contextTokens), a.floorNs)
}
