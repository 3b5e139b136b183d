package scheduler

import "slices"

// reserve gives a request the blocks for that many tokens, taking KV from
// others if it must. If that cannot do, nothing has changed.
func (c *Core) reserve(s int32, tokens int) bool {
	r := &c.slots[s]
	if c.cfg.HoldContext > 0 {
		tokens = c.cfg.HoldContext
	}
	if len(r.blocks)*c.cfg.BlockTokens >= tokens {
		return true
	}
	need := c.kv.blocksFor(tokens) - len(r.blocks)
	if c.kv.available() < need && !c.makeRoom(s, need) {
		return false
	}
	var ok bool
	if r.blocks, ok = c.kv.alloc(r.blocks, need); !ok {
		panic("scheduler: the KV pool holds fewer blocks than it said")
	}
	return true
}

// makeRoom takes KV from others until need blocks are available. Cached
// prefixes that nobody uses count as available already. It first finds who
// would have to give, and takes from none if all of them do not suffice.
func (c *Core) makeRoom(s int32, need int) bool {
	c.listVictims(s)
	missing := need - c.kv.available()
	n := 0
	for n < len(c.victims) && missing > 0 {
		missing -= c.kv.claim(c.slots[c.victims[n]].blocks)
		n++
	}
	for _, v := range c.victims[:n] {
		c.kv.unclaim(c.slots[v].blocks)
	}
	if missing > 0 {
		return false
	}
	for _, v := range c.victims[:n] {
		c.retract(v)
	}
	return true
}

// listVictims lists who may lose KV to asker, in the order in which they do:
// requests of other homes that are not here now; then, younger than the asker,
// those that wait here; then, younger than the asker, those of this home that
// are away at a peer. The youngest of each first. The step in flight is never
// touched.
func (c *Core) listVictims(asker int32) {
	c.victims = c.victims[:0]
	for i := range c.slots {
		if v := int32(i); v != asker && len(c.slots[i].blocks) > 0 && c.rank(v, asker) > 0 {
			c.victims = append(c.victims, v)
		}
	}
	slices.SortFunc(c.victims, func(a, b int32) int {
		if d := c.rank(a, asker) - c.rank(b, asker); d != 0 {
			return d
		}
		if c.slots[a].older(&c.slots[b]) {
			return 1
		}
		return -1
	})
}

// rank is 1, 2 or 3 for those who may lose KV to asker, 0 for others.
func (c *Core) rank(v, asker int32) int {
	r := &c.slots[v]
	younger := c.slots[asker].older(r)
	switch {
	case r.state == away:
		return 1
	case younger && (r.state == ready || r.state == kvQueued):
		return 2
	case younger && r.state == pending:
		return 3
	}
	return 0
}

// retract takes a request's KV; its tokens stay and will be extended again.
func (c *Core) retract(v int32) {
	r := &c.slots[v]
	c.dropKV(r)
	c.out = append(c.out, Message{Kind: Retract, Request: r.id})
	if r.state == ready {
		c.enter(r, kvQueued)
		r.waitSinceNs = c.nowNs
		c.queueForKV(v) // the caller takes it out of the ready list
	}
}

// queueForKV keeps the KV queue in order of age.
func (c *Core) queueForKV(s int32) {
	c.kvWait = append(c.kvWait, s)
	for i := len(c.kvWait) - 1; i > 0 && c.slots[s].older(&c.slots[c.kvWait[i-1]]); i-- {
		c.kvWait[i], c.kvWait[i-1] = c.kvWait[i-1], s
	}
}

// serveKVQueue gives blocks that came free to the oldest of those who wait;
// nobody overtakes, so the oldest request always gets on.
func (c *Core) serveKVQueue() {
	for len(c.kvWait) > 0 {
		s := c.kvWait[0]
		r := &c.slots[s]
		c.matchPrefix(r)
		if !c.reserve(s, r.fed+min(r.unseen(), c.cfg.ChunkTokens)) {
			break
		}
		c.keepReady() // whom reserve took KV from may be the next to get some
		c.kvWait = append(c.kvWait[:0], c.kvWait[1:]...)
		r.kvWaitNs += c.nowNs - r.waitSinceNs
		c.makeReady(s)
	}
}
