package dtmc

import (
	"fmt"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

func TestTuneShow(t *testing.T) {
	for _, n := range []int{8, 16} {
		for _, p := range []float64{.02, .1, .4} {
			for _, s := range []Search{SearchPeers, SearchAll} {
				for k, ms := range [][]Model{{{Time: lin{4, 0}}, {Time: lin{27, 0}}}, {{Time: small}, {Time: large}}, {{Time: lin{4, .05}}, {Time: lin{32, .1}}}} {
					cfg := Config{Models: ms, Routing: [][]float64{{1 - p, p}, {1, 0}}, Users: n, Rule: scheduler.Delayed{}}
					best := time.Hour
					var tu *Tuning
					var err error
					for range 2 {
						t0 := time.Now()
						tu, err = Tune(cfg, TuneOptions{Search: s})
						best = min(best, time.Since(t0))
					}
					if err != nil {
						t.Fatal(err)
					}
					fmt.Println(n, p, s, k, tu.Verdict, tu.Best.ThroughputTokPerS, len(tu.Points), tu.Method, tu.Prediction.QuantumNs, best)
				}
			}
		}
	}
	cfg := Config{Models: []Model{{Time: lin{4, 0}}, {Time: lin{27, 0}}}, Routing: [][]float64{{.6, .4}, {1, 0}}, Users: 16, Rule: scheduler.Delayed{}}
	t0 := time.Now()
	tu, err := Tune(cfg, TuneOptions{Search: SearchAll, Table: true})
	fmt.Println(tu.Thresholds, err, time.Since(t0))
	cfg = Config{Models: []Model{{Time: lin{4, 0}}, {Time: lin{12, 0}}, {Time: lin{32, 0}}}, Routing: [][]float64{{.8, .1, .1}, {.5, .4, .1}, {.5, 0, .5}}, Users: 8, Rule: scheduler.Delayed{}, Thresholds: scheduler.Thresholds{{1, 1, 1}}}
	for _, s := range []Search{SearchPeers, SearchAll} {
		t0 = time.Now()
		tu, err = Tune(cfg, TuneOptions{Search: s})
		fmt.Println(tu.Verdict, len(tu.Points), tu.Method, time.Since(t0))
	}
}
