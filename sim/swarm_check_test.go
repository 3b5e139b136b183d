package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/workload"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// checker watches a trial as its Observer and hooks, and panics when something
// is wrong.
type checker struct {
	t       *trial
	w       *world
	shuffle *rand.Rand // nil: events of an instant in the order of their making
	fault   fault
	pool    int // tokens that the smallest pool holds

	seen    map[scheduler.RequestID]*seen
	aborted map[scheduler.RequestID]bool // told so
	stopped map[scheduler.RequestID]bool
	live    int
	calls   int
	enough  int         // tokens of a request that are looked at; 0 means all
	arrived [3][3]int64 // of the last hand-off between two models
	digest  map[string]uint64
	log     map[string][]string // nil: only the digest
	counts  map[string]int
}

// seen is what the client of one request saw, beside what it should.
type seen struct {
	home, prompt int
	want         []written
	got          int
	over         bool
}

// written is a token and the model that wrote it; -1 is any.
type written struct {
	token  scheduler.Token
	writer int
}

// fault is a planted error.
type fault struct {
	lose, twice scheduler.EventKind // Arrived: none
	wrongToken  bool
	noClamp     bool
}

func newChecker(t *trial, shuffled bool, f fault) *checker {
	c := &checker{t: t, fault: f, pool: 1 << 30, seen: map[scheduler.RequestID]*seen{},
		aborted: map[scheduler.RequestID]bool{}, stopped: map[scheduler.RequestID]bool{},
		digest: map[string]uint64{}, counts: map[string]int{}}
	if shuffled {
		c.shuffle = rand.New(rand.NewPCG(t.seed, 0x0bad))
	}
	for _, m := range t.cfg.Models {
		c.pool = min(c.pool, m.KVTokens/m.BlockTokens*m.BlockTokens)
	}
	return c
}

func (c *checker) failf(format string, args ...any) {
	panic(fmt.Sprintf("at %d ns: ", c.w.nowNs) + fmt.Sprintf(format, args...))
}

func (c *checker) began(w *world) {
	c.w = w
	w.load.keep = 0 // forget whoever is over at once
	for _, d := range c.t.words {
		w.clock.set(d.model, outside, d.event)
	}
}

// pick brings an event of random choice forward, except that nothing overtakes
// between the same two models.
func (c *checker) pick(rest []due) {
	if c.shuffle == nil {
		return
	}
	i := c.shuffle.IntN(len(rest))
	for j := range i {
		if rest[j].from == rest[i].from && rest[j].model == rest[i].model && rest[i].from != outside {
			i = j
			break
		}
	}
	chosen := rest[i]
	copy(rest[1:i+1], rest[:i])
	rest[0] = chosen
	c.shuffle.Shuffle(len(c.w.order), func(i, j int) { c.w.order[i], c.w.order[j] = c.w.order[j], c.w.order[i] })
}

func (c *checker) stepping(m int, ev scheduler.Event) scheduler.Event {
	switch ev.Kind {
	case scheduler.Arrived:
		c.request(m, ev.Arrival)
	case scheduler.Aborted:
		c.aborted[ev.Request] = true
	case scheduler.Stop:
		c.stopped[ev.Request] = true
	case scheduler.LiveChanged:
		if c.fault.noClamp {
			ev.Live += 1000
		}
	case scheduler.StepDone:
		for i := range ev.Results {
			if r := &ev.Results[i]; c.fault.wrongToken && r.Sampled && r.Token != workload.EOS && c.calls > 20 {
				r.Token++
				c.fault.wrongToken = false
			}
		}
	}
	return ev
}

