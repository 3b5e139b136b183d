package subserver

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// When an engine is lost, everybody whom it would have served is told so, home
// or peer, whatever the rule; the system says that it is ill.
func TestEngineFails(t *testing.T) {
	for _, rule := range rules {
		for broken := range 2 {
			for step := 1; step < 8; step += 3 {
				p := small()
				p.rule = rule
				p.fails = make([]int, 2)
				p.fails[broken] = step
				p.with(t, nil, func(t *testing.T, sys *System) {
					var open []*Stream
					for id := range scheduler.RequestID(6) {
						r := long(id+1, 300)
						r.Home = int(id) % 2
						open = append(open, submit(t, sys, r))
					}
					for i, s := range open {
						if o := read(t, long(1, 1), s, -1); !errors.Is(o.err, ErrFailed) || !strings.Contains(o.err.Error(), "fake engine: made to fail") {
							t.Errorf("%v: request %d: %v", rule, i+1, o.err)
						}
					}
					if err := sys.Err(); !errors.Is(err, errFake) {
						t.Errorf("the system says %v", err)
					}
					if got := sys.Stats()[broken].Broken; got != errFake.Error() {
						t.Errorf("the model says %q", got)
					}
					late := long(99, 5)
					late.Home = broken
					if o := read(t, late, submit(t, sys, late), -1); !errors.Is(o.err, ErrFailed) {
						t.Errorf("afterwards: %v", o.err)
					}
					wantEmpty(t, sys)
				})
			}
		}
	}
}

// An engine that samples what is no token is as good as lost.
func TestEngineTalksNonsense(t *testing.T) {
	small().with(t, func(c *Config) {
		c.Models[0].Engine.(*fakeEngine).info.Vocab = 4
		c.Models[1].Engine.(*fakeEngine).info.Vocab = 4
	}, func(t *testing.T, sys *System) {
		r := long(1, 50)
		if o := read(t, r, submit(t, sys, r), -1); !errors.Is(o.err, ErrFailed) || !strings.Contains(o.err.Error(), "of a vocabulary of 4") {
			t.Error(o.err)
		}
	})
}

// When a process is gone, nobody waits for it: not those who were there, not
// those who come there later, and its own requests leave the others.
func TestProcessIsLost(t *testing.T) {
	errGone := errors.New("connection refused")
	for _, src := range []int{0, 1, 6, 8} { // two and three models
		for _, rule := range rules {
			for lost := range sources[src].params.Models {
				p := small()
				p.algorithm, p.params, p.rule, p.seed, p.split = sources[src].name, sources[src].params, rule, uint64(lost), true
				for _, after := range []time.Duration{30, 60, 333} {
					synctest.Test(t, func(t *testing.T) { p.lose(t, lost, after*time.Millisecond, errGone) })
				}
			}
		}
	}
}

// deadEnd is a Transport to processes that say nothing but what a test says.
type deadEnd struct {
	deliver func(*Parcel)
	lost    func(int, error)
	visits  chan *Parcel
}

func (e *deadEnd) Start(deliver func(*Parcel), lost func(int, error)) error {
	e.deliver, e.lost = deliver, lost
	return nil
}

func (e *deadEnd) Send(p *Parcel) error {
	if p.Event.Kind == scheduler.PeerArrived {
		e.visits <- p
	}
	return nil
}

func (e *deadEnd) Close() error { return nil }

// alone runs f on a home whose requests go to model 1 of 3 after each token, and
// its peers are a dead end.
func alone(t *testing.T, f func(t *testing.T, sys *System, end *deadEnd)) {
	p := small()
	p.params = algorithms.Params{Models: 3, Large: 1, Matrix: [][]float64{{0, 1, 0}, {0, 0, 1}, {0, 1, 0}}}
	end := new(deadEnd)
	p.with(t, func(c *Config) {
		end.visits = make(chan *Parcel, 9)
		c.Models[1].Engine, c.Models[2].Engine, c.Transport = nil, nil, end
	}, func(t *testing.T, sys *System) { f(t, sys, end) })
}

