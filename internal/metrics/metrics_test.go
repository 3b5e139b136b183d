package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func near(t *testing.T, what string, got, want, rel float64) {
	t.Helper()
	if math.IsNaN(want) != math.IsNaN(got) || math.Abs(got-want) > rel*math.Abs(want) {
		t.Errorf("%s is %g, want %g", what, got, want)
	}
}

// Two requests: A arrives at 0 and gets tokens at 10, 14, 18 ms, B arrives at 2
// and gets one at 12 and a run of two at 20.
func TestFiguresOfTwoRequests(t *testing.T) {
	const ms = 1_000_000
	r := NewRecorder(2, 0)
	a, b := RequestTimes{ArrivedNs: 0}, RequestTimes{ArrivedNs: 2 * ms}
	r.Emitted(&a, 10*ms, 1, 0)
	r.Emitted(&b, 12*ms, 1, 0)
	r.Emitted(&a, 14*ms, 1, 0)
	r.Emitted(&a, 18*ms, 1, 1)
	r.Ended(&a, 18*ms, false)
	r.Emitted(&b, 20*ms, 2, 1)
	r.Ended(&b, 20*ms, false)
	r.Ran(0, 0, 10*ms, 2, 200, 1)
	r.Ran(0, 10*ms, 14*ms, 2, 2, 3)
	r.Waited(CauseThreshold, 3*ms, 14*ms)
	s := r.Summary(20*ms, []int64{0, 5 * ms}, 0)

	near(t, "throughput", s.ThroughputTokPerS, 6/0.020, 1e-12)
	near(t, "speed of a user", s.PerUserTokPerS, (3/0.018+3/0.018)/2, 1e-12)
	near(t, "mean TTFT", s.TTFTMs.Mean, 10, 1e-12)
	near(t, "mean TPOT", s.TPOTMs.Mean, 4, 1e-12)   // A (18−10)/2, B (20−12)/2
	near(t, "mean ITL", s.ITLMs.Mean, 16./4, 1e-12) // 4, 4, 8, 0
	near(t, "p50 of ITL", s.ITLMs.P50, 4, 0.001)
	near(t, "p99 of ITL", s.ITLMs.P99, 8, 0.001)
	near(t, "mean E2E", s.E2EMs.Mean, 18, 1e-12)
	near(t, "mean batch", s.MeanBatch[0], 2, 0)
	near(t, "mean rows", s.MeanRows[0], 101, 0)
	near(t, "B in force", s.BInForce[0], 2, 0)
	near(t, "batch of an idle model", s.MeanBatch[1], math.NaN(), 0)
	near(t, "utilisation", s.Utilisation[0], 0.7, 1e-12)
	near(t, "utilisation by a step in flight", s.Utilisation[1], 0.25, 1e-12)
	near(t, "share of the large model", s.TokenShare[1], 0.5, 1e-12)
	near(t, "waiting for the threshold", s.WaitingMs[CauseThreshold], 0.5, 1e-12)
	if s.Requests != 2 || s.Aborted != 0 || s.Tokens != 6 || !slices.Equal(s.Steps, []int64{2, 0}) {
		t.Errorf("%d requests, %d aborted, %d tokens, steps %v", s.Requests, s.Aborted, s.Tokens, s.Steps)
	}
}

func TestWarmUpCountsNothing(t *testing.T) {
	r := NewRecorder(1, 100)
	a := RequestTimes{}
	r.Emitted(&a, 50, 1, 0)
	r.Ran(0, 0, 90, 1, 1, 1)
	r.Ran(0, 90, 110, 1, 1, 1)
	r.Waited(CauseStep, 40, 90)
	r.Emitted(&a, 110, 1, 0)
	r.Ended(&a, 110, false)
	s := r.Summary(200, []int64{0}, 0)
	if s.Tokens != 1 || s.Requests != 1 || s.Steps[0] != 1 || s.WaitingMs[CauseStep] != 0 {
		t.Errorf("counted %d tokens, %d requests, %d steps, %g ms waited", s.Tokens, s.Requests, s.Steps[0], s.WaitingMs[CauseStep])
	}
	near(t, "utilisation", s.Utilisation[0], 0.1, 1e-12)
	near(t, "TTFT, before the window", s.TTFTMs.Mean, math.NaN(), 0)
	near(t, "the gap that ends in the window", s.ITLMs.Mean*1e6, 60, 1e-12)
}

func TestNothingObservedIsNaN(t *testing.T) {
	s := NewRecorder(1, 0).Summary(1e9, []int64{0}, 0)
	for what, x := range map[string]float64{"TTFT": s.TTFTMs.P99, "ITL": s.ITLMs.P50, "TPOT": s.TPOTMs.Mean, "user": s.PerUserTokPerS, "batch": s.MeanBatch[0], "error": s.ThroughputRelSE} {
		near(t, what, x, math.NaN(), 0)
	}
	near(t, "throughput", s.ThroughputTokPerS, 0, 0)
}

