package sim

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

const swarmSeeds = 500

// The swarm draws everything from a seed: models, rule, thresholds, pools,
// hand-off times, load, aborts. Every core is checked after every call, every
// client against a plain one-request loop, and at the end nothing may be left.
// Each seed runs twice, the second time with the events of each instant in
// random order, and both runs must be the same.
//
// SWARM_SEED is the first seed, SWARM_SEEDS how many run (make swarm).
func TestSwarm(t *testing.T) {
	first, seeds := setting(t, "SWARM_SEED", 1), setting(t, "SWARM_SEEDS", swarmSeeds)
	if seeds == 1 {
		t.Log(draw(first).plan)
	}
	total := swarmAll(t, first, seeds)
	t.Log(total)
	for _, kind := range []string{"send", "return", "emit", "finish", "refuse", "retract", "release", "wake-at", "state", "live",
		"stop", "length", "abort", "too-long", "queue-full", "draining"} {
		if seeds >= swarmSeeds && total[kind] == 0 {
			t.Errorf("no seed shows %s: the swarm no longer reaches it", kind)
		}
	}
}

// setting is a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// swarmAll runs seeds and sums up what they showed.
func swarmAll(t *testing.T, first, seeds uint64) map[string]int {
	total := map[string]int{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	workers := uint64(runtime.GOMAXPROCS(0))
	for worker := range workers {
		wait.Go(func() {
			for seed := first + worker; seed < first+seeds && !t.Failed(); seed += workers {
				counts, err := swarm(seed)
				mu.Lock()
				for kind, n := range counts {
					total[kind] += n
				}
				mu.Unlock()
				if err != nil {
					t.Errorf("seed %d (%s): %v\nmake swarm SEED=%d", seed, draw(seed).plan, err, seed)
				}
			}
		})
	}
	wait.Wait()
	return total
}

// swarm runs one seed in both orders.
func swarm(seed uint64) (counts map[string]int, err error) {
	plain, err := runTrial(draw(seed), false, false, fault{})
	if err != nil {
		return nil, err
	}
	shuffled, err := runTrial(draw(seed), true, false, fault{})
	if err != nil {
		return nil, fmt.Errorf("in random order: %w", err)
	}
	if !maps.Equal(plain.digest, shuffled.digest) {
		return nil, fmt.Errorf("the order of simultaneous events matters: %s", difference(seed))
	}
	return plain.counts, nil
}

// difference runs a seed again in both orders and says where they part first.
func difference(seed uint64) (first string) {
	plain, _ := runTrial(draw(seed), false, true, fault{})
	shuffled, _ := runTrial(draw(seed), true, true, fault{})
	earliest := int64(never)
	for of, log := range plain.log {
		other := shuffled.log[of]
		for i, line := range log {
			if i < len(other) && other[i] == line {
				continue
			}
			var at int64
			fmt.Sscan(line, &at)
			if at < earliest {
				earliest = at
				first = fmt.Sprintf("%s: %s, in random order %s", of, line, append(other, "nothing")[min(i, len(other))])
			}
			break
		}
	}
	return first
}

// runTrial runs a trial to its end; a panic is its error.
func runTrial(t *trial, shuffled, log bool, f fault) (c *checker, err error) {
	c = newChecker(t, shuffled, f)
	if log {
		c.log = map[string][]string{}
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
			if _, ok := r.(runtime.Error); ok {
				err = fmt.Errorf("%w\n%s", err, debug.Stack())
			}
		}
	}()
	t.cfg.hooks, t.cfg.Observer = c, c
	w, err := newWorld(t.cfg)
	if err != nil {
		return c, err
	}
	w.run()
	c.finished()
	return c, nil
}

// A swarm that finds nothing proves nothing unless it finds what is planted.
func TestSwarmFindsPlantedFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		fault
	}{
		{"a lost hand-off", fault{lose: scheduler.PeerArrived}},
		{"a lost return", fault{lose: scheduler.PeerReturned}},
		{"a lost release", fault{lose: scheduler.Released}},
		{"a hand-off that comes twice", fault{twice: scheduler.PeerArrived}},
		{"a return that comes twice", fault{twice: scheduler.PeerReturned}},
		{"a wrong token", fault{wrongToken: true}},
		{"thresholds that are not clamped", fault{noClamp: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 60; seed++ {
				if _, err := runTrial(draw(seed), false, false, c.fault); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("60 seeds did not find it")
		})
	}
}
