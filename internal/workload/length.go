package workload

import (
	"errors"
	"fmt"
	"math"
)

// Length is a distribution of a number of tokens from Min to Max, both
// included. It is uniform unless further fields say more; at most one group of
// them is set.
type Length struct {
	Min, Max int

	// A lognormal of this mean and coefficient of variation (standard deviation
	// over mean), cut to Min and Max: what lies beyond counts as the bound, as an
	// answer that reaches its token limit does.
	LogMean, CV float64

	// A histogram: bin i is uniform from Bounds[i] to just before Bounds[i+1],
	// the last one to its upper bound included, and has the share Weights[i].
	Bounds  []int
	Weights []float64

	// Equally likely values, as a file lists them.
	Values []int32
}

// Fixed is always n tokens.
func Fixed(n int) Length { return Length{Min: n, Max: n} }

// Uniform is any number of tokens from low to high.
func Uniform(low, high int) Length { return Length{Min: low, Max: high} }

// Lognormal has a long tail, cut to low and high.
func Lognormal(mean, cv float64, low, high int) Length {
	return Length{Min: low, Max: high, LogMean: mean, CV: cv}
}

// Histogram fills the range of bounds by weights, which need not sum to 1.
func Histogram(bounds []int, weights []float64) Length {
	l := Length{Bounds: bounds, Weights: weights}
	if len(bounds) > 0 {
		l.Min, l.Max = bounds[0], bounds[len(bounds)-1]
	}
	return l
}

// Empirical draws from values.
func Empirical(values []int32) Length {
	l := Length{Values: values}
	for i, v := range values {
		if i == 0 {
			l.Min, l.Max = int(v), int(v)
		}
		l.Min, l.Max = min(l.Min, int(v)), max(l.Max, int(v))
	}
	return l
}

// IsFixed reports whether every length is the same.
func (l Length) IsFixed() bool { return l.Min == l.Max }

// Validate says what is wrong with l.
func (l Length) Validate() error {
	switch {
	case l.Min < 1 || l.Max < l.Min:
		return fmt.Errorf("lengths from %d to %d tokens: want at least 1, and max not below min", l.Min, l.Max)
	case l.LogMean < 0 || l.CV < 0 || math.IsNaN(l.LogMean+l.CV) || math.IsInf(l.LogMean+l.CV, 0):
		return errors.New("mean and cv must be finite and not negative")
	case l.Bounds == nil && l.Weights == nil:
		return nil
	case len(l.Bounds) != len(l.Weights)+1 || len(l.Weights) == 0:
		return fmt.Errorf("%d bounds and %d weights: want one bound more than weights", len(l.Bounds), len(l.Weights))
	}
	sum := 0.0
	for i, w := range l.Weights {
		if l.Bounds[i+1] <= l.Bounds[i] {
			return fmt.Errorf("bounds must rise, got %d after %d", l.Bounds[i+1], l.Bounds[i])
		}
		if !(w >= 0) || math.IsInf(w, 0) {
			return fmt.Errorf("weights must be finite and not negative, got %g", w)
		}
		sum += w
	}
	if !(sum > 0) {
		return errors.New("weights must not all be 0")
	}
	return nil
}

// Quantile is the length below which about the share u of all lie, for u in
// [0, 1): a uniform u gives a length of the distribution. Values keep their
// order, so that two lists give pairs for the same u.
func (l Length) Quantile(u float64) int {
	switch {
	case l.Values != nil:
		return int(l.Values[int(u*float64(len(l.Values)))])
	case l.Weights != nil:
		return l.binned(u)
	case l.LogMean > 0:
		x := l.LogMean
		if mu, sigma := l.logParameters(); sigma > 0 {
			x = math.Exp(mu + sigma*math.Sqrt2*math.Erfinv(2*u-1))
		}
		return int(min(max(math.Round(x), float64(l.Min)), float64(l.Max)))
	}
	return l.Min + int(u*float64(l.Max-l.Min+1))
}

// logParameters are the mean and standard deviation of the logarithm.
func (l Length) logParameters() (mu, sigma float64) {
	variance := math.Log1p(l.CV * l.CV)
	return math.Log(l.LogMean) - variance/2, math.Sqrt(variance)
}

