package sim

import (
	"slices"
	"syscall"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// peersJob is the job on which other simulators were measured: one model,
// 10,000 requests of 100 prompt and 900 to 1,100 output tokens, 16 users.
// The pool is what an A100 has left beside a model of 30 GB.
func peersJob() Config {
	m := models(linear{4 * msNs, msNs / 20})
	m[0].KVTokens = 200_000
	return Config{Models: m, Algorithm: algorithms.Never{}, Rule: scheduler.Eager{},
		Thresholds: scheduler.Thresholds{{1}},
		Workload:   Workload{Kind: Closed, Users: 16, Requests: 10000, PromptMin: 100, PromptMax: 100, OutputMin: 900, OutputMax: 1100}}
}

func BenchmarkOneModelEveryStep(b *testing.B) {
	cfg := peersJob()
	cfg.EveryStep = true
	benchmark(b, cfg)
}

func BenchmarkOneModel(b *testing.B) { benchmark(b, peersJob()) }

func BenchmarkTwoModels(b *testing.B) {
	benchmark(b, Config{Models: models(linear{4 * msNs, msNs / 20}, linear{27 * msNs, msNs / 10}), Algorithm: matrix(b, .1, 1, false),
		Rule: scheduler.Delayed{}, Thresholds: scheduler.Thresholds{{1, 4}}, Workload: steady(16, 2000e9, 10e9)})
}

// BenchmarkStretches plays the peers' job step by step and in stretches, in
// turn, and reports how many times faster stretches are: the median of the
// pairs, and the lowest and highest.
func BenchmarkStretches(b *testing.B) {
	var ratios []float64
	for b.Loop() {
		var cpu [2]float64
		for i := range cpu {
			cfg := peersJob()
			cfg.EveryStep = i == 0
			before := cpuSeconds()
			run(b, cfg)
			cpu[i] = cpuSeconds() - before
		}
		ratios = append(ratios, cpu[0]/cpu[1])
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "times-faster")
	b.ReportMetric(ratios[0], "lowest")
	b.ReportMetric(ratios[len(ratios)-1], "highest")
	b.ReportMetric(0, "ns/op")
}

// benchmark reports tokens by wall time and by the process's CPU time, which
// other work on the machine disturbs less and the collector's help counts in.
func benchmark(b *testing.B, cfg Config) {
	var tokens, events int64
	before := cpuSeconds()
	for b.Loop() {
		r := run(b, cfg)
		tokens += r.Tokens
		events += r.Events
	}
	cpu := cpuSeconds() - before
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds()/1e6, "Mtok/s")
	b.ReportMetric(float64(tokens)/cpu/1e6, "Mtok/cpu-s")
	b.ReportMetric(float64(events)/cpu/1e6, "Mevents/cpu-s")
	b.ReportMetric(0, "ns/op")
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
