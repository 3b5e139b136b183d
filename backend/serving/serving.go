// Package serving puts a running system of subservers behind the front door.
// The door knows no scheduler, and subservers know no HTTP: this is the only
// place that knows both.
package serving

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend/frontdoor"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Service is a system as the front door sees it.
type Service struct {
	system *subserver.System
	cfg    *subserver.Config
	home   int
	steps  []modelSteps
}

// Start starts a system whose routed requests begin at home. The config's
// Observer has to be free.
func Start(cfg subserver.Config, home int) (*Service, error) {
	if cfg.Observer != nil {
		return nil, errors.New("serving: the observer is taken")
	}
	s := &Service{cfg: &cfg, home: home, steps: make([]modelSteps, len(cfg.Models))}
	cfg.Observer = s
	system, err := subserver.Start(cfg)
	if err != nil {
		return nil, err
	}
	s.system = system
	return s, nil
}

// Close ends the system; what is open is broken off.
func (s *Service) Close() error { return s.system.Close() }

// Err implements frontdoor.Service.
func (s *Service) Err() error { return s.system.Err() }

// Drain implements frontdoor.Service.
func (s *Service) Drain(ctx context.Context) error { return s.system.Drain(ctx) }

// AwaitPeers waits until no other process has a request that may come here.
func (s *Service) AwaitPeers(ctx context.Context) error { return s.system.AwaitPeers(ctx) }

// Flush implements frontdoor.Service.
func (s *Service) Flush() error { return s.system.Flush() }

// Stats implements frontdoor.Service.
func (s *Service) Stats() []frontdoor.Stats {
	all := s.system.Stats()
	out := make([]frontdoor.Stats, len(all))
	for m := range all {
		st, cfg := &all[m], &s.cfg.Models[m]
		if cfg.Engine == nil {
			continue
		}
		tokens := cfg.BlockTokens
		out[m] = frontdoor.Stats{
			Running: st.Ready + st.InFlight, Waiting: st.Queued + st.KVQueued, Ready: st.Ready, Pending: st.Pending, Away: st.Away,
			KVHeld: st.KVHeld * tokens, KVCached: st.KVCached * tokens, KVTotal: (st.KVHeld + st.KVCached + st.KVFree) * tokens, KVBlock: tokens,
			B: st.Threshold, Steps: st.Steps, Rows: st.Rows, Sampled: st.Sampled, BusyNs: st.BusyNs, Broken: st.Broken, Here: true,
			Retired: st.Retracted, Entered: st.Entered, Cached: st.Cached,
		}
		s.steps[m].tell(&out[m], cfg.MaxRunning)
	}
	return out
}

// Thresholds tells whether requests may bring a threshold of their own, which
// only routing has that compares a signal with one.
func (s *Service) Thresholds() bool {
	some := 0.5
	params := s.cfg.Params
	params.Threshold = &some
	_, err := algorithms.New(s.cfg.Algorithm.Name(), params)
	return err == nil
}

// Submit implements frontdoor.Service.
func (s *Service) Submit(ctx context.Context, r *frontdoor.Request) (frontdoor.Stream, error) {
	own := subserver.Request{
		Home: r.Model, Prompt: r.Prompt, MaxTokens: r.MaxTokens, EOS: r.Ends, Seed: r.Seed, Sampling: r.Sampling,
		Stop: r.Stop, ShowStop: r.ShowStop, Logprobs: r.Logprobs, Detokenizer: r.Text,
		Routing: subserver.Routing{Alone: r.Model != frontdoor.Routed, Threshold: r.Threshold},
	}
	if r.Model == frontdoor.Routed {
		own.Home = s.home
	}
	stream, err := s.system.Submit(ctx, &own)
	if err != nil {
		return nil, tell(err)
	}
	return &answer{system: s.system, stream: stream}, nil
}

// answer is a stream as the front door reads it.
type answer struct {
	system    *subserver.System
	stream    *subserver.Stream
	begun     time.Time
	retracted int
}

func (a *answer) Cancel() { a.stream.Cancel() }

func (a *answer) Next(ctx context.Context) (frontdoor.Chunk, error) {
	c, err := a.stream.Next(ctx)
	if err != nil {
		return frontdoor.Chunk{}, tell(err)
	}
	if a.begun.IsZero() && c.BegunNs > 0 {
		a.begun = time.Now().Add(-time.Duration(a.system.NowNs() - c.BegunNs))
	}
	a.retracted = max(a.retracted, c.Retracted)
	return frontdoor.Chunk{Tokens: c.Tokens, Writer: c.Writer, Text: c.Text, Top: c.Top}, nil
}

func (a *answer) End() frontdoor.End {
	why, _ := a.stream.Reason()
	return frontdoor.End{Length: why == scheduler.ReasonLength, Stop: a.stream.StoppedBy(), Cached: a.stream.Cached(), Begun: a.begun, Retracted: a.retracted}
}

// tell puts what went wrong as a client should hear it: its own mistakes are
// 400, since clients try again after anything from 500 on.
func tell(err error) error {
	var field *subserver.RequestError
	switch {
	case err == io.EOF:
		return err
	case errors.Is(err, subserver.ErrCanceled):
		return frontdoor.ErrCanceled
	case errors.Is(err, subserver.ErrTooLong):
		return &frontdoor.Error{Status: http.StatusBadRequest, Message: "the prompt is longer than the KV memory of a model that may have to read it", Param: "prompt"}
	case errors.As(err, &field):
		message := "the " + fieldNames[field.Field] + " " + field.Problem
		return &frontdoor.Error{Status: http.StatusBadRequest, Message: message, Param: fieldNames[field.Field]}
	case errors.Is(err, subserver.ErrOutgrown):
		return &frontdoor.Error{Status: http.StatusBadRequest, Message: "the request has outgrown the KV memory of a model: ask for fewer tokens"}
	case errors.Is(err, subserver.ErrQueueFull):
		return frontdoor.ErrQueueFull
	case errors.Is(err, subserver.ErrDraining):
		return &frontdoor.Error{Status: http.StatusServiceUnavailable, Message: "the server is shutting down"}
	case errors.Is(err, subserver.ErrFailed):
		// Why is for whoever runs the server: it names hosts. /health tells.
		return &frontdoor.Error{Status: http.StatusServiceUnavailable, Message: "a model that the request needs is lost"}
	}
	return err
}

// fieldNames are the words of clients for the fields of a request.
var fieldNames = map[string]string{
	"Prompt": "prompt", "MaxTokens": "max_tokens", "EOS": "stop_token_ids", "Stop": "stop", "Logprobs": "logprobs", "Routing": "custom_params",
}

// Stepped implements subserver.Observer.
func (s *Service) Stepped(model int, _, _ int64, batch *scheduler.Batch, _ int) {
	s.steps[model].note(batch)
}

// Event implements subserver.Observer.
func (s *Service) Event(model int, ev *scheduler.Event) {
	switch ev.Kind {
	case scheduler.Aborted, scheduler.Stop, scheduler.Released:
		s.steps[model].leave(ev.Request)
	}
}

// Messages implements subserver.Observer.
func (s *Service) Messages(model int, _ int64, out []scheduler.Message) {
	for i := range out {
		switch out[i].Kind {
		case scheduler.Send:
			s.steps[model].handOff()
		case scheduler.Retract:
			s.steps[model].lose(out[i].Request)
		case scheduler.Finish, scheduler.Return:
			s.steps[model].leave(out[i].Request)
		}
	}
}

var (
	_ frontdoor.Service  = (*Service)(nil)
	_ subserver.Observer = (*Service)(nil)
)