// shipped draws the time of a hand-off. It depends on the pair and the instant
// alone, so that the order of an instant's events cannot change it.
func (c *checker) shipped(from, to int, ev scheduler.Event) (arrives scheduler.Event, copies int) {
	at := c.w.nowNs + c.t.cfg.HandoffNs
	if c.t.transitNs > 0 {
		pair := algorithms.Purpose(from*8 + to)
		at += int64(algorithms.Draw(c.t.seed, int(c.w.nowNs), pair) * float64(c.t.transitNs+1))
	}
	at = max(at, c.arrived[from][to])
	c.arrived[from][to], ev.AtNs = at, at
	switch {
	case c.fault.lose == ev.Kind && ev.Kind != scheduler.Arrived:
		c.fault.lose = scheduler.Arrived
		return ev, 0
	case c.fault.twice == ev.Kind && ev.Kind != scheduler.Arrived:
		c.fault.twice = scheduler.Arrived
		if ev.Req != nil {
			again := *ev.Req
			ev.Req = &again
		}
		return ev, 2
	}
	return ev, 1
}

func (c *checker) called(m int) {
	c.w.nodes[m].core.Check()
	if c.calls++; c.calls > 1_000_000 {
		c.failf("no end after %d calls", c.calls)
	}
}

func (c *checker) Event(int, *scheduler.Event) {}

func (c *checker) Stepped(m int, startNs, endNs int64, batch *scheduler.Batch, threshold int) {
	c.counts["steps"]++
	c.note(fmt.Sprint("core ", m), startNs, endNs, batch.Rows, batch.ContextTokens, threshold)
	for i := range batch.Entries {
		e := &batch.Entries[i]
		c.note(fmt.Sprint("core ", m), e.ID, e.Start, len(e.Tokens), e.Context, e.Position, e.StayStart, e.Hops,
			e.ReadySinceNs, e.KVWaitNs, e.AdmissionWaitNs)
		if c.enough == 0 && len(e.Blocks)*c.t.cfg.Models[m].BlockTokens < e.Start+len(e.Tokens) {
			c.failf("request %d runs at %d without blocks", e.ID, m)
		}
	}
}

// note adds to a digest by which two runs are compared.
func (c *checker) note(of string, values ...any) {
	h := fnv.New64a()
	fmt.Fprint(h, c.digest[of], values)
	c.digest[of] = h.Sum64()
	if c.log != nil {
		c.log[of] = append(c.log[of], fmt.Sprint(c.w.nowNs, values))
	}
}

func (c *checker) Messages(m int, atNs int64, out []scheduler.Message) {
	for i := range out {
		msg := &out[i]
		c.counts[msg.Kind.String()]++
		switch msg.Kind {
		case scheduler.Emit:
			c.emitted(m, msg)
		case scheduler.Finish, scheduler.Refuse:
			c.counts[msg.Reason.String()]++
			c.ended(m, msg)
			c.note(fmt.Sprint("end of request ", msg.Request), atNs, msg.String())
		case scheduler.Live:
			c.live += msg.Delta
		}
		switch msg.Kind {
		case scheduler.Emit, scheduler.Finish, scheduler.Refuse:
			c.note(fmt.Sprint("request ", msg.Request), atNs, msg.String())
		}
	}
}

func (c *checker) at(m int, msg *scheduler.Message) *seen {
	s := c.seen[msg.Request]
	if s == nil || s.home != m || s.over {
		c.failf("model %d says %s of a request that is not its own or over", m, msg)
	}
	return s
}

func (c *checker) emitted(m int, msg *scheduler.Message) {
	s := c.at(m, msg)
	if c.enough > 0 && s.got == c.enough {
		return
	}
	if msg.Start != s.prompt+s.got || len(msg.Tokens) == 0 {
		c.failf("%s, want start %d", msg, s.prompt+s.got)
	}
	for _, token := range msg.Tokens {
		if s.got >= len(s.want) {
			c.failf("%s goes beyond the %d tokens of a lone run", msg, len(s.want))
		}
		want := s.want[s.got]
		if token != want.token || want.writer >= 0 && msg.Writer != want.writer {
			c.failf("%s, want %v at %d", msg, want, s.prompt+s.got)
		}
		s.got++
	}
}

