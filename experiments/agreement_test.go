package experiments

import (
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/dtmc"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/scheduler"
	"github.com/tokenrouter/tokenrouter/sim"
)

// The chain and the simulator share the launch rules and nothing else: one
// adds up probabilities, the other plays events through the scheduler's cores.
// Where the chain is exact they must agree within the simulator's own noise.
const (
	agreeRel        = 0.005  // durations of whole quanta
	agreeProfileRel = 0.012  // shipped profiles at the default quantum
	agreeSlowRel    = 0.01   // models that slow each other down
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
	slow         [][]float64 // interference
	handoffNs    int64
}

func (p pairing) String() string {
	name := fmt.Sprintf("n=%d,p=%g,return=%g,B=%d", p.users, p.leave, p.back, p.bLarge)
	if p.slow != nil {
		name += fmt.Sprintf(",slow=%g,%g", p.slow[0][1], p.slow[1][0])
	}
	if p.handoffNs > 0 {
		name += fmt.Sprintf(",handoff=%gms", float64(p.handoffNs)/1e6)
	}
	return name
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
		PromptTokens: pairPrompt, OutputTokens: pairOutput, QuantumNs: p.quantumNs, Interference: p.slow, HandoffNs: p.handoffNs,
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
	for durationNs := int64(1000e9); ; {
		r, err := sim.Run(sim.Config{
			Models: []sim.Model{model("small", p.small), model("large", p.large)}, Algorithm: alg,
			Rule: scheduler.Delayed{}, Thresholds: scheduler.Thresholds{{1, p.bLarge}}, Seed: 1, Interference: p.slow, HandoffNs: p.handoffNs,
			Workload: sim.Workload{Kind: sim.Steady, Users: p.users, PromptMin: pairPrompt, PromptMax: pairPrompt,
				OutputMin: pairOutput, OutputMax: pairOutput, DurationNs: durationNs, WarmupNs: 20e9},
		})
		if err != nil {
			t.Fatalf("%v: %v", p, err)
		}
		if r.ThroughputRelSE <= simRelSE {
			return r
		}
		// The error falls with the root of the time; a fifth more for luck.
		more := 1.2 * math.Pow(r.ThroughputRelSE/simRelSE, 2)
		if math.IsNaN(more) {
			t.Fatalf("%v: no standard error from %g s", p, float64(durationNs)/1e9)
		}
		durationNs = int64(float64(durationNs) * more)
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

// long asks for the tests that make bench runs.
func long(t *testing.T) {
	if os.Getenv("LONG") == "" {
		t.Skip("set LONG=1 (make bench) for the whole grid")
	}
}

// grid lists the cells: all of them, or a fixed part that spans all users,
// chances to leave, both chances to return, and all thresholds.
func grid(base pairing, whole bool) (cells []pairing) {
	for i, n := range []int{2, 4, 8, 16, 32} {
		for j, leave := range []float64{.02, .05, .1, .2, .4, .6} {
			if !whole && (i+j)%4 != 2 {
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

func wholeQuanta() pairing {
	return pairing{small: wholeMs{4, 16}, large: wholeMs{27, 8}, quantumNs: 1e6}
}

func compareAll(t *testing.T, cells []pairing, tolerance float64) {
	for _, p := range cells {
		t.Run(p.String(), func(t *testing.T) { p.compare(t, tolerance) })
	}
}

func TestChainAgreesWithSimulator(t *testing.T) {
	if testing.Short() {
		t.Skip("the simulator needs millions of tokens for so small an error")
	}
	cells := grid(wholeQuanta(), false)
	if len(cells) < 40 {
		t.Fatalf("%d cells, want at least 40", len(cells))
	}
	compareAll(t, cells, agreeRel)
}

func TestLongChainAgreesWithSimulator(t *testing.T) {
	long(t)
	compareAll(t, grid(wholeQuanta(), true), agreeRel)
}

var engineVersions = []string{"sglang-0.5.10", "vllm-0.14"}

func onA100(t *testing.T, engine string) pairing {
	return pairing{small: shipped(t, "a100-80gb/"+engine+"/qwen3-0.6b-tp1"), large: shipped(t, "a100-80gb/"+engine+"/qwen3-32b-tp2")}
}

func TestChainAgreesWithSimulatorOnShippedProfiles(t *testing.T) {
	if testing.Short() {
		t.Skip("the simulator needs millions of tokens for so small an error")
	}
	for i, engine := range engineVersions {
		cells := grid(onA100(t, engine), false)
		t.Run(engine, func(t *testing.T) { compareAll(t, cells[8*i:8*i+8], agreeProfileRel) })
	}
}

// Models that share a GPU and slow each other down, alike and not.
func TestChainAgreesWithSimulatorUnderInterference(t *testing.T) {
	if testing.Short() {
		t.Skip("the simulator needs millions of tokens for so small an error")
	}
	for i, slow := range [][][]float64{{{1, 1.5}, {1.5, 1}}, {{1, 1.25}, {2, 1}}} {
		for j, base := range []pairing{wholeQuanta(), onA100(t, engineVersions[0])} {
			base.slow = slow
			for k, p := range grid(base, false)[16+8*i : 24+8*i] {
				if k%2 == j {
					t.Run(p.String(), func(t *testing.T) { p.compare(t, agreeSlowRel) })
				}
			}
		}
	}
}

func TestLongChainAgreesWithSimulatorOnShippedProfiles(t *testing.T) {
	long(t)
	for _, engine := range engineVersions {
		t.Run(engine, func(t *testing.T) { compareAll(t, grid(onA100(t, engine), true), agreeProfileRel) })
	}
}

func shipped(t testing.TB, name string) steptime.StepTime {
	profile, err := steptime.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return profile.Compile()
}
