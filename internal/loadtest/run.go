package loadtest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tokenrouter/tokenrouter/internal/metrics"
	"github.com/tokenrouter/tokenrouter/internal/workload"
	"github.com/tokenrouter/tokenrouter/internal/workload/play"
)

// Target is what requests are sent to. Ask is called from many goroutines. It
// sends one request, tells the answer of tokens as they come and returns when
// the last one has. The error is a *Failure, that of ctx, or one of the network.
type Target interface {
	Ask(ctx context.Context, r *workload.Request, a *Answer) error
}

// Config is one run.
type Config struct {
	Target     Target
	Load       workload.Load // any but a steady one: the answers of servers end
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
// figures so far and the cause. A progress that is not nil may be read meanwhile.
func Run(ctx context.Context, cfg *Config, p *Progress) (*Result, error) {
	if cfg.Load.Kind == workload.Steady {
		panic("loadtest: a load whose requests never end")
	}
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
	player := play.Player{Load: &cfg.Load, NowNs: r.nowNs, EndNs: cfg.DurationNs, Send: r.send}
	player.Run(inner)
	return r.result(ctx, context.Cause(inner))
}

// Progress is how far a run is; it may be read while it runs.
type Progress struct{ Sent, Ended, Failed, Tokens atomic.Int64 }

type run struct {
	cfg       *Config
	start     time.Time
	progress  *Progress
	stop      context.CancelCauseFunc
	collector collector
}

func (r *run) nowNs() int64 { return int64(time.Since(r.start)) }

// send sends a request of the load; false if it failed. Users send theirs when
// they can, all others are late if they are sent after they were due.
func (r *run) send(ctx context.Context, _ int, q workload.Request) bool {
	if nowNs := r.nowNs(); r.cfg.Load.Kind == workload.Closed {
		q.ArrivalNs = nowNs
	} else {
		r.collector.late(nowNs - q.ArrivalNs)
	}
	return r.one(ctx, &q)
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
