package sim

import (
	"math"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/metrics"
	"github.com/tokenrouter/tokenrouter/internal/workload"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Result is what a run showed.
type Result struct {
	metrics.Summary
	EndNs  int64 // when it ended
	Events int64 // events stepped and steps run
}

// Run simulates. The error is about cfg.
func Run(cfg Config) (*Result, error) {
	w, err := newWorld(cfg)
	if err != nil {
		return nil, err
	}
	w.run()
	return w.result(), nil
}

// node is one core with its step in flight.
type node struct {
	core    *scheduler.Core
	batch   scheduler.Batch
	startNs int64
	ends    []int64 // when each step of the stretch in flight ends
	endNs   int64   // the last of them; never if no step is in flight
	lastNs  int64   // end of the last step
	left    work    // of the step in flight, at sinceNs
	sinceNs int64   // when factor was set
	factor  uint64  // by which it stretches, in 1024ths; 0 when it has just started
	b       int     // threshold in force at the start
	stays   []stay
}

const never = math.MaxInt64

// stay is what the simulator knows of a request at a core: where this stay
// ends and where the request ends, so that a token costs two comparisons.
type stay struct {
	id    scheduler.RequestID
	start int // -1 until asked
	hops  int
	leave int // position of the decision that leaves
	dest  algorithms.Dest
	last  int // position of the token that ends the request
}

// world is the driver of all cores. It follows the duties of package
// scheduler, cited by number.
type world struct {
	cfg   Config
	hooks hooks // nil outside tests
	nodes []node
	order []int // in which nodes are asked; does not matter
	load  load
	rec   *metrics.Recorder
	stays algorithms.StaySource // nil: ask Route every time
	disp  *dispatcher           // nil unless this is standard serving
	slow  [][]uint64            // interference in 1024ths; nil if there is none
	gated bool

	nowNs     int64
	clock     clock
	inbox     []due           // events of this instant
	event     scheduler.Event // scratch: an event that nobody keeps
	done      scheduler.Event // likewise, the end of a step
	live      int
	liveMoved bool
	transit   int   // hand-offs on the clock
	asked     bool  // the cores were asked to launch at this instant
	stretches bool  // several steps may run as one
	told      int64 // tokens of each entry that the recorder has already
	results   []scheduler.Result
	runs      []scheduler.Token
	view      algorithms.View
	ofClass   []int // scratch: requests of a batch by class
	events    int64
	cause     metrics.Cause // what a ready request of an idle model waits for
}

func newWorld(cfg Config) (*world, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.QueueLimit == 0 {
		cfg.QueueLimit = defaultQueueLimit
	}
	w := &world{cfg: cfg, hooks: cfg.hooks, gated: cfg.Rule.NeedsPeers(), cause: metrics.CauseThreshold}
	if w.gated {
		w.cause = metrics.CausePeer
	}
	if cfg.Source == nil {
		w.stays, _ = cfg.Algorithm.(algorithms.StaySource)
	}
	// A watcher wants to see every step.
	w.stretches = w.stays != nil && !cfg.EveryStep && (cfg.Observer == nil && cfg.hooks == nil || cfg.stretched) && cfg.Interference == nil
	if cfg.Dispatcher != nil {
		w.disp = newDispatcher(*cfg.Dispatcher)
		w.gated, w.cause = false, metrics.CauseThreshold
	}
	w.slow = slowdown(cfg.Interference)
	w.rec = metrics.NewRecorder(len(cfg.Models), cfg.Workload.WarmupNs)
	w.load = newLoad(&w.cfg.Workload, cfg.Seed)
	w.rec.SetClasses(w.load.limits())
	w.ofClass = make([]int, len(w.load.of.Mix.Classes))
	return w, w.addNodes()
}

// addNodes makes a core a model: cores that know each other, or under a
// dispatcher each a server of its own.
func (w *world) addNodes() error {
	cfg := &w.cfg
	maxRunning, kv := make([]int, len(cfg.Models)), make([]int, len(cfg.Models))
	for i, m := range cfg.Models {
		maxRunning[i], kv[i] = m.MaxRunning, m.KVTokens
		if m.BlockTokens > 0 {
			kv[i] -= m.KVTokens % m.BlockTokens // whole blocks
		}
	}
	spent := new(scheduler.Spent)
	for i, m := range cfg.Models {
		c := scheduler.Config{
			Model: i, Algorithm: cfg.Algorithm, Rule: cfg.Rule, Thresholds: cfg.Thresholds,
			MaxRunning: maxRunning, KVTokens: kv, BlockTokens: m.BlockTokens, ChunkTokens: m.ChunkTokens,
			QueueLimit: cfg.QueueLimit, PrefixReuse: !cfg.NoReuse, HoldContext: cfg.Workload.holdContext(),
			Spent: spent, Repeats: w.stretches, Static: cfg.Static, Reread: cfg.Reread,
		}
		if m.Rule != nil {
			c.Rule = m.Rule
		}
		if w.disp != nil {
			c.Model, c.Algorithm, c.Rule = 0, algorithms.Never{}, scheduler.Eager{}
			c.MaxRunning, c.KVTokens = maxRunning[i:i+1], kv[i:i+1]
			c.Thresholds = scheduler.Thresholds{{1}}
		}
		core, err := scheduler.New(c)
		if err != nil {
			return err
		}
		w.nodes = append(w.nodes, node{core: core, endNs: never})
		w.order = append(w.order, i)
	}
	return nil
}

// home is where a request with this seed enters.
func (w *world) home(seed uint64) int {
	if w.cfg.QueryShare == nil {
		return w.cfg.Workload.Home
	}
	return workload.QueryModel(seed, w.cfg.QueryShare)
}

// run plays instants until the workload or its duration ends.
func (w *world) run() {
	w.firstArrivals()
	if w.hooks != nil {
		w.hooks.began(w)
	}
	w.instant()
	limit := w.cfg.Workload.DurationNs
	watcher, tires := w.cfg.Observer.(interface{ Enough() bool })
	for {
		next := w.next()
		if next == never || limit > 0 && next > limit || tires && watcher.Enough() {
			break
		}
		w.nowNs = next
		for len(w.clock.heap) > 0 && w.clock.heap[0].atNs == next {
			d := w.clock.pop()
			if d.event.Kind == scheduler.PeerArrived || d.event.Kind == scheduler.PeerReturned || d.event.Kind == scheduler.Released {
				w.transit--
			}
			if d.event.Kind == scheduler.Arrived && d.event.Arrival == nil {
				d.event.Arrival = w.arriveOpen()
			}
			w.inbox = append(w.inbox, d)
		}
		for m := range w.nodes {
			if w.nodes[m].endNs != next {
				continue
			}
			if w.hooks != nil { // so that it can come at any turn
				w.inbox = append(w.inbox, due{model: m, from: outside, event: scheduler.Event{Kind: scheduler.StepDone}})
				continue
			}
			w.endStep(m)
		}
		w.instant()
	}
	if limit > 0 {
		for m := range w.nodes {
			w.cut(m, limit)
		}
		w.nowNs = limit
	}
}

func (w *world) next() int64 {
	next := int64(never)
	if len(w.clock.heap) > 0 {
		next = w.clock.heap[0].atNs
	}
	for m := range w.nodes {
		next = min(next, w.nodes[m].endNs)
	}
	return next
}

// instant steps what is due now, then asks the cores to launch, until nothing
// more happens at this instant (duties 2 and 3). All cores are asked before
// any message of a launch is delivered.
func (w *world) instant() {
	w.asked = false
	for {
		w.deliverAll()
		w.asked = true
		if w.gated && w.transit > 0 {
			break // duty 7
		}
		started := false
		for _, m := range w.order {
			started = w.launch(m) || started
		}
		if len(w.inbox) == 0 && !w.liveMoved && !started {
			break
		}
	}
	if w.slow != nil {
		w.retime()
	}
}

// deliverAll steps the events of this instant and settles the cores until
// nothing is left.
func (w *world) deliverAll() {
	for {
		w.stepAll()
		for _, m := range w.order {
			if out := w.nodes[m].core.Settle(); len(out) > 0 {
				w.carryOut(m, out)
			}
		}
		if len(w.inbox) == 0 && !w.liveMoved {
			return
		}
	}
}

// stepAll steps the events of this instant.
func (w *world) stepAll() {
	for len(w.inbox) > 0 || w.liveMoved {
		for i := 0; i < len(w.inbox); i++ {
			if w.hooks != nil {
				w.hooks.pick(w.inbox[i:])
			}
			d := &w.inbox[i]
			if d.event.Kind == scheduler.StepDone {
				w.endStep(d.model)
				continue
			}
			w.step(d.model, &d.event)
			if a := d.event.Arrival; a != nil && a.ID < firstSubmission {
				w.load.recycle(a)
			}
		}
		w.inbox = w.inbox[:0]
		if w.liveMoved { // duty 6
			w.liveMoved = false
			for m := range w.nodes {
				w.event = scheduler.Event{Kind: scheduler.LiveChanged, AtNs: w.nowNs, Live: w.live}
				w.step(m, &w.event)
			}
		}
	}
}

func (w *world) step(m int, ev *scheduler.Event) {
	if w.disp != nil && ev.Kind == scheduler.Arrived && ev.Arrival.ID < firstSubmission {
		w.take(m, ev.Arrival)
		return
	}
	if ev.Kind != scheduler.StepDone {
		w.cut(m, ev.AtNs)
	}
	w.events++
	if w.cfg.Observer != nil {
		w.cfg.Observer.Event(m, ev)
	}
	if w.hooks != nil {
		*ev = w.hooks.stepping(m, *ev)
	}
	w.carryOut(m, w.nodes[m].core.Step(ev))
}

// launch asks one core to start a step.
func (w *world) launch(m int) bool {
	n := &w.nodes[m]
	if n.endNs != never {
		return false
	}
	batch, out, ok := n.core.Launch()
	if len(out) > 0 {
		w.carryOut(m, out)
	}
	if !ok {
		return false
	}
	n.batch, n.startNs, n.b = batch, w.nowNs, n.core.B()
	w.plan(m, n)
	for i := range batch.Entries {
		w.countWaiting(n, &batch.Entries[i])
	}
	return true
}

// countWaiting splits what a request waited for this step by cause.
func (w *world) countWaiting(n *node, e *scheduler.Entry) {
	if e.ReadySinceNs < w.nowNs {
		idleSince := max(e.ReadySinceNs, n.lastNs)
		w.rec.Waited(metrics.CauseStep, idleSince-e.ReadySinceNs, w.nowNs)
		w.rec.Waited(w.cause, w.nowNs-idleSince, w.nowNs)
	}
	if e.KVWaitNs|e.AdmissionWaitNs != 0 {
		w.rec.Waited(metrics.CauseKV, e.KVWaitNs, w.nowNs)
		w.rec.Waited(metrics.CauseAdmission, e.AdmissionWaitNs, w.nowNs)
	}
}

// endStep answers a batch: sampled tokens and Route's decisions (duty 4).
func (w *world) endStep(m int) {
	n := &w.nodes[m]
	w.results = w.results[:0]
	for i := range n.batch.Entries {
		e := &n.batch.Entries[i]
		res := scheduler.Result{ID: e.ID, Sampled: e.Samples}
		if e.Samples {
			w.decide(m, n, e, &res)
		}
		w.results = append(w.results, res)
	}
	w.finishStretch(m, n)
	w.rec.Ran(m, n.startNs, w.nowNs, len(n.batch.Entries), n.lastRows(), n.b)
	if w.cfg.Observer != nil {
		w.cfg.Observer.Stepped(m, n.startNs, w.nowNs, &n.batch, n.b)
	}
	n.endNs, n.lastNs = never, w.nowNs
	// Not w.event: it may hold the event that cuts this stretch.
	w.done = scheduler.Event{Kind: scheduler.StepDone, AtNs: w.nowNs, Results: w.results}
	w.step(m, &w.done)
	w.told = 0
}

// decide fills in the token and where the request goes.
func (w *world) decide(m int, n *node, e *scheduler.Entry, res *scheduler.Result) {
	if w.disp != nil {
		res.Token = w.disp.token(e)
		return
	}
	st := w.stay(m, n, e)
	if w.stays == nil {
		w.route(m, st, e, res)
		return
	}
	position := e.Position + len(n.ends) - 1
	res.Token = workload.MadeUp(e.Seed, position, workload.PurposeToken)
	if position >= st.last {
		res.Token = workload.EOS
	}
	if position >= st.leave {
		res.Dest = st.dest
	}
}

// lastRows is how many rows the last step of the stretch feeds.
func (n *node) lastRows() int {
	if len(n.ends) > 1 {
		return len(n.batch.Entries)
	}
	return n.batch.Rows
}

// route asks the algorithm about one token.
func (w *world) route(m int, st *stay, e *scheduler.Entry, res *scheduler.Result) {
	v := &w.view
	*v = algorithms.View{Request: e.ID, Seed: e.Seed, Model: m, Home: e.Home, Position: e.Position,
		StayStart: e.StayStart, Hops: e.Hops, Extra: append(v.Extra[:0], e.Extra...)}
	if w.cfg.Source != nil {
		w.cfg.Source.Sample(v)
	} else {
		v.Token = workload.MadeUp(e.Seed, e.Position, workload.PurposeToken)
	}
	if e.Position >= st.last {
		v.Token = workload.EOS
	}
	res.Dest = w.cfg.Algorithm.Route(v)
	res.Token = v.Token
	if len(v.Extra) > 0 {
		res.Extra = append([]float64(nil), v.Extra...)
	}
}
