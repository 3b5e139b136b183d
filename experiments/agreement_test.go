package experiments

import (
	"flag"
	"fmt"
	"math"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/dtmc"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/scheduler"
	"github.com/tokenrouter/tokenrouter/sim"
)

var whole = flag.Bool("whole", false, "compare chain and simulator over the whole grid, not a fixed part of it")

// The chain and the simulator share the launch rules and nothing else: one
// adds up probabilities, the other plays events through the scheduler's cores.
// Where the chain is exact they must agree within the simulator's own noise.
const (
	agreeRel        = 0.005  // durations of whole quanta
	agreeProfileRel = 0.02   // shipped profiles at the default quantum
	simRelSE        = 0.0015 // the simulator's own standard error, at most
)

// wholeMs is a step of base ms and one more for every `per` requests.
type wholeMs struct{ base, per int64 }

func (w wholeMs) Ns(requests, _, _ int) int64 { return (w.base + int64(requests)/w.per) * 1e6 }

// pairing is a small model at home beside a large one.
type pairing struct {
	small, large steptime.StepTime
	quantumNs    int64
	users        int
	leave, back  float64 // chance to leave home, and to return, a decision
	bLarge       int
}

func (p pairing) String() string {
	return fmt.Sprintf("n=%d,p=%g,return=%g,B=%d", p.users, p.leave, p.back, p.bLarge)
}

func (p pairing) rows() [][]float64 {
	return [][]float64{{1 - p.leave, p.leave}, {p.back, 1 - p.back}}
}

const (
	pairPrompt = 100
	pairOutput = 2048
)

func (p pairing) predict(t testing.TB) float64 {
	t.Helper()
	pred, err := dtmc.Predict(dtmc.Config{
		Models:  []dtmc.Model{{Name: "small", Time: p.small, MaxRunning: 64}, {Name: "large", Time: p.large, MaxRunning: 64}},
		Routing: p.rows(), Users: p.users, Rule: scheduler.Delayed{}, Thresholds: scheduler.Thresholds{{1, p.bLarge}},
		PromptTokens: pairPrompt, OutputTokens: pairOutput, QuantumNs: p.quantumNs,
	})
	if err != nil {
		t.Fatalf("%v: %v", p, err)
	}
	return pred.ThroughputTokPerS
}

// simulate runs until the standard error is small enough.
func (p pairing) simulate(t testing.TB) *sim.Result {
	t.Helper()
	alg, err := algorithms.NewMatrix(p.rows(), false)
	if err != nil {
		t.Fatal(err)
	}
	model := func(name string, time steptime.StepTime) sim.Model {
		return sim.Model{Name: name, Time: time, MaxRunning: 64, ChunkTokens: 2048, KVTokens: 1_000_000, BlockTokens: 16}
	}
	for durationNs := int64(2000e9); ; durationNs *= 2 {
		r, err := sim.Run(sim.Config{
			Models: []sim.Model{model("small", p.small), model("large", p.large)}, Algorithm: alg,
			Rule: scheduler.Delayed{}, Thresholds: scheduler.Thresholds{{1, p.bLarge}}, Seed: 1,
			Workload: sim.Workload{Kind: sim.Steady, Users: p.users, PromptMin: pairPrompt, PromptMax: pairPrompt,
				OutputMin: pairOutput, OutputMax: pairOutput, DurationNs: durationNs, WarmupNs: 20e9},
		})
		if err != nil {
			t.Fatalf("%v: %v", p, err)
		}
		if r.ThroughputRelSE <= simRelSE {
			return r
		}
	}
}

func (p pairing) compare(t *testing.T, tolerance float64) {
	t.Parallel()
	chain, r := p.predict(t), p.simulate(t)
	rel := chain/r.ThroughputTokPerS - 1
	if math.Abs(rel) > tolerance {
		t.Errorf("chain %.2f token/s, simulator %.2f ± %.2f %%: %.2f %% apart, want at most %.1f %%",
			chain, r.ThroughputTokPerS, 100*r.ThroughputRelSE, 100*rel, 100*tolerance)
	}
	t.Logf("chain %.2f sim %.2f token/s: %+.3f %% (standard error %.3f %%)", chain, r.ThroughputTokPerS, 100*rel, 100*r.ThroughputRelSE)
}

// grid lists the cells; without -whole only a fixed part: every third user
// count and chance to leave, return 1 and .35, all thresholds.
func grid(base pairing) (cells []pairing) {
	for i, n := range []int{2, 4, 8, 16, 32} {
		for j, leave := range []float64{.02, .05, .1, .2, .4, .6} {
			if !*whole && (i+j)%4 != 2 {
				continue
			}
			for _, back := range []float64{1, .35} {
				last := 0
				for _, b := range []int{1, max(1, n/4), n / 2, n} {
					if b != last { // n/4 and n/2 of few users are the same threshold
						p := base
						p.users, p.leave, p.back, p.bLarge = n, leave, back, b
						cells = append(cells, p)
					}
					last = b
				}
			}
		}
	}
	return cells
}

func TestChainAgreesWithSimulator(t *testing.T) {
	cells := grid(pairing{small: wholeMs{4, 16}, large: wholeMs{27, 8}, quantumNs: 1e6})
	if len(cells) < 40 {
		t.Fatalf("%d cells, want at least 40", len(cells))
	}
	for _, p := range cells {
		t.Run(p.String(), func(t *testing.T) { p.compare(t, agreeRel) })
	}
}

func TestChainAgreesWithSimulatorOnShippedProfiles(t *testing.T) {
	for _, engine := range []string{"sglang-0.5.10", "vllm-0.14"} {
		p := pairing{small: shipped(t, "a100-80gb/"+engine+"/qwen3-0.6b-tp1"), large: shipped(t, "a100-80gb/"+engine+"/qwen3-32b-tp2")}
		cells := grid(p)
		if !*whole {
			cells = cells[len(cells)/3 : len(cells)/3+8]
		}
		for _, p := range cells {
			t.Run(engine+","+p.String(), func(t *testing.T) { p.compare(t, agreeProfileRel) })
		}
	}
}

func shipped(t testing.TB, name string) steptime.StepTime {
	profile, err := steptime.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return profile.Compile()
}
