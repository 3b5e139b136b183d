package workload

import (
	"fmt"
	"math"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// Process is how requests arrive.
type Process uint8

const (
	// Poisson arrivals have exponential, independent gaps.
	Poisson Process = iota
	// Bursty arrivals have gaps of two kinds, both exponential: short ones
	// inside a burst and long ones between bursts. A burst ends after each
	// request with the same chance, so its length is geometric and gaps are
	// independent with a hyperexponential distribution: the law of the
	// interrupted Poisson process, a Markov-modulated one of which one state is
	// silent. Mean rate, coefficient of variation of the gaps and mean length of a
	// burst determine it.
	Bursty
	// Recorded arrivals come when a trace says so.
	Recorded
)

// Arrivals says when the requests of an open workload arrive.
type Arrivals struct {
	Process       Process
	RatePerS      float64 // Poisson, Bursty: mean rate
	CV            float64 // Bursty: standard deviation of the gaps / mean, at least 1
	BurstRequests float64 // Bursty: mean length of a burst
	Trace         *Trace  // Recorded
	Repeat        int     // Recorded: the trace plays so often, end to end; 0 counts as 1
	Speedup       float64 // Recorded: times are divided by it; 0 counts as 1
}

// FieldError is about one setting. Field is its name in experiment files.
type FieldError struct{ Field, Msg, Hint string }

func (e *FieldError) Error() string {
	s := e.Field + ": " + e.Msg
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Validate says what is wrong with a: a *FieldError.
func (a *Arrivals) Validate() error {
	switch a.Process {
	case Poisson:
		return checkRate(a.RatePerS)
	case Bursty:
		if err := checkRate(a.RatePerS); err != nil {
			return err
		}
		return a.checkBursts()
	case Recorded:
		switch {
		case a.Trace == nil || a.Trace.Len() == 0:
			return &FieldError{"trace", "holds no request", ""}
		case a.Repeat < 0:
			return &FieldError{"repeat", fmt.Sprintf("must be at least 1, got %d", a.Repeat), ""}
		case !(a.Speedup >= 0) || math.IsInf(a.Speedup, 0):
			return &FieldError{"speedup", fmt.Sprintf("must be more than 0 and finite, got %g", a.Speedup), ""}
		case a.lastNs() > maxNs:
			return &FieldError{"repeat", "the trace would play longer than 100 years", "lower repeat or raise speedup"}
		}
		return nil
	}
	return &FieldError{"kind", "is not known", ""}
}

// maxNs is a hundred years, a third of what 64 bits hold.
const maxNs = 3.2e18

func checkRate(perS float64) error {
	if !(perS > 0) || math.IsInf(perS, 0) {
		return &FieldError{"rate_per_s", fmt.Sprintf("must be more than 0 and finite, got %g", perS), ""}
	}
	return nil
}

// checkBursts refuses figures that no two kinds of gaps have: short gaps can
// get no shorter than 0.
func (a *Arrivals) checkBursts() error {
	switch {
	case !(a.BurstRequests >= 1) || math.IsInf(a.BurstRequests, 0):
		return &FieldError{"burst_requests", fmt.Sprintf("must be at least 1 and finite, got %g", a.BurstRequests), ""}
	case !(a.CV >= 1):
		return &FieldError{"arrival_cv", fmt.Sprintf("must be at least 1, got %g", a.CV), "1 is Poisson; bursts only add"}
	case a.CV*a.CV > (2*a.BurstRequests-1)*(1+1e-9):
		return &FieldError{"arrival_cv",
			fmt.Sprintf("%g cannot be reached by bursts of %g requests: even with gaps of 0 inside a burst it is %.4g", a.CV, a.BurstRequests, math.Sqrt(2*a.BurstRequests-1)),
			fmt.Sprintf("raise burst_requests to %g or more", math.Ceil((a.CV*a.CV+1)/2*1e6)/1e6)}
	}
	return nil
}

// gaps are the mean gaps inside a burst and between two, in seconds. With q the
// chance that a gap is long, a mixture of exponentials of means s and l has the
// mean m = (1−q)·s + q·l and the variance m² + 2·q·(1−q)·(l−s)².
func (a *Arrivals) gaps() (short, long float64) {
	m := 1 / a.RatePerS
	q := 1 / a.BurstRequests
	if a.CV <= 1 || q >= 1 {
		return m, m
	}
	apart := m * math.Sqrt((a.CV*a.CV-1)/(2*q*(1-q)))
	short = max(m-q*apart, 0)
	return short, short + apart
}

// clock gives the arrival times of one run, in order.
type clock struct {
	arrivals    *Arrivals
	seed        uint64
	short, long float64
	index       int
	nowNs       int64
}

func newClock(a *Arrivals, seed uint64) clock {
	c := clock{arrivals: a, seed: seed}
	if a.Process != Recorded {
		c.short, c.long = a.gaps()
	}
	return c
}

// next returns when the next request arrives; false after the last of a trace.
// The first gap counts from time 0.
func (c *clock) next() (atNs int64, ok bool) {
	i := c.index
	c.index++
	if c.arrivals.Process == Recorded {
		return c.arrivals.recorded(i)
	}
	mean := c.short
	if c.arrivals.Process == Bursty && algorithms.Draw(c.seed, i, purposeBurst) < 1/c.arrivals.BurstRequests {
		mean = c.long
	}
	// 1 − u is as uniform as u and never 0.
	gapNs := -math.Log1p(-algorithms.Draw(c.seed, i, purposeGap)) * mean * 1e9
	c.nowNs += int64(min(math.Round(gapNs), maxNs))
	if c.nowNs > maxNs {
		return 0, false // beyond any run
	}
	return c.nowNs, true
}

// recorded is the i-th arrival of a trace that repeats.
func (a *Arrivals) recorded(i int) (atNs int64, ok bool) {
	n := a.Trace.Len()
	if i >= n*max(a.Repeat, 1) {
		return 0, false
	}
	return a.scaled(a.Trace.ArrivedNs[i%n], i/n), true
}

// scaled is a time of the trace in its copy-th playing.
func (a *Arrivals) scaled(ns int64, copy int) int64 {
	t := float64(ns) + float64(copy)*float64(a.Trace.periodNs())
	if a.Speedup > 0 && a.Speedup != 1 {
		return int64(math.Round(min(t/a.Speedup, 2*maxNs)))
	}
	if t > maxNs {
		return 2 * maxNs
	}
	return ns + int64(copy)*a.Trace.periodNs() // exact
}

func (a *Arrivals) lastNs() int64 {
	n := a.Trace.Len()
	return a.scaled(a.Trace.ArrivedNs[n-1], max(a.Repeat, 1)-1)
}
