package subserver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// DispatchCost is what a submission costs beside the step: in transit and
// handling, and for each token of its prompt. Both are latencies, so submissions
// of different requests overlap. The zero value costs nothing.
type DispatchCost struct {
	FixedNs    int64
	NsPerToken float64
}

func (c DispatchCost) of(tokens int) time.Duration {
	return time.Duration(c.FixedNs + int64(math.Round(c.NsPerToken*float64(tokens))))
}

// Dispatcher is standard serving: an ordinary server for each model, which knows
// of no other, and a program outside that routes token by token. It submits a
// request for one token, decides from the answer who writes the next one, and
// submits all tokens so far as a new request to that model's server, where the
// prefix cache may still hold them. It is what TokenRouter is compared with.
type Dispatcher struct {
	cfg     Config
	cost    DispatchCost
	start   time.Time
	servers []*System // by model
	taps    []*tap
	door    door
	lastID  atomic.Uint64 // of submissions
}

// StartDispatcher starts the servers of cfg.Models. Of cfg it does not read
// Rule, Thresholds, Static, Reread and HoldContext: the servers are Eager.
func StartDispatcher(cfg Config, cost DispatchCost) (*Dispatcher, error) {
	switch {
	case cfg.Algorithm == nil:
		return nil, errors.New("subserver: Algorithm must be set")
	case cfg.Transport != nil || cfg.Log != nil:
		return nil, errors.New("subserver: a dispatcher has no Transport and no Log")
	case cost.FixedNs < 0 || cost.NsPerToken < 0:
		return nil, fmt.Errorf("subserver: a submission cannot cost %d ns and %g ns a token", cost.FixedNs, cost.NsPerToken)
	}
	d := &Dispatcher{cfg: cfg, cost: cost, start: time.Now()}
	for m := range cfg.Models {
		t := &tap{needs: cfg.Algorithm.Needs(m), told: map[scheduler.RequestID]*algorithms.Signals{}}
		one := Config{Models: slices.Clone(cfg.Models[m : m+1]), Algorithm: t, Rule: scheduler.Eager{}, Thresholds: scheduler.Thresholds{{1}},
			QueueLimit: cfg.QueueLimit, NoReuse: cfg.NoReuse, TopK: cfg.TopK, epoch: d.start, hooks: cfg.hooks}
		one.Models[0].Rule = nil
		if cfg.Observer != nil {
			one.Observer = renumbered{cfg.Observer, m}
		}
		sys, err := Start(one)
		if err != nil {
			return nil, errors.Join(err, d.stop())
		}
		d.servers, d.taps = append(d.servers, sys), append(d.taps, t)
	}
	if len(d.servers) == 0 {
		return nil, errors.New("subserver: Models must be set")
	}
	return d, nil
}

// NowNs is the clock of all times that the dispatcher and its servers tell.
func (d *Dispatcher) NowNs() int64 { return time.Since(d.start).Nanoseconds() }

