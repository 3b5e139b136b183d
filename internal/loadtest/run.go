package loadtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenrouter/tokenrouter/internal/metrics"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// Target is what requests are sent to. Ask is called from many goroutines. It
// sends one request, tells the answer of tokens as they come and returns when
// the last one has. The error is a *Failure, that of ctx, or one of the network.
type Target interface {
	Ask(ctx context.Context, r *workload.Request, a *Answer) error
}

// Load says which requests come when. Exactly one of Users, Arrivals and List
// is set.
type Load struct {
	Users    int                // closed: each sends the next request when one has ended
	Arrivals *workload.Arrivals // open: requests come by themselves
	List     []workload.Request // these, each when it is due
	Mix      *workload.Mix      // what requests look like, unless they are listed
	Requests int                // in all; 0: as many as come in the time
	Seed     uint64
}

// Config is one run.
type Config struct {
	Target     Target
	Load       Load
	Models     int           // that a Target names as writers; at least 1
	DurationNs int64         // the run ends then; 0: when all requests have ended
	WarmupNs   int64         // left out of the figures
	Patience   time.Duration // a request fails if no token comes for so long
}

// Result is what a run showed.
type Result struct {
	metrics.Summary
	EndNs        int64 // of the run, counted from its start
	Sent         int   // requests, warm-up included
	Ended, Good  int   // of them ended, and ended well
	Failures     []Failures
	Counted      [sources]int // answers by how their tokens were counted
	PromptTokens float64      // mean over answers, as the server counts; 0 if it did not tell
	OtherLength  int          // answers of another length than was asked for
	Disagree     int          // answers whose usage was not the number of their token ids
	LateMs       float64      // the most by which an open request was sent too late
	Hopeless     bool         // ended early, since nothing but failures came
}

// Run sends the load and measures. It ends early when ctx does, with the
// figures so far and the cause.
func Run(ctx context.Context, cfg *Config, p *Progress) (*Result, error) {
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &run{cfg: cfg, start: time.Now(), progress: p, stop: stop}
	if r.progress == nil {
		r.progress = &Progress{}
	}
	r.collector.init(cfg)
	if cfg.DurationNs > 0 {
		timer := time.AfterFunc(time.Duration(cfg.DurationNs), func() { stop(errOver) })
		defer timer.Stop()
	}
	switch l := &cfg.Load; {
	case l.List != nil:
		for i := range l.List {
			r.streams.Go(func() { r.due(inner, l.List[i]) })
		}
	case l.Arrivals != nil:
		r.streams.Go(func() { r.open(inner) })
	default:
		for user := range l.Users {
			r.streams.Go(func() { r.user(inner, user) })
		}
	}
	r.streams.Wait()
	return r.result(ctx, context.Cause(inner))
}

// Progress is how far a run is; it may be read while it runs.
type Progress struct{ Sent, Ended, Failed, Tokens atomic.Int64 }

type run struct {
	cfg       *Config
	start     time.Time
	progress  *Progress
	streams   sync.WaitGroup
	stop      context.CancelCauseFunc
	collector collector
}

func (r *run) nowNs() int64 { return int64(time.Since(r.start)) }

// backOff is how long a user waits after a failure, as in the simulator.
const backOff = time.Second

// user sends one request after the other. Users take turns in the numbering, so
// that a user's requests do not depend on who ends first.
func (r *run) user(ctx context.Context, user int) {
	l := &r.cfg.Load
	for turn := 0; ctx.Err() == nil; turn++ {
		index := turn*l.Users + user
		if l.Requests > 0 && index >= l.Requests {
			return
		}
		q := l.Mix.Request(index, l.Seed)
		q.ArrivalNs = r.nowNs()
		if !r.one(ctx, &q) && !pause(ctx, backOff) {
			return
		}
	}
}

// open sends requests when they are due.
func (r *run) open(ctx context.Context) {
	l := &r.cfg.Load
	requests := workload.NewStream(l.Arrivals, l.Mix, l.Seed, l.Requests)
	for {
		q, ok := requests.Next()
		if !ok || r.cfg.DurationNs > 0 && q.ArrivalNs > r.cfg.DurationNs || !r.await(ctx, q.ArrivalNs) {
			return
		}
		r.streams.Go(func() { r.one(ctx, &q) })
	}
}

func (r *run) due(ctx context.Context, q workload.Request) {
	if r.await(ctx, q.ArrivalNs) {
		r.one(ctx, &q)
	}
}

// await returns when a time of the run has come; false if ctx ended first.
func (r *run) await(ctx context.Context, atNs int64) bool {
	ok := pause(ctx, time.Duration(atNs-r.nowNs()))
	r.collector.late(r.nowNs() - atNs)
	return ok
}

// pause waits; false if ctx ended first.
func pause(ctx context.Context, wait time.Duration) bool {
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// one sends a request and waits for its end; false if it failed.
func (r *run) one(ctx context.Context, q *workload.Request) bool {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &Answer{start: r.start, patience: r.cfg.Patience, progress: r.progress}
	a.silence = time.AfterFunc(r.cfg.Patience, func() { cancel(errSilence) })
	r.progress.Sent.Add(1)
	err := r.cfg.Target.Ask(inner, q, a)
	a.silence.Stop()
	var failed *Failure
	switch {
	case err == nil && a.tokens == 0:
		failed = &Failure{Kind: KindEmpty}
	case err == nil:
	case ctx.Err() != nil:
		r.collector.unfinished(q, a)
		return false
	default:
		failed = failureOf(err, context.Cause(inner), a.tokens)
	}
	r.progress.Ended.Add(1)
	if failed != nil {
		r.progress.Failed.Add(1)
	}
	if hopeless := r.collector.ended(q, a, r.nowNs(), failed); hopeless {
		r.stop(errHopeless)
	}
	return failed == nil
}

// result sums up. ctx is the caller's, cause says why the run's own ended.
func (r *run) result(ctx context.Context, cause error) (*Result, error) {
	endNs := r.collector.lastNs
	switch {
	case ctx.Err() != nil:
		endNs = r.nowNs()
	case errors.Is(cause, errOver):
		endNs = r.cfg.DurationNs
	}
	out := r.collector.result(endNs)
	out.Sent = int(r.progress.Sent.Load())
	out.Hopeless = errors.Is(cause, errHopeless)
	return out, context.Cause(ctx)
}
