package scheduler

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// Config fixes one core. MaxRunning and KVTokens are indexed by model, because
// Clamp and admission look at all of them; the rest is the core's own.
type Config struct {
	Model       int // index of this core's model
	Algorithm   algorithms.Algorithm
	Rule        Rule
	Thresholds  Thresholds
	MaxRunning  []int // requests in a step, and admitted at a home, at most
	KVTokens    []int // size of each model's KV pool, in whole blocks of its own
	BlockTokens int   // tokens in a KV block
	ChunkTokens int   // rows in a step at most; more than MaxRunning
	QueueLimit  int   // arrivals that may wait for admission
	PrefixReuse bool  // share the KV of equal prompts
	// Static admits nobody until all who were admitted have ended, as loops
	// without continuous batching do.
	Static bool
	// Reread forgets the KV of a peer's request when it leaves, so that every
	// visit extends all of it, as servers without a notion of a visit do.
	Reread bool
	// Repeats asks Launch to say how many steps a batch would run unchanged; off,
	// Batch.Steps is always 1.
	Repeats bool
	// HoldContext, if above 0, is the context that every request counts with,
	// however many tokens it has: the steady workload that the chain computes.
	HoldContext int
	// Spent, if not nil, is shared with the other cores of this goroutine.
	Spent *Spent
}

func (c *Config) validate() error {
	k := len(c.MaxRunning)
	switch {
	case k == 0 || len(c.KVTokens) != k:
		return fmt.Errorf("scheduler: MaxRunning has %d entries and KVTokens %d, want one a model", k, len(c.KVTokens))
	case c.Model < 0 || c.Model >= k:
		return fmt.Errorf("scheduler: Model is %d of %d", c.Model, k)
	case c.Algorithm == nil || c.Rule == nil:
		return errors.New("scheduler: Algorithm and Rule must be set")
	case c.BlockTokens < 1 || c.QueueLimit < 0 || c.HoldContext < 0:
		return errors.New("scheduler: BlockTokens must be at least 1, QueueLimit and HoldContext at least 0")
	case c.ChunkTokens <= c.MaxRunning[c.Model]:
		return fmt.Errorf("scheduler: ChunkTokens is %d, want more than MaxRunning (%d), or decodes starve prefills",
			c.ChunkTokens, c.MaxRunning[c.Model])
	}
	for m := range k {
		if c.MaxRunning[m] < 1 || c.KVTokens[m] < 1 {
			return fmt.Errorf("scheduler: model %d: MaxRunning and KVTokens must be at least 1", m)
		}
	}
	if own := c.KVTokens[c.Model]; own < c.BlockTokens {
		return fmt.Errorf("scheduler: KVTokens is %d, want at least one block of %d", own, c.BlockTokens)
	}
	return c.Thresholds.Validate(k)
}

// Core is the scheduler of one subserver. One goroutine owns it.
type Core struct {
	cfg    Config
	models int
	me     int
	stream bool // tokens may go to the client before a visit ends
	gated  bool // the rule reads peers
	reuse  bool // equal prompts share KV
	kv     *kvPool
	blocks int // in the pool

	slots   []request
	unused  []int32
	byID    map[RequestID]int32
	ready   []int32 // by (ready since, id)
	kvWait  []int32 // by age
	arrived []int32 // admission queue, first come first served
	spent   *Spent

	batch     []Entry
	busy      bool
	admitted  int
	counts    [states]int // requests in each state; not kept for free
	draining  bool
	unsettled bool     // events were stepped since the last Settle
	ends      []ending // verdicts of this instant
	gone      []gone   // who gave blocks back at this instant
	goneBlock []int32  // these blocks
	freed     bool     // blocks may have come free for the KV queue since it was last asked

	nowNs     int64
	live      int
	liveDelta int
	inForce   []int // thresholds of all models, after Clamp
	peers     []PeerLoad
	lastRan   int
	told      PeerLoad // what peers last heard of this core
	wakeNs    int64    // last WakeAt asked for

	victims []int32
	turns   []turn
	load    Load
	out     []Message
}

// New makes a core.
func New(cfg Config) (*Core, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Core{
		cfg: cfg, models: len(cfg.MaxRunning), me: cfg.Model,
		stream: algorithms.AcceptsAll(cfg.Algorithm), gated: cfg.Rule.NeedsPeers(),
		byID: map[RequestID]int32{}, lastRan: -1,
	}
	c.reuse = cfg.PrefixReuse && cfg.HoldContext == 0 && !cfg.Reread
	c.blocks = cfg.KVTokens[c.me] / cfg.BlockTokens
	c.kv = newKVPool(c.blocks, cfg.BlockTokens, c.reuse)
	c.peers = make([]PeerLoad, c.models)
	if c.spent = cfg.Spent; c.spent == nil {
		c.spent = new(Spent)
	}
	c.setLive(0)
	return c, nil
}

