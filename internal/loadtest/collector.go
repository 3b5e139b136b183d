package loadtest

import (
	"sync"

	"github.com/tokenrouter/tokenrouter/internal/metrics"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// collector turns answers into figures. It is told of an answer as a whole, when
// it has ended: so streams need no lock for each token, and the recorder, which
// is made for one goroutine, sees each request in order of time.
type collector struct {
	mu       sync.Mutex
	rec      *metrics.Recorder
	models   int
	windowNs int64 // tokens after it do not count; 0: all do
	users    int
	failures tally
	lastNs   int64 // when the last request ended
	lateNs   int64

	good, bad, other  int
	disagree          int
	prompts, prompted int64
	counted           [sources]int
}

func (c *collector) init(cfg *Config) {
	c.models, c.windowNs, c.users = cfg.Models, cfg.DurationNs, max(cfg.Load.Users, 1)
	c.rec = metrics.NewRecorder(cfg.Models, cfg.WarmupNs)
	if cfg.Load.Mix == nil {
		return
	}
	var limits []metrics.Limits
	for _, class := range cfg.Load.Mix.Classes {
		limits = append(limits, metrics.Limits(class.Limits))
	}
	c.rec.SetClasses(limits)
}

// late notes by how much a request was sent too late.
func (c *collector) late(ns int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lateNs = max(c.lateNs, ns)
}

// replay tells the recorder of an answer's tokens; false if some came after the
// window.
func (c *collector) replay(q *workload.Request, a *Answer) (times metrics.RequestTimes, whole bool) {
	times = metrics.RequestTimes{ArrivedNs: q.ArrivalNs, Class: q.Class}
	for _, m := range a.moments {
		if c.windowNs > 0 && m.atNs > c.windowNs {
			return times, false
		}
		c.rec.Emitted(&times, m.atNs, int64(m.tokens), int(m.writer))
	}
	return times, true
}

// unfinished counts the tokens of a request that the end of the run cut.
func (c *collector) unfinished(q *workload.Request, a *Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replay(q, a)
}

// ended counts a request; failed is nil if it ended well. It reports whether
// there is no hope that any will.
func (c *collector) ended(q *workload.Request, a *Answer, nowNs int64, failed *Failure) (hopeless bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	times, whole := c.replay(q, a)
	if !whole || c.windowNs > 0 && nowNs > c.windowNs && failed != nil {
		return false
	}
	if failed != nil {
		c.failures.add(failed)
		c.bad++
		c.lastNs = max(c.lastNs, nowNs)
		c.rec.Ended(&times, nowNs, true)
		return c.good == 0 && c.bad >= max(patientFailures, 2*c.users)
	}
	c.good++
	c.lastNs = max(c.lastNs, times.LastNs)
	c.rec.Ended(&times, times.LastNs, false)
	c.counted[a.Source]++
	if a.Disagrees {
		c.disagree++
	}
	if a.tokens != q.Output {
		c.other++
	}
	if a.PromptTokens > 0 {
		c.prompts += int64(a.PromptTokens)
		c.prompted++
	}
	return false
}

// patientFailures is after how many failures, and nothing else, a run gives up.
const patientFailures = 10

func (c *collector) result(endNs int64) *Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &Result{Summary: c.rec.Summary(endNs, make([]int64, c.models), 0), EndNs: endNs,
		Ended: c.good + c.bad, Good: c.good, Failures: c.failures.sorted(), Counted: c.counted,
		OtherLength: c.other, Disagree: c.disagree, LateMs: float64(c.lateNs) / 1e6}
	if c.prompted > 0 {
		r.PromptTokens = float64(c.prompts) / float64(c.prompted)
	}
	return r
}
