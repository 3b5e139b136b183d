package subserver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// System is a running system of subservers, or this process's part of one.
// Its methods may be called from any goroutine.
type System struct {
	cfg        Config
	subs       []*subserver // by model; nil where another process has it
	gate       *gate        // nil unless this process coordinates launches
	log        *eventLog    // nil: none
	start      time.Time
	maxContext int // tokens of a request at most
	running    sync.WaitGroup

	door door

	brokenMu sync.Mutex
	broken   error  // the first failure of an engine or a peer
	gone     []bool // models that are lost; nil: none
}

// hooks let tests look on.
type hooks struct {
	check    bool             // Check every core after every call
	decided  func(d decision) // a core has answered the launch gate
	logLimit int64            // of bytes that wait for the log's writer; 0: the usual
}

// Start checks cfg, makes the cores and starts the loops. The engines stay the
// caller's: Close does not close them. Errors name the field.
func Start(cfg Config) (*System, error) {
	if cfg.TopK == 0 {
		cfg.TopK = defaultTopK
	}
	if cfg.hooks == nil {
		cfg.hooks = new(hooks)
	}
	s := &System{cfg: cfg, start: cfg.epoch}
	if s.start.IsZero() {
		s.start = time.Now()
	}
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("subserver: %w", err)
	}
	for m := range cfg.Models {
		sub, err := s.newSubserver(m)
		if err != nil {
			return nil, fmt.Errorf("subserver: model %s: %w", cfg.Models[m].Name, err)
		}
		s.subs = append(s.subs, sub)
	}
	if cfg.Log != nil {
		log, err := newEventLog(&s.cfg)
		if err != nil {
			return nil, fmt.Errorf("subserver: %w", err)
		}
		s.log = log
	}
	if s.gated() && s.subs[0] != nil {
		s.gate = newGate(s)
	}
	if cfg.Transport != nil {
		// What comes before the loops begin waits in their mailboxes.
		if err := cfg.Transport.Start(s.deliver, s.lost); err != nil {
			if s.log != nil {
				err = errors.Join(err, s.log.close())
			}
			return nil, fmt.Errorf("subserver: %w", err)
		}
	}
	for _, sub := range s.subs {
		if sub != nil {
			sub.begin()
		}
	}
	return s, nil
}

// defaultTopK is as many candidates as SGLang and vLLM give at most by default.
const defaultTopK = 20

func (s *System) gated() bool { return s.cfg.Rule.NeedsPeers() }

// rule is the launch rule of a model.
func (c *Config) rule(model int) scheduler.Rule {
	if r := c.Models[model].Rule; r != nil {
		return r
	}
	return c.Rule
}

// NowNs is the clock of all times that the system tells: nanoseconds since it
// was started.
func (s *System) NowNs() int64 { return time.Since(s.start).Nanoseconds() }

// Submit hands a request to its home and returns where its answer comes. The
// request leaves every model when ctx ends. An error is about r, or the system
// takes no requests any more; what the scheduler refuses comes with the stream.
func (s *System) Submit(ctx context.Context, r *Request) (*Stream, error) {
	if err := s.checkRequest(r); err != nil {
		return nil, err
	}
	own := s.ownCopy(r)
	home := s.subs[r.Home]
	stream, err := s.door.enter(own, len(s.subs), func(id scheduler.RequestID) {
		home.clients.put(clientWord{kind: canceled, id: id})
	})
	if err != nil {
		return nil, err
	}
	if ctx.Done() != nil {
		stream.detach = context.AfterFunc(ctx, stream.Cancel)
	}
	home.clients.put(clientWord{kind: submitted, id: own.ID, request: own, stream: stream})
	return stream, nil
}

// Drain refuses requests from now on and waits until those of this process have
// ended, or ctx does. Requests of other processes go on here.
func (s *System) Drain(ctx context.Context) error {
	for _, sub := range s.subs {
		if sub != nil {
			sub.inbox.put(word{event: scheduler.Event{Kind: scheduler.Drain}})
		}
	}
	return s.door.await(ctx)
}

