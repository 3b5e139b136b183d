package figure

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func labels(ticks []tick) (out []string) {
	for _, t := range ticks {
		if t.label != "" {
			out = append(out, t.label)
		}
	}
	return out
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		name  string
		s     scale
		n     int
		whole bool
		want  string
	}{
		{"hundreds", scale{min: 0, max: 400}, 5, false, "0 100 200 300 400"},
		{"fractions without noise", scale{min: 0, max: 0.7}, 8, false, "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7"},
		{"ends inside a step", scale{min: 0.6, max: 8.4}, 8, true, "1 2 3 4 5 6 7 8"},
		{"whole values have no halves", scale{min: 0.9, max: 3.1}, 10, true, "1 2 3"},
		{"negative", scale{min: -30, max: 21}, 6, false, "−30 −20 −10 0 10 20"},
		{"millions", scale{min: 0, max: 4e6}, 5, false, "0 1e6 2e6 3e6 4e6"},
		{"tiny", scale{min: 0, max: 4e-9}, 4, false, "0 1e−9 2e−9 3e−9 4e−9"},
		{"far from zero", scale{min: 1e9, max: 1e9 + 4}, 4, false, "1e9 1.000000001e9 1.000000002e9 1.000000003e9 1.000000004e9"},
		{"decades", scale{min: 1, max: 1e4, log: true}, 5, false, "1 10 100 1000 10000"},
		{"two decades have 2 and 5", scale{min: 1, max: 100, log: true}, 7, false, "1 2 5 10 20 50 100"},
		{"many decades are thinned", scale{min: 1e-6, max: 1e6, log: true}, 4, false, "1e−6 0.001 1 1000 1e6"},
		{"inside a decade", scale{min: 41, max: 48, log: true}, 5, false, "42 44 46 48"},
	} {
		if got := strings.Join(labels(c.s.ticks(c.n, c.whole)), " "); got != c.want {
			t.Errorf("%s: ticks %s, want %s", c.name, got, c.want)
		}
	}
}

// TestTicksOfAnyScale: labels differ, parse back to their values, lie on the
// axis in order, and their number is near what was asked for.
func TestTicksOfAnyScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.Bool().Draw(t, "log")
		values := rapid.SliceOfN(rapid.OneOf(rapid.Float64(), rapid.Float64Range(-1e4, 1e4), rapid.Just(math.NaN())), 0, 5).Draw(t, "values")
		s := newScale(values, log, rapid.Bool().Draw(t, "zero"))
		s = s.widen(0.03, 0.05)
		n := rapid.IntRange(2, 12).Draw(t, "n")
		ticks := s.ticks(n, false)
		last, shown := math.Inf(-1), map[string]bool{}
		for _, k := range ticks {
			at := s.norm(k.value)
			if !(at >= -1e-6 && at <= 1+1e-6) || !(at > last) {
				t.Fatalf("scale %+v: tick %g lies at %g after %g", s, k.value, at, last)
			}
			last = at
			if k.label == "" {
				continue
			}
			if shown[k.label] {
				t.Fatalf("scale %+v: label %q stands twice", s, k.label)
			}
			shown[k.label] = true
			v, err := strconv.ParseFloat(strings.ReplaceAll(k.label, "−", "-"), 64)
			if err != nil || math.Abs(v-k.value) > 1e-6*max(s.max-s.min, math.Abs(v)) {
				t.Fatalf("scale %+v: label %q stands for %g (%v)", s, k.label, k.value, err)
			}
		}
		if len(shown) < 1 || len(shown) > 3*n+3 {
			t.Fatalf("scale %+v: %d labels for %d", s, len(shown), n)
		}
	})
}

func TestScaleCoversItsValues(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name      string
		values    []float64
		log, zero bool
		want      scale
	}{
		{"range", []float64{3, nan, 7}, false, false, scale{min: 3, max: 7}},
		{"from zero", []float64{3, 7}, false, true, scale{min: 0, max: 7}},
		{"below zero", []float64{-3, -7}, false, true, scale{min: -7, max: 0}},
		{"one value", []float64{4}, false, false, scale{min: 2, max: 6}},
		{"one value from zero", []float64{4}, false, true, scale{min: 0, max: 4}},
		{"only zero", []float64{0}, false, false, scale{min: -0.5, max: 0.5}},
		{"nothing", []float64{nan, math.Inf(1)}, false, false, scale{min: 0, max: 1}},
		{"log skips what it cannot show", []float64{-1, 0, 10, 1000}, true, true, scale{min: 10, max: 1000, log: true}},
		{"log of one", []float64{8}, true, false, scale{min: 4, max: 16, log: true}},
		{"log of nothing", nil, true, false, scale{min: 1, max: 10, log: true}},
	} {
		if d := cmp.Diff(c.want, newScale(c.values, c.log, c.zero), cmp.AllowUnexported(scale{})); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestMeasuredValuesAreTicksOnALogAxis(t *testing.T) {
	if d := cmp.Diff([]string{"1", "2", "4", "8"}, labels(valueTicks([]float64{8, 1, 2, 4, 2}))); d != "" {
		t.Error(d)
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		in    string
		width float64
		want  []string
	}{
		{"", 50, []string{""}},
		{"best B", 100, []string{"best B"}},
		{"delayed batching", 45, []string{"delayed", "batching"}},
		{"+ delayed batching", 50, []string{"+ delayed", "batching"}},
		{"a100-80gb/sglang", 40, []string{"a100-", "80gb/", "sglang"}},
	} {
		got := wrap(c.in, tickSize, false, c.width)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%q: %s", c.in, d)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringN(0, 60, -1).Draw(t, "s")
		width := rapid.Float64Range(12, 200).Draw(t, "width")
		for _, line := range wrap(s, tickSize, false, width) {
			if w := textWidth(line, tickSize, false); w > width && len([]rune(line)) > 1 {
				t.Fatalf("line %q is %g wide, the limit is %g", line, w, width)
			}
		}
		if c := clip(s, tickSize, false, width); textWidth(c, tickSize, false) > width {
			t.Fatalf("clipped %q is too wide", c)
		}
	})
}

func TestContrastOfLabelsOnColours(t *testing.T) {
	for _, k := range okabeIto {
		on := onto(k)
		if c := contrast(on.light, k.light); c < 4.5 {
			t.Errorf("text on %s has contrast %.1f, below 4.5 (WCAG AA)", k.name, c)
		}
		if c := contrast(on.dark, k.dark); c < 4.5 {
			t.Errorf("dark: text on %s has contrast %.1f, below 4.5 (WCAG AA)", k.name, c)
		}
		if c := contrast(k.light, inkPaper.light); c < 2.2 {
			t.Errorf("%s on white has contrast %.1f", k.name, c)
		}
		if c := contrast(k.dark, inkPaper.dark); c < 3 {
			t.Errorf("%s on the dark page has contrast %.1f, below 3 (WCAG, graphics)", k.name, c)
		}
	}
	for share := -1.0; share <= 1; share += 0.05 {
		if c := contrast(onto(shade(share)).light, shade(share).light); c < 4.5 {
			t.Errorf("number on a cell of share %.2f has contrast %.1f", share, c)
		}
	}
}
