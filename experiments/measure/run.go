package measure

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/internal/metrics"
	"github.com/tokenrouter/tokenrouter/internal/workload"
	"github.com/tokenrouter/tokenrouter/internal/workload/play"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Config is one run.
type Config struct {
	System subserver.Config // Run sets its Observer
	Load   workload.Load
	// Home says where the request of a number and a seed enters.
	Home func(number int, seed uint64) int
	// Vocab bounds the made-up tokens of prompts to those that all models have; 0
	// leaves them as they are, for engines that read none.
	Vocab int
	// OutputMax, if above 0, is the most that a request of a steady load may
	// write, for engines whose KV is real; its user then sends the next one.
	OutputMax int
	// Dispatcher, if not nil, makes this standard serving.
	Dispatcher *subserver.DispatchCost

	DurationNs int64 // 0: until all requests have ended
	WarmupNs   int64 // left out of the figures
}

// Result is what a run showed.
type Result struct {
	metrics.Summary
	EndNs int64 // when it ended, counted from its start
	// OverheadUs is what lies between the steps that a step had to wait for and
	// its own start, in microseconds.
	OverheadUs metrics.Quantiles
	// Silent counts users of a steady load whose first token came after warm-up:
	// their prompts were read in the window.
	Silent int
}

// service is what requests are sent to.
type service interface {
	Submit(ctx context.Context, r *subserver.Request) (*subserver.Stream, error)
	NowNs() int64
	Close() error
}

// Run measures. It ends early, with the error of ctx, if that ends. A run in
// whose window no token was written is an error too, beside its result.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	var limits []metrics.Limits
	for _, c := range cfg.Load.Mix.Classes {
		limits = append(limits, metrics.Limits(c.Limits))
	}
	c := newCollector(len(cfg.System.Models), cfg.WarmupNs, cfg.DurationNs, cfg.System.Rule, limits)
	c.submissions = cfg.Dispatcher != nil
	cfg.System.Observer = c
	cfg.System.Models = slices.Clone(cfg.System.Models)
	for i := range cfg.System.Models {
		m := &cfg.System.Models[i]
		c.engines = append(c.engines, &clocked{Engine: m.Engine})
		m.Engine = c.engines[i]
	}
	system, err := start(&cfg)
	if err != nil {
		return nil, err
	}
	epoch := time.Now().Add(-time.Duration(system.NowNs()))
	for _, e := range c.engines {
		e.epoch = epoch
	}
	d := &driver{cfg: &cfg, system: system, collector: c}
	err = d.drive(ctx)
	if err = errors.Join(err, system.Close()); err != nil {
		return nil, err
	}
	users := 0
	if cfg.Load.Kind == workload.Steady {
		users = cfg.Load.Users
	}
	r := c.result(users)
	return r, c.complaint(r)
}

// start starts the system, or the servers behind a dispatcher.
func start(cfg *Config) (service, error) {
	if cfg.Dispatcher != nil {
		return subserver.StartDispatcher(cfg.System, *cfg.Dispatcher)
	}
	return subserver.Start(cfg.System)
}

// driver sends the requests of a load and reads the answers.
type driver struct {
	cfg       *Config
	system    service
	collector *collector

	mu     sync.Mutex
	failed error
	stop   context.CancelFunc
}

// drive returns when the run is over.
func (d *driver) drive(ctx context.Context) error {
	inner, stop := context.WithCancel(ctx)
	d.stop = stop
	defer stop()
	if d.cfg.DurationNs > 0 {
		left := time.Duration(d.cfg.DurationNs - d.system.NowNs())
		timer := time.AfterFunc(left, stop)
		defer timer.Stop()
	}
	player := play.Player{Load: &d.cfg.Load, NowNs: d.system.NowNs, EndNs: d.cfg.DurationNs, Send: d.send}
	player.Run(inner)
	if d.failed != nil {
		return d.failed
	}
	return ctx.Err()
}

// send sends a request and reads its answer to the end. It reports false if the
// request was refused at once.
func (d *driver) send(ctx context.Context, number int, r workload.Request) (ok bool) {
	id := scheduler.RequestID(number)
	d.collector.arrived(id, d.system.NowNs(), r.Class)
	atNs := int64(0)
	stream, err := d.system.Submit(ctx, d.request(id, &r))
	for err == nil {
		var c subserver.Chunk
		if c, err = stream.Next(ctx); err == nil {
			atNs = c.AtNs
			d.collector.emitted(id, c.AtNs, len(c.Tokens), c.Writer)
		}
	}
	var end *subserver.EndError
	switch {
	case ctx.Err() != nil:
		return true // the run is over
	case errors.Is(err, io.EOF):
		d.collector.ended(id, atNs, false)
	case errors.Is(err, subserver.ErrTooLong), errors.As(err, &end) && !errors.Is(err, subserver.ErrFailed):
		d.collector.ended(id, d.system.NowNs(), true)
		return atNs != 0
	default:
		d.fail(err)
	}
	return true
}

// fail ends the run: an engine that broke measures nothing.
func (d *driver) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed == nil {
		d.failed = err
	}
	d.stop()
}

func (d *driver) request(id scheduler.RequestID, r *workload.Request) *subserver.Request {
	q := &subserver.Request{ID: id, Home: d.cfg.Home(int(id), r.Seed), Seed: r.Seed, Logprobs: -1,
		Prompt: r.AppendPrompt(nil), MaxTokens: r.Output}
	if d.cfg.OutputMax > 0 {
		q.MaxTokens = min(q.MaxTokens, d.cfg.OutputMax)
	}
	if vocab := algorithms.Token(d.cfg.Vocab); vocab > 0 {
		for i := range q.Prompt {
			q.Prompt[i] %= vocab
		}
	}
	return q
}
