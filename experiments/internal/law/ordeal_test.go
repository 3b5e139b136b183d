package law

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// moment is when a client leaves.
type moment int

const (
	beforehand moment = iota // before its request has come
	arriving                 // as the core hears of the request
	prefilling               // the home's engine has its prompt
	decoding                 // the home's engine has a token of it
	sending                  // the home sends it away
	visiting                 // another model's engine has it
	returning                // it comes home
	completing               // the home shows its last token
	ending                   // the home ends it
	reading                  // the client reads
	moments
)

var momentNames = [moments]string{"left beforehand", "left arriving", "left prefilling", "left decoding", "left sending",
	"left visiting", "left returning", "left completing", "left ending", "left reading"}

// leaver is a request whose client leaves at a moment, the nth of its kind. If
// there is none, it stays.
type leaver struct {
	request *subserver.Request
	last    int // position after the last token
	moment  moment
	nth     atomic.Int64
	cancel  context.CancelFunc               // of what Submit was given
	stream  atomic.Pointer[subserver.Stream] // nil while Submit runs
	gone    atomic.Bool
}

// reach leaves if this is the moment.
func (l *leaver) reach(m moment) {
	if l == nil || l.moment != m || l.nth.Add(-1) != 0 {
		return
	}
	l.gone.Store(true)
	if s := l.stream.Load(); s != nil {
		s.Cancel()
	} else {
		l.cancel()
	}
}

// ordeal is the trouble of one run of a cell.
type ordeal struct {
	*trouble
	cell    *cell
	figures *figures

	mu     sync.Mutex
	byID   map[scheduler.RequestID]*leaver
	bySeed map[uint64]*leaver

	failed  atomic.Bool  // the engine has
	misused atomic.Int64 // steps that it was asked for afterwards
	parted  atomic.Bool  // the connection is broken
}

func newOrdeal(c *cell, f *figures) *ordeal {
	return &ordeal{trouble: c.trouble, cell: c, figures: f, byID: map[scheduler.RequestID]*leaver{}, bySeed: map[uint64]*leaver{}}
}

// enlist makes some requests those of leavers.
func (o *ordeal) enlist(r *subserver.Request, want *outcome, cancel context.CancelFunc) *leaver {
	rng := rand.New(rand.NewPCG(uint64(o.cell.number), 100+uint64(r.ID)))
	if !o.leaves || rng.IntN(3) > 0 {
		return nil
	}
	l := &leaver{request: r, last: len(r.Prompt) + len(want.tokens), moment: moment(rng.IntN(int(moments))), cancel: cancel}
	l.nth.Store(1 + rng.Int64N(1<<rng.IntN(4)))
	if l.moment != decoding && l.moment != sending && l.moment != visiting && l.moment != returning && l.moment != reading {
		l.nth.Store(1) // there is but one
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.byID[r.ID], o.bySeed[r.Seed] = l, l
	return l
}

func (o *ordeal) discharge(l *leaver) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byID, l.request.ID)
	delete(o.bySeed, l.request.Seed)
}

func (o *ordeal) withID(id scheduler.RequestID) *leaver {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byID[id]
}

func (o *ordeal) withSeed(seed uint64) *leaver {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bySeed[seed]
}

// onlooker is an Observer that sees the moments of the cores.
type onlooker struct {
	*counter
	ordeal *ordeal
}

func (w onlooker) Event(model int, ev *scheduler.Event) {
	w.counter.Event(model, ev)
	switch ev.Kind {
	case scheduler.Arrived:
		w.ordeal.withID(ev.Arrival.ID).reach(arriving)
	case scheduler.PeerReturned:
		w.ordeal.withID(ev.Req.ID).reach(returning)
	}
}

func (w onlooker) Messages(model int, atNs int64, out []scheduler.Message) {
	w.counter.Messages(model, atNs, out)
	for i := range out {
		m := &out[i]
		l := w.ordeal.withID(m.Request)
		switch {
		case l == nil:
		case m.Kind == scheduler.Send && model == l.request.Home:
			l.reach(sending)
		case m.Kind == scheduler.Emit && m.Start+len(m.Tokens) >= l.last:
			l.reach(completing)
		case m.Kind == scheduler.Finish:
			l.reach(ending)
		}
	}
}

var errBroken = errors.New("made to fail")

// shaken is an engine that fails if it is the one, and that sees the moments of
// engines.
type shaken struct {
	backend.Engine
	ordeal *ordeal
	model  int
	steps  int
}

func (e *shaken) Forward(step *backend.Step, results []backend.Result) error {
	for i := range step.Sequences {
		q := &step.Sequences[i]
		switch l := e.ordeal.withSeed(q.Seed); {
		case l == nil:
		case e.model != l.request.Home:
			l.reach(visiting)
		case q.Position() > q.Prompt:
			l.reach(decoding)
		default:
			l.reach(prefilling)
		}
	}
	e.steps++
	o := e.ordeal
	if o.fails == 0 || e.model != o.broken || e.steps < o.fails {
		return e.Engine.Forward(step, results)
	}
	if e.steps > o.fails {
		o.misused.Add(1)
		if o.once {
			return e.Engine.Forward(step, results)
		}
		return errBroken
	}
	if o.late {
		if err := e.Engine.Forward(step, results); err != nil {
			return err
		}
	}
	o.failed.Store(true)
	return errBroken
}

// part makes the process of the model far, if this is it, break its connection.
func (o *ordeal) part(tcp *subserver.TCPOptions, own int) {
	if o.cuts == 0 {
		return
	}
	if o.mute {
		tcp.Silence = 2 * time.Second
	}
	if own != o.far {
		return
	}
	near := tcp.Addresses[o.near]
	tcp.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil || address != near {
			return conn, err
		}
		return &frail{Conn: conn, ordeal: o}, nil
	}
}

