package scheduler

// Counts are a core's requests by where they stand. A peer's request that is
// not here now counts as Away.
type Counts struct {
	Queued   int // at home, not admitted yet
	Ready    int // could run in the next step
	KVQueued int // wait for KV blocks
	InFlight int // in the step that is running, those that are over included
	Pending  int // of this home, away at a peer
	Away     int // of other homes, not here now
	Admitted int // of this home, admitted and not over
	Live     int // in the whole system, as far as this core has heard
}

// Counts takes no longer however many requests there are.
func (c *Core) Counts() Counts {
	return Counts{
		Queued: c.counts[queued], Ready: c.counts[ready], KVQueued: c.counts[kvQueued],
		InFlight: c.counts[inFlight] + c.counts[ended], Pending: c.counts[pending],
		Away: c.counts[away], Admitted: c.admitted, Live: c.live,
	}
}

// Knows reports whether the core holds a request and what its driver has noted
// about it is still needed: one that is over but in the step that is running
// counts no longer.
func (c *Core) Knows(id RequestID) bool {
	s, known := c.byID[id]
	return known && c.slots[s].state != ended
}

// Pending reports whether a request of this home is away at a peer.
func (c *Core) Pending(id RequestID) bool {
	s, known := c.byID[id]
	return known && c.slots[s].state == pending
}

// History returns the ids of an entry's request up to and with the last that
// the entry feeds, and how many of them are its prompt. The ids are valid as
// long as the batch. Steady workloads forget ids and have no history.
func (c *Core) History(e *Entry) (ids []Token, prompt int) {
	r := &c.slots[e.Slot]
	if r.ids.base > 0 {
		return nil, r.prompt
	}
	return r.ids.span(0, e.Start+len(e.Tokens)), r.prompt
}
