package measure

import (
	"fmt"
	"slices"
	"sync"

	"github.com/tokenrouter/tokenrouter/internal/metrics"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// collector turns what the cores and the clients see into figures. Many
// goroutines call it: a Recorder is made for one.
type collector struct {
	mu    sync.Mutex
	rec   *metrics.Recorder
	cause metrics.Cause // what a ready request of an idle model waits for
	gated bool          // the rule lets no two models run as they like
	// submissions: behind a dispatcher steps are those of its submissions, not of
	// clients' requests, so nothing is known of what they waited for.
	submissions bool

	warmupNs, endNs int64 // of the window; endNs 0: until the last request has ended
	lastNs          int64 // when the last request ended

	engines    []*clocked // by model; nil: steps are what the runtime says
	modelEndNs []int64    // when each model's last step ended
	engineEnds []int64    // the same, by the engine
	busyNs     []int64    // of steps that the end of the window cuts
	requests   map[scheduler.RequestID]*client
	overheadUs []float64
}

// client is what the collector knows of a request that has not ended.
type client struct {
	times  metrics.RequestTimes
	stepNs int64 // when the last step that it was in ended, by its engine; 0: none yet
}

func newCollector(models int, warmupNs, endNs int64, rule scheduler.Rule, limits []metrics.Limits) *collector {
	c := &collector{
		rec: metrics.NewRecorder(models, warmupNs), cause: metrics.CauseThreshold, gated: rule.NeedsPeers(),
		warmupNs: warmupNs, endNs: endNs,
		modelEndNs: make([]int64, models), engineEnds: make([]int64, models), busyNs: make([]int64, models),
		requests: map[scheduler.RequestID]*client{},
	}
	if c.gated {
		c.cause = metrics.CausePeer
	}
	c.rec.SetClasses(limits)
	return c
}

// late reports whether something happened after the window.
func (c *collector) late(atNs int64) bool { return c.endNs > 0 && atNs > c.endNs }

// arrived opens a request's record.
func (c *collector) arrived(id scheduler.RequestID, atNs int64, class int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[id] = &client{times: metrics.RequestTimes{ArrivedNs: atNs, Class: class}}
}

// emitted records tokens that a client got.
func (c *collector) emitted(id scheduler.RequestID, atNs int64, tokens, writer int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.requests[id]; r != nil && !c.late(atNs) {
		c.rec.Emitted(&r.times, atNs, int64(tokens), writer)
	}
}

// ended closes a request's record.
func (c *collector) ended(id scheduler.RequestID, atNs int64, aborted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.requests[id]; r != nil && !c.late(atNs) {
		c.rec.Ended(&r.times, atNs, aborted)
		c.lastNs = max(c.lastNs, atNs)
	}
	delete(c.requests, id)
}

// Event and Messages are of no use here: clients tell what they got.
func (c *collector) Event(int, *scheduler.Event)              {}
func (c *collector) Messages(int, int64, []scheduler.Message) {}

// Stepped records a step.
func (c *collector) Stepped(model int, startNs, endNs int64, batch *scheduler.Batch, threshold int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.late(startNs):
		return
	case c.late(endNs):
		c.busyNs[model] += c.endNs - max(startNs, c.warmupNs)
	default:
		c.rec.Ran(model, startNs, endNs, len(batch.Entries), batch.Rows, threshold)
	}
	for i := range batch.Entries {
		c.countWaiting(model, startNs, &batch.Entries[i])
	}
	c.modelEndNs[model] = endNs
	if !c.submissions {
		c.between(model, startNs, endNs, batch, threshold)
	}
}

// between records what lies between the steps that this one had to wait for and
// its start, by the engines' own clocks.
func (c *collector) between(model int, startNs, endNs int64, batch *scheduler.Batch, threshold int) {
	if c.engines != nil {
		startNs, endNs = c.engines[model].step()
	}
	if ns, ok := c.overheadNs(model, startNs, batch, threshold); ok && startNs > c.warmupNs {
		c.overheadUs = append(c.overheadUs, float64(ns)/1e3)
	}
	c.engineEnds[model] = endNs
	for i := range batch.Entries {
		if r := c.requests[batch.Entries[i].ID]; r != nil {
			r.stepNs = endNs
		}
	}
}

