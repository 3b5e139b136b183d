package workload

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// lengthMoments are means and CVs by theory, or as a name promises.
var lengthMoments = []struct {
	name      string
	length    Length
	mean, cv  float64
	tolerance float64 // relative; rounding to whole tokens included
}{
	{"fixed", Fixed(7), 7, 0, 0},
	{"uniform", Uniform(1, 100), 50.5, math.Sqrt(9999./12) / 50.5, 1e-3},
	{"lognormal", Lognormal(1000, 0.5, 1, 1_000_000), 1000, 0.5, 5e-3},
	{"wide lognormal", Lognormal(1000, 2, 1, 100_000_000), 1000, 2, 2e-2},
	{"histogram", Histogram([]int{1, 11, 20}, []float64{3, 1}), (3*5.5 + 15.5) / 4, math.Sqrt((3*(5.5*5.5+99./12)+15.5*15.5+99./12)/4-8*8) / 8, 1e-3},
	{"file", Empirical([]int32{3, 9, 3, 1}), 4, 0.75, 1e-3},
}

func TestMomentsOfLengths(t *testing.T) {
	for _, c := range lengthMoments {
		const n = 400_000
		var values []float64
		for i := range n {
			values = append(values, float64(c.length.Quantile((float64(i)+0.5)/n)))
		}
		mean, cv := meanCV(values)
		near(t, c.name+": mean", mean, c.mean, c.tolerance*c.mean)
		near(t, c.name+": Mean()", c.length.Mean(), c.mean, c.tolerance*c.mean)
		near(t, c.name+": CV", cv, c.cv, 2*c.tolerance*c.cv+1e-9)
		if err := c.length.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func drawLength(t *rapid.T) Length {
	low := rapid.IntRange(1, 1000).Draw(t, "low")
	high := low + rapid.IntRange(0, 5000).Draw(t, "width")
	switch rapid.IntRange(0, 3).Draw(t, "shape") {
	case 0:
		return Uniform(low, high)
	case 1:
		return Lognormal(rapid.Float64Range(1, 5000).Draw(t, "mean"), rapid.Float64Range(0, 3).Draw(t, "cv"), low, high)
	case 2:
		bounds, weights := []int{low}, []float64{}
		for range rapid.IntRange(1, 6).Draw(t, "bins") {
			bounds = append(bounds, bounds[len(bounds)-1]+rapid.IntRange(1, 50).Draw(t, "bin"))
			weights = append(weights, float64(rapid.IntRange(0, 3).Draw(t, "weight")))
		}
		weights[0]++
		return Histogram(bounds, weights)
	}
	return Empirical(rapid.SliceOfN(rapid.Int32Range(1, 1000), 1, 50).Draw(t, "values"))
}

// Quantiles stay within the bounds, rise with u unless a file lists them, and
// average to Mean.
func TestQuantilesOfAnyLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLength(t)
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		const n = 20_000
		sum, last := 0.0, 0
		for i := range n {
			v := l.Quantile(float64(i) / n)
			if v < l.Min || v > l.Max || v < last && l.Values == nil {
				t.Fatalf("%+v: quantile %d of %d is %d after %d", l, i, n, v, last)
			}
			last = v
			sum += float64(v)
		}
		if v := l.Quantile(1 - 0x1p-53); v < l.Min || v > l.Max {
			t.Fatalf("%+v: the last quantile is %d", l, v)
		}
		// Half a token for rounding, and the width of the range over n for sums.
		if math.Abs(sum/n-l.Mean()) > 0.51+0.002*float64(l.Max-l.Min) {
			t.Fatalf("%+v: quantiles average to %g, Mean says %g", l, sum/n, l.Mean())
		}
	})
}

func TestRefusedLengths(t *testing.T) {
	for _, c := range []struct {
		length Length
		want   string
	}{
		{Uniform(0, 3), "lengths from 0 to 3"},
		{Uniform(4, 3), "lengths from 4 to 3"},
		{Lognormal(math.Inf(1), 1, 1, 2), "mean and cv must be finite"},
		{Histogram([]int{1, 2}, nil), "2 bounds and 0 weights"},
		{Histogram([]int{1, 5, 5}, []float64{1, 1}), "bounds must rise, got 5 after 5"},
		{Histogram([]int{1, 5}, []float64{-1}), "weights must be finite and not negative"},
		{Histogram([]int{1, 5}, []float64{0}), "weights must not all be 0"},
	} {
		if err := c.length.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %s", c.length, err, c.want)
		}
	}
}

// What is published of the named workloads holds of the shapes assumed.
func TestNamedLengths(t *testing.T) {
	for _, c := range []struct {
		name                  string
		prompt                float64 // about
		outputLow, outputHigh int
	}{{"aime-low", 100, 64, 2048}, {"aime-high", 100, 8192, 8192}, {"swe-smith", 8192, 16, 1024}} {
		n, ok := FindLengths(c.name)
		if !ok || n.Lengths.Validate() != nil {
			t.Fatalf("%s: %+v", c.name, n)
		}
		near(t, c.name+": mean prompt", n.Lengths.Prompt.Mean(), c.prompt, 0.03*c.prompt)
		if l := n.Lengths.Output; l.Min != c.outputLow || l.Max != c.outputHigh {
			t.Errorf("%s: outputs from %d to %d", c.name, l.Min, l.Max)
		}
		if !strings.Contains(n.About, "assumed") {
			t.Errorf("%s: does not say what is assumed: %s", c.name, n.About)
		}
	}
	if len(NamedLengths()) != 3 {
		t.Errorf("%d named lengths", len(NamedLengths()))
	}
}
