package paced

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/backend"
)

// BenchmarkLate reports by how much steps are late on this machine, and what
// share of the throughput of a simulation is left, for one engine and for two at
// once; and, in the same run, the same figure with Go's timers alone.
func BenchmarkLate(b *testing.B) {
	for _, length := range []time.Duration{6 * time.Millisecond, 40 * time.Millisecond} {
		for engines := 1; engines <= 2; engines++ {
			b.Run(fmt.Sprintf("%v/engines=%d", length, engines), func(b *testing.B) {
				late := make([][]time.Duration, engines)
				var all sync.WaitGroup
				for i := range engines {
					e, err := New(Options{Model: "a", Time: fixed(length), MaxContext: 1, Blocks: 1, BlockTokens: 1})
					if err != nil {
						b.Fatal(err)
					}
					defer e.Close()
					all.Go(func() {
						step := &backend.Step{Sequences: []backend.Sequence{decode(1, 1)}}
						results := make([]backend.Result, 1)
						for range b.N {
							start := time.Now()
							if err := e.Forward(step, results); err != nil {
								b.Error(err)
							}
							late[i] = append(late[i], time.Since(start)-length)
						}
					})
				}
				all.Wait()
				b.StopTimer()
				sum, n := time.Duration(0), 0
				for range min(b.N, 100) {
					start := time.Now()
					time.Sleep(length)
					sum += time.Since(start) - length
					n++
				}
				l := slices.Concat(late...)
				slices.Sort(l)
				mean := time.Duration(0)
				for _, d := range l {
					mean += d / time.Duration(len(l))
				}
				b.ReportMetric(float64(l[len(l)/2].Nanoseconds())/1e3, "late-p50-µs")
				b.ReportMetric(float64(l[len(l)*99/100].Nanoseconds())/1e3, "late-p99-µs")
				b.ReportMetric(100*float64(length)/float64(length+mean), "%-of-simulated")
				b.ReportMetric(100*float64(length)/float64(length+sum/time.Duration(n)), "%-with-timers")
			})
		}
	}
}
