package main

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend/frontdoor"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/dtmc"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// full is a service whose requests hold so much KV.
type full int

func (full) Submit(context.Context, *frontdoor.Request) (frontdoor.Stream, error) {
	panic("nobody asks")
}
func (f full) Stats() []frontdoor.Stats  { return []frontdoor.Stats{{KVHeld: int(f)}, {}} }
func (full) Err() error                  { return nil }
func (full) Flush() error                { return nil }
func (full) Drain(context.Context) error { return nil }

// forecastOf is one of a matrix with a tenth routed and steps of 1 and 10 ms.
func forecastOf(t *testing.T, times ...steptime.StepTime) *forecast {
	t.Helper()
	matrix, params, err := (&pairOptions{small: toySmall, large: toyLarge, algorithm: "matrix", share: 0.1}).routing()
	if err != nil {
		t.Fatal(err)
	}
	c := &subserver.Config{Algorithm: matrix, Params: params, Rule: scheduler.Delayed{MaxDelayNs: 1e8}, Thresholds: scheduler.Thresholds{{1, 2}},
		Models: []subserver.Model{{Name: "small", MaxRunning: 8}, {Name: "large", MaxRunning: 8}}}
	return newForecast(c, 0, times, full(8*300))
}

func steps(ms float64) steptime.StepTime {
	t, err := steptime.NewLinear(ms, 0, 0)
	if err != nil {
		panic(err)
	}
	return t
}

// await asks until there is an answer, as the page does.
func await(t *testing.T, f *forecast, live int) []float64 {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if rates := f.predict(live); rates != nil {
			return rates
		}
	}
	t.Fatal("the chain never answers")
	return nil
}

func TestForecastIsTheChains(t *testing.T) {
	f := forecastOf(t, steps(1), steps(10))
	if f == nil {
		t.Fatal("there is no forecast")
	}
	// One user alone: per token of the large model ten of the small one, the one
	// that is routed among them and not kept.
	one := await(t, f, 1)
	if got, want := one[0]+one[1], 10/(10*0.001+0.010); math.Abs(got/want-1) > 1e-3 {
		t.Errorf("one request is predicted %v tokens/s, want %v", got, want)
	}
	if got, want := one[1]/(one[0]+one[1]), 0.1; math.Abs(got/want-1) > 1e-3 {
		t.Errorf("the large model's share is %v, want %v", got, want)
	}
	if eight := await(t, f, 8); eight[0]+eight[1] <= one[0]+one[1] {
		t.Errorf("eight requests are predicted %v tokens/s, one %v", eight, one)
	}
	for _, live := range []int{0, -1, forecastLive + 1} {
		if rates := f.predict(live); rates != nil {
			t.Errorf("%d requests are predicted %v", live, rates)
		}
	}
}

func TestForecastSolvesOneLoadAtATime(t *testing.T) {
	f := forecastOf(t, steps(1), steps(10))
	asked, answer := make(chan dtmc.Config, 8), make(chan []float64)
	f.solve = func(c dtmc.Config) []float64 {
		asked <- c
		return <-answer
	}
	for _, live := range []int{4, 5, 4} {
		if rates := f.predict(live); rates != nil {
			t.Errorf("%v was predicted before it was solved", rates)
		}
	}
	c := <-asked
	if c.Users != 4 || c.ContextTokens != 1024 { // 600 tokens each
		t.Errorf("the chain was asked about %d users of %d tokens, want 4 of 1024", c.Users, c.ContextTokens)
	}
	answer <- []float64{3, 4}
	if rates := await(t, f, 4); !slices.Equal(rates, []float64{3, 4}) {
		t.Errorf("the prediction is %v", rates)
	}
	if len(asked) != 0 {
		t.Error("a load was solved beside another, or twice")
	}
}

func TestForecastNeedsTimesAndProbabilities(t *testing.T) {
	if f := forecastOf(t, steps(1), nil); f != nil {
		t.Error("there is a forecast without the large model's times")
	}
	threshold := .5
	alg, err := algorithms.New("confidence", algorithms.Params{Models: 2, Large: 1, Threshold: &threshold})
	if err != nil {
		t.Fatal(err)
	}
	c := &subserver.Config{Algorithm: alg, Rule: scheduler.Eager{}, Models: []subserver.Model{{Name: "small"}, {Name: "large"}}}
	if f := newForecast(c, 0, []steptime.StepTime{steps(1), steps(1)}, full(0)); f != nil {
		t.Error("there is a forecast for an algorithm that reads the models")
	}
}