// AwaitPeers waits until no model of another process has an admitted request,
// which may come here for its next token, or until ctx ends: then this process
// can go without breaking anything off. It refuses nothing.
func (s *System) AwaitPeers(ctx context.Context) error {
	tick := time.NewTicker(peersTick)
	defer tick.Stop()
	for {
		needed := false
		for _, st := range s.Stats() {
			needed = needed || st.Abroad > 0
		}
		if !needed {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// peersTick is how often AwaitPeers looks. Nobody waits for it but a process
// that ends.
const peersTick = 20 * time.Millisecond

// ErrBusy is why the caches of a system are not flushed.
var ErrBusy = errors.New("requests are open")

// Flush has every model, those of other processes too, forget the KV of prefixes
// that no request uses, before any request that comes here after. With requests
// of this process open it does nothing and returns ErrBusy.
func (s *System) Flush() error {
	if s.door.busy() {
		return ErrBusy
	}
	// Each model here is told by itself and tells those elsewhere: a request that
	// comes after, whatever its home, follows the word on every way.
	for _, sub := range s.subs {
		if sub != nil {
			sub.inbox.put(word{event: scheduler.Event{Kind: scheduler.Flush}})
		}
	}
	return nil
}

// Close breaks off what is still open, waits for the steps in flight and ends
// all loops. The error is that of the event log or the transport.
func (s *System) Close() error {
	if err := s.door.end(); err != nil {
		return err
	}
	return s.stop()
}

// stop ends the loops.
func (s *System) stop() error {
	var errs []error
	for _, sub := range s.subs {
		if sub != nil {
			sub.inbox.close()
			sub.clients.close()
		}
	}
	for _, sub := range s.subs {
		if sub != nil {
			<-sub.ended // its last words may go to a peer
		}
	}
	for _, sub := range s.subs {
		if sub != nil && sub.outbox != nil {
			sub.outbox.close()
		}
	}
	s.running.Wait()
	if s.cfg.Transport != nil {
		errs = append(errs, s.cfg.Transport.Close())
	}
	if s.log != nil {
		errs = append(errs, s.log.close())
	}
	return errors.Join(errs...)
}

// Err is the first failure of an engine or a peer, nil while all is well: what
// a health check asks for.
func (s *System) Err() error {
	s.brokenMu.Lock()
	defer s.brokenMu.Unlock()
	return s.broken
}

func (s *System) fail(err error) {
	s.brokenMu.Lock()
	defer s.brokenMu.Unlock()
	if s.broken == nil {
		s.broken = err
	}
}

// MaxContext is how many tokens a request may have, prompt and output together,
// by what the models can read; a KV pool may hold fewer.
func (s *System) MaxContext() int { return s.maxContext }

// Stats are one subserver's figures at some instant of the last step or event.
type Stats struct {
	Model                    string
	scheduler.Counts                // requests by where they stand
	KVHeld, KVCached, KVFree int    // blocks
	Threshold                int    // in force
	StepStartNs              int64  // when the step in flight began, if InFlight is not 0
	Steps                    int64  // that ended
	Rows                     int64  // fed by them
	Sampled                  int64  // tokens sampled by them, dropped ones included
	BusyNs                   int64  // that they took
	Entered                  int64  // tokens that requests had when they first ran here
	Cached                   int64  // those of them whose KV was there already
	Retracted                int64  // times that a request lost its KV to another
	Abroad                   int64  // requests that models of other processes have admitted
	Broken                   string // why the engine is lost, "" while it works
}

// Stats returns the figures of each model, zero but for Model where another
// process has it. It never waits for a step.
func (s *System) Stats() []Stats {
	stats := make([]Stats, len(s.subs))
	for m, sub := range s.subs {
		if sub == nil {
			stats[m].Model = s.cfg.Models[m].Name
			continue
		}
		sub.statsMu.Lock()
		stats[m] = sub.stats
		sub.statsMu.Unlock()
	}
	return stats
}

// validate checks what the cores do not, and sets maxContext.
func (s *System) validate() error {
	cfg := &s.cfg
	if len(cfg.Models) == 0 || cfg.Algorithm == nil || cfg.Rule == nil {
		return errors.New("set Models, Algorithm and Rule")
	}
	s.maxContext = math.MaxInt32
	vocab, local := 0, 0
	for m := range cfg.Models {
		mod := &cfg.Models[m]
		if r := cfg.rule(m); r.NeedsPeers() != cfg.Rule.NeedsPeers() {
			return fmt.Errorf("model %s: rule %v cannot go together with rule %v: either all take turns or none", mod.Name, r, cfg.Rule)
		}
		if mod.BlockTokens < 1 || mod.KVTokens < mod.BlockTokens {
			return fmt.Errorf("model %s: KVTokens is %d and BlockTokens %d, want at least one block", mod.Name, mod.KVTokens, mod.BlockTokens)
		}
		if mod.Engine == nil {
			s.limitContext(mod.MaxContext)
			continue
		}
		local++
		info := mod.Engine.Info()
		if vocab == 0 {
			vocab = info.Vocab
		}
		needs := cfg.Algorithm.Needs(m)
		switch {
		case info.Vocab != vocab:
			return fmt.Errorf("model %s: vocabulary of %d, others have %d: models that write one text share a tokenizer", mod.Name, info.Vocab, vocab)
		case needs&^info.Signals != 0:
			return fmt.Errorf("model %s: algorithm %s needs %v, its engine gives %v", mod.Name, cfg.Algorithm.Name(), needs, info.Signals)
		case cfg.HoldContext == 0 && mod.BlockTokens != info.BlockTokens:
			return fmt.Errorf("model %s: BlockTokens is %d, its engine has blocks of %d", mod.Name, mod.BlockTokens, info.BlockTokens)
		case cfg.HoldContext == 0 && mod.KVTokens/mod.BlockTokens > info.Blocks:
			return fmt.Errorf("model %s: KVTokens is %d, its engine has %d blocks of %d", mod.Name, mod.KVTokens, info.Blocks, info.BlockTokens)
		}
		s.limitContext(info.MaxContext)
		s.limitContext(mod.MaxContext)
	}
	switch {
	case local == 0:
		return errors.New("no model has an Engine")
	case local < len(cfg.Models) && cfg.Transport == nil:
		return errors.New("a model without an Engine needs a Transport")
	}
	return nil
}

// limitContext takes a model's limit into account; 0 is none.
func (s *System) limitContext(tokens int) {
	if tokens > 0 && s.cfg.HoldContext == 0 {
		s.maxContext = min(s.maxContext, tokens)
	}
}

// coreConfig is what the core of a model is made from, in this process and in a
// replay.
func coreConfig(cfg *Config, model int) scheduler.Config {
	maxRunning, kv := make([]int, len(cfg.Models)), make([]int, len(cfg.Models))
	for i := range cfg.Models {
		m := &cfg.Models[i]
		maxRunning[i] = m.MaxRunning
		kv[i] = m.KVTokens - m.KVTokens%m.BlockTokens // whole blocks
	}
	m := &cfg.Models[model]
	return scheduler.Config{
		Model: model, Algorithm: cfg.Algorithm, Rule: cfg.rule(model), Thresholds: cfg.Thresholds,
		MaxRunning: maxRunning, KVTokens: kv, BlockTokens: m.BlockTokens, ChunkTokens: m.ChunkTokens,
		QueueLimit: cfg.QueueLimit, PrefixReuse: !cfg.NoReuse, Static: cfg.Static, Reread: cfg.Reread,
		HoldContext: cfg.HoldContext,
	}
}