// frail is a connection that breaks. A write is a frame, the first is a hello.
type frail struct {
	net.Conn
	ordeal *ordeal
	frames int
}

func (c *frail) Write(frame []byte) (int, error) {
	c.frames++
	o := c.ordeal
	if c.frames <= 1+o.cuts {
		if c.frames <= o.cuts {
			return c.Conn.Write(frame)
		}
		o.parted.Store(true)
		if o.halfway {
			_, _ = c.Conn.Write(frame[:len(frame)/2])
		}
		if !o.mute {
			_ = c.Conn.Close()
		}
	}
	if o.mute {
		return len(frame), nil
	}
	return 0, net.ErrClosed
}

// judge asks a request, lets its client leave if it does, and compares what came.
func (o *ordeal) judge(t testing.TB, to submitter, r *subserver.Request) string {
	want := o.cell.answer(t, r)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, leave := context.WithCancel(ctx)
	defer leave()
	l := o.enlist(r, want, leave)
	if l != nil {
		defer o.discharge(l)
	}
	l.reach(beforehand)
	got, err := new(outcome), error(nil)
	stream, err := to.Submit(client, r)
	if err == nil {
		if l != nil {
			l.stream.Store(stream)
		}
		got, err = follow(ctx, stream, r, func(int) { l.reach(reading) })
	}
	o.figures.answer(r, got)
	if d := o.rule(r, got, want, l, err); d != "" {
		return fmt.Sprintf("request %d, %+v: %s", r.ID, *r, d)
	}
	return ""
}

// rule says what is wrong with an answer.
func (o *ordeal) rule(r *subserver.Request, got, want *outcome, l *leaver, err error) string {
	n := len(got.tokens)
	switch count := &o.figures.troubles; {
	case err == nil:
		if o.failed.Load() || o.parted.Load() {
			count.add(requestWhole, 1)
		}
		return got.differs(want, r.Logprobs >= 0)
	case errors.Is(err, subserver.ErrCanceled) && l != nil && l.gone.Load():
		count.add(requestCanceled, 1)
		count.add(momentNames[l.moment], 1)
	case errors.Is(err, subserver.ErrFailed) && o.mayFail(r, want, n, err):
		count.add(requestFailed, 1)
	default:
		return fmt.Sprintf("after %d tokens of %d by %v: %v", n, len(want.tokens), want.steps, err)
	}
	if n > len(want.tokens) || !strings.HasPrefix(want.text, got.text) {
		return fmt.Sprintf("%v; got %v, %q\nwant %v, %q", err, got.tokens, got.text, want.tokens, want.text)
	}
	begun := outcome{tokens: want.tokens[:n], writers: want.writers[:n], logprob: want.logprob[:n], text: got.text, stop: got.stop, reason: got.reason}
	return got.differs(&begun, r.Logprobs >= 0)
}

// mayFail says whether a request may fail for this reason after n tokens.
//
// An engine that fails takes the requests of its home along, and those of other
// homes that are with it or come there: not those that are with others. A lost
// process takes along the requests of a home that are away anywhere, but not
// those that the home has itself. Under the rules that take turns it takes all.
func (o *ordeal) mayFail(r *subserver.Request, want *outcome, n int, err error) bool {
	if o.failed.Load() && strings.Contains(err.Error(), errBroken.Error()) {
		return r.Home == o.broken || want.comesBy(r.Home, n, func(model int) bool { return model == o.broken })
	}
	if (o.parted.Load() || o.cuts > 0 && o.mute) && strings.Contains(err.Error(), "is lost") {
		justBack := n > 0 && n <= len(want.writers) && want.writers[n-1] != r.Home // at the very instant
		return justBack || o.cell.rule.NeedsPeers() || want.comesBy(r.Home, n, func(int) bool { return true })
	}
	return false
}

// comesBy reports whether a request whose home has shown n tokens is with a model
// of this kind, or is going to before it comes home.
func (w *outcome) comesBy(home, n int, kind func(model int) bool) bool {
	for i, s := range w.steps {
		switch {
		case s.written < n:
		case s.model != home:
			if kind(s.model) {
				return true
			}
		case s.written > n, i+1 == len(w.steps), w.steps[i+1].written > n:
			return false // it has come home, or the home has written a token, which it shows
		}
	}
	return false
}

// aftermath says what is wrong with a system after the last request.
func (o *ordeal) aftermath(s *served) (problems []string) {
	if n := o.misused.Load(); n > 0 {
		problems = append(problems, fmt.Sprintf("the engine that failed was asked for %d more steps", n))
	}
	await := func(what string, ok func() bool) {
		for left := patience; !ok(); left -= time.Millisecond {
			if left < 0 {
				problems = append(problems, what)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	if o.failed.Load() {
		o.figures.troubles.add(engineFailed, 1)
		sys := s.ofModel[o.broken]
		await("the model whose engine failed does not say so", func() bool { return sys.Stats()[o.broken].Broken == errBroken.Error() })
		await("the system whose engine failed does not say so", func() bool { return sys.Err() != nil })
	}
	if o.parted.Load() {
		o.figures.troubles.add(connectionBroke, 1)
		for _, m := range []int{o.near, o.far} {
			await(fmt.Sprintf("the process of model %d takes itself for healthy", m), func() bool { return s.ofModel[m].Err() != nil })
		}
	}
	if !o.failed.Load() && o.cuts == 0 && slices.ContainsFunc(s.processes, func(p *subserver.System) bool { return p.Err() != nil }) {
		problems = append(problems, "a system takes itself for broken, and nothing broke")
	}
	return problems
}
