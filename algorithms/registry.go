package algorithms

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Params are the settings from which New makes an algorithm. Fields that the
// named algorithm does not read must be left at zero, save Models, Small,
// Large and PromptTokens, which describe the system.
type Params struct {
	Models       int // in the system
	Small, Large int // indices of the two models of a pair; the home is normally Small

	Threshold  *float64    // of the signal; nil means the published one
	Weights    []float64   // me, fusion: one per model; nil means 0.5, 0.3, 0.2 for three models
	Sample     bool        // fusion: draw from the fused distribution, not its largest
	Matrix     [][]float64 // matrix: one row per model
	RoutedKept bool        // matrix, bursty: keep the token just sampled where the request leaves home

	MeanGap    float64 // bursty: decisions per stay at the small model, the leaving one included
	GapCV      float64 // bursty: standard deviation / mean of gaps
	GapLag1    float64 // bursty: correlation of successive gaps
	ReturnProb float64 // bursty: chance that the large model returns after a token; 0 means 1

	Scripts      []string // script: writers, one string per request
	PromptTokens int      // script: length of all prompts
}

// FieldError is a setting that New refuses. Field is its key in the [routing]
// table of an experiment file, so that a reader of such files can name the line.
type FieldError struct {
	Field   string
	Problem string // what is wrong and how to put it right
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

func fieldErrorf(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

// kinds lists the algorithms in the order of Names: how each is made, and
// which optional settings it reads.
var kinds = []struct {
	name  string
	reads string
	make  func(p *Params) (Algorithm, error)
}{
	{"citer", "threshold", func(p *Params) (Algorithm, error) {
		pair, t, err := p.pairAndThreshold(CITERThreshold, belowRoutes)
		return CITER{pair, t}, err
	}},
	{"r2r", "threshold", func(p *Params) (Algorithm, error) {
		pair, t, err := p.pairAndThreshold(R2RThreshold, aboveRoutes)
		return R2R{pair, t}, err
	}},
	{"collm", "threshold", func(p *Params) (Algorithm, error) {
		pair, t, err := p.pairAndThreshold(CoLLMThreshold, aboveRoutes)
		return CoLLM{pair, t}, err
	}},
	{"rstitch", "threshold", func(p *Params) (Algorithm, error) {
		pair, t, err := p.pairAndThreshold(RStitchThreshold, aboveRoutes)
		return RStitch{pair, t}, err
	}},
	{"me", "weights", func(p *Params) (Algorithm, error) {
		w, err := p.weights()
		return Ensemble{Weights: w}, err
	}},
	{"fusion", "weights sample", func(p *Params) (Algorithm, error) {
		w, err := p.weights()
		return Fusion{Weights: w, Sample: p.Sample}, err
	}},
	{"confidence", "threshold", func(p *Params) (Algorithm, error) {
		if p.Threshold == nil {
			return nil, fieldErrorf("threshold", "is missing and no paper states one for confidence; give the largest probability below which a token is routed, like 0.5")
		}
		pair, t, err := p.pairAndThreshold(0, belowRoutes)
		return Confidence{pair, t}, err
	}},
	{"matrix", "matrix routed_token", (*Params).newMatrix},
	{"bursty", "mean_gap gap_cv gap_lag1 return_probability routed_token", (*Params).newBursty},
	{"script", "scripts", func(p *Params) (Algorithm, error) {
		pair, err := p.pair()
		if err != nil {
			return nil, err
		}
		return NewScript(p.Scripts, pair, p.Models, p.PromptTokens)
	}},
	{"never", "", func(*Params) (Algorithm, error) { return Never{}, nil }},
}

// Names returns the names that New knows.
func Names() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

// New makes the named algorithm. A setting that is missing, out of range or
// not one of this algorithm's is a *FieldError that says how to put it right.
func New(name string, p Params) (Algorithm, error) {
	if p.Models < 1 {
		return nil, fieldErrorf("models", "%d models; there must be at least one", p.Models)
	}
	for _, k := range kinds {
		if k.name != name {
			continue
		}
		reads := strings.Fields(k.reads)
		for _, field := range p.given() {
			if !slices.Contains(reads, field) {
				return nil, fieldErrorf(field, "algorithm %s does not read it; remove it", name)
			}
		}
		a, err := k.make(&p)
		if err != nil {
			return nil, err // Not a, which may be a nil pointer inside an interface.
		}
		return a, nil
	}
	return nil, fieldErrorf("algorithm", "%q is none; use one of %s", name, strings.Join(Names(), ", "))
}

// given lists the optional settings that are not at zero, by their keys.
func (p *Params) given() []string {
	var fields []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"threshold", p.Threshold != nil},
		{"weights", p.Weights != nil},
		{"sample", p.Sample},
		{"matrix", p.Matrix != nil},
		{"routed_token", p.RoutedKept},
		{"mean_gap", p.MeanGap != 0},
		{"gap_cv", p.GapCV != 0},
		{"gap_lag1", p.GapLag1 != 0},
		{"return_probability", p.ReturnProb != 0},
		{"scripts", p.Scripts != nil},
	} {
		if f.set {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// pair checks that Small and Large are two models of the system.
func (p *Params) pair() (Pair, error) {
	if p.Models < 2 {
		return Pair{}, fieldErrorf("models", "%d model; this algorithm needs a small and a large one", p.Models)
	}
	for _, f := range []struct {
		name  string
		model int
	}{{"small", p.Small}, {"large", p.Large}} {
		if f.model < 0 || f.model >= p.Models {
			return Pair{}, fieldErrorf(f.name, "model %d of %d models; the indices are 0 to %d", f.model, p.Models, p.Models-1)
		}
	}
	if p.Small == p.Large {
		return Pair{}, fieldErrorf("large", "model %d is the small model too; name another", p.Large)
	}
	return Pair{Small: p.Small, Large: p.Large}, nil
}

// side is on which side of its threshold a signal routes.
type side bool

const (
	belowRoutes side = false // a large threshold routes much
	aboveRoutes side = true
)

// pairAndThreshold also checks the threshold. All thresholds are compared with
// figures in [0, 1]; a little outside is how to route always or never.
func (p *Params) pairAndThreshold(published float64, routes side) (Pair, float64, error) {
	pair, err := p.pair()
	if err != nil || p.Threshold == nil {
		return pair, published, err
	}
	if t := *p.Threshold; !(t >= -1 && t <= 2) {
		ends := "-1 to route never, or 2 to route always"
		if routes == aboveRoutes {
			ends = "-1 to route always, or 2 to route never"
		}
		return pair, 0, fieldErrorf("threshold", "is %g, and the signals that it is compared with lie from 0 to 1; give one from 0 to 1, such as 0.5, %s", t, ends)
	}
	return pair, *p.Threshold, nil
}

func (p *Params) weights() ([]float64, error) {
	w := p.Weights
	if w == nil && p.Models == 3 {
		return EnsembleWeights(), nil
	}
	if len(w) != p.Models {
		return nil, fieldErrorf("weights", "%d weights for %d models; give one per model, summing to 1", len(w), p.Models)
	}
	if err := checkShares("weights", w, 0); err != nil {
		return nil, err
	}
	return slices.Clone(w), nil
}

func (p *Params) newMatrix() (Algorithm, error) {
	if p.Matrix != nil && len(p.Matrix) != p.Models {
		return nil, fieldErrorf("matrix", "%d rows for %d models; give one row per model", len(p.Matrix), p.Models)
	}
	return NewMatrix(p.Matrix, p.RoutedKept)
}

func (p *Params) newBursty() (Algorithm, error) {
	pair, err := p.pair()
	if err != nil {
		return nil, err
	}
	if p.MeanGap == 0 {
		return nil, fieldErrorf("mean_gap", "is missing; give the decisions from one hand-off to the next, like 7.5")
	}
	returnProb := p.ReturnProb
	if returnProb == 0 {
		returnProb = 1
	}
	return NewBursty(pair, Gaps{p.MeanGap, p.GapCV, p.GapLag1}, returnProb, p.RoutedKept, p.Models)
}

// checkShares refuses entries outside [0, 1] and a sum that is not 1 within
// 1e-9. A row number of 0 means that the field has no rows.
func checkShares(field string, shares []float64, row int) error {
	where := ""
	if row > 0 {
		where = fmt.Sprintf("row %d ", row)
	}
	sum := 0.0
	for i, x := range shares {
		if !(x >= 0 && x <= 1) {
			return fieldErrorf(field, "%sentry %d is %g; probabilities lie in [0, 1]", where, i+1, x)
		}
		sum += x
	}
	if math.Abs(sum-1) > 1e-9 {
		return fieldErrorf(field, "%ssums to %.12g; its entries must sum to 1", where, sum)
	}
	return nil
}
