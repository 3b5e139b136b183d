package figure

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
)

// scale maps values of an axis to [0, 1].
type scale struct {
	min, max float64
	log      bool
}

// largest and smallest bound the magnitudes that can be placed, so that the
// arithmetic of axes neither overflows nor loses its digits.
const (
	largest  = 1e300
	smallest = 1e-290
)

// usable tells whether v can be placed on the axis. Other values are gaps.
func usable(v float64, log bool) bool {
	return math.Abs(v) <= largest && (!log || v >= smallest) // false for NaN
}

func (s scale) norm(v float64) float64 {
	if s.log {
		return (math.Log(v) - math.Log(s.min)) / (math.Log(s.max) - math.Log(s.min))
	}
	return (v - s.min) / (s.max - s.min)
}

// widen moves the ends outward by shares of the present length.
func (s scale) widen(low, high float64) scale {
	if s.log {
		l := math.Log(s.max) - math.Log(s.min)
		s.min = max(s.min*math.Exp(-low*l), 1e-307) // neither end may overflow
		s.max = min(s.max*math.Exp(high*l), 1e307)
		return s
	}
	l := s.max - s.min
	s.min, s.max = s.min-low*l, s.max+high*l
	return s
}

// newScale covers the usable values. A single value gets room on both sides,
// and no value at all gives an axis from 0 (log: 1) upward.
func newScale(values []float64, log, fromZero bool) scale {
	s := scale{math.Inf(1), math.Inf(-1), log}
	for _, v := range values {
		if usable(v, log) {
			s.min, s.max = min(s.min, v), max(s.max, v)
		}
	}
	switch {
	case s.min > s.max && log:
		s.min, s.max = 1, 10
	case s.min > s.max:
		s.min, s.max = 0, 1
	}
	if fromZero && !log {
		s.min, s.max = min(s.min, 0), max(s.max, 0)
	}
	if s.log {
		if s.max/s.min < 1+1e-9 {
			s.min, s.max = s.min/2, s.max*2
		}
		return s
	}
	// Two values that differ by rounding only would give ticks that print alike.
	if mag := max(math.Abs(s.min), math.Abs(s.max)); s.max-s.min <= 1e-9*mag || mag < smallest {
		d := mag / 2
		if mag < smallest {
			d = 0.5
		}
		if fromZero && s.min == 0 {
			s.max = 2 * d
		} else {
			s.min, s.max = s.min-d, s.max+d
		}
	}
	return s
}

type tick struct {
	value float64
	label string // empty: a minor tick
}

// ticks returns about n labelled ticks inside the scale, at 1, 2 or 5 times a
// power of ten; whole tells that values between integers mean nothing.
func (s scale) ticks(n int, whole bool) []tick {
	n = max(n, 2)
	if s.log {
		return s.logTicks(n)
	}
	step := niceStep((s.max - s.min) / float64(n))
	if whole {
		step = max(step, 1)
	}
	var out []tick
	eps := 1e-9 * (s.max - s.min)
	first := math.Ceil((s.min - eps) / step)
	for i := 0.0; ; i++ {
		v := (first + i) * step
		if v > s.max+eps || i > 1000 {
			return out
		}
		out = append(out, tick{v, formatStep(v, step)})
	}
}

// niceStep is the smallest of 1, 2, 5 × 10^k that is not below raw.
func niceStep(raw float64) float64 {
	e := math.Floor(math.Log10(raw))
	for _, m := range []float64{1, 2, 5} {
		if v := decimal(m, e); v >= raw*(1-1e-9) {
			return v
		}
	}
	return decimal(10, e)
}

// logTicks labels decades, adds 2 and 5 where there is room, and marks the
// other multiples without a label. A scale inside one decade without two such
// labels gets ticks at even steps instead.
func (s scale) logTicks(n int) []tick {
	lo, hi := math.Floor(math.Log10(s.min)), math.Ceil(math.Log10(s.max))
	decades := math.Log10(s.max) - math.Log10(s.min)
	first, last := math.Ceil(math.Log10(s.min)-1e-9), math.Floor(math.Log10(s.max)+1e-9)
	// The first decade is labelled, and another one if there is any.
	stride := max(1, min(math.Ceil(decades/float64(n)), last-first))
	fine := decades*3 <= float64(n)+1
	var out []tick
	labels := 0
	for e := lo; e <= hi; e++ {
		for m := 1.0; m < 10; m++ {
			v := decimal(m, e)
			if v < s.min*(1-1e-9) || v > s.max*(1+1e-9) {
				continue
			}
			t := tick{value: v}
			switch {
			case m == 1 && math.Mod(e-first, stride) == 0, fine && (m == 2 || m == 5):
				t.label = formatG(v)
				labels++
			case stride > 1:
				continue // minor ticks of many decades are a grey smear
			}
			out = append(out, t)
		}
	}
	if labels < 2 && last <= first {
		return scale{min: s.min, max: s.max}.ticks(n, false)
	}
	return out
}

// decimal is the float nearest to m × 10^e, which math.Pow misses far from 1.
func decimal(m, e float64) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(m, 'f', -1, 64)+"e"+strconv.FormatFloat(e, 'f', 0, 64), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		panic("figure: a decimal does not parse: " + err.Error())
	}
	return v
}

// valueTicks puts the ticks at the values that were measured, as for 1, 2, 4,
// 8, … on a log axis.
func valueTicks(values []float64) []tick {
	v := slices.Clone(values)
	slices.Sort(v)
	v = slices.Compact(v)
	out := make([]tick, len(v))
	for i, x := range v {
		out[i] = tick{x, formatG(x)}
	}
	return out
}

// formatStep prints a multiple of step without the noise of binary fractions.
func formatStep(v, step float64) string {
	if math.Abs(v) < step/2 {
		return "0"
	}
	const eps = 1e-9
	digits := math.Floor(math.Log10(math.Abs(v))+eps) - math.Floor(math.Log10(step)+eps) + 1
	return formatG(rounded(v, int(max(1, min(17, digits)))))
}

// rounded is v to a number of significant digits.
func rounded(v float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', digits-1, 64), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		panic("figure: a printed number does not parse: " + err.Error())
	}
	return r
}

// formatG prints as %g with a bare exponent: 1e6, not 1e+06. The minus is the
// true minus sign.
func formatG(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if a := math.Abs(v); a >= 1e6 && a < 1e21 || a < 1e-4 && a > 0 {
		s = strconv.FormatFloat(v, 'e', -1, 64)
	}
	if m, e, ok := strings.Cut(s, "e"); ok {
		sign := ""
		if strings.HasPrefix(e, "-") {
			sign = "-"
		}
		s = m + "e" + sign + strings.TrimLeft(e, "+-0")
	}
	return strings.ReplaceAll(s, "-", "−")
}

// formatValue prints a value in a mark or cell: four significant digits.
func formatValue(v float64) string {
	if !usable(v, false) {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return formatG(rounded(v, 4))
}
