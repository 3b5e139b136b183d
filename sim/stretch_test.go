package sim

import (
	"math"
	"reflect"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// sameResult compares bit by bit, NaN equal to NaN.
func sameResult(a, b *Result) bool {
	x, y := *a, *b
	x.Events, y.Events = 0, 0 // fewer are the point of a stretch
	return reflect.DeepEqual(bitsOf(reflect.ValueOf(x)), bitsOf(reflect.ValueOf(y)))
}

func bitsOf(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Float64:
		return math.Float64bits(v.Float())
	case reflect.Struct:
		var out []any
		for i := range v.NumField() {
			out = append(out, bitsOf(v.Field(i)))
		}
		return out
	case reflect.Slice, reflect.Array:
		var out []any
		for i := range v.Len() {
			out = append(out, bitsOf(v.Index(i)))
		}
		return out
	}
	return v.Interface()
}

func checkStretches(t *testing.T, name string, cfg Config) (merged, single *Result) {
	t.Helper()
	merged = run(t, cfg)
	cfg.EveryStep = true
	single = run(t, cfg)
	if !sameResult(merged, single) {
		t.Errorf("%s: with stretches\n%+v\nstep by step\n%+v", name, merged, single)
	}
	return merged, single
}

// growing is a step whose length depends on the context, so that the steps of
// a stretch differ.
type growing struct{ base, perToken int64 }

func (g growing) Ns(requests, rows, context int) int64 {
	return g.base + g.perToken*int64(context) + int64(rows)
}

func TestStretchesChangeNothing(t *testing.T) {
	one := models(linear{4 * msNs, msNs / 20})
	one[0].Time = growing{4 * msNs, 17}
	closed := Workload{Kind: Closed, Users: 16, Requests: 200, PromptMin: 10, PromptMax: 100, OutputMin: 100, OutputMax: 300}
	cfg := Config{Models: one, Algorithm: algorithms.Never{}, Rule: scheduler.Eager{}, Thresholds: scheduler.Thresholds{{1}}, Workload: closed, Seed: 3}
	merged, single := checkStretches(t, "one model", cfg)
	if merged.Events*3 > single.Events {
		t.Errorf("%d events with stretches, %d step by step: nothing was merged", merged.Events, single.Events)
	}
	cfg.Workload.WarmupNs, cfg.Workload.DurationNs = 1234567890, 9876543210
	checkStretches(t, "cut by warm-up and end", cfg)
	tight := cfg
	tight.Models = append([]Model(nil), one...)
	tight.Models[0].KVTokens = 3000
	checkStretches(t, "KV pressure", tight)
	for _, p := range []float64{0.001, 0.01, 0.1} {
		for _, rule := range []scheduler.Rule{scheduler.Eager{}, scheduler.Delayed{}, scheduler.Delayed{MaxDelayNs: 20 * msNs}, scheduler.Alternate{}} {
			pairCfg := Config{Models: models(linear{4 * msNs, msNs / 20}, linear{27 * msNs, msNs / 10}), Algorithm: matrix(t, p, 0.5, false),
				Rule: rule, Thresholds: scheduler.Thresholds{{2, 3}}, Workload: steady(6, 100e9, 7e9), Seed: 5}
			checkStretches(t, rule.String(), pairCfg)
			pairCfg.HandoffNs = 3 * msNs / 2
			pairCfg.Workload = Workload{Kind: Closed, Users: 6, Requests: 40, PromptMin: 50, PromptMax: 50, OutputMin: 100, OutputMax: 200}
			checkStretches(t, rule.String()+" with hand-offs", pairCfg)
		}
	}
}

// Random systems of the swarm, without its aborts.
func TestStretchesChangeNothingInTheSwarm(t *testing.T) {
	for seed := uint64(1); seed <= 300; seed++ {
		cfg := draw(seed).cfg
		cfg.hooks, cfg.Observer = nil, nil
		checkStretches(t, draw(seed).plan, cfg)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
