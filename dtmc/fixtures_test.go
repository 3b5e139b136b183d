package dtmc

import (
	"math"
	"testing"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// linear is a step time in milliseconds.
type linear struct{ base, perRequest, perRow float64 }

func (l linear) Ns(requests, rows, _ int) int64 {
	return int64(math.Round((l.base + l.perRequest*float64(requests) + l.perRow*float64(rows)) * 1e6))
}

// knots is a table of milliseconds at 1, 2, 4, 8, … requests, linear in between.
type knots []float64

func (k knots) Ns(requests, _, _ int) int64 {
	at, low := 0, 1
	for requests > 2*low && at < len(k)-2 {
		low *= 2
		at++
	}
	share := float64(requests-low) / float64(low)
	return int64(math.Round((k[at] + share*(k[at+1]-k[at])) * 1e6))
}

// stairs is base milliseconds, and half as much again for every started tier of
// rows: as GEMM times jump where another tile is needed.
type stairs struct {
	base float64
	tier int
}

func (s stairs) Ns(_, rows, _ int) int64 {
	return int64(s.base * 1e6 * (1 + .5*float64((rows-1)/s.tier)))
}

// The derived decode steps of Qwen3-0.6B on one A100-80GB and of Qwen3-32B on
// two, SGLang 0.5.10, from AIConfigurator's A100 data (Apache-2.0).
var (
	qwenSmall = knots{2.4, 2.6, 2.8, 3.4, 4.1, 4.9, 6.8}
	qwenLarge = knots{25.4, 24.9, 25.1, 26.1, 27.7, 30.8, 32.0}
)

// pair is a system of two models whose home, the first, hands a request to the
// second with probability p and gets it back with probability back.
func pair(small, large interface{ Ns(int, int, int) int64 }, p, back float64, users int, b ...int) Config {
	cfg := Config{
		Models:  []Model{{Name: "small", Time: small}, {Name: "large", Time: large}},
		Routing: [][]float64{{1 - p, p}, {back, 1 - back}},
		Users:   users,
		Rule:    scheduler.Delayed{},
	}
	if len(b) > 0 {
		cfg.Thresholds = scheduler.Thresholds{b}
	}
	return cfg
}

// ratio427 is the pair with steps of 4 and 27 ms: whole quanta of 1 ms.
func ratio427(p, back float64, users int, b ...int) Config {
	return pair(linear{base: 4}, linear{base: 27}, p, back, users, b...)
}

func mustPredict(t testing.TB, cfg Config) *Prediction {
	t.Helper()
	p, err := Predict(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// near fails unless got is within relative tolerance of want.
func near(t testing.TB, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) {
		t.Errorf("%s: got %.12g, want %.12g within %.1e", what, got, want, tolerance)
	}
}