func (c *checker) ended(m int, msg *scheduler.Message) {
	s := c.at(m, msg)
	s.over = true
	all := s.got == len(s.want)
	ok := false
	switch msg.Reason {
	case scheduler.ReasonAbort:
		ok = c.aborted[msg.Request] || s.prompt+len(s.want) > c.pool
	case scheduler.ReasonStop:
		ok = c.stopped[msg.Request] || all && s.want[s.got-1].token == workload.EOS
	case scheduler.ReasonLength:
		ok = all && s.want[s.got-1].token != workload.EOS
	case scheduler.ReasonTooLong:
		ok = s.prompt+1 > c.pool
	case scheduler.ReasonQueueFull:
		ok = c.t.cfg.QueueLimit > 0
	case scheduler.ReasonDraining:
		ok = s.got == 0
	}
	refusal := msg.Reason >= scheduler.ReasonTooLong
	if !ok || refusal != (msg.Kind == scheduler.Refuse) || refusal && s.got > 0 {
		c.failf("%s after %d of %d tokens", msg, s.got, len(s.want))
	}
}

// finished checks what has to hold when nothing is left to do.
func (c *checker) finished() {
	for id, s := range c.seen {
		if !s.over {
			c.failf("stalled: request %d has %d of %d tokens", id, s.got, len(s.want))
		}
	}
	if c.live != 0 || c.w.live != 0 || c.w.load.open != 0 || c.w.transit != 0 {
		c.failf("at the end %d live, %d open, %d in transit", c.live, c.w.load.open, c.w.transit)
	}
	for m := range c.w.nodes {
		core := c.w.nodes[m].core
		held, cached, free := core.KVBlocks()
		total := c.t.cfg.Models[m].KVTokens / c.t.cfg.Models[m].BlockTokens
		if !core.Idle() || core.Requests() != 0 || held != 0 || cached+free != total {
			c.failf("at the end model %d knows %d requests and holds %d blocks; %d cached, %d free of %d",
				m, core.Requests(), held, cached, free, total)
		}
	}
}

// request notes an arrival and works out what its client has to see.
func (c *checker) request(m int, a *scheduler.Arrival) {
	if c.t.lengths {
		a.MaxTokens = 1 + int(algorithms.Bits(a.Seed, 0, 0x1e4)%uint64(a.MaxTokens))
	}
	if c.seen[a.ID] != nil {
		c.failf("request %d arrives twice", a.ID)
	}
	s := &seen{home: m, prompt: len(a.Prompt)}
	s.want = aloneAt(c.t.cfg.Algorithm, a, m, c.w.load.last(a.ID), len(c.t.cfg.Models), c.enough)
	c.seen[a.ID] = s
}

// aloneAt is the plain loop: one request, one model after the other, no
// scheduler. last is the position of the token that ends the request, enough
// the number of tokens that the caller wants.
func aloneAt(alg algorithms.Algorithm, a *scheduler.Arrival, home, last, models, enough int) []written {
	var out []written
	cut, _ := alg.(*picky)
	prompt, m, stayStart, hops, left := len(a.Prompt), home, len(a.Prompt), 0, 0
	for {
		v := algorithms.View{Request: a.ID, Seed: a.Seed, Model: m, Home: home,
			Position: prompt + len(out), StayStart: stayStart, Hops: hops}
		v.Token = workload.MadeUp(a.Seed, v.Position, workload.PurposeToken)
		if v.Position >= last {
			v.Token = workload.EOS
		}
		to := alg.Route(&v).Model()
		moves := to >= 0 && to != m
		req := algorithms.PeerReq{ID: a.ID, Home: home, From: m, Seed: a.Seed}
		over := false
		if !moves || alg.Send(algorithms.Departure{From: m, To: to, Home: home, Position: v.Position, Token: v.Token}, &req) {
			w := written{v.Token, m}
			if cut != nil && models > 2 {
				w.writer = -1 // a visit of several models comes home in one piece
			}
			out = append(out, w)
			over = v.Token == workload.EOS || len(out) >= a.MaxTokens
		}
		if moves && !over {
			hops++
			if m == home {
				left = len(out)
			}
		}
		if cut != nil && m != home && (over || moves && to == home) {
			n := cut.accept(a.Seed, prompt+left, len(out)-left)
			over = over && n == len(out)-left
			out, to, moves = out[:left+n], home, true
		}
		if over || enough > 0 && len(out) >= enough {
			return out
		}
		if moves {
			m, stayStart = to, prompt+len(out)
		}
	}
}