// ending is the word that a request is over.
type ending struct {
	id       RequestID
	why      Reason
	released bool // home's word; otherwise the client's
}

// gone is a request that gave back the blocks from goneBlock[first] to before
// goneBlock[end].
type gone struct {
	id         RequestID
	first, end int
}

// Step takes one event in and returns what it causes. The messages are valid
// until the next call. What depends on the order of one instant's events waits
// for Settle.
func (c *Core) Step(ev *Event) []Message {
	if ev.AtNs < c.nowNs {
		panic(fmt.Sprintf("scheduler: %v at %d ns after an event at %d ns", ev.Kind, ev.AtNs, c.nowNs))
	}
	c.nowNs = ev.AtNs
	c.unsettled = true
	c.out = c.out[:0]
	switch ev.Kind {
	case Arrived:
		c.onArrived(ev.Arrival)
	case PeerArrived:
		c.onPeerArrived(ev.Req)
	case PeerReturned:
		c.onPeerReturned(ev.Req)
	case StepDone:
		c.onStepDone(ev.Results)
	case PeerState:
		c.onPeerState(ev.Peer, PeerLoad{ev.Busy, ev.Ready})
	case LiveChanged:
		c.setLive(ev.Live)
	case Wake:
		// The time alone matters: the driver asks Launch next.
	case Aborted:
		c.ends = append(c.ends, ending{id: ev.Request, why: ReasonAbort})
	case Stop:
		c.ends = append(c.ends, ending{id: ev.Request, why: ReasonStop})
	case Released:
		c.ends = append(c.ends, ending{id: ev.Request, released: true})
	case Drain:
		c.onDrain()
	case Flush:
		c.kv.flush()
	default:
		panic("scheduler: unknown event")
	}
	return c.out
}

// Settle ends the events of an instant, after the last Step and before Launch:
// requests that are to end do, places and blocks that came free go to those who
// wait for them, and the others are told what changed. None of it may happen
// earlier, or the order of simultaneous events would matter: whether an arrival
// finds the place that a step end frees, whether the token of a step end still
// goes to a client that leaves. The messages are valid until the next call.
func (c *Core) Settle() []Message {
	c.out = c.out[:0]
	if c.unsettled {
		c.unsettled = false
		c.endAll()
		c.settle()
	}
	return c.out
}

// endAll carries out this instant's verdicts, in order of id.
func (c *Core) endAll() {
	slices.SortFunc(c.ends, func(a, b ending) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.why, b.why))
	})
	for _, e := range c.ends {
		if e.released {
			c.onReleased(e.id)
		} else {
			c.onEnd(e.id, e.why)
		}
	}
	c.ends = c.ends[:0]
}

// settle gives away what came free and tells the others.
func (c *Core) settle() {
	c.freeGone()
	if len(c.kvWait) > 0 && c.freed {
		c.serveKVQueue()
	}
	c.freed = false
	if len(c.arrived) > 0 {
		c.admit()
	}
	if c.liveDelta != 0 {
		c.out = append(c.out, Message{Kind: Live, Delta: c.liveDelta})
		c.liveDelta = 0
	}
	if c.gated {
		if now := (PeerLoad{c.busy, len(c.ready)}); now != c.told {
			c.told = now
			c.peers[c.me] = now
			c.out = append(c.out, Message{Kind: State, Busy: now.Busy, Ready: now.Ready})
		}
	}
}

func (c *Core) onPeerState(peer int, now PeerLoad) {
	if c.peers[peer].Busy && !now.Busy {
		c.lastRan = peer
	}
	c.peers[peer] = now
}

func (c *Core) setLive(n int) {
	if n == c.live && c.inForce != nil {
		return
	}
	c.live = n
	c.inForce = Clamp(c.inForce, c.cfg.Thresholds.For(n), c.cfg.MaxRunning, n)
}

// B is the threshold in force for this model.
func (c *Core) B() int { return c.inForce[c.me] }

// KVBlocks counts the blocks of the pool: held by requests, cached for later
// prompts, and free.
func (c *Core) KVBlocks() (held, cached, free int) {
	return c.blocks - c.kv.available(), c.kv.nIdle, c.kv.nFree
}

// Requests counts the requests that the core knows, in any state.
func (c *Core) Requests() int { return len(c.byID) }

// Idle reports whether the core holds no request of its own and none that is
// here now: after a Drain, that it may go.
func (c *Core) Idle() bool {
	return c.admitted == 0 && len(c.arrived) == 0 && len(c.ready) == 0 && len(c.kvWait) == 0 && !c.busy
}

