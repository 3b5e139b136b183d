package dtmc

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

const exact = 1e-9

var rules = []scheduler.Rule{scheduler.Eager{}, scheduler.Delayed{}, scheduler.Alternate{}, scheduler.Lockstep{}}

// One user never waits: between two entries into home it makes 1/p home steps
// and 1/back large ones (renewal), whatever the rule and the thresholds.
func TestOneUserIsARenewalProcess(t *testing.T) {
	for _, rule := range rules {
		for _, back := range []float64{1, .35} {
			for _, p := range []float64{.02, .4, 1} {
				for _, kept := range []bool{false, true} {
					cfg := pair(linear{base: 3.7, perRow: .01}, linear{base: 29.3, perRow: .02}, p, back, 1, 1, 5)
					cfg.Rule, cfg.RoutedKept, cfg.QuantumNs = rule, kept, 1e6
					home, away := 1/p, 1/back
					tokens := home + away
					if !kept {
						tokens--
					}
					rows := [2]float64{tokens / home, tokens / away}
					var ms [2]float64
					for m, base := range []float64{3.7, 29.3} {
						ms[m] = base + .01*float64(m+1)*rows[m]
					}
					want := 1e3 * tokens / (home*ms[0] + away*ms[1])
					got := mustPredict(t, cfg)
					what := fmt.Sprintf("%v p %v back %v kept %v", rule, p, back, kept)
					near(t, what, got.ThroughputTokPerS, want, exact)
					near(t, what+": TPOT", got.MeanTPOTMs, 1e3/want, exact)
					near(t, what+": busy", got.Utilisation[0]+got.Utilisation[1], 1, exact)
					near(t, what+": rows", got.MeanRows[1], rows[1], exact)
				}
			}
		}
	}
}

// emptying is the mean time in ms in which the requests of one model all leave,
// step by step, each with probability p, when none comes back.
func emptying(n int, p float64, stepMs func(int) float64) float64 {
	mean := make([]float64, n+1)
	for b := 1; b <= n; b++ {
		sum, stay := stepMs(b), 0.0
		for leave := 0; leave <= b; leave++ {
			q := math.Exp(logChoose(b, leave)) * math.Pow(p, float64(leave)) * math.Pow(1-p, float64(b-leave))
			if leave == 0 {
				stay = q
			} else {
				sum += q * mean[b-leave]
			}
		}
		mean[b] = sum / (1 - stay)
	}
	return mean[n]
}

func logChoose(n, i int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(i + 1))
	c, _ := math.Lgamma(float64(n - i + 1))
	return a - b - c
}

// With B = n the large model starts only when all requests have come, and the
// small one starts with whoever is back while the rest waits: a cycle is one
// emptying of home from n, then large steps of n, each of which sends a
// binomial number home that must return before the next.
func TestAllRequestsTogether(t *testing.T) {
	for _, n := range []int{2, 5, 16, 33} {
		for _, back := range []float64{1, .35} {
			for _, p := range []float64{.1, .6, 1} {
				cfg := pair(linear{base: 4, perRequest: .05}, linear{base: 27, perRequest: .1}, p, back, n, 1, n)
				cfg.QuantumNs = 50_000
				small := func(b int) float64 { return 4 + .05*float64(b) }
				perCycleMs := 27 + .1*float64(n)
				for away := 1; away <= n; away++ {
					q := math.Exp(logChoose(n, away)) * math.Pow(back, float64(away)) * math.Pow(1-back, float64(n-away))
					perCycleMs += q * emptying(away, p, small)
				}
				// n tokens of large a cycle, and back·n visits to home of 1/p - 1.
				tokens := float64(n) + back*float64(n)*(1/p-1)
				got := mustPredict(t, cfg)
				near(t, fmt.Sprintf("n %d p %v back %v", n, p, back), got.ThroughputTokPerS, 1e3*tokens/perCycleMs, exact)
				near(t, "batch", got.MeanBatch[1], float64(n), exact)
			}
		}
	}
}