// A process that is lost may have had a visit by way of another, and handed it on
// while its word to the home, with tokens, was lost with it: the home does not
// wait for them, wherever it sent the request.
func TestHomeDoesNotWaitForWhatAThirdMayHaveWritten(t *testing.T) {
	alone(t, func(t *testing.T, sys *System, end *deadEnd) {
		s := submit(t, sys, long(1, 5))
		if v := <-end.visits; v.To != 1 {
			t.Fatalf("it is at model %d", v.To)
		}
		end.lost(2, errors.New("unplugged"))
		if o := read(t, long(1, 5), s, -1); !errors.Is(o.err, ErrFailed) || !strings.Contains(o.err.Error(), "unplugged") {
			t.Error(o.err)
		}
		wantEmpty(t, sys)
	})
}

// A peer may say that a visit has failed after another has brought the request
// home. By then it may be on its next visit, which has not failed.
func TestAnOldFailureEndsNoLaterVisit(t *testing.T) {
	alone(t, func(t *testing.T, sys *System, end *deadEnd) {
		s := submit(t, sys, long(1, 5))
		back := func(v *Parcel, status algorithms.Status, tokens ...algorithms.Token) {
			req := *v.Event.Req
			req.From, req.Status, req.Start, req.Suffix = v.To, status, req.Start+len(req.Suffix), tokens
			req.Hops, req.Budget, req.Anchors = req.Hops+1, req.Budget-len(tokens), slices.Clone(req.Anchors)
			end.deliver(&Parcel{From: v.To, To: 0, Logprobs: -1, Event: scheduler.Event{Kind: scheduler.PeerReturned, Request: 1, Req: &req}})
		}
		first := <-end.visits
		back(first, algorithms.Returned, 7)
		second := <-end.visits
		end.deliver(&Parcel{From: 2, To: 0, Problem: "old news", Event: scheduler.Event{Kind: scheduler.PeerReturned, Request: 1,
			Req: &algorithms.PeerReq{ID: 1, Home: 0, From: 2, Status: algorithms.Failed, Hops: first.Event.Req.Hops}}})
		back(second, algorithms.Finished, 8, 9)
		if o := read(t, long(1, 5), s, -1); o.err != nil || !slices.Equal(o.tokens[len(o.tokens)-2:], []algorithms.Token{8, 9}) {
			t.Errorf("%v, %v", o.tokens, o.err)
		}
		wantEmpty(t, sys)
	})
}

func (p plan) lose(t *testing.T, lost int, after time.Duration, why error) {
	systems := p.start(t, p.config(t))
	ends := systems[0].cfg.Transport.(*wireEnd).wires
	streams := map[int][]*Stream{}
	for id := range scheduler.RequestID(9) {
		r := long(id+1, 200)
		r.Home = int(id) % len(systems)
		streams[r.Home] = append(streams[r.Home], submit(t, systems[r.Home], r))
	}
	time.Sleep(after)
	ends.cut(lost, why)
	for m, sys := range systems {
		if m == lost {
			continue
		}
		late := long(100+scheduler.RequestID(m), 200)
		late.Home = m
		for _, s := range append(streams[m], submit(t, sys, late)) {
			// Those that never go there may live on.
			if o := read(t, late, s, -1); o.err != nil && !errors.Is(o.err, ErrFailed) {
				t.Errorf("%v: request %d of model %d while %d is lost: %v", p, s.ID(), m, lost, o.err)
			}
		}
	}
	time.Sleep(time.Minute)
	for m, sys := range systems {
		if m != lost {
			if err := sys.Err(); err == nil || !strings.Contains(err.Error(), why.Error()) { // or has it from others
				t.Errorf("the process of model %d says %v", m, err)
			}
			if st := sys.Stats()[m]; st.KVHeld != 0 || st.Counts != (scheduler.Counts{}) {
				t.Errorf("%v: %s is left with %+v while %d is lost", p, st.Model, st, lost)
			}
		}
	}
	for m, sys := range systems {
		for range streams[m] {
			if m == lost { // its peers do not answer, and it does not know
				sys.lost((m+1)%len(systems), why)
				sys.lost((m+2)%len(systems), why)
			}
		}
		if err := sys.Close(); err != nil {
			t.Error(err)
		}
	}
}
