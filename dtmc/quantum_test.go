package dtmc

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// With profile-like steps the quantum that Predict chooses stays within 2 % of
// the same chain in a unit that divides every step, and it does not depend on
// the thresholds.
func TestDefaultQuantumIsFineEnough(t *testing.T) {
	const tolerance, dividesAll = 0.005, 100_000
	for _, n := range []int{8, 16} {
		for _, back := range []float64{1, .35} {
			chosen := int64(0)
			for _, b := range []int{1, n / 2, n} {
				for _, p := range []float64{.05, .1} {
					// Steps in tenths of a millisecond at every batch.
					tenths := func(k knots) wholeTenths { return wholeTenths{k} }
					cfg := pair(tenths(qwenSmall), tenths(qwenLarge), p, back, n, 1, b)
					got := mustPredict(t, cfg)
					if chosen != 0 && got.QuantumNs != chosen && back == 1 {
						t.Errorf("n %d: the quantum is %d for B %d, %d before", n, got.QuantumNs, b, chosen)
					}
					chosen = got.QuantumNs
					cfg.QuantumNs = dividesAll
					want := mustPredict(t, cfg)
					near(t, fmt.Sprintf("n %d p %v back %v B %d at %d ns", n, p, back, b, got.QuantumNs),
						got.ThroughputTokPerS, want.ThroughputTokPerS, tolerance)
				}
			}
		}
	}
}

type wholeTenths struct{ knots }

func (w wholeTenths) Ns(requests, rows, context int) int64 {
	return int64(math.Round(float64(w.knots.Ns(requests, rows, context))/1e5)) * 1e5
}

// Rounding a step at random keeps its mean, so that a single user, whose steps
// follow each other without waiting, is predicted exactly at any quantum.
func TestRoundingKeepsTheMean(t *testing.T) {
	cfg := pair(linear{base: 4.321}, linear{base: 27.654}, .3, .6, 1)
	want := mustPredict(t, cfg).ThroughputTokPerS
	for _, quantumNs := range []int64{4_321_000, 3_000_000, 1_234_567, 100_001} {
		cfg.QuantumNs = quantumNs
		near(t, fmt.Sprint(quantumNs), mustPredict(t, cfg).ThroughputTokPerS, want, exact)
	}
}

func TestWholeQuantaAreFound(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want int64
	}{
		{ratio427(.1, 1, 16), 1e6},
		{ratio427(.1, 1, 32), 1e6},
		{pair(linear{base: 4}, linear{base: 32}, .1, 1, 16), 4e6},
		{pair(linear{base: 4, perRequest: .05}, linear{base: 32, perRequest: .1}, .1, 1, 8), 50_000},
	} {
		if got := mustPredict(t, c.cfg).QuantumNs; got != c.want {
			t.Errorf("quantum %d, want %d", got, c.want)
		}
	}
}

func TestQuantumLongerThanAStepIsRefused(t *testing.T) {
	cfg := ratio427(.1, 1, 4)
	cfg.QuantumNs = 4_000_001
	if _, err := Predict(cfg); err == nil {
		t.Error("a quantum longer than a step was accepted")
	}
	cfg.QuantumNs = 1 // fits: 4 users reach few of the 27 million remaining times
	near(t, "1 ns", mustPredict(t, cfg).ThroughputTokPerS, mustPredict(t, ratio427(.1, 1, 4)).ThroughputTokPerS, 1e-8)
}

func TestTooLarge(t *testing.T) {
	cfg := ratio427(.1, 1, 40)
	cfg.MaxStates = 1000
	if _, err := Predict(cfg); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge for MaxStates", err)
	}
	cfg = Config{Users: 100, Rule: rules[1]}
	for m := range 5 {
		cfg.Models = append(cfg.Models, Model{Time: linear{base: float64(m + 1)}})
		cfg.Routing = append(cfg.Routing, []float64{.2, .2, .2, .2, .2})
	}
	if _, err := Predict(cfg); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge for the bits of a state", err)
	}
}

// Steps that are multiples of each other end together, which no other unit
// shows: with 5 and 20 ms at 12 users a third of a millisecond was 4 % off.
func TestDefaultQuantumIsTheCommonDivisor(t *testing.T) {
	for _, users := range []int{2, 4, 8, 12, 16} {
		cfg := Config{Models: []Model{{Name: "small", Time: constant(5e6)}, {Name: "large", Time: constant(20e6)}},
			Routing: [][]float64{{0.8, 0.2}, {1, 0}}, Users: users, Rule: scheduler.Delayed{}, PromptTokens: 100, OutputTokens: 2048}
		p, err := Predict(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if p.QuantumNs != 5e6 {
			t.Errorf("%d users: the quantum is %d ns, want 5 ms", users, p.QuantumNs)
		}
	}
}

type constant int64

func (c constant) Ns(_, _, _ int) int64 { return int64(c) }
