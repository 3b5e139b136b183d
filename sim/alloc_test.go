package sim

import (
	"testing"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// longVisits lets the large model write about three tokens a visit, each of
// which comes home at once.
func longVisits(t testing.TB, durationNs int64) Config {
	return Config{Models: models(linear{4 * msNs, msNs / 20}, linear{27 * msNs, msNs / 10}), Algorithm: matrix(t, .1, .35, false),
		Rule: scheduler.Delayed{}, Thresholds: scheduler.Thresholds{{1, 4}}, Workload: steady(16, durationNs, 1e9)}
}

func BenchmarkLongVisits(b *testing.B) { benchmark(b, longVisits(b, 2000e9)) }

// In the steady state nothing is allocated for a token: the simulator's speed
// is the core's speed. A run ten times as long allocates as much but for
// tables that grow by doubling.
func TestNoAllocationPerToken(t *testing.T) {
	var tokens [2]int64
	var allocs [2]float64
	for i, duration := range []int64{20e9, 200e9} {
		allocs[i] = testing.AllocsPerRun(1, func() { tokens[i] = run(t, longVisits(t, duration)).Tokens })
	}
	more := float64(tokens[1] - tokens[0])
	if perToken := (allocs[1] - allocs[0]) / more; more < 50_000 || perToken > 1e-3 {
		t.Errorf("%.0f more tokens cost %.0f more allocations, %g each", more, allocs[1]-allocs[0], perToken)
	}
}