// countWaiting splits what a request waited for this step by cause, as the
// simulator does.
func (c *collector) countWaiting(model int, startNs int64, e *scheduler.Entry) {
	if e.ReadySinceNs < startNs {
		idleSince := min(max(e.ReadySinceNs, c.modelEndNs[model]), startNs)
		c.rec.Waited(metrics.CauseStep, idleSince-e.ReadySinceNs, startNs)
		c.rec.Waited(c.cause, startNs-idleSince, startNs)
	}
	if e.KVWaitNs|e.AdmissionWaitNs != 0 {
		c.rec.Waited(metrics.CauseKV, e.KVWaitNs, startNs)
		c.rec.Waited(metrics.CauseAdmission, e.AdmissionWaitNs, startNs)
	}
}

// overheadNs is how long after the last step that it had to wait for a step
// began: in a runtime that costs nothing, the one starts when the other ends.
// So it holds the scheduler, the hand-off and whatever else lies between. The
// steps that it has to wait for are the model's own last one, under rules that
// take turns those of all models, and those out of which as many requests came
// as the rule wants. A launch for another reason (MaxDelay, KV or a place that
// came free) tells nothing and gives false.
func (c *collector) overheadNs(model int, startNs int64, batch *scheduler.Batch, threshold int) (int64, bool) {
	if len(batch.Entries) < threshold {
		return 0, false
	}
	causes := make([]int64, 0, 64)
	for i := range batch.Entries {
		e := &batch.Entries[i]
		r := c.requests[e.ID]
		if e.KVWaitNs|e.AdmissionWaitNs != 0 || r == nil {
			return 0, false
		}
		if r.stepNs == 0 {
			causes = append(causes, e.ReadySinceNs) // it has just arrived
		} else {
			causes = append(causes, r.stepNs)
		}
	}
	slices.Sort(causes)
	from := max(causes[max(threshold, 1)-1], c.engineEnds[model])
	if c.gated {
		from = max(from, slices.Max(c.engineEnds))
	}
	return max(startNs-from, 0), true
}

// result sums up. users is the number of users of a steady workload, else 0.
func (c *collector) result(users int) *Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	endNs := c.endNs
	if endNs == 0 {
		endNs = c.lastNs
	}
	silent := 0
	for id, r := range c.requests { // order: counted
		if int(id) <= users && (r.times.Tokens == 0 || r.times.FirstNs > c.warmupNs) {
			silent++
		}
	}
	return &Result{Summary: c.rec.Summary(endNs, c.busyNs, users), EndNs: endNs,
		OverheadUs: metrics.QuantilesOf(c.overheadUs), Silent: silent}
}

// complaint is why a run has measured nothing; nil if it has. No token in the
// window is no throughput of 0: the figures would be about nothing.
func (c *collector) complaint(r *Result) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	warmupS := float64(c.warmupNs) / 1e9
	switch {
	case r.Tokens > 0:
		return nil
	case c.lastNs > 0 && c.lastNs <= c.warmupNs && len(c.requests) == 0:
		return fmt.Errorf("all requests had ended after %.4g s, before warm-up did, at %.4g s: lower measure.warmup_s or raise workload.requests", float64(c.lastNs)/1e9, warmupS)
	case r.Aborted > 0:
		return fmt.Errorf("no token was written after warm-up, and %d requests were refused or cut off: are they too long for the models, or for cpu.kv_tokens?", r.Aborted)
	}
	return fmt.Errorf("no token was written between the end of warm-up, at %.4g s, and the end, at %.4g s: raise measure.duration_s", warmupS, float64(r.EndNs)/1e9)
}
