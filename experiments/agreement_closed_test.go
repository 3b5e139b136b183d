package experiments

import (
	"fmt"
	"math"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/dtmc"
	"github.com/tokenrouter/tokenrouter/scheduler"
	"github.com/tokenrouter/tokenrouter/sim"
)

// Of a closed system the chain knows the mean length of a request, of a
// hand-off the mean number of quanta.
const (
	agreeClosedRel  = 0.03
	agreeHandoffRel = 0.01
)

// closedPairing is a pairing whose users send requests of one size.
type closedPairing struct {
	pairing
	prompt, output int
}

func (p closedPairing) String() string {
	return fmt.Sprintf("%v,prompt=%d,output=%d", p.pairing, p.prompt, p.output)
}

const closedChunk = 2048

func (p closedPairing) predict(t testing.TB) *dtmc.Prediction {
	t.Helper()
	pred, err := dtmc.Predict(dtmc.Config{
		Models: []dtmc.Model{{Name: "small", Time: p.small, MaxRunning: 64, ChunkTokens: closedChunk},
			{Name: "large", Time: p.large, MaxRunning: 64, ChunkTokens: closedChunk}},
		Routing: p.rows(), Users: p.users, Rule: scheduler.Delayed{}, Thresholds: scheduler.Thresholds{{1, p.bLarge}},
		PromptTokens: p.prompt, OutputTokens: p.output, Closed: true,
	})
	if err != nil {
		t.Fatalf("%v: %v", p, err)
	}
	return pred
}

func (p closedPairing) simulate(t testing.TB, durationNs int64) *sim.Result {
	t.Helper()
	alg, err := algorithms.NewMatrix(p.rows(), false)
	if err != nil {
		t.Fatal(err)
	}
	config := sim.Config{Algorithm: alg, Rule: scheduler.Delayed{}, Thresholds: scheduler.Thresholds{{1, p.bLarge}}, Seed: 1,
		Workload: sim.Workload{Kind: sim.Closed, Users: p.users, PromptMin: p.prompt, PromptMax: p.prompt,
			OutputMin: p.output, OutputMax: p.output, DurationNs: durationNs, WarmupNs: 100e9}}
	for _, m := range []sim.Model{{Name: "small", Time: p.small}, {Name: "large", Time: p.large}} {
		m.MaxRunning, m.ChunkTokens, m.KVTokens, m.BlockTokens = 64, closedChunk, 1_000_000, 16
		config.Models = append(config.Models, m)
	}
	r, err := sim.Run(config)
	if err != nil {
		t.Fatalf("%v: %v", p, err)
	}
	return r
}

// compare returns by how much the chain is off.
func (p closedPairing) compare(t *testing.T, durationNs int64) float64 {
	t.Helper()
	chain, r := p.predict(t), p.simulate(t, durationNs)
	rel := chain.ThroughputTokPerS/r.ThroughputTokPerS - 1
	if math.Abs(rel) > agreeClosedRel {
		t.Errorf("%v: chain %.2f token/s, simulator %.2f: %.2f %% apart, want at most %.1f %%",
			p, chain.ThroughputTokPerS, r.ThroughputTokPerS, 100*rel, 100*agreeClosedRel)
	}
	return rel
}

func TestChainAgreesWithSimulatorOnClosedSystems(t *testing.T) {
	if testing.Short() {
		t.Skip("the simulator needs many requests")
	}
	for i, engine := range engineVersions {
		for j, users := range []int{2, 8} {
			for k, prompt := range []int{100, 2000} {
				p := closedPairing{onA100(t, engine), prompt, []int{1024, 256}[k]}
				p.users, p.leave, p.back, p.bLarge = users, []float64{.02, .1}[(i+k)%2], []float64{1, .35}[(i+j)%2], max(1, users/2)
				t.Run(fmt.Sprintf("%s/%v", engine, p), func(t *testing.T) {
					t.Parallel()
					t.Logf("%+.2f %%", 100*p.compare(t, 2000e9))
				})
			}
		}
	}
}

func TestLongChainAgreesWithSimulatorOnClosedSystems(t *testing.T) {
	long(t)
	for _, engine := range engineVersions {
		worst, squares, cells := 0.0, 0.0, 0
		for _, users := range []int{2, 4, 8, 16} {
			for _, move := range [][2]float64{{.02, 1}, {.1, .35}, {.4, 1}} {
				for _, prompt := range []int{100, 500, 2000} {
					for _, output := range []int{256, 1024, 2048} {
						for _, b := range []int{1, max(2, users/2)} {
							p := closedPairing{onA100(t, engine), prompt, output}
							p.users, p.leave, p.back, p.bLarge = users, move[0], move[1], b
							rel := p.compare(t, 4000e9)
							worst = max(worst, math.Abs(rel))
							squares += rel * rel
							cells++
						}
					}
				}
			}
		}
		t.Logf("%s: %d cells, worst %.2f %%, root mean square %.2f %%", engine, cells, 100*worst, 100*math.Sqrt(squares/float64(cells)))
	}
}

// Hand-offs from well below a quantum to the small model's step.
func handoffCells(t *testing.T, engine string, users []int) (cells []pairing) {
	for _, n := range users {
		for _, move := range [][2]float64{{.02, 1}, {.1, .35}, {.4, 1}} {
			for i, handoffNs := range []int64{10_000, 500_000, 2_000_000} {
				p := onA100(t, engine)
				p.users, p.leave, p.back, p.bLarge, p.handoffNs = n, move[0], move[1], []int{1, max(1, n/2), n}[i], handoffNs
				cells = append(cells, p)
			}
		}
	}
	return cells
}

func TestChainAgreesWithSimulatorOnHandoffs(t *testing.T) {
	if testing.Short() {
		t.Skip("the simulator needs millions of tokens for so small an error")
	}
	for _, engine := range engineVersions {
		t.Run(engine, func(t *testing.T) { compareAll(t, handoffCells(t, engine, []int{6}), agreeHandoffRel) })
	}
}

func TestLongChainAgreesWithSimulatorOnHandoffs(t *testing.T) {
	long(t)
	for _, engine := range engineVersions {
		t.Run(engine, func(t *testing.T) { compareAll(t, handoffCells(t, engine, []int{2, 4, 8, 16}), agreeHandoffRel) })
	}
}
