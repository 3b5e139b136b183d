package workload

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// moments are those of a stream's gaps against theory. Tolerances are about five
// standard errors: of a mean of n gaps CV/√n, of a CV with the heavy tail of a
// hyperexponential several times that.
var moments = []struct {
	name       string
	arrivals   Arrivals
	n          int
	mean, cv   float64 // seconds, and over the mean
	relMean    float64
	relCV      float64
	longShare  float64 // share of long gaps: 1 / burst
	shortMeanS float64
}{
	{"poisson", Arrivals{Process: Poisson, RatePerS: 5}, 200_000, 0.2, 1, 0.012, 0.02, 0, 0},
	{"fast poisson", Arrivals{Process: Poisson, RatePerS: 1e6}, 200_000, 1e-6, 1, 0.012, 0.02, 0, 0},
	{"bursty that is poisson", Arrivals{Process: Bursty, RatePerS: 5, CV: 1, BurstRequests: 7}, 200_000, 0.2, 1, 0.012, 0.02, 1. / 7, 0.2},
	{"bursty", Arrivals{Process: Bursty, RatePerS: 5, CV: 2, BurstRequests: 10}, 200_000, 0.2, 2, 0.025, 0.05, 0.1, 0.2 * (1 - math.Sqrt(0.1*3/1.8))},
	{"rare long bursts", Arrivals{Process: Bursty, RatePerS: 2, CV: 5, BurstRequests: 50}, 400_000, 0.5, 5, 0.04, 0.07, 0.02, 0.5 * (1 - math.Sqrt(0.02*24/1.96))},
	{"bursts at one instant", Arrivals{Process: Bursty, RatePerS: 2, CV: 3, BurstRequests: 5}, 200_000, 0.5, 3, 0.035, 0.05, 0.2, 0},
}

func gapsOf(a *Arrivals, seed uint64, n int) []float64 {
	c := newClock(a, seed)
	var gaps []float64
	last := int64(0)
	for range n {
		at, ok := c.next()
		if !ok {
			break
		}
		gaps = append(gaps, float64(at-last)/1e9)
		last = at
	}
	return gaps
}

func meanCV(x []float64) (mean, cv float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	for _, v := range x {
		cv += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(cv/float64(len(x))) / mean
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %g, want %g ± %g", what, got, want, tolerance)
	}
}

func TestMomentsOfArrivals(t *testing.T) {
	for _, c := range moments {
		t.Run(c.name, func(t *testing.T) {
			if err := c.arrivals.Validate(); err != nil {
				t.Fatal(err)
			}
			gaps := gapsOf(&c.arrivals, 1, c.n)
			mean, cv := meanCV(gaps)
			near(t, "mean gap", mean/c.mean, 1, c.relMean)
			near(t, "CV", cv/c.cv, 1, c.relCV)
			var lag float64
			for i := range gaps[1:] {
				lag += (gaps[i] - mean) * (gaps[i+1] - mean)
			}
			near(t, "lag-1 correlation", lag/float64(c.n)/(cv*cv*mean*mean), 0, 0.02)
			if c.arrivals.Process != Bursty {
				return
			}
			// Gaps of the two kinds by the draw that tells them apart.
			var short []float64
			for i, gap := range gaps {
				if algorithms.Draw(1, i, purposeBurst) >= c.longShare {
					short = append(short, gap)
				}
			}
			near(t, "share of long gaps", 1-float64(len(short))/float64(c.n), c.longShare, 0.005)
			shortMean, _ := meanCV(short)
			if c.shortMeanS == 0 {
				shortMean = short[0]
			}
			near(t, "mean gap in a burst", shortMean, c.shortMeanS, 0.03*c.shortMeanS)
		})
	}
}

// The arrival of request i, added up from gaps by the textbook's formula.
func TestPoissonAgainstPlainSum(t *testing.T) {
	a := Arrivals{Process: Poisson, RatePerS: 3}
	s := NewStream(&a, Single(Lengths{Prompt: Fixed(5), Output: Fixed(6)}), 9, 1000)
	var atNs int64
	for i := range 1000 {
		atNs += int64(math.Round(-math.Log(1-algorithms.Draw(9, i, purposeGap)) / 3 * 1e9))
		r, ok := s.Next()
		if !ok || math.Abs(float64(r.ArrivalNs-atNs)) > float64(i+1) || r.Index != i {
			t.Fatalf("request %d: %+v, want it at %d ns", i, r, atNs)
		}
	}
	if r, ok := s.Next(); ok {
		t.Errorf("after the last request comes %+v", r)
	}
}

