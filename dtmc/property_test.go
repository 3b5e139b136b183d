package dtmc

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// anySystem draws a system with constant steps in whole quanta of 1 ms.
func anySystem(t *rapid.T) Config {
	k := rapid.IntRange(1, 3).Draw(t, "models")
	cfg := Config{
		Home:       rapid.IntRange(0, k-1).Draw(t, "home"),
		Users:      rapid.IntRange(1, 5).Draw(t, "users"),
		RoutedKept: rapid.Bool().Draw(t, "kept"),
		Rule:       rapid.SampledFrom(rules).Draw(t, "rule"),
		QuantumNs:  1e6,
	}
	row := make([]int, k)
	for m := range k {
		cfg.Models = append(cfg.Models, Model{
			Time:       linear{base: float64(rapid.IntRange(1, 9).Draw(t, "step"))},
			MaxRunning: rapid.IntRange(0, 4).Draw(t, "limit"),
		})
		row[m] = rapid.IntRange(1, 6).Draw(t, "b")
		weights := rapid.SliceOfN(rapid.IntRange(0, 3), k, k).Draw(t, "weights")
		weights[(m+1)%k]++ // every model leads to the next: one closed class
		sum := 0
		for _, w := range weights {
			sum += w
		}
		routing := make([]float64, k)
		for j, w := range weights {
			routing[j] = float64(w) / float64(sum)
		}
		cfg.Routing = append(cfg.Routing, routing)
	}
	cfg.Thresholds = scheduler.Thresholds{row}
	return cfg
}

func TestAnySystem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anySystem(t)
		got, err := Predict(cfg)
		if errors.Is(err, ErrSlowMixing) {
			t.Skip("never forgets its start")
		}
		if err != nil {
			t.Fatal(err)
		}
		v := newVisits(&cfg)
		same := func(what string, got, want float64) {
			if !(math.Abs(got-want) <= 1e-8*(1+math.Abs(want))) {
				t.Fatalf("%s: %v, want %v", what, got, want)
			}
		}
		if got.Residual > agreement || got.StartGap > acceptedGap {
			t.Fatalf("residual %v, gap of the starts %v", got.Residual, got.StartGap)
		}
		shares, users, bound := 0.0, got.ThroughputTokPerS/1e3*(got.WaitingStepMs+got.WaitingThresholdMs+got.WaitingPeerMs), 0.0
		for m, model := range cfg.Models {
			stepS := float64(model.Time.Ns(1, 1, 0)) / 1e9
			same("token share", got.TokenShare[m], v.tokenShare[m])
			shares += got.TokenShare[m]
			same("utilisation", got.Utilisation[m], got.StepsPerS[m]*stepS)
			users += got.StepsPerS[m] * got.MeanBatch[m] * stepS
			bound = max(bound, float64(cfg.Users)/stepS)
			if limit := float64(cfg.maxBatch(m)); got.MeanBatch[m] > limit+1e-9 {
				t.Fatalf("mean batch %v above %v", got.MeanBatch[m], limit)
			}
			if got.Utilisation[m] > 1+1e-9 {
				t.Fatalf("utilisation %v", got.Utilisation[m])
			}
		}
		same("sum of token shares", shares, 1)
		// Little: requests in flight and waiting are all there are.
		same("users", users, float64(cfg.Users))
		same("TPOT", got.MeanTPOTMs*got.PerUserTokPerS, 1e3)
		if got.ThroughputTokPerS > bound*(1+1e-9) {
			t.Fatalf("throughput %v above %v, a token of every user in each of the shortest steps", got.ThroughputTokPerS, bound)
		}
		again, _ := Predict(cfg)
		if !reflect.DeepEqual(got, again) {
			t.Fatal("the same system was predicted differently the second time")
		}
	})
}

func TestTuningNeverLosesToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anySystem(t)
		cfg.Rule = scheduler.Delayed{}
		tuning, err := Tune(cfg, TuneOptions{Search: rapid.SampledFrom([]Search{SearchPeers, SearchOne, SearchAll}).Draw(t, "search")})
		if errors.Is(err, ErrSlowMixing) {
			t.Skip("never forgets its start")
		}
		if err != nil {
			t.Fatal(err)
		}
		if tuning.Gain < 0 || tuning.Best.ThroughputTokPerS < tuning.Base.ThroughputTokPerS || tuning.WorstLoss < 0 {
			t.Fatalf("gain %v, worst loss %v", tuning.Gain, tuning.WorstLoss)
		}
		if tuning.Prediction.ThroughputTokPerS != tuning.Best.ThroughputTokPerS {
			t.Fatalf("the prediction of the best is %v, its point %v", tuning.Prediction.ThroughputTokPerS, tuning.Best.ThroughputTokPerS)
		}
	})
}