// Submit is like that of a System.
func (d *Dispatcher) Submit(ctx context.Context, r *Request) (*Stream, error) {
	if r.Home < 0 || r.Home >= len(d.servers) {
		return nil, requestErrorf("Home", "is model %d of %d", r.Home, len(d.servers))
	}
	if err := d.cfg.checkRequest(r); err != nil {
		return nil, err
	}
	own := d.servers[r.Home].ownCopy(r)
	asked := *r
	asked.forServer()
	for _, sys := range d.servers { // it may come to any of them
		if err := sys.checkRequest(&asked); err != nil {
			return nil, err
		}
		own.MaxTokens = min(own.MaxTokens, sys.maxContext-len(r.Prompt))
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := d.door.enter(own, len(d.servers), func(scheduler.RequestID) { cancel() })
	if err != nil {
		cancel()
		return nil, err
	}
	f := &followed{d: d, request: own, client: d.cfg.newSession(own, stream), route: d.cfg.checkedRoute(&own.Routing),
		model: own.Home, ids: slices.Clone(own.Prompt)}
	f.view = algorithms.View{Request: own.ID, Seed: own.Seed, Home: own.Home, StayStart: len(own.Prompt)}
	go func() {
		defer cancel()
		f.follow(ctx)
		d.door.leave(own.ID)
	}()
	return stream, nil
}

// Drain refuses requests from now on and waits until the others have ended.
func (d *Dispatcher) Drain(ctx context.Context) error {
	d.door.close()
	return d.door.await(ctx)
}

// Close breaks off what is open and stops the servers.
func (d *Dispatcher) Close() error {
	if err := d.door.end(); err != nil {
		return err
	}
	return d.stop()
}

func (d *Dispatcher) stop() error {
	var errs []error
	for _, sys := range d.servers {
		errs = append(errs, sys.Close())
	}
	return errors.Join(errs...)
}

// Stats returns the figures of each server. Their requests are submissions.
func (d *Dispatcher) Stats() []Stats {
	var stats []Stats
	for _, sys := range d.servers {
		stats = append(stats, sys.Stats()...)
	}
	return stats
}

// Err is the first failure of an engine, nil while all is well.
func (d *Dispatcher) Err() error {
	for _, sys := range d.servers {
		if err := sys.Err(); err != nil {
			return err
		}
	}
	return nil
}

// followed is a client's request as the dispatcher knows it.
type followed struct {
	d       *Dispatcher
	request *Request
	client  *session
	route   algorithms.Algorithm // nil: it stays at its home
	model   int                  // whose server gets it next
	ids     []algorithms.Token
	written int
	// What the home told of its first step, and how often submissions lost their
	// KV there.
	begunNs          int64
	cached, retracts int
	view             algorithms.View
}

// follow brings a request to its end.
func (f *followed) follow(ctx context.Context) {
	for {
		why, over, err := f.token(ctx)
		if err != nil {
			f.client.finish(f.broken(ctx, err))
			return
		}
		if f.client.ended { // by a stop string
			return
		}
		if over {
			f.client.finish(&clientWord{id: f.request.ID, reason: why, chunk: Chunk{AtNs: f.d.NowNs(), Writer: f.model}})
			return
		}
	}
}

// broken says what a client is told of an error.
func (f *followed) broken(ctx context.Context, err error) *clientWord {
	w := &clientWord{id: f.request.ID, reason: scheduler.ReasonAbort, cause: ErrFailed, detail: err.Error()}
	var end *EndError
	switch {
	case ctx.Err() != nil:
		w.cause, w.detail = ErrCanceled, ""
	case errors.Is(err, ErrTooLong) && f.written > 0:
		w.cause, w.detail = ErrOutgrown, ""
	case errors.As(err, &end):
		w.reason, w.cause, w.detail = end.Reason, end.Cause, end.Detail
	}
	return w
}

// token gets one token written and decides who writes the next.
func (f *followed) token(ctx context.Context) (why scheduler.Reason, over bool, err error) {
	chunk, signals, err := f.submit(ctx)
	if err != nil {
		return 0, false, err
	}
	v := &f.view
	v.Model, v.Position, v.Token, v.Signals = f.model, len(f.ids), chunk.Tokens[0], *signals
	to, from, keep := f.model, f.model, true
	if f.route != nil {
		to = f.route.Route(v).Model()
	}
	if to >= 0 && to != from {
		req := algorithms.PeerReq{ID: f.request.ID, Home: f.request.Home, From: from, Seed: f.request.Seed, Extra: v.Extra}
		keep = f.d.cfg.Algorithm.Send(algorithms.Departure{From: from, To: to, Home: f.request.Home, Position: len(f.ids), Token: v.Token}, &req)
		v.Extra, f.model = req.Extra, to
		v.Hops++
	}
	if keep {
		f.ids, f.written = append(f.ids, v.Token), f.written+1
		for i := range chunk.Top {
			retell(&chunk.Top[i], v.Token)
		}
		chunk.Tokens, chunk.Writer, chunk.AtNs = []algorithms.Token{v.Token}, from, f.d.NowNs()
		f.client.write(chunk)
		switch {
		case slices.Contains(f.request.EOS, v.Token):
			return scheduler.ReasonStop, true, nil
		case f.written >= f.request.MaxTokens:
			return scheduler.ReasonLength, true, nil
		}
	}
	if f.model != from {
		v.StayStart = len(f.ids)
	}
	return 0, false, nil
}

// forServer takes out of a request what is the dispatcher's own business: a
// server has one model, and knows of no text and no routing.
func (r *Request) forServer() {
	r.Home, r.Stop, r.Detokenizer, r.Routing = 0, nil, nil, Routing{}
}

// submit sends all tokens so far to the model's server, for one more.
func (f *followed) submit(ctx context.Context) (Chunk, *algorithms.Signals, error) {
	if d := f.d.cost.of(len(f.ids)); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return Chunk{}, nil, ctx.Err()
		}
	}
	r := *f.request
	r.forServer()
	r.ID = scheduler.RequestID(f.d.lastID.Add(1))
	r.Prompt, r.MaxTokens, r.EOS = f.ids, 1, nil
	r.counted = len(f.request.Prompt)
	t := f.d.taps[f.model]
	t.open(r.ID)
	defer t.close(r.ID)
	s, err := f.d.servers[f.model].Submit(ctx, &r)
	if err != nil {
		return Chunk{}, nil, err
	}
	chunk, err := s.Next(ctx)
	if err != nil {
		return Chunk{}, nil, err
	}
	if f.written == 0 && f.view.Hops == 0 {
		f.begunNs, f.cached = chunk.BegunNs, chunk.Cached
	}
	if f.model == f.request.Home {
		f.retracts += chunk.Retracted
	}
	chunk.BegunNs, chunk.Cached, chunk.Retracted = f.begunNs, f.cached, f.retracts
	return chunk, t.close(r.ID), nil
}

// tap stands in for the routing algorithm at a server that knows none: it
// writes the signals down for the dispatcher, which asks the true one.
type tap struct {
	algorithms.Never
	needs algorithms.Need
	mu    sync.Mutex
	told  map[scheduler.RequestID]*algorithms.Signals // of open submissions
}

func (t *tap) Needs(int) algorithms.Need { return t.needs }

func (t *tap) Route(v *algorithms.View) algorithms.Dest {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.told[v.Request]; s != nil {
		*s = v.Signals
		s.TopK = slices.Clone(s.TopK)
	}
	return algorithms.Stay
}

func (t *tap) open(id scheduler.RequestID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told[id] = new(algorithms.Signals)
}

func (t *tap) close(id scheduler.RequestID) *algorithms.Signals {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.told[id]
	delete(t.told, id)
	return s
}

// renumbered shows the one model of a server under its number in the system.
type renumbered struct {
	to    Observer
	model int
}

func (o renumbered) Stepped(_ int, startNs, endNs int64, batch *scheduler.Batch, threshold int) {
	o.to.Stepped(o.model, startNs, endNs, batch, threshold)
}
func (o renumbered) Event(_ int, ev *scheduler.Event) { o.to.Event(o.model, ev) }
func (o renumbered) Messages(_ int, atNs int64, out []scheduler.Message) {
	o.to.Messages(o.model, atNs, out)
}
