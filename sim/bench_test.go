package sim

import (
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// The job on which the peers were measured: one model, 10,000 requests of 100
// prompt and 900 to 1,100 output tokens, 16 users; every step is an event.
func BenchmarkOneModel(b *testing.B) {
	benchmark(b, Config{Models: models(linear{4 * msNs, msNs / 20}), Algorithm: algorithms.Never{}, Rule: scheduler.Eager{},
		Thresholds: scheduler.Thresholds{{1}},
		Workload:   Workload{Kind: Closed, Users: 16, Requests: 10000, PromptMin: 100, PromptMax: 100, OutputMin: 900, OutputMax: 1100}})
}

func BenchmarkTwoModels(b *testing.B) {
	benchmark(b, Config{Models: models(linear{4 * msNs, msNs / 20}, linear{27 * msNs, msNs / 10}), Algorithm: matrix(b, .1, 1, false),
		Rule: scheduler.Delayed{}, Thresholds: scheduler.Thresholds{{1, 4}}, Workload: steady(16, 2000e9, 10e9)})
}

func benchmark(b *testing.B, cfg Config) {
	var tokens, events int64
	for b.Loop() {
		r := run(b, cfg)
		tokens += r.Tokens
		events += r.Events
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds()/1e6, "Mtok/s")
	b.ReportMetric(float64(events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
	b.ReportMetric(0, "ns/op")
}
