package scheduler

import (
	"cmp"
	"math"
	"slices"
)

// repeats is how many steps in a row the batch may run as one: as long as each
// would be launched again unchanged if every token stayed. So nobody else may
// be ready or wait for blocks, every entry must feed one row and show its token
// itself (a visit brings each token home as it comes), the rule must agree with
// the batch alone, and neither budgets nor blocks may run out.
func (c *Core) repeats(b *Batch) int {
	n := len(b.Entries)
	if !c.cfg.Repeats || n == 0 || b.Rows != n || c.gated || len(c.ready) > 0 || len(c.kvWait) > 0 {
		return 1
	}
	steps := math.MaxInt
	for i := range b.Entries {
		e := &b.Entries[i]
		if !e.Samples || e.Home != c.me {
			return 1
		}
		steps = min(steps, c.slots[e.Slot].budget)
	}
	c.load = Load{Model: c.me, Ready: n, Live: c.live, B: c.inForce[c.me], OldestReadyNs: c.nowNs, NowNs: c.nowNs, LastRan: c.me}
	if !c.cfg.Rule.Launch(&c.load) {
		return 1
	}
	if c.cfg.HoldContext == 0 {
		// Each entry takes a block every BlockTokens steps, and maybe one early.
		steps = min(steps, max(c.kv.available()/n-1, 0)*c.cfg.BlockTokens)
	}
	return max(steps, 1)
}

// reserveRun feeds the first step of a run and takes the blocks that the steps after the first would have taken,
// in the order in which they would have: by step, then by entry.
func (c *Core) reserveRun(results []Result) {
	steps := 1 + len(results[0].Run)
	if steps == 1 {
		return
	}
	if c.cfg.HoldContext > 0 {
		return
	}
	// The first step may complete a prompt, and publishing that may give a block
	// back that the later steps would have taken.
	for i := range c.batch {
		if r := &c.slots[c.batch[i].Slot]; r.state != ended {
			c.feed(r, len(c.batch[i].Tokens))
		}
	}
	size := c.cfg.BlockTokens
	c.turns = c.turns[:0]
	for i := range c.batch {
		if len(results[i].Run) != steps-1 {
			panic("scheduler: the runs of a batch differ in length")
		}
		r := &c.slots[c.batch[i].Slot]
		// Step k feeds the position fed+k-2, so it is the first one without a
		// block when k is two more than what the blocks still hold.
		c.turns = append(c.turns, turn{len(r.blocks)*size - r.fed + 2, int32(i)})
	}
	slices.SortStableFunc(c.turns, func(a, b turn) int { return cmp.Compare(a.step, b.step) })
	for base := 0; base < steps; base += size {
		for _, t := range c.turns {
			if t.step+base > steps {
				continue
			}
			r := &c.slots[c.batch[t.entry].Slot]
			if r.state == ended {
				continue
			}
			var ok bool
			if r.blocks, ok = c.kv.alloc(r.blocks, 1); !ok {
				panic("scheduler: a run of steps needs blocks that Launch did not see")
			}
		}
	}
}

// turn is the step of a run in which an entry first needs another block.
type turn struct {
	step  int
	entry int32
}
