package sim

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

const swarmSeeds = 500

// The swarm draws everything from a seed: models, rule, thresholds, pools,
// hand-off times, load, aborts. Every core is checked after every call, every
// client against a plain one-request loop, and at the end nothing may be left.
// Each seed runs again with the events of each instant in random order, and
// with several steps as one, and must come to the same.
//
// SWARM_SEEDS says how many seeds run; SWARM_SEED is the only one, or with
// SWARM_SEEDS the first.
func TestSwarm(t *testing.T) {
	many := uint64(swarmSeeds)
	if os.Getenv("SWARM_SEED") != "" {
		many = 1
	}
	first, seeds := setting(t, "SWARM_SEED", 1), setting(t, "SWARM_SEEDS", many)
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

// swarm runs one seed: as it is, with the events of each instant in random
// order, and so with several steps as one.
func swarm(seed uint64) (counts map[string]int, err error) {
	plain, err := runTrial(draw(seed), mode{})
	if err != nil {
		return nil, err
	}
	for _, as := range []mode{{shuffled: true}, {shuffled: true, stretched: true}} {
		other, err := runTrial(draw(seed), as)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", as, err)
		}
		for of, d := range plain.digest {
			// Within a stretch tokens come together and steps are not told, but
			// requests end as they do.
			if other.digest[of] != d && (!as.stretched || strings.HasPrefix(of, "end")) {
				return nil, fmt.Errorf("%v: another result: %s", as, difference(seed, as))
			}
		}
	}
	return plain.counts, nil
}

// mode is a way to run a trial.
type mode struct {
	shuffled, stretched, logged bool
	fault
}

func (m mode) String() string {
	if m.stretched {
		return "in random order, in stretches"
	}
	return "in random order"
}

// difference runs a seed again both ways and says where they part first.
func difference(seed uint64, as mode) (first string) {
	as.logged = true
	plain, _ := runTrial(draw(seed), mode{logged: true})
	other, _ := runTrial(draw(seed), as)
	earliest := int64(never)
	for of, log := range plain.log {
		if as.stretched && !strings.HasPrefix(of, "end") {
			continue
		}
		for i, line := range log {
			theirs := append(slices.Clone(other.log[of]), "nothing")[min(i, len(other.log[of]))]
			var at int64
			if fmt.Sscan(line, &at); line != theirs && at < earliest {
				earliest = at
				first = fmt.Sprintf("%s: %s, otherwise %s", of, line, theirs)
			}
		}
	}
	return first
}

// runTrial runs a trial to its end; a panic is its error.
func runTrial(t *trial, as mode) (c *checker, err error) {
	c = newChecker(t, as.shuffled, as.fault)
	if as.logged {
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
	t.cfg.hooks, t.cfg.Observer, t.cfg.stretched = c, c, as.stretched
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
				if _, err := runTrial(draw(seed), mode{fault: c.fault}); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("60 seeds did not find it")
		})
	}
}
