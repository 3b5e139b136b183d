package law

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// patience is how long a request may take before it counts as hung. Nothing is
// measured by it.
const patience = 2 * time.Minute

// figures show that runs reach what the law speaks of.
type figures struct {
	requests, tokens, routed, steps, batched, cached, retracted, stopped, replayed atomic.Int64

	troubles tally
}

// answer counts what came of a request.
func (f *figures) answer(r *subserver.Request, got *outcome) {
	f.requests.Add(1)
	f.tokens.Add(int64(len(got.tokens)))
	for _, w := range got.writers {
		if w != r.Home {
			f.routed.Add(1)
		}
	}
	if got.reason == scheduler.ReasonStop {
		f.stopped.Add(1)
	}
}

// counter is an Observer that counts.
type counter struct {
	events, messages, steps, batched atomic.Int64
}

func (c *counter) Stepped(_ int, _, _ int64, batch *scheduler.Batch, _ int) {
	c.steps.Add(1)
	if len(batch.Entries) > 1 {
		c.batched.Add(1)
	}
}
func (c *counter) Event(int, *scheduler.Event)                      { c.events.Add(1) }
func (c *counter) Messages(_ int, _ int64, out []scheduler.Message) { c.messages.Add(int64(len(out))) }

// served is a system of one process or several, with its log and its counts.
type served struct {
	ofModel   []*subserver.System
	processes []*subserver.System
	logs      []*bytes.Buffer
	counter   counter
	ordeal    *ordeal     // nil: nothing goes wrong
	close     []io.Closer // engines
}

// start starts the cell's system.
func (c *cell) start(t testing.TB, f *figures) (*served, error) {
	s := new(served)
	if c.trouble != nil {
		s.ordeal = newOrdeal(c, f)
	}
	cfg := c.config(t, s.ordeal)
	cfg.Observer = &s.counter
	if s.ordeal != nil {
		cfg.Observer = onlooker{&s.counter, s.ordeal}
	}
	models := len(cfg.Models)
	for m := range cfg.Models {
		s.close = append(s.close, cfg.Models[m].Engine)
	}
	processes := 1
	var listeners []net.Listener
	if c.tcp {
		processes = models
		for range models {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			listeners = append(listeners, l)
		}
	}
	s.processes, s.ofModel = make([]*subserver.System, processes), make([]*subserver.System, models)
	errs := make([]error, processes)
	var starting sync.WaitGroup
	for p := range processes {
		own := cfg
		s.logs = append(s.logs, new(bytes.Buffer))
		own.Log = s.logs[p]
		if c.tcp {
			errs[p] = c.apart(&own, listeners, p, s.ordeal)
		}
		starting.Go(func() {
			if errs[p] == nil {
				s.processes[p], errs[p] = subserver.Start(own)
			}
		})
	}
	starting.Wait()
	for m := range s.ofModel {
		s.ofModel[m] = s.processes[min(m, processes-1)]
	}
	return s, errors.Join(errs...)
}

// apart makes a config that of the process that has one model.
func (c *cell) apart(cfg *subserver.Config, listeners []net.Listener, own int, mine *ordeal) error {
	o := subserver.TCPOptions{Settings: c.String(), Listen: func(string) (net.Listener, error) { return listeners[own], nil }}
	models := append([]subserver.Model(nil), cfg.Models...)
	for m := range models {
		o.Models, o.Addresses = append(o.Models, models[m].Name), append(o.Addresses, listeners[m].Addr().String())
		if m != own {
			models[m].Engine = nil
		}
	}
	o.Own, cfg.Models = o.Addresses[own], models
	if mine != nil {
		mine.part(&o, own)
	}
	tcp, err := subserver.NewTCP(o)
	cfg.Transport = tcp
	return err
}

// submitter is a System or a Dispatcher.
type submitter interface {
	Submit(ctx context.Context, r *subserver.Request) (*subserver.Stream, error)
}

// ask sends a request and reads the answer to its end. What came before an error
// is returned with it.
func ask(to submitter, r *subserver.Request) (*outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := to.Submit(ctx, r)
	if err != nil {
		return new(outcome), err
	}
	return follow(ctx, stream, r, nil)
}

