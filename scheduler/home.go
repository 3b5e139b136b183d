package scheduler

import "github.com/tokenrouter/tokenrouter/algorithms"

// onPeerReturned takes in tokens or a verdict of a visit.
func (c *Core) onPeerReturned(req *PeerReq) {
	s, known := c.byID[req.ID]
	if !known || c.slots[s].state == ended {
		// Home has ended the request meanwhile; the peers may not know yet.
		c.releaseKnowers(req.ID, c.me, req.Anchors)
		c.recycle(req)
		return
	}
	r := &c.slots[s]
	if r.state != pending || r.home != c.me {
		panic("scheduler: a visit returned to a request that is not pending")
	}
	if req.Status == algorithms.Failed {
		c.recycle(req)
		c.endAtHome(s, ReasonAbort) // never goes on without the visit
		return
	}
	if req.Start > r.ids.len() {
		r.early = append(r.early, req) // another model's run is still on its way
		return
	}
	for c.accept(s, req) {
		c.recycle(req)
		req = nil
		for i, e := range r.early {
			if e.Start <= r.ids.len() {
				req = e
				r.early = append(r.early[:i], r.early[i+1:]...)
				break
			}
		}
		if req == nil {
			return
		}
	}
}

// accept takes one return that leaves no gap, and reports whether the request
// is still pending. It recycles req otherwise.
func (c *Core) accept(s int32, req *PeerReq) (stillPending bool) {
	r := &c.slots[s]
	if req.Start != r.ids.len() {
		panic("scheduler: a token came home twice")
	}
	switch req.Status {
	case algorithms.Visit:
		panic("scheduler: a visit cannot return to its home")
	case algorithms.Refused:
		c.recycle(req)
		c.endAtHome(s, ReasonAbort)
		return false
	}
	tokens := c.cfg.Algorithm.Receive(req)
	if n := len(tokens); n > 0 {
		r.ids.ids = append(r.ids.ids, tokens...)
		c.emit(r.id, req.Start, r.ids.from(req.Start), req.From)
	}
	cut := len(req.Suffix) - len(tokens)
	r.budget = req.Budget + cut
	n := r.ids.len()
	r.anchors = append(r.anchors[:0], req.Anchors...)
	for m := range r.anchors {
		// What home did not accept, nobody has.
		r.anchors[m] = min(r.anchors[m], n)
	}
	r.anchors[c.me] = n
	if req.Status == algorithms.Running {
		return true
	}
	finished := req.Status == algorithms.Finished && cut == 0
	r.extra = append(r.extra[:0], req.Extra...)
	r.hops, r.stayStart = req.Hops, n
	c.recycle(req)
	if finished {
		c.endAtHome(s, c.overReason(r))
		return false
	}
	c.makeReady(s)
	return false
}

// onEnd ends a request at home on the client's word, in any state.
func (c *Core) onEnd(id RequestID, why Reason) {
	if s, known := c.byID[id]; known && c.slots[s].state != ended {
		if c.slots[s].home != c.me {
			panic("scheduler: only home ends a request")
		}
		c.endAtHome(s, why)
	}
}

// endAtHome tells the client and every model that the request is over.
func (c *Core) endAtHome(s int32, why Reason) {
	r := &c.slots[s]
	c.out = append(c.out, Message{Kind: Finish, Request: r.id, Reason: why, Start: r.ids.len()})
	if r.state != queued {
		c.admitted--
		c.liveDelta--
		for m := range c.models {
			if m != c.me {
				c.out = append(c.out, Message{Kind: Release, Request: r.id, To: m})
			}
		}
	}
	c.end(s)
}

// releaseKnowers tells the models that know a request that it is over. Home's
// first Release may have reached one of them before the request did, from a
// third model. So home tells them again when it hears of the request, and a
// model that has to drop it passes the word on to those it knows of.
func (c *Core) releaseKnowers(id RequestID, home int, anchors []int) {
	for m, a := range anchors {
		if a > 0 && m != c.me && m != home {
			c.out = append(c.out, Message{Kind: Release, Request: id, To: m})
		}
	}
}

// onReleased drops a peer's request: at once, or when its step is over.
func (c *Core) onReleased(id RequestID) {
	s, known := c.byID[id]
	if !known || c.slots[s].state == ended {
		return
	}
	r := &c.slots[s]
	if r.home == c.me {
		panic("scheduler: home was told to release its own request")
	}
	if r.state != away {
		c.releaseKnowers(id, r.home, r.anchors)
	}
	c.end(s)
}

// end frees a request, unless it is in the step that is running.
func (c *Core) end(s int32) {
	r := &c.slots[s]
	if r.state == inFlight && c.busy {
		c.enter(r, ended)
		return
	}
	c.publishAll(r)
	c.leaveQueues(s)
	c.drop(s)
}

// publishAll leaves the KV of a whole request behind for the next turn of its
// conversation.
func (c *Core) publishAll(r *request) {
	size := c.cfg.BlockTokens
	full := r.fed / size
	if !c.reuse || full <= r.published {
		return
	}
	c.kv.publish(r.ids.span(0, full*size), r.blocks[:full], r.published)
	r.published = full
}

// outgrown ends a request that is larger than this model's whole pool.
func (c *Core) outgrown(s int32) {
	r := &c.slots[s]
	if r.home == c.me {
		c.endAtHome(s, ReasonAbort)
		return
	}
	c.bringHome(r, algorithms.Refused)
	c.leaveQueues(s)
	c.drop(s)
}
