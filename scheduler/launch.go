package scheduler

// Launch asks a core whether a step starts now. It is the only call that
// starts work. The batch is valid until its StepDone, the messages until the
// next call; the driver delivers them whether or not a step starts. It settles
// the instant if the driver has not.
func (c *Core) Launch() (Batch, []Message, bool) {
	c.Settle()
	if c.busy || len(c.ready) == 0 {
		return Batch{}, c.out, false
	}
	c.fillLoad()
	if !c.cfg.Rule.Launch(&c.load) {
		c.askWake()
		return Batch{}, c.out, false
	}
	b := c.choose()
	c.busy = len(c.batch) > 0
	b.Steps = c.repeats(&b)
	c.settle()
	return b, c.out, c.busy
}

func (c *Core) fillLoad() {
	c.load = Load{
		Model: c.me, Ready: len(c.ready), Live: c.live, B: c.inForce[c.me],
		OldestReadyNs: c.slots[c.ready[0]].readySinceNs, NowNs: c.nowNs, LastRan: c.lastRan,
	}
	if c.gated {
		c.load.Peers = c.peers
	}
}

// askWake asks to be woken when the oldest ready request has waited enough.
func (c *Core) askWake() {
	d, ok := c.cfg.Rule.(Delayed)
	if !ok || d.MaxDelayNs == 0 {
		return
	}
	if at := c.load.OldestReadyNs + d.MaxDelayNs; at > c.nowNs && at != c.wakeNs {
		c.wakeNs = at
		c.out = append(c.out, Message{Kind: WakeAt, AtNs: at})
	}
}

// choose builds the batch: the requests that have waited longest, as many as
// may run. Those that feed one row come first, so that a long prefill delays
// no decode; extends and prefill chunks share the rows that are left.
func (c *Core) choose() Batch {
	n := min(len(c.ready), c.cfg.MaxRunning[c.me])
	b := Batch{Entries: c.batch[:0]}
	rows := c.cfg.ChunkTokens
	long := 0
	for _, s := range c.ready[:n] {
		r := &c.slots[s]
		if r.state != ready {
			continue // an older one took its KV
		}
		if r.unseen() > 1 {
			long++
		} else if c.board(&b, s, 1) {
			rows--
		}
	}
	if long > 0 {
		c.chooseLong(&b, n, rows)
	}
	c.keepReady()
	c.batch = b.Entries
	return b
}

// keepReady drops from the ready list those who boarded or lost their KV.
func (c *Core) keepReady() {
	kept := c.ready[:0]
	for _, s := range c.ready {
		if c.slots[s].state == ready {
			kept = append(kept, s)
		}
	}
	c.ready = kept
}

func (c *Core) chooseLong(b *Batch, n, rows int) {
	for _, s := range c.ready[:n] {
		r := &c.slots[s]
		if r.state != ready || r.unseen() <= 1 || rows == 0 {
			continue
		}
		c.matchPrefix(r)
		take := min(r.unseen(), rows)
		if c.board(b, s, take) {
			rows -= take
		}
	}
}

// matchPrefix takes over cached KV of a request that has none here.
func (c *Core) matchPrefix(r *request) {
	if !c.reuse || r.fed > 0 || len(r.blocks) > 0 {
		return
	}
	// The last token is always fed: its forward is what samples the next.
	r.blocks = c.kv.match(r.blocks, r.ids.span(0, r.ids.len()-1))
	r.published = len(r.blocks)
	r.fed = r.published * c.cfg.BlockTokens
}

// board puts a request into the batch with that many rows, if there is KV for
// them; otherwise the request joins the KV queue.
func (c *Core) board(b *Batch, s int32, rows int) bool {
	r := &c.slots[s]
	if !c.reserve(s, r.fed+rows) {
		c.enter(r, kvQueued)
		r.waitSinceNs = c.nowNs
		c.queueForKV(s)
		return false
	}
	c.enter(r, inFlight)
	context := r.fed + rows
	if c.cfg.HoldContext > 0 {
		context = c.cfg.HoldContext
	}
	n := r.ids.len()
	// Filled in place: entries are large, and there is one for every token.
	if len(b.Entries) == cap(b.Entries) {
		b.Entries = append(b.Entries, Entry{})
	} else {
		b.Entries = b.Entries[:len(b.Entries)+1]
	}
	e := &b.Entries[len(b.Entries)-1]
	e.ID, e.Slot, e.Tokens, e.Start = r.id, s, r.ids.span(r.fed, r.fed+rows), r.fed
	e.Context, e.Blocks, e.Samples = context, r.blocks, r.fed+rows == n
	e.Seed, e.Home, e.Position, e.StayStart, e.Hops, e.Extra = r.seed, r.home, n, r.stayStart, r.hops, r.extra
	e.ReadySinceNs, e.KVWaitNs, e.AdmissionWaitNs = r.readySinceNs, r.kvWaitNs, r.admissionWaitNs
	r.kvWaitNs, r.admissionWaitNs = 0, 0
	b.Rows += rows
	b.ContextTokens += context
	return true
}
