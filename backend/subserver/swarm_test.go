package subserver

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

const swarmSeeds = 120

// The swarm draws everything of a plan from a seed.
//
// SWARM_SEEDS says how many seeds run; SWARM_SEED is the only one, or with
// SWARM_SEEDS the first.
func TestSwarm(t *testing.T) {
	many := swarmSeeds
	if os.Getenv("SWARM_SEED") != "" {
		many = 1
	}
	first := setting(t, "SWARM_SEED", 1)
	seeds := setting(t, "SWARM_SEEDS", many)
	total := map[string]int{}
	for seed := range seeds {
		seed := first + seed
		p := drawPlan(uint64(seed))
		p.tally = total
		t.Run(strconv.Itoa(seed), p.obey)
		if t.Failed() {
			t.Fatalf("SWARM_SEED=%d go test -run TestSwarm: %v", seed, p)
		}
	}
	t.Log(total)
	for _, kind := range []string{"arrived", "peer-arrived", "peer-returned", "step-done", "peer-state", "live", "wake", "aborted", "released",
		"send", "return", "emit", "finish", "retract", "release", "wake-at", "state", "stop", "length", "abort", "too-long",
		"running", "returned", "finished", "refused", "declined", "together"} {
		if seeds >= swarmSeeds && total[kind] == 0 {
			t.Errorf("no seed shows %s: the swarm no longer reaches it", kind)
		}
	}
}

// setting is a number from the environment.
func setting(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func drawPlan(seed uint64) plan {
	rng := rand.New(rand.NewPCG(seed, 7))
	of := func(list ...int) int { return list[rng.IntN(len(list))] }
	src := sources[rng.IntN(len(sources))]
	p := plan{algorithm: src.name, params: src.params, rule: rules[rng.IntN(len(rules))], b: of(1, 2, 4, 8),
		concurrency: of(1, 3, 8, 16), requests: 8 + rng.IntN(16), noReuse: rng.IntN(3) == 0,
		kvTokens: of(24, 56, 80, 160, 4000), blockTokens: of(1, 3, 4, 8), maxRunning: of(1, 2, 4, 8), homes: rng.IntN(3) == 0,
		reread: rng.IntN(5) == 0, static: rng.IntN(8) == 0, split: rng.IntN(3) == 0, instant: rng.IntN(4) == 0, quiet: rng.IntN(4) == 0, twice: rng.IntN(2) == 0, seed: seed}
	p.chunk = p.maxRunning + of(1, 2, 8, 64)
	if rng.IntN(4) == 0 {
		p.cancels = 0.4
	}
	if rng.IntN(5) == 0 {
		for range p.params.Models {
			p.fails = append(p.fails, of(0, 0, 1, 5, 20))
		}
	}
	return p
}

// The whole grid of the law: make bench runs it.
func TestLongGrid(t *testing.T) {
	every := 97 // a few cells are always run
	if os.Getenv("LONG") != "" {
		every = 1
	}
	cell := 0
	for _, src := range sources {
		for _, rule := range rules {
			for _, b := range []int{1, 2, 4, 8} {
				for _, users := range []int{1, 3, 8, 16} {
					for _, noReuse := range []bool{false, true} {
						for _, kv := range []int{56, 4000} {
							if cell++; cell%every != 0 {
								continue
							}
							p := plan{algorithm: src.name, params: src.params, rule: rule, b: b, concurrency: users, requests: max(6, users),
								noReuse: noReuse, kvTokens: kv, blockTokens: 4, chunk: 16, maxRunning: 8, twice: true, seed: uint64(cell)}
							t.Run(fmt.Sprintf("%s-%d/%v/B%d/c%d/reuse=%t/kv%d", src.name, src.params.Models, rule, b, users, !noReuse, kv), p.obey)
						}
					}
				}
			}
		}
	}
}

// Never and always routing is the small and the large model alone: what one
// writes is what a system of that model writes.
func TestOneModelAlone(t *testing.T) {
	for _, rule := range rules {
		for model, threshold := range []float64{-1, 2} {
			p := plan{algorithm: "confidence", params: sources[3].params, rule: rule, b: 2, concurrency: 3, requests: 6,
				kvTokens: 4000, blockTokens: 4, chunk: 16, maxRunning: 8, seed: 5}
			p.params.Threshold = &threshold
			synctest.Test(t, func(t *testing.T) {
				routed := p.serve(t, p.config(t))
				alone := p
				alone.algorithm, alone.params = "never", algorithms.Params{Models: 1}
				cfg := alone.config(t)
				cfg.Models[0].Engine.(*fakeEngine).model = fakeModel(model)
				for i, want := range alone.serve(t, cfg) {
					if got := routed[i]; !slices.Equal(got.tokens, want.tokens) || got.reason != want.reason || len(want.tokens) == 0 {
						t.Errorf("%v: request %d\n got %v\nwant %v", rule, i+1, got.tokens, want.tokens)
					}
				}
			})
		}
	}
}
