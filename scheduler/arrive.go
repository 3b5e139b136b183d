package scheduler

import "github.com/tokenrouter/tokenrouter/algorithms"

// onArrived queues a client's request, or refuses it. Whether there is a place
// is decided when the instant is settled.
func (c *Core) onArrived(a *Arrival) {
	if _, known := c.byID[a.ID]; known {
		panic("scheduler: a request id arrived twice")
	}
	if len(a.Prompt) == 0 || a.MaxTokens < 1 {
		panic("scheduler: an arrival needs a prompt and room for a token")
	}
	switch {
	case !c.fitsEverywhere(len(a.Prompt) + 1):
		c.refuse(a.ID, ReasonTooLong)
		return
	case c.draining:
		c.refuse(a.ID, ReasonDraining)
		return
	}
	s, r := c.slot(a.ID)
	r.home, r.seed, r.arrivedNs = c.me, a.Seed, c.nowNs
	r.prompt, r.budget = len(a.Prompt), a.MaxTokens
	r.eos = append(r.eos, a.EOS...)
	r.ids.ids = append(r.ids.ids, a.Prompt...)
	r.stayStart = r.prompt
	for range c.models {
		r.anchors = append(r.anchors, 0)
	}
	r.anchors[c.me] = r.prompt
	c.enter(r, queued)
	r.waitSinceNs = c.nowNs
	c.queueArrival(s)
}

// queueArrival keeps the admission queue in order of age, so that arrivals of
// one instant may be stepped in any order.
func (c *Core) queueArrival(s int32) {
	c.arrived = append(c.arrived, s)
	for i := len(c.arrived) - 1; i > 0 && c.slots[s].older(&c.slots[c.arrived[i-1]]); i-- {
		c.arrived[i], c.arrived[i-1] = c.arrived[i-1], s
	}
}

func (c *Core) refuse(id RequestID, why Reason) {
	c.out = append(c.out, Message{Kind: Refuse, Request: id, Reason: why})
}

// fitsEverywhere reports whether every model that the algorithm may visit has
// a pool for that many tokens.
func (c *Core) fitsEverywhere(tokens int) bool {
	tokens = max(tokens, c.cfg.HoldContext)
	for m, pool := range c.cfg.KVTokens {
		if m != c.me && tokens > pool {
			return false
		}
	}
	return c.kv.blocksFor(tokens) <= c.blocks
}

// onDrain refuses from now on, which includes the arrivals of this instant.
func (c *Core) onDrain() {
	c.draining = true
	c.refuseLast(ReasonDraining, func(r *request) bool { return r.arrivedNs == c.nowNs })
}

// refuseLast refuses the youngest arrivals while they should be.
func (c *Core) refuseLast(why Reason, should func(*request) bool) {
	for n := len(c.arrived); n > 0 && should(&c.slots[c.arrived[n-1]]); n-- {
		s := c.arrived[n-1]
		c.arrived = c.arrived[:n-1]
		c.refuse(c.slots[s].id, why)
		c.drop(s)
	}
}

// admit gives free places to the oldest arrivals, and refuses the youngest if
// too many are left.
func (c *Core) admit() {
	n, places := 0, c.cfg.MaxRunning[c.me]-c.admitted
	if c.cfg.Static && c.admitted > 0 {
		places = 0
	}
	for n < min(len(c.arrived), places) {
		s := c.arrived[n]
		n++
		r := &c.slots[s]
		c.admitted++
		c.liveDelta++
		r.admissionWaitNs = c.nowNs - r.waitSinceNs
		c.makeReady(s)
	}
	c.arrived = append(c.arrived[:0], c.arrived[n:]...)
	c.refuseLast(ReasonQueueFull, func(*request) bool { return len(c.arrived) > c.cfg.QueueLimit })
}

// onPeerArrived takes a request that came to be extended here.
func (c *Core) onPeerArrived(req *PeerReq) {
	s, known := c.byID[req.ID]
	if !known {
		if req.Start != 0 {
			// This model knew the request and has dropped it on home's word. Home
			// tells the others, who may not have heard; were it not over, it
			// would be now.
			req.From, req.Status = c.me, algorithms.Failed
			c.out = append(c.out, Message{Kind: Return, Request: req.ID, To: req.Home, Req: req})
			return
		}
		var r *request
		s, r = c.slot(req.ID)
		r.home, r.seed, r.arrivedNs, r.prompt = req.Home, req.Seed, req.ArrivedNs, req.Prompt
		r.eos = append(r.eos, req.EOS...)
	}
	r := &c.slots[s]
	if known && r.state != away {
		panic("scheduler: a peer request arrived while the request was here")
	}
	c.take(r, req)
	r.stayStart = r.ids.len()
	r.anchors[c.me] = r.ids.len()
	c.makeReady(s)
	c.recycle(req)
}

// take appends the suffix that req brings and what travels with it.
func (c *Core) take(r *request, req *PeerReq) {
	if have := r.ids.len(); req.Start > have {
		panic("scheduler: a suffix leaves a gap")
	} else if req.Start < have {
		c.forgetFrom(r, req.Start)
	}
	r.ids.ids = append(r.ids.ids, req.Suffix...)
	r.anchors = append(r.anchors[:0], req.Anchors...)
	r.extra = append(r.extra[:0], req.Extra...)
	r.budget, r.hops = req.Budget, req.Hops
}

// forgetFrom takes back the tokens from pos on, and their KV: home has not
// accepted them.
func (c *Core) forgetFrom(r *request, pos int) {
	r.ids.truncate(pos)
	if r.fed > pos {
		c.unfeed(r, pos)
	}
}

// unfeed lets the positions from pos on be fed again. A block that others may
// have found is not written again.
func (c *Core) unfeed(r *request, pos int) {
	r.fed = pos
	if keep := pos / c.cfg.BlockTokens; keep < r.published {
		c.giveBack(r, keep)
	}
}