// p 0 never leaves home; p 1 moves all requests together; back 0 ends with all
// requests at large, the states before that being transient.
func TestCertainMoves(t *testing.T) {
	const n = 6
	small, large := linear{base: 4, perRequest: .5}, linear{base: 27, perRequest: 1}
	for _, rule := range rules {
		for _, kept := range []bool{false, true} {
			for _, c := range []struct {
				p, back, want float64
			}{
				{0, 1, 1e3 * n / 7},
				{0, .35, 1e3 * n / 7},
				{1, 1, 1e3 * n / (7 + 33)},
				{.3, 0, 1e3 * n / 33},
				{1, 0, 1e3 * n / 33},
			} {
				cfg := pair(small, large, c.p, c.back, n)
				cfg.Rule, cfg.RoutedKept = rule, kept
				want := c.want
				if kept && c.p == 1 && c.back == 1 {
					want *= 2
				}
				got := mustPredict(t, cfg)
				near(t, fmt.Sprintf("%v p %v back %v kept %v", rule, c.p, c.back, kept), got.ThroughputTokPerS, want, exact)
			}
		}
	}
}

// One model alone is n tokens a step, and MaxRunning cuts its batch.
func TestOneModel(t *testing.T) {
	cfg := Config{
		Models:  []Model{{Time: linear{base: 5, perRequest: .1}, MaxRunning: 4}},
		Routing: [][]float64{{1}},
		Users:   10,
		Rule:    scheduler.Eager{},
	}
	got := mustPredict(t, cfg)
	near(t, "throughput", got.ThroughputTokPerS, 4/5.4*1e3, exact)
	near(t, "waiting for the step", got.WaitingStepMs, 6*5.4/4, exact)
	if got.WaitingPeerMs != 0 || got.WaitingThresholdMs != 0 {
		t.Errorf("waited for a peer %v ms, for the threshold %v ms", got.WaitingPeerMs, got.WaitingThresholdMs)
	}
}

// Three models in a fixed ring, all requests together: a periodic chain.
func TestRingOfThree(t *testing.T) {
	for _, rule := range rules {
		cfg := Config{
			Models:  []Model{{Time: linear{base: 1}}, {Time: linear{base: 2}}, {Time: linear{base: 5}}},
			Routing: [][]float64{{0, 1, 0}, {0, 0, 1}, {1, 0, 0}},
			Users:   3,
			Home:    1,
			Rule:    rule,
		}
		got := mustPredict(t, cfg)
		near(t, rule.String(), got.ThroughputTokPerS, 1e3*2*3/8, exact)
	}
}

// One user of one model alone: a step for the prompt, in chunks, and one for
// every further token.
func TestOneClosedUser(t *testing.T) {
	const prompt, output = 2000, 40
	for _, chunk := range []int{0, 2000, 600} {
		cfg := Config{
			Models:       []Model{{Time: linear{base: 5, perRow: .1}, ChunkTokens: chunk}},
			Routing:      [][]float64{{1}},
			Users:        1,
			Rule:         scheduler.Eager{},
			PromptTokens: prompt, OutputTokens: output, Closed: true,
			QuantumNs: 100_000,
		}
		steps := float64(output)
		if chunk == 600 {
			steps += 3 // 600, 600, 600 and 200
		}
		ms := steps*5 + .1*(prompt+output-1)
		got := mustPredict(t, cfg)
		what := fmt.Sprint("chunks of ", chunk)
		near(t, what, got.ThroughputTokPerS, 1e3*output/ms, exact)
		near(t, what+": rows", got.MeanRows[0], (prompt+output-1)/steps, exact)
		near(t, what+": prefill", got.PrefillRows[0], prompt, exact)
		if len(got.Added) != 2 || !strings.Contains(got.Added[1], "2000.0 rows a request") {
			t.Errorf("said to be added: %q", got.Added)
		}
	}
}

// A model that is visited reads the prompt once a request, one that is visited
// by few requests as much less.
func TestPrefillOfFirstVisits(t *testing.T) {
	for _, p := range []float64{.001, .01, .5} {
		cfg := pair(linear{base: 4, perRow: .01}, linear{base: 30, perRow: .01}, p, 1, 2)
		cfg.PromptTokens, cfg.OutputTokens, cfg.Closed = 500, 100, true
		// Home writes up to 100 tokens, and leaves before each of them by chance.
		want := 0.0
		for written := range 100 {
			want += math.Pow(1-p, float64(written)) * p * float64(500+written)
		}
		near(t, fmt.Sprint("p ", p), mustPredict(t, cfg).PrefillRows[1], want, exact)
	}
}
