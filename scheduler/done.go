package scheduler

import "github.com/tokenrouter/tokenrouter/algorithms"

// onStepDone takes in the end of the step in flight.
func (c *Core) onStepDone(results []Result) {
	if !c.busy || len(results) != len(c.batch) {
		panic("scheduler: StepDone does not answer the step in flight")
	}
	c.busy = false
	c.lastRan = c.me
	c.freed = true // in-flight requests were out of reach of the KV queue
	c.reserveRun(results)
	for i := range results {
		c.finishEntry(&c.batch[i], &results[i])
	}
	c.batch = c.batch[:0]
}

func (c *Core) finishEntry(e *Entry, res *Result) {
	if res.ID != e.ID || res.Sampled != e.Samples {
		panic("scheduler: a result does not match its entry")
	}
	s := e.Slot
	r := &c.slots[s]
	if r.state == ended {
		c.drop(s)
		return
	}
	if len(res.Run) > 0 && c.cfg.HoldContext == 0 {
		r.fed += len(res.Run) // reserveRun has fed the first step
	} else {
		c.feed(r, len(e.Tokens)+len(res.Run))
	}
	if !res.Sampled {
		c.makeReady(s)
		return
	}
	if c.cfg.HoldContext > 0 && len(r.ids.ids) >= forgetTokens {
		c.forgetOld(r)
	}
	first := r.ids.len()
	r.ids.ids = append(r.ids.ids, res.Run...)
	r.budget -= len(res.Run)
	to := res.Dest.Model()
	if to >= c.models {
		panic("scheduler: Route names a model that is not there")
	}
	if to >= 0 && to != c.me {
		c.leave(s, res, to, first)
		return
	}
	r.extra = append(r.extra[:0], res.Extra...)
	c.keepToken(r, res.Token, first)
	switch {
	case c.isOver(r):
		c.finishHere(s)
	case r.home == c.me:
		c.makeReady(s)
	default:
		if c.stream {
			c.bringHome(r, algorithms.Running)
		}
		c.makeReady(s)
	}
}

// feed notes that rows positions have KV now, and lets other requests find that
// of the prompt as soon as all of it is there: prompts are what requests share.
// The rest follows when the request ends.
func (c *Core) feed(r *request, rows int) {
	r.fed += rows
	size := c.cfg.BlockTokens
	if !c.reuse || r.fed < r.prompt || (r.published+1)*size > r.prompt {
		return
	}
	full := r.prompt / size
	c.kv.publish(r.ids.span(0, full*size), r.blocks[:full], r.published)
	r.published = full
}

// keepToken appends a token that was sampled here. At home the client sees it,
// and those from first on.
func (c *Core) keepToken(r *request, t Token, first int) {
	r.ids.push(t)
	r.budget--
	c.show(r, first)
}

// show takes note of the tokens from first on, which were written here; at home
// the client sees them.
func (c *Core) show(r *request, first int) {
	n := r.ids.len()
	r.anchors[c.me] = n
	if r.home == c.me && n > first {
		c.emit(r.id, first, r.ids.from(first), c.me)
	}
}

// emit appends an Emit, built in place: there is one for every token.
func (c *Core) emit(id RequestID, start int, tokens []Token, writer int) {
	if len(c.out) == cap(c.out) {
		c.out = append(c.out, Message{})
	} else {
		c.out = c.out[:len(c.out)+1]
	}
	m := &c.out[len(c.out)-1]
	*m = Message{}
	m.Kind, m.Request, m.Start, m.Tokens, m.Writer = Emit, id, start, tokens, writer
}

// forgetTokens bounds the ids that a never-ending request keeps.
const forgetTokens = 4096

func (c *Core) forgetOld(r *request) {
	keep := r.fed
	for _, a := range r.anchors {
		keep = min(keep, a)
	}
	if keep > r.ids.base {
		r.ids.forget(keep)
	}
}

func (c *Core) isOver(r *request) bool {
	return r.budget <= 0 || r.ends(r.ids.ids[len(r.ids.ids)-1])
}

func (c *Core) overReason(r *request) Reason {
	if r.ends(r.ids.ids[len(r.ids.ids)-1]) {
		return ReasonStop
	}
	return ReasonLength
}

// finishHere ends a request whose last token was written here.
func (c *Core) finishHere(s int32) {
	r := &c.slots[s]
	if r.home == c.me {
		c.endAtHome(s, c.overReason(r))
		return
	}
	c.bringHome(r, algorithms.Finished)
	c.goAway(r)
}

// leave hands a request to another model.
func (c *Core) leave(s int32, res *Result, to, first int) {
	r := &c.slots[s]
	req := c.newPeerReq()
	req.ID, req.Home, req.From, req.Seed = r.id, r.home, c.me, r.seed
	req.Extra = append(req.Extra[:0], res.Extra...)
	dep := algorithms.Departure{From: c.me, To: to, Home: r.home, Position: r.ids.len(), Token: res.Token}
	if c.cfg.Algorithm.Send(dep, req) {
		c.keepToken(r, res.Token, first)
		if c.isOver(r) {
			c.recycle(req)
			c.finishHere(s)
			return
		}
	} else {
		c.show(r, first)
	}
	r.hops++
	switch {
	case r.home == c.me:
		c.pack(r, req, algorithms.Visit, to)
		c.out = append(c.out, Message{Kind: Send, Request: r.id, To: to, Req: req})
		c.enter(r, pending)
	case to == r.home:
		r.extra = append(r.extra[:0], req.Extra...)
		c.recycle(req)
		c.bringHome(r, algorithms.Returned)
		c.goAway(r)
	default:
		if c.stream && r.anchors[r.home] < r.ids.len() {
			c.bringHome(r, algorithms.Running)
		}
		c.pack(r, req, algorithms.Visit, to)
		c.out = append(c.out, Message{Kind: Send, Request: r.id, To: to, Req: req})
		c.goAway(r)
	}
}

// goAway leaves a peer's request to others for now.
func (c *Core) goAway(r *request) {
	c.enter(r, away)
	if c.cfg.Reread {
		c.giveBack(r, 0)
	}
}

// bringHome sends home the tokens that it does not have yet.
func (c *Core) bringHome(r *request, status algorithms.Status) {
	req := c.newPeerReq()
	req.Extra = append(req.Extra[:0], r.extra...)
	c.pack(r, req, status, r.home)
	c.out = append(c.out, Message{Kind: Return, Request: r.id, To: r.home, Req: req})
}

// pack fills in all of req but Extra; its suffix is what `to` has not seen.
func (c *Core) pack(r *request, req *PeerReq, status algorithms.Status, to int) {
	n := r.ids.len()
	req.ID, req.Home, req.From, req.Status, req.Seed = r.id, r.home, c.me, status, r.seed
	req.Start = r.anchors[to]
	req.Suffix = append(req.Suffix[:0], r.ids.from(req.Start)...)
	r.anchors[to] = n
	req.Anchors = append(req.Anchors[:0], r.anchors...)
	req.Prompt, req.Budget, req.EOS = r.prompt, r.budget, append(req.EOS[:0], r.eos...)
	req.ArrivedNs, req.Hops = r.arrivedNs, r.hops
}
