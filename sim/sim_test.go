package sim

import (
	"fmt"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// linear is base + perRequest·requests nanoseconds.
type linear struct{ base, perRequest int64 }

func (l linear) Ns(requests, rows, context int) int64 { return l.base + l.perRequest*int64(requests) }

func pair(small, large linear, n int) []Model {
	m := []Model{{Name: "small", Time: small}, {Name: "large", Time: large}}
	for i := range m {
		m[i].MaxRunning, m[i].ChunkTokens, m[i].KVTokens, m[i].BlockTokens = max(n, 64), 2048, 1_000_000, 16
	}
	return m
}

func matrix(t testing.TB, p, q float64, kept bool) algorithms.Algorithm {
	m, err := algorithms.NewMatrix([][]float64{{1 - p, p}, {q, 1 - q}}, kept)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFit(t *testing.T) {
	ms := int64(1e6)
	for _, c := range []struct {
		rule scheduler.Rule
		b    int
	}{{scheduler.Alternate{}, 1}, {scheduler.Lockstep{}, 1}, {scheduler.Eager{}, 1}, {scheduler.Delayed{}, 5}, {scheduler.Delayed{}, 6}, {scheduler.Delayed{}, 7}, {scheduler.Delayed{}, 8}} {
		cfg := Config{
			Models:    pair(linear{4 * ms, ms / 20}, linear{32 * ms, ms / 10}, 8),
			Algorithm: matrix(t, 0.4, 1, false), Rule: c.rule, Thresholds: scheduler.Thresholds{{1, c.b}},
			Workload: Workload{Kind: Steady, Users: 8, PromptTokens: 100, OutputMin: 2048, OutputMax: 2048, DurationNs: 6000e9, WarmupNs: 10e9},
		}
		r, err := Run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%v B=%d %.1f ±%.2f%% batch %.2f util %.2f share %.2f wait %.1f\n", c.rule, c.b, r.ThroughputTokPerS, r.ThroughputRelSE*100, r.MeanBatch, r.Utilisation, r.TokenShare, r.WaitingMs)
	}
}

func BenchmarkOneModel(b *testing.B) {
	var tokens int64
	for b.Loop() {
		cfg := Config{Models: pair(linear{4e6, 5e4}, linear{1, 1}, 16)[:1], Algorithm: algorithms.Never{}, Rule: scheduler.Eager{}, Thresholds: scheduler.Thresholds{{1}},
			Workload: Workload{Kind: Closed, Users: 16, Requests: 10000, PromptTokens: 100, OutputMin: 900, OutputMax: 1100}}
		r, err := Run(cfg)
		if err != nil {
			b.Fatal(err)
		}
		tokens += r.Tokens
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds()/1e6, "Mtok/s")
}

func BenchmarkTwoModels(b *testing.B) {
	var tokens int64
	for b.Loop() {
		cfg := Config{Models: pair(linear{4e6, 5e4}, linear{27e6, 1e5}, 16), Algorithm: matrix(b, .1, 1, false), Rule: scheduler.Delayed{}, Thresholds: scheduler.Thresholds{{1, 4}},
			Workload: Workload{Kind: Steady, Users: 16, PromptTokens: 100, OutputMin: 900, OutputMax: 1100, DurationNs: 2000e9, WarmupNs: 10e9}}
		r, err := Run(cfg)
		if err != nil {
			b.Fatal(err)
		}
		tokens += r.Tokens
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds()/1e6, "Mtok/s")
}
