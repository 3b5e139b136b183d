package dtmc

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

type tab []float64

func (t tab) Ns(b, rows, ctx int) int64 {
	k, lo := 0, 1
	for b > 2*lo && k < len(t)-2 {
		lo *= 2
		k++
	}
	if b == 1 {
		return int64(t[0] * 1e6)
	}
	f := float64(b-lo) / float64(lo)
	return int64(math.Round((t[k] + f*(t[k+1]-t[k])) * 1e6))
}

var small = tab{2.4, 2.6, 2.8, 3.4, 4.1, 4.9, 6.8}
var large = tab{25.4, 24.9, 25.1, 26.1, 27.7, 30.8, 32.0}

type lin struct{ base, per float64 }

func (l lin) Ns(b, rows, ctx int) int64 { return int64(math.Round((l.base + l.per*float64(b)) * 1e6)) }

func show(name string, cfg Config) {
	best := time.Hour
	var pr *Prediction
	var err error
	for range 3 {
		t0 := time.Now()
		pr, err = Predict(cfg)
		best = min(best, time.Since(t0))
	}
	if err != nil {
		fmt.Println(name, err, best)
		return
	}
	fmt.Printf("%s: tp %.3f q %v %dst %dtr %dsw %s gap %.1e res %.1e best of 3 %v\n", name, pr.ThroughputTokPerS, pr.QuantumNs, pr.States, pr.Transitions, pr.Iterations, pr.Method, pr.StartGap, pr.Residual, best)
}

func TestShow(t *testing.T) {
	for _, n := range []int{1, 2, 4, 8, 16, 32, 64} {
		for _, p := range []float64{.1, .4} {
			cfg := Config{Models: []Model{{Time: small}, {Time: large}}, Routing: [][]float64{{1 - p, p}, {1, 0}}, Users: n, Rule: scheduler.Delayed{}}
			show(fmt.Sprint("default shipped n ", n, " p ", p), cfg)
			cfg.Thresholds = scheduler.Thresholds{{max(1, n/4), max(1, n/4)}}
			show(fmt.Sprint("  B n/4,n/4 n ", n, " p ", p), cfg)
			cfg.Rule = scheduler.Alternate{}
			show(fmt.Sprint("  alternate n ", n, " p ", p), cfg)
			cfg.Rule = scheduler.Lockstep{}
			show(fmt.Sprint("  lockstep n ", n, " p ", p), cfg)
			cfg.Rule = scheduler.Eager{}
			cfg.Models = []Model{{Time: lin{4, .05}}, {Time: lin{32, .1}}}
			show(fmt.Sprint("default fit n ", n, " p ", p), cfg)
			cfg.Models = []Model{{Time: lin{4, .0}}, {Time: lin{27, .0}}}
			show(fmt.Sprint("4:27 n ", n, " p ", p), cfg)
		}
	}
	for _, n := range []int{4, 8, 12} {
		cfg := Config{Models: []Model{{Time: lin{4, 0}}, {Time: lin{12, 0}}, {Time: lin{32, 0}}}, Routing: [][]float64{{.8, .1, .1}, {.5, .4, .1}, {.5, 0, .5}}, Users: n, Rule: scheduler.Delayed{}, Thresholds: scheduler.Thresholds{{1, 1, 1}}}
		show(fmt.Sprint("three n ", n), cfg)
		cfg.Routing = [][]float64{{.5, .3, .2}, {.5, .3, .2}, {.5, .3, .2}}
		show(fmt.Sprint("three w n ", n), cfg)
		cfg.Thresholds = scheduler.Thresholds{{1, 2, 4}}
		show(fmt.Sprint("three w B124 n ", n), cfg)
		cfg.Thresholds = scheduler.Thresholds{{3, 3, 3}}
		show(fmt.Sprint("three w B333 n ", n), cfg)
		if n == 4 {
			cfg.Models = []Model{{Time: lin{2.4, .1}}, {Time: lin{11.8, .13}}, {Time: lin{25.4, .1}}}
			show(fmt.Sprint("three irregular n ", n), cfg)
		}
	}
}