// follow reads a stream to its end. Somebody may look at the tokens that have
// come.
func follow(ctx context.Context, stream *subserver.Stream, r *subserver.Request, seen func(tokens int)) (*outcome, error) {
	o := new(outcome)
	for {
		c, err := stream.Next(ctx)
		if err != nil {
			if late, again := stream.Next(ctx); ctx.Err() == nil && (again != err || len(late.Tokens) > 0) {
				return o, fmt.Errorf("after its end, %w, comes %v, %v", err, late.Tokens, again)
			}
			if err == io.EOF {
				err = nil
			}
			o.reason, _ = stream.Reason()
			o.stop = stream.StoppedBy()
			return o, err
		}
		if c.Start != len(r.Prompt)+len(o.tokens) {
			return o, fmt.Errorf("a chunk starts at %d, want %d", c.Start, len(r.Prompt)+len(o.tokens))
		}
		o.tokens, o.text = append(o.tokens, c.Tokens...), o.text+c.Text
		for i := range c.Tokens {
			o.writers = append(o.writers, c.Writer)
			if c.Top != nil {
				o.logprob = append(o.logprob, c.Top[i].Logprob)
			}
		}
		if seen != nil {
			seen(len(o.tokens))
		}
	}
}

// end waits until nothing is left of the requests, flushes the caches until all
// KV is free, closes all and replays the logs.
func (s *served) end() (problems []string) {
	for m, sys := range s.ofModel {
		for left := patience; ; left -= time.Millisecond {
			st := sys.Stats()[m]
			if st.KVHeld == 0 && st.Counts == (scheduler.Counts{}) && st.KVCached == 0 {
				break
			}
			if st.KVHeld == 0 && st.Counts == (scheduler.Counts{}) {
				_ = sys.Flush() // refused while the last word of a request is on its way
			}
			if left < 0 {
				problems = append(problems, fmt.Sprintf("%s is left with %+v", st.Model, st))
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	for _, sys := range s.processes {
		if err := sys.Close(); err != nil {
			problems = append(problems, err.Error())
		}
	}
	var events, messages int64
	for _, log := range s.logs {
		rep, err := subserver.Replay(bytes.NewReader(log.Bytes()))
		if err != nil {
			problems = append(problems, "replay: "+err.Error())
		}
		events, messages = events+rep.Events, messages+rep.Messages
	}
	if events != s.counter.events.Load() || messages != s.counter.messages.Load() {
		problems = append(problems, fmt.Sprintf("the logs have %d events and %d messages, the observer saw %d and %d",
			events, messages, s.counter.events.Load(), s.counter.messages.Load()))
	}
	for _, e := range s.close {
		if err := e.Close(); err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}

// obey runs the cell and says how it broke the law.
func (c *cell) obey(t testing.TB, f *figures) (problems []string) {
	s, err := c.start(t, f)
	if err != nil {
		return []string{err.Error()}
	}
	rounds := 1
	if c.warm {
		rounds = 2
	}
	var mu sync.Mutex
	for round := range rounds {
		var users sync.WaitGroup
		for u := range c.users {
			users.Go(func() {
				for i := u; i < c.requests(); i += c.users {
					r := c.request(i)
					if round > 0 {
						r = c.again(t, i)
					}
					if p := c.judge(t, s.ofModel[r.Home], f, s.ordeal, r); p != "" {
						mu.Lock()
						problems = append(problems, p)
						mu.Unlock()
					}
				}
			})
		}
		users.Wait()
	}
	for m, sys := range s.ofModel {
		f.cached.Add(sys.Stats()[m].Cached)
		f.retracted.Add(sys.Stats()[m].Retracted)
	}
	f.steps.Add(s.counter.steps.Load())
	f.batched.Add(s.counter.batched.Load())
	f.replayed.Add(1)
	if s.ordeal != nil {
		problems = append(problems, s.ordeal.aftermath(s)...)
	}
	if problems = append(problems, s.end()...); len(problems) > 0 {
		s.keep(t)
	}
	return problems
}

// keep leaves the logs, for tokenrouter replay, where go test -artifacts keeps
// them: threads may never meet again as they did.
func (s *served) keep(t testing.TB) {
	for p, log := range s.logs {
		name := filepath.Join(t.ArtifactDir(), fmt.Sprintf("process%d.log", p))
		if err := os.WriteFile(name, log.Bytes(), 0o600); err != nil {
			t.Log(err)
		}
	}
}

// judge asks a request and compares the answer with the oracle's, in an ordeal if
// there is one.
func (c *cell) judge(t testing.TB, to submitter, f *figures, o *ordeal, r *subserver.Request) string {
	if o != nil {
		return o.judge(t, to, r)
	}
	got, err := ask(to, r)
	if err != nil {
		return fmt.Sprintf("request %d: %v", r.ID, err)
	}
	f.answer(r, got)
	if d := got.differs(c.answer(t, r), r.Logprobs >= 0); d != "" {
		return fmt.Sprintf("request %d, %+v: %s", r.ID, *r, d)
	}
	return ""
}