// Any feasible figures give gaps of that mean and CV by the formulas, and what
// is refused cannot be reached.
func TestTwoKindsOfGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Arrivals{Process: Bursty, RatePerS: rapid.Float64Range(1e-3, 1e4).Draw(t, "rate"),
			CV: rapid.Float64Range(1, 20).Draw(t, "cv"), BurstRequests: rapid.Float64Range(1, 300).Draw(t, "burst")}
		err := a.Validate()
		var field *FieldError
		if feasible := a.CV*a.CV <= 2*a.BurstRequests-1; !feasible {
			if !errors.As(err, &field) || field.Field != "arrival_cv" {
				t.Fatalf("%+v: got %v, want it refused", a, err)
			}
			return
		} else if err != nil {
			t.Fatalf("%+v: %v", a, err)
		}
		short, long := a.gaps()
		q := 1 / a.BurstRequests
		mean := (1-q)*short + q*long
		square := 2 * ((1-q)*short*short + q*long*long) // of exponentials
		cv := math.Sqrt(square/(mean*mean) - 1)
		if short < 0 || long < short || math.Abs(mean*a.RatePerS-1) > 1e-9 || math.Abs(cv-a.CV) > 1e-6 {
			t.Fatalf("%+v: gaps of %g and %g s have mean %g and CV %g", a, short, long, mean, cv)
		}
	})
}

func TestRefusedArrivals(t *testing.T) {
	trace := &Trace{ArrivedNs: []int64{0, 3e18}, Prompt: []int32{1, 1}, Output: []int32{1, 1}}
	for _, c := range []struct {
		arrivals Arrivals
		want     string
	}{
		{Arrivals{Process: Poisson}, "rate_per_s: must be more than 0"},
		{Arrivals{Process: Poisson, RatePerS: math.NaN()}, "rate_per_s: "},
		{Arrivals{Process: Bursty, RatePerS: 1, CV: 0.9, BurstRequests: 5}, "arrival_cv: must be at least 1"},
		{Arrivals{Process: Bursty, RatePerS: 1, CV: 2, BurstRequests: 0.5}, "burst_requests: must be at least 1"},
		{Arrivals{Process: Bursty, RatePerS: 1, CV: 3, BurstRequests: 4}, "arrival_cv: 3 cannot be reached by bursts of 4 requests: even with gaps of 0 inside a burst it is 2.646; raise burst_requests to 5 or more"},
		{Arrivals{Process: Recorded}, "trace: holds no request"},
		{Arrivals{Process: Recorded, Trace: trace, Repeat: 2}, "repeat: the trace would play longer"},
		{Arrivals{Process: Recorded, Trace: trace, Speedup: -1}, "speedup: "},
	} {
		if err := c.arrivals.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %s", c.arrivals, err, c.want)
		}
	}
}

func TestTracePlaysEndToEnd(t *testing.T) {
	tr := &Trace{ArrivedNs: []int64{0, 10, 40}, Prompt: []int32{1, 2, 3}, Output: []int32{4, 5, 6}}
	for _, c := range []struct {
		arrivals Arrivals
		limit    int
		want     []int64
	}{
		{Arrivals{Process: Recorded, Trace: tr}, 0, []int64{0, 10, 40}},
		{Arrivals{Process: Recorded, Trace: tr, Repeat: 3}, 0, []int64{0, 10, 40, 60, 70, 100, 120, 130, 160}},
		{Arrivals{Process: Recorded, Trace: tr, Repeat: 3}, 4, []int64{0, 10, 40, 60}},
		{Arrivals{Process: Recorded, Trace: tr, Repeat: 2, Speedup: 2}, 0, []int64{0, 5, 20, 30, 35, 50}},
	} {
		s := NewStream(&c.arrivals, &Mix{Classes: []Class{{Share: 1}}}, 1, c.limit)
		for i, want := range c.want {
			r, ok := s.Next()
			if row := i % 3; !ok || r.ArrivalNs != want || r.Prompt != row+1 || r.Output != row+4 {
				t.Errorf("%+v: request %d is %+v, want it at %d", c.arrivals, i, r, want)
			}
		}
		if r, ok := s.Next(); ok {
			t.Errorf("%+v: after the last request comes %+v", c.arrivals, r)
		}
	}
}
