package experiments

import (
	"fmt"
	"testing"

	"github.com/tokenrouter/tokenrouter/dtmc"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// What a threshold is chosen for is judged by the simulator: where the best B
// gains something the chain's choice must keep nearly all of it, and where it
// gains nothing the choice must cost nothing.
const (
	bestMattersGain = 0.02  // of the simulator's best B over B = 1
	bestKeeps       = 0.90  // of that gain, at least
	bestLoses       = 0.005 // of the best throughput, at most, where B does not matter
)

// tuned is the B that the chain chooses for the large model.
func (p pairing) tuned(t testing.TB) int {
	t.Helper()
	tuning, err := dtmc.Tune(dtmc.Config{
		Models:  []dtmc.Model{{Name: "small", Time: p.small, MaxRunning: 64}, {Name: "large", Time: p.large, MaxRunning: 64}},
		Routing: p.rows(), Users: p.users, Rule: scheduler.Delayed{}, Thresholds: scheduler.Thresholds{{1, 1}},
		PromptTokens: pairPrompt, OutputTokens: pairOutput, QuantumNs: p.quantumNs,
	}, dtmc.TuneOptions{Search: dtmc.SearchOne, Model: 1})
	if err != nil {
		t.Fatal(err)
	}
	return tuning.Best.B[1]
}

func (p pairing) judgeBestB(t *testing.T) {
	t.Parallel()
	chosen := p.tuned(t)
	tokPerS := make([]float64, p.users+1)
	best := 1
	for b := 1; b <= p.users; b++ {
		p.bLarge = b
		tokPerS[b] = p.simulate(t).ThroughputTokPerS
		if tokPerS[b] > tokPerS[best] {
			best = b
		}
	}
	gain, kept := tokPerS[best]/tokPerS[1]-1, tokPerS[chosen]/tokPerS[1]-1
	t.Logf("chain chooses B = %d, simulator's best is %d: gains %+.2f %% and %+.2f %%", chosen, best, 100*kept, 100*gain)
	if gain > bestMattersGain {
		if kept < bestKeeps*gain {
			t.Errorf("B = %d keeps %.0f %% of the gain of %.1f %%, want %.0f %%", chosen, 100*kept/gain, 100*gain, 100*bestKeeps)
		}
	} else if loss := 1 - tokPerS[chosen]/tokPerS[best]; loss > bestLoses {
		t.Errorf("B = %d loses %.2f %%, want at most %.1f %%", chosen, 100*loss, 100*bestLoses)
	}
}

func judgeAll(t *testing.T, base pairing, users []int, leave []float64) {
	for _, n := range users {
		for _, p := range leave {
			for _, back := range []float64{1, .35} {
				base.users, base.leave, base.back = n, p, back
				t.Run(fmt.Sprintf("n=%d,p=%g,return=%g", n, p, back), base.judgeBestB)
			}
		}
	}
}

func TestChainChoosesB(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates every B")
	}
	judgeAll(t, wholeQuanta(), []int{4}, []float64{.1, .4})
}

func TestLongChainChoosesB(t *testing.T) {
	long(t)
	bases := map[string]pairing{"whole-quanta": wholeQuanta()}
	for _, engine := range engineVersions {
		bases[engine] = onA100(t, engine)
	}
	for _, name := range append([]string{"whole-quanta"}, engineVersions...) {
		t.Run(name, func(t *testing.T) {
			judgeAll(t, bases[name], []int{2, 4, 8, 16, 32}, []float64{.02, .05, .1, .2, .4, .6})
		})
	}
}
