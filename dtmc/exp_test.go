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
	// knots 1 2 4 8 16 32 64
	k := 0
	lo := 1
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

func TestQuantum(t *testing.T) {
	for _, n := range []int{2, 4, 8, 16, 32} {
		for _, p := range []float64{.02, .05, .1, .2, .4, .6} {
			for _, ret := range []float64{1, .35} {
				for _, B := range []int{1, max(1, n/4), n / 2, n} {
					cfg := Config{Models: []Model{{Time: small}, {Time: large}}, Routing: [][]float64{{1 - p, p}, {ret, 1 - ret}}, Users: n, Rule: scheduler.Delayed{}, Thresholds: scheduler.Thresholds{{1, B}}}
					v := newVisits(&cfg)
					tw := newTwin(&cfg, v.rows, 1).run(30, 40e9)
					fmt.Printf("n%d p%v r%v B%d: tp %.2f se %.3f%%", n, p, ret, B, tw.throughput, 100*tw.relSE)
					for _, q := range []float64{2, 1, .5, .25, .1} {
						cfg.QuantumNs = int64(q * 1e6)
						t0 := time.Now()
						pr, err := Predict(cfg)
						if err != nil {
							fmt.Printf(" | %v %v", q, err)
							continue
						}
						fmt.Printf(" | q%v %+.2f%% %v %dst %dtr %dsw", q, 100*(pr.ThroughputTokPerS/tw.throughput-1), time.Since(t0).Round(100*time.Microsecond), pr.States, pr.Transitions, pr.Iterations)
					}
					fmt.Println()
				}
			}
		}
	}
}