func (l Length) binned(u float64) int {
	left := 0.0
	for _, w := range l.Weights {
		left += w
	}
	left *= u
	last := 0
	for i, w := range l.Weights {
		if w == 0 {
			continue
		}
		last = i
		if left < w {
			break
		}
		left -= w
	}
	low, high := l.bin(last)
	// Rounding may carry left to the end of the last bin.
	return min(low+int(left/l.Weights[last]*float64(high-low+1)), high)
}

// bin is the range of a bin, both ends included.
func (l Length) bin(i int) (low, high int) {
	low, high = l.Bounds[i], l.Bounds[i+1]-1
	if i == len(l.Weights)-1 {
		high++
	}
	return low, high
}

// Mean is the expected length. That of a lognormal leaves out that lengths are
// rounded to whole tokens.
func (l Length) Mean() float64 {
	switch {
	case l.Values != nil:
		sum := 0.0
		for _, v := range l.Values {
			sum += float64(v)
		}
		return sum / float64(len(l.Values))
	case l.Weights != nil:
		sum, mean := 0.0, 0.0
		for i, w := range l.Weights {
			low, high := l.bin(i)
			sum += w
			mean += w * float64(low+high) / 2
		}
		return mean / sum
	case l.LogMean > 0 && l.Max > l.Min:
		return l.cutMean()
	}
	return float64(l.Min+l.Max) / 2
}

// cutMean is the mean of the lognormal cut to Min and Max.
func (l Length) cutMean() float64 {
	mu, sigma := l.logParameters()
	low, high := float64(l.Min), float64(l.Max)
	if sigma == 0 {
		return min(max(l.LogMean, low), high)
	}
	below := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 } // of a standard normal
	a, b := (math.Log(low)-mu)/sigma, (math.Log(high)-mu)/sigma
	return low*below(a) + l.LogMean*(below(b-sigma)-below(a-sigma)) + high*below(-b)
}

// Lengths are those of the prompts and outputs of a kind of request.
type Lengths struct {
	Prompt, Output Length
	// Paired lengths are drawn together: both lists of Values are as long.
	Paired bool
}

// Validate says what is wrong with l.
func (l Lengths) Validate() error {
	if err := l.Prompt.Validate(); err != nil {
		return fmt.Errorf("prompt: %w", err)
	}
	if err := l.Output.Validate(); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if l.Paired && len(l.Prompt.Values) != len(l.Output.Values) {
		return errors.New("paired lengths need lists of one length")
	}
	return nil
}

// Named are lengths that go by a name.
type Named struct {
	Name string
	Lengths
	About string // what is published and what is assumed
}

// named lists the workloads of the published evaluation. It states rough sizes
// only, so the shapes are assumptions of ours, and say so.
var named = []Named{
	{"aime-low", Lengths{Prompt: Lognormal(100, 0.3, 20, 400), Output: Lognormal(2000, 0.7, 64, 2048)},
		"AIME 2024 at low effort: about 100 tokens in and up to 2048 out are published; assumed are lognormal shapes, prompts of mean 100 and cv 0.3, answers of mean 2000 and cv 0.7 before they are cut at 2048"},
	{"aime-high", Lengths{Prompt: Lognormal(100, 0.3, 20, 400), Output: Fixed(8192)},
		"AIME 2024 at high effort: published are about 100 tokens in, and that only problems are asked whose answer takes more than 8192, where it is cut: so every output is 8192; the lognormal shape of prompts, mean 100 and cv 0.3, is assumed"},
	{"swe-smith", Lengths{Prompt: Lognormal(8192, 0.4, 1024, 16384), Output: Lognormal(400, 0.8, 16, 1024)},
		"SWE-Smith agent traces: about 8192 tokens in and up to 1024 out are published; assumed are lognormal shapes, prompts of mean 8192 and cv 0.4 from 1024 to 16384, answers of mean 400 and cv 0.8 cut at 1024"},
}

// NamedLengths lists all named lengths.
func NamedLengths() []Named { return append([]Named(nil), named...) }

// FindLengths returns the lengths of that name.
func FindLengths(name string) (Named, bool) {
	for _, n := range named {
		if n.Name == name {
			return n, true
		}
	}
	return Named{}, false
}