// The histogram's quantiles against those of all values, sorted.
func TestHistogramAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 1<<rapid.IntRange(1, 60).Draw(t, "bits")), 1, 200).Draw(t, "values")
		var h histogram
		var exact sample
		for _, v := range values {
			h.add(v, 1)
			exact = append(exact, float64(v)/1e6)
		}
		got, want := h.quantilesMs(), exact.quantiles()
		for _, q := range [][2]float64{{got.P50, want.P50}, {got.P95, want.P95}, {got.P99, want.P99}} {
			if math.Abs(q[0]-q[1]) > 0.001*q[1]+1e-6 {
				t.Fatalf("quantiles %+v, want %+v", got, want)
			}
		}
		if math.Abs(got.Mean-want.Mean) > 1e-9*want.Mean {
			t.Fatalf("mean %g, want %g", got.Mean, want.Mean)
		}
	})
}

// Batch means of independent events: the standard error of a Poisson count.
func TestBatchMeansOfPoissonEvents(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := newBatchMeans(0)
	var now float64
	n := 0.0
	for ; n < 200_000; n++ {
		now += rng.ExpFloat64() * 1e6
		b.add(int64(now), 1)
	}
	near(t, "relative standard error", b.relSE(int64(now)), 1/math.Sqrt(n), 0.25) // of 64 to 128 slices, ± 9 % a sigma
}

// Three requests of two classes: A of class 0 keeps 10 ms to the first token
// and 4 ms a token, B of class 0 is late by its second token, C of class 1 has
// one token and no TPOT; D is aborted.
func TestGoodputAndClasses(t *testing.T) {
	const ms = 1_000_000
	r := NewRecorder(1, 0)
	r.SetClasses([]Limits{{TTFTMs: 10, TPOTMs: 4}, {TTFTMs: 7}})
	a, b, c, d := RequestTimes{}, RequestTimes{}, RequestTimes{Class: 1}, RequestTimes{Class: 1}
	r.Emitted(&a, 10*ms, 1, 0)
	r.Emitted(&b, 10*ms, 1, 0)
	r.Emitted(&c, 10*ms, 1, 0)
	r.Ended(&c, 10*ms, false)
	r.Emitted(&a, 14*ms, 1, 0)
	r.Ended(&a, 14*ms, false)
	r.Emitted(&b, 20*ms, 1, 0)
	r.EmittedBy(1, 24*ms, 4*ms, 0)
	r.EmittedByClass(0, 1, 24*ms, 4*ms)
	r.Skip(&b, 24*ms, 1)
	r.Ended(&b, 24*ms, false)
	r.Ended(&d, 25*ms, true)
	s := r.Summary(40*ms, []int64{0}, 0)
	near(t, "goodput", s.GoodputReqPerS, 1/0.040, 1e-12)
	near(t, "share of good requests", s.GoodShare, 1./4, 1e-12)
	near(t, "goodput of class 0", s.Classes[0].GoodputReqPerS, 1/0.040, 1e-12)
	near(t, "share of class 0", s.Classes[0].GoodShare, 0.5, 1e-12)
	near(t, "share of class 1: late, and aborted", s.Classes[1].GoodShare, 0, 0)
	near(t, "p99 TPOT of class 0", s.Classes[0].TPOTMs.P99, 7, 1e-12)
	near(t, "TPOT of class 1", s.Classes[1].TPOTMs.P99, math.NaN(), 0)
	near(t, "ITL of class 0", s.Classes[0].ITLMs.Mean, (4+10+4)/3., 1e-12)
	near(t, "E2E of class 1", s.Classes[1].E2EMs.Mean, 10, 1e-12)
	near(t, "throughput of class 0", s.Classes[0].ThroughputTokPerS, 5/0.040, 1e-12)
	if s.Classes[0].Requests != 2 || s.Classes[1].Requests != 1 || s.Classes[1].Aborted != 1 || s.Tokens != 6 {
		t.Errorf("classes %+v of %d tokens", s.Classes, s.Tokens)
	}
	near(t, "GPU-seconds, before anybody says how many", s.GPUSecondsPer1kTok, math.NaN(), 0)
	s.CountGPUs(3)
	near(t, "GPU-seconds of 1000 tokens", s.GPUSecondsPer1kTok, 3*0.040/(6./1000), 1e-12)
}

// Requests without limits are good by no standard, and one class needs no
// figures of its own.
func TestNoLimitsNoGoodput(t *testing.T) {
	r := NewRecorder(1, 0)
	r.SetClasses([]Limits{{}})
	a := RequestTimes{}
	r.Emitted(&a, 10, 1, 0)
	r.Ended(&a, 10, false)
	s := r.Summary(100, []int64{0}, 0)
	near(t, "goodput", s.GoodputReqPerS, math.NaN(), 0)
	near(t, "share", s.GoodShare, math.NaN(), 0)
	if s.Classes != nil {
		t.Errorf("one class: %+v", s.Classes)
	}
}

func TestEndBeforeWarmUp(t *testing.T) {
	r := NewRecorder(1, 100)
	a := RequestTimes{}
	r.Emitted(&a, 50, 1, 0)
	r.Ended(&a, 50, false)
	s := r.Summary(50, []int64{0}, 0)
	for what, x := range map[string]float64{"throughput": s.ThroughputTokPerS, "window": s.WindowS, "utilisation": s.Utilisation[0], "error": s.ThroughputRelSE} {
		near(t, what, x, math.NaN(), 0)
	}
	if s.Tokens != 0 || s.Requests != 0 {
		t.Errorf("counted %d tokens of %d requests", s.Tokens, s.Requests)
	}
}