// slot takes an unused slot.
func (c *Core) slot(id RequestID) (int32, *request) {
	var s int32
	if n := len(c.unused); n > 0 {
		s = c.unused[n-1]
		c.unused = c.unused[:n-1]
	} else {
		s = int32(len(c.slots))
		c.slots = append(c.slots, request{})
	}
	c.byID[id] = s
	r := &c.slots[s]
	r.id = id
	return s, r
}

// drop frees a slot and what it holds.
func (c *Core) drop(s int32) {
	r := &c.slots[s]
	c.giveBack(r, 0)
	for _, req := range r.early {
		c.recycle(req)
	}
	c.enter(r, free)
	delete(c.byID, r.id)
	r.reset()
	c.unused = append(c.unused, s)
}

// dropKV takes a request's KV at once.
func (c *Core) dropKV(r *request) {
	c.kv.release(r.blocks)
	c.freed = true
	r.blocks = r.blocks[:0]
	r.published = 0
	r.fed = 0
}

// giveBack lets go of a request's blocks from the index keep on, at the end of
// the instant: cached blocks are evicted in the order in which they were
// released, which must not be the order of an instant's events.
func (c *Core) giveBack(r *request, keep int) {
	if len(r.blocks) > keep {
		first := len(c.goneBlock)
		c.goneBlock = append(c.goneBlock, r.blocks[keep:]...)
		c.gone = append(c.gone, gone{r.id, first, len(c.goneBlock)})
	}
	r.blocks = r.blocks[:keep]
	r.published = min(r.published, keep)
	r.fed = min(r.fed, keep*c.cfg.BlockTokens)
}

func (c *Core) freeGone() {
	if len(c.gone) == 0 {
		return
	}
	// One request's own come deepest first, as they were given.
	slices.SortStableFunc(c.gone, func(a, b gone) int { return cmp.Compare(a.id, b.id) })
	for _, g := range c.gone {
		c.kv.release(c.goneBlock[g.first:g.end])
	}
	c.gone, c.goneBlock = c.gone[:0], c.goneBlock[:0]
	c.freed = true
}

// enter is the only place that changes a state.
func (c *Core) enter(r *request, to state) {
	if mayFollow[r.state]&(1<<to) == 0 {
		panic(fmt.Sprintf("scheduler: request %d cannot go from %v to %v", r.id, r.state, to))
	}
	if r.state == kvQueued {
		c.liveDelta++
	} else if to == kvQueued {
		c.liveDelta--
	}
	c.counts[r.state]--
	c.counts[to]++
	r.state = to
}

// makeReady puts a request among those that the next step may take.
func (c *Core) makeReady(s int32) {
	r := &c.slots[s]
	if n := r.ids.len(); r.fed == n {
		// Back without a new token: the last one is fed again, since its forward
		// is what samples the next.
		c.unfeed(r, n-1)
	}
	c.enter(r, ready)
	r.readySinceNs = c.nowNs
	c.ready = append(c.ready, s)
	// Requests that become ready at one instant stand in order of id, so that
	// the order of that instant's events cannot matter.
	for i := len(c.ready) - 1; i > 0; i-- {
		p := &c.slots[c.ready[i-1]]
		if p.readySinceNs < r.readySinceNs || p.id < r.id {
			break
		}
		c.ready[i], c.ready[i-1] = c.ready[i-1], s
	}
	if c.tooLong(r.ids.len()) {
		c.outgrown(s)
	}
}

func (c *Core) tooLong(tokens int) bool {
	return c.cfg.HoldContext == 0 && c.kv.blocksFor(tokens) > c.blocks
}

// leaveQueues takes a request out of the list that its state puts it in.
func (c *Core) leaveQueues(s int32) {
	switch c.slots[s].state {
	case ready:
		c.ready = without(c.ready, s)
	case kvQueued:
		c.kvWait = without(c.kvWait, s)
	case queued:
		c.arrived = without(c.arrived, s)
	}
}

func without(list []int32, s int32) []int32 {
	for i, v := range list {
		if v == s {
			return append(list[:i], list[i+1:]...)
		}
	}
	panic("scheduler: a request is missing from its queue")
}

// Spent keeps peer requests that were taken in, for reuse. Each core has its
// own, unless the cores of one goroutine share one: where visits last many
// tokens, the peer only gives away and home only takes in.
type Spent struct{ reqs []*PeerReq }

// spentLimit is how many peer requests are kept.
const spentLimit = 1024

func (c *Core) newPeerReq() *PeerReq {
	p := c.spent
	if n := len(p.reqs); n > 0 {
		req := p.reqs[n-1]
		p.reqs = p.reqs[:n-1]
		return req
	}
	return new(PeerReq)
}

func (c *Core) recycle(req *PeerReq) {
	if p := c.spent; len(p.reqs) < spentLimit {
		p.reqs = append(p.reqs, req)
	}
}
