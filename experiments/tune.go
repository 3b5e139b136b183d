package experiments

import (
	"strings"

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
