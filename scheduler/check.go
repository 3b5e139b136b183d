package scheduler

import "fmt"

// Check panics if one of the core's invariants is broken:
//
//	C1  every slot in use is found by its id, and free slots are empty
//	C2  the ready list holds the ready requests once each, by (ready since, id)
//	C3  the KV queue holds the kv-queued requests once each, by age
//	C4  the admission queue holds the queued requests once each, by age
//	C5  the batch in flight holds the in-flight and ended requests once each
//	C6  a request's KV covers what it has fed, and nothing that it does not know
//	C7  a ready, kv-queued or in-flight request has tokens to feed
//	C8  admitted requests are those of this home past the queue, within MaxRunning
//	C9  no model knows more of a request than the one that holds it
//	C10 a request's home and state fit: pending at home only, away elsewhere only
//	C11 thresholds in force are at least 1 and sum to at most live + models - 1
//	C12 held KV blocks are those of the requests, or given back at this instant (K1 to K8 of the pool hold too)
//	C13 the requests in each state are as many as counted
//
// It takes time linear in the core's size; tests call it after every event.
func (c *Core) Check() {
	if err := c.check(); err != nil {
		panic(err.Error())
	}
}

func broken(rule, format string, args ...any) error {
	return fmt.Errorf("scheduler: invariant %s: %s", rule, fmt.Sprintf(format, args...))
}

func (c *Core) check() error {
	for _, part := range []func() error{c.checkSlots, c.checkLists, c.checkBatch, c.checkRequests, c.checkForce, c.checkKV, c.kv.check, c.checkCounts} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Core) checkSlots() error {
	used := 0
	for i := range c.slots {
		r := &c.slots[i]
		if r.state == free {
			if len(r.blocks) > 0 || r.ids.len() > 0 || len(r.early) > 0 {
				return broken("C1", "free slot %d holds something", i)
			}
			continue
		}
		used++
		if s, ok := c.byID[r.id]; !ok || s != int32(i) {
			return broken("C1", "request %d in slot %d is found in %d", r.id, i, s)
		}
	}
	if used != len(c.byID) || used+len(c.unused) != len(c.slots) {
		return broken("C1", "%d of %d slots in use, %d ids, %d unused", used, len(c.slots), len(c.byID), len(c.unused))
	}
	return nil
}

func (c *Core) checkLists() error {
	byAge := func(a, b *request) bool { return a.older(b) }
	for _, l := range []struct {
		rule  string
		list  []int32
		state state
		less  func(a, b *request) bool
	}{
		{"C2", c.ready, ready, func(a, b *request) bool {
			return a.readySinceNs < b.readySinceNs || a.readySinceNs == b.readySinceNs && a.id < b.id
		}},
		{"C3", c.kvWait, kvQueued, byAge},
		{"C4", c.arrived, queued, byAge},
	} {
		n := 0
		for i := range c.slots {
			if c.slots[i].state == l.state {
				n++
			}
		}
		if n != len(l.list) {
			return broken(l.rule, "%d requests are %v, the list has %d", n, l.state, len(l.list))
		}
		for i, s := range l.list {
			if c.slots[s].state != l.state {
				return broken(l.rule, "request %d is %v", c.slots[s].id, c.slots[s].state)
			}
			if i > 0 && !l.less(&c.slots[l.list[i-1]], &c.slots[s]) {
				return broken(l.rule, "request %d is out of order", c.slots[s].id)
			}
		}
	}
	return nil
}

func (c *Core) checkBatch() error {
	n := 0
	for i := range c.slots {
		if st := c.slots[i].state; st == inFlight || st == ended {
			n++
		}
	}
	if n != len(c.batch) || c.busy != (n > 0) {
		return broken("C5", "%d requests in flight, batch of %d, busy %t", n, len(c.batch), c.busy)
	}
	for i := range c.batch {
		r := &c.slots[c.batch[i].Slot]
		if r.id != c.batch[i].ID || r.state != inFlight && r.state != ended {
			return broken("C5", "entry %d of the batch is request %d, %v", i, r.id, r.state)
		}
	}
	return nil
}

func (c *Core) checkRequests() error {
	admitted := 0
	for i := range c.slots {
		r := &c.slots[i]
		if r.state == free {
			continue
		}
		here := r.state == ready || r.state == kvQueued || r.state == inFlight
		n := r.ids.len()
		switch {
		case r.fed > n || c.cfg.HoldContext == 0 && len(r.blocks)*c.cfg.BlockTokens < r.fed:
			return broken("C6", "request %d of %d tokens fed %d in %d blocks", r.id, n, r.fed, len(r.blocks))
		case here && r.unseen() < 1:
			return broken("C7", "request %d is %v with nothing to feed", r.id, r.state)
		case r.state == pending && r.home != c.me, r.state == away && r.home == c.me, r.state == queued && r.home != c.me:
			return broken("C10", "request %d of home %d is %v at %d", r.id, r.home, r.state, c.me)
		}
		if r.home == c.me && r.state != queued && r.state != ended {
			admitted++
		}
		for m, a := range r.anchors {
			if here && a > n {
				return broken("C9", "model %d knows %d of %d tokens of request %d", m, a, n, r.id)
			}
		}
	}
	if admitted != c.admitted || admitted > c.cfg.MaxRunning[c.me] {
		return broken("C8", "%d requests admitted, counted %d, at most %d", admitted, c.admitted, c.cfg.MaxRunning[c.me])
	}
	return nil
}

func (c *Core) checkForce() error {
	sum := 0
	for _, b := range c.inForce {
		if b < 1 {
			return broken("C11", "thresholds in force are %v", c.inForce)
		}
		sum += b
	}
	if sum > max(c.live, 1)+c.models-1 {
		return broken("C11", "thresholds %v in force while %d requests are live", c.inForce, c.live)
	}
	return nil
}

func (c *Core) checkKV() error {
	refs := make([]int32, c.blocks)
	for i := range c.slots {
		for _, b := range c.slots[i].blocks {
			refs[b]++
		}
	}
	for _, b := range c.goneBlock {
		refs[b]++
	}
	for b := range refs {
		if have := c.kv.blocks[b].refs; have != refs[b] {
			return broken("C12", "block %d has %d references and %d owners", b, have, refs[b])
		}
	}
	return nil
}

func (c *Core) checkCounts() error {
	counts := [states]int{free: c.counts[free]}
	for i := range c.slots {
		if st := c.slots[i].state; st != free {
			counts[st]++
		}
	}
	if counts != c.counts {
		return broken("C13", "%v requests by state, counted %v", counts, c.counts)
	}
	return nil
}
