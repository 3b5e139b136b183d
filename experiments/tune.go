package experiments

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/tokenrouter/tokenrouter/dtmc"
)

// Tune asks the chain for the best thresholds at a point. The point's own
// thresholds are not read. A dtmc.NotApplicable says that the chain cannot
// describe the point.
func Tune(p *Point, o dtmc.TuneOptions) (*dtmc.Tuning, error) {
	s, err := newSetup(Cell{Point: p, System: SystemTokenRouter, On: OnChain})
	if err != nil {
		return nil, err
	}
	s.thresholds = nil
	config, reason := s.chain()
	if reason != "" {
		return nil, dtmc.NotApplicable{Reason: reason}
	}
	return dtmc.Tune(config, o)
}

// WithoutB lists the plan's points once for each combination of swept settings
// other than thresholds.
func WithoutB(p *Plan) []*Point {
	var out []*Point
	seen := map[string]bool{}
	for _, point := range p.Points {
		rest := Point{Spec: point.Spec, Settings: point.Settings}
		var key strings.Builder
		for _, s := range point.Swept {
			if !IsThreshold(s.Path) {
				rest.Swept = append(rest.Swept, s)
				key.WriteString(s.Text() + "\n")
			}
		}
		if !seen[key.String()] {
			seen[key.String()] = true
			out = append(out, &rest)
		}
	}
	return out
}

// IsThreshold reports whether path is the threshold of a model.
func IsThreshold(path string) bool {
	k := keyFor(path)
	return k != nil && k.kind == kindThreshold
}

// tuning is what the chain answered for a point whose models ask for Tuned
// thresholds; seeds and places share it.
type tuning struct {
	once   sync.Once
	models []Model // those of the point, every threshold a number
	err    error
}

// tuneThresholds replaces thresholds that are Tuned by those that the chain
// finds best, the others as they are given. A dtmc.NotApplicable says that the
// chain cannot.
func (s *setup) tuneThresholds(p *Point) error {
	isTuned := func(m Model) bool { return m.B.IsTuned() }
	if !s.rule.UsesB() || !slices.ContainsFunc(s.models, isTuned) {
		return nil
	}
	if s.times == nil {
		return &untimedError{s.models[0].Name}
	}
	p.tuning.once.Do(func() {
		p.tuning.err = errors.New("the search for the best B broke") // unless it comes back
		p.tuning.models, p.tuning.err = s.tuned()
	})
	if p.tuning.err != nil {
		return p.tuning.err
	}
	s.models = p.tuning.models
	s.thresholds = thresholds(s.models, true)
	return nil
}

// Settled lists the thresholds, by model, with which TokenRouter runs at the
// point: those that are Tuned as the chain finds them. Where it cannot, they stay
// Tuned, and cells say why.
func (p *Point) Settled() []Threshold {
	models := p.Spec.Models
	// On cpu, since there a model need not say how long its steps take.
	if s, err := newSetup(Cell{Point: p, System: SystemTokenRouter, On: OnCPU}); err == nil && s.tuneThresholds(p) == nil {
		models = s.models
	}
	var out []Threshold
	for i := range models {
		out = append(out, models[i].B)
	}
	return out
}

// settledKey is Key of the cell with settled thresholds: cells that share it run
// the same system, one told its threshold and one left to find it.
func (c Cell) settledKey() string {
	isTuned := func(m Model) bool { return m.B.IsTuned() }
	if !UsesB(c.System) || !slices.ContainsFunc(c.Point.Spec.Models, isTuned) {
		return c.Key()
	}
	settings := slices.Clone(c.Point.Settings)
	for i, b := range c.Point.Settled() {
		path := "models." + c.Point.Spec.Models[i].Name + ".B"
		if at := slices.IndexFunc(settings, func(s Setting) bool { return s.Path == path }); at >= 0 {
			settings[at].Value = b
		}
	}
	c.Point = &Point{Spec: c.Point.Spec, Settings: settings, Swept: c.Point.Swept}
	return c.Key()
}

// tuneRounds bounds the search where some models' thresholds are tuned beside
// others that are fixed: one model after the other, until none changes.
const tuneRounds = 8

func (s *setup) tuned() ([]Model, error) {
	models := slices.Clone(s.models)
	var free []int
	for i := range models {
		if models[i].B.IsTuned() {
			free = append(free, i)
			models[i].B = Threshold{1}
		}
	}
	search := func(o dtmc.TuneOptions, which []int) (changed bool, err error) {
		s.thresholds = thresholds(models, true)
		config, reason := s.chain()
		if reason != "" {
			return false, cannotTune(reason)
		}
		t, err := dtmc.Tune(config, o)
		var cannot dtmc.NotApplicable
		switch {
		case errors.As(err, &cannot):
			return false, cannotTune(cannot.Reason)
		case errors.Is(err, dtmc.ErrSlowMixing), errors.Is(err, dtmc.ErrTooLarge):
			return false, cannotTune(err.Error())
		case err != nil:
			return false, err
		}
		for _, i := range which {
			changed = changed || models[i].B[0] != t.Best.B[i]
			models[i].B = Threshold{t.Best.B[i]}
		}
		return changed, nil
	}
	peersOnly := len(free) == len(models)-1 && !slices.Contains(free, s.home) && slices.Equal(models[s.home].B, Threshold{1})
	switch {
	case len(free) == len(models) && len(free) > 1:
		_, err := search(dtmc.TuneOptions{Search: dtmc.SearchAll}, free)
		return models, err
	case peersOnly:
		_, err := search(dtmc.TuneOptions{Search: dtmc.SearchPeers}, free)
		return models, err
	}
	for range tuneRounds {
		moved := false
		for _, i := range free {
			changed, err := search(dtmc.TuneOptions{Search: dtmc.SearchOne, Model: i}, []int{i})
			if err != nil {
				return nil, err
			}
			moved = moved || changed
		}
		if !moved || len(free) == 1 {
			break
		}
	}
	return models, nil
}

func cannotTune(reason string) error {
	return dtmc.NotApplicable{Reason: `B = "tuned" asks the chain for the best B, and it has none to give: ` + reason}
}
