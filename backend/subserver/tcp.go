package subserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// TCPOptions say which process has which models. All processes of a system
// list the same models, addresses and settings; they may start in any order.
type TCPOptions struct {
	Models    []string // names of all models
	Addresses []string // by model, host:port of the process that has it; equal ones are one process
	Own       string   // the address of this process, one of Addresses
	// Settings are compared between processes as they are: whatever would make
	// their cores disagree, such as thresholds, one a line.
	Settings string
	// Wait is how long Start waits for the other processes; 0 means 60 s.
	Wait time.Duration
	// Silence is how long a process may say nothing before it counts as lost; 0
	// means 10 s. A living one says something five times as often.
	Silence time.Duration
	// Missing, if not nil, is told once whom Start waits for, and why if that is
	// known, if it has done so for 2 s.
	Missing func(who string)

	// Listen and Dial stand in for package net; nil means TCP.
	Listen func(address string) (net.Listener, error)
	Dial   func(ctx context.Context, address string) (net.Conn, error)
}

// TCP is a Transport between processes: one connection for each pair, dialled
// by the one with the later models. A connection that breaks is not dialled
// again, since its requests are lost to the other side: the process behind it
// is reported lost. Whoever reaches the port may speak to the cores, so it
// belongs into a trusted network, like those of NCCL or ZeroMQ.
type TCP struct {
	options TCPOptions
	links   []*link // to the other processes, by their first model
	byModel []*link // nil for own models
	deliver func(*Parcel)
	lost    func(model int, err error)
	running sync.WaitGroup
	closing chan struct{}
	once    sync.Once
}

// link is the connection to one other process.
type link struct {
	address string
	models  []int
	conn    net.Conn
	reader  *bufio.Reader
	here    atomic.Bool // conn is there
	writing sync.Mutex

	mu      sync.Mutex
	problem error // the first, which closed the connection
	refusal error // the last why there is none yet
}

// fail closes the connection for a reason, unless it is closed, and returns
// the reason that counts.
func (l *link) fail(why error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.problem == nil {
		l.problem = why
		_ = l.conn.Close()
	}
	return l.problem
}

// refused notes why a call has not come to a connection.
func (l *link) refused(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusal = why
}

// unmet says who is not there, and why if that is known.
func (l *link) unmet(who string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refusal == nil {
		return who
	}
	return who + " (" + l.refusal.Error() + ")"
}

func (l *link) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problem
}

// NewTCP checks the options. It opens nothing before Start.
func NewTCP(o TCPOptions) (*TCP, error) {
	if len(o.Addresses) != len(o.Models) || len(o.Models) == 0 {
		return nil, fmt.Errorf("subserver: %d addresses for %d models, want one each", len(o.Addresses), len(o.Models))
	}
	if !slices.Contains(o.Addresses, o.Own) {
		return nil, fmt.Errorf("subserver: no model has the own address %q; the models have %s", o.Own, strings.Join(o.Addresses, ", "))
	}
	if o.Wait == 0 {
		o.Wait = 60 * time.Second
	}
	if o.Silence == 0 {
		o.Silence = 10 * time.Second
	}
	if o.Listen == nil {
		o.Listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	t := &TCP{options: o, byModel: make([]*link, len(o.Models)), closing: make(chan struct{})}
	for m, address := range o.Addresses {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, fmt.Errorf("subserver: the address of model %s: %w, want host:port", o.Models[m], err)
		}
		if address == o.Own {
			continue
		}
		i := slices.IndexFunc(t.links, func(l *link) bool { return l.address == address })
		if i < 0 {
			i = len(t.links)
			t.links = append(t.links, &link{address: address})
		}
		t.links[i].models = append(t.links[i].models, m)
		t.byModel[m] = t.links[i]
	}
	return t, nil
}

// Own lists the models of this process.
func (t *TCP) Own() []int {
	var own []int
	for m, l := range t.byModel {
		if l == nil {
			own = append(own, m)
		}
	}
	return own
}

// Start listens, dials, and returns once all processes have met.
func (t *TCP) Start(deliver func(*Parcel), lost func(model int, err error)) error {
	t.deliver, t.lost = deliver, lost
	ctx, cancel := context.WithTimeout(context.Background(), t.options.Wait)
	defer cancel()
	if err := t.meet(ctx); err != nil {
		return errors.Join(err, t.Close())
	}
	for _, l := range t.links {
		t.running.Add(2)
		go t.read(l)
		go t.beat(l)
	}
	return nil
}

// meet makes all connections.
func (t *TCP) meet(ctx context.Context) error {
	own := t.Own()[0]
	var accepts, dials []*link
	for _, l := range t.links {
		if l.models[0] > own {
			accepts = append(accepts, l)
		} else {
			dials = append(dials, l)
		}
	}
	meet, stop := context.WithCancel(ctx)
	defer stop()
	if t.options.Missing != nil {
		defer time.AfterFunc(missingAfter, func() {
			if who := t.absent(t.links); who != "" {
				t.options.Missing(who)
			}
		}).Stop()
	}
	met := make(chan error, len(t.links)+1)
	if len(accepts) > 0 {
		listener, err := t.options.Listen(t.options.Own)
		if err != nil {
			return fmt.Errorf("listen for the other models: %w", err)
		}
		// Nobody calls twice, so no call may wait once all have met.
		context.AfterFunc(meet, func() { _ = listener.Close() })
		go func() { met <- t.accept(meet, listener, accepts) }()
	}
	for _, l := range dials {
		go func() { met <- t.dial(meet, l) }()
	}
	waits := len(dials) + min(len(accepts), 1)
	var first error
	for range waits {
		if err := <-met; err != nil && first == nil {
			first = err
			stop()
		}
	}
	return first
}

// caller is a process that has called and said hello.
type caller struct {
	conn   net.Conn
	reader *bufio.Reader
	hello  *hello
	err    error
}

// accept takes calls until all of links have one. Whoever calls and is not of
// this system is hung up on, and holds up nobody.
func (t *TCP) accept(ctx context.Context, listener net.Listener, links []*link) error {
	callers := make(chan caller)
	broken := make(chan error, 1)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				broken <- err
				return
			}
			go func() {
				c := caller{conn: conn}
				if c.reader, c.hello, c.err = t.greet(ctx, conn); c.err == nil {
					c.err = t.checkHello(c.hello)
				}
				select {
				case callers <- c:
				case <-ctx.Done():
					_ = conn.Close()
				}
			}()
		}
	}()
	for missing := len(links); missing > 0; {
		select {
		case err := <-broken:
			return t.missing(ctx, links, err)
		case c := <-callers:
			i := slices.IndexFunc(links, func(l *link) bool { return c.hello != nil && slices.Equal(l.models, c.hello.Has) })
			if c.err == nil && i >= 0 && links[i].conn == nil {
				links[i].conn, links[i].reader = c.conn, c.reader
				links[i].here.Store(true)
				missing--
				continue
			}
			_ = c.conn.Close()
			if isSettings(c.err) {
				return c.err
			}
		}
	}
	return nil
}

func (t *TCP) missing(ctx context.Context, links []*link, err error) error {
	if ctx.Err() == nil {
		return fmt.Errorf("listen for the other models: %w", err)
	}
	return fmt.Errorf("no call from %s after %v; start the processes within that time of each other",
		t.absent(links), t.options.Wait)
}

// missingAfter is how long a start may take before somebody wonders.
const missingAfter = 2 * time.Second

// absent names those of links that are not there, and why if that is known; ""
// if all are.
func (t *TCP) absent(links []*link) string {
	var names []string
	for _, l := range links {
		if !l.here.Load() {
			names = append(names, l.unmet(t.names(l)+" at "+l.address))
		}
	}
	return strings.Join(names, ", ")
}

// dial calls a process until it answers.
func (t *TCP) dial(ctx context.Context, l *link) error {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		conn, err := t.options.Dial(ctx, l.address)
		if err == nil {
			var h *hello
			l.reader, h, err = t.greet(ctx, conn)
			if err == nil {
				if err = t.checkHello(h); err == nil && !slices.Equal(h.Has, l.models) {
					err = &settingsError{fmt.Sprintf("the process at %s has the models %v, want %v", l.address, h.Has, l.models)}
				}
			}
			if err == nil {
				l.conn = conn
				l.here.Store(true)
				return nil
			}
			_ = conn.Close()
			if isSettings(err) {
				return err
			}
		}
		l.refused(err)
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s at %s did not answer within %v: %w", t.names(l), l.address, t.options.Wait, err)
		case <-time.After(pause):
		}
	}
}

// names of the models behind a link.
func (t *TCP) names(l *link) string {
	var names []string
	for _, m := range l.models {
		names = append(names, t.options.Models[m])
	}
	return "the process of " + strings.Join(names, ", ")
}

// greet exchanges hellos.
func (t *TCP) greet(ctx context.Context, conn net.Conn) (*bufio.Reader, *hello, error) {
	_ = conn.SetDeadline(time.Now().Add(t.options.Silence))
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	body, err := json.Marshal(hello{wireVersion, t.options.Models, t.Own(), t.options.Settings})
	if err != nil {
		return nil, nil, err
	}
	said := make(chan error, 1) // both sides speak first, so neither may wait
	go func() { said <- writeFrame(conn, body) }()
	reader := bufio.NewReader(conn)
	answer, err := readFrame(reader)
	if err = errors.Join(err, <-said); err != nil {
		return nil, nil, err
	}
	h := new(hello)
	if err := json.Unmarshal(answer, h); err != nil {
		return nil, nil, fmt.Errorf("a hello that is not JSON: %w", err)
	}
	_ = conn.SetDeadline(time.Time{}) // whoever has hung up meanwhile is found out later
	return reader, h, nil
}

// settingsError is a disagreement that waiting does not mend.
type settingsError struct{ problem string }

func (e *settingsError) Error() string { return e.problem }

func isSettings(err error) bool {
	var s *settingsError
	return errors.As(err, &s)
}

func (t *TCP) checkHello(h *hello) error {
	switch o := &t.options; {
	case h.Version != wireVersion:
		return &settingsError{fmt.Sprintf("the other process speaks version %d, this one %d: run the same build everywhere", h.Version, wireVersion)}
	case !slices.Equal(h.Models, o.Models):
		return &settingsError{fmt.Sprintf("the other process has the models %v, this one %v", h.Models, o.Models)}
	case h.Settings != o.Settings:
		return &settingsError{"the processes disagree on their settings: " + differences(h.Settings, o.Settings)}
	}
	return nil
}

// differences tells in which lines settings differ.
func differences(there, here string) string {
	theirs, ours := strings.Split(there, "\n"), strings.Split(here, "\n")
	var out []string
	for i := range max(len(theirs), len(ours)) {
		line := func(lines []string) string {
			if i < len(lines) {
				return lines[i]
			}
			return "nothing"
		}
		if line(theirs) != line(ours) {
			out = append(out, line(theirs)+" there, "+line(ours)+" here")
		}
	}
	return strings.Join(out, "; ")
}

// Send writes a parcel. An error closes the connection, and its reader reports
// the loss.
func (t *TCP) Send(p *Parcel) error {
	l := t.byModel[p.To]
	if l == nil {
		panic("subserver: a parcel to a model of this process over TCP")
	}
	body, err := encodeParcel(p)
	if err != nil {
		return l.fail(fmt.Errorf("encode a parcel: %w", err))
	}
	return t.write(l, body)
}

func (t *TCP) write(l *link, body []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.failed(); err != nil {
		return err
	}
	_ = l.conn.SetWriteDeadline(time.Now().Add(t.options.Silence))
	if err := writeFrame(l.conn, body); err != nil {
		return l.fail(fmt.Errorf("write to %s at %s: %w", t.names(l), l.address, err))
	}
	return nil
}

// beat says that this process is alive.
func (t *TCP) beat(l *link) {
	defer t.running.Done()
	tick := time.NewTicker(t.options.Silence / 5)
	defer tick.Stop()
	for {
		select {
		case <-t.closing:
			return
		case <-tick.C:
			if t.write(l, nil) != nil {
				return
			}
		}
	}
}

// read delivers what comes until the connection ends.
func (t *TCP) read(l *link) {
	defer t.running.Done()
	err := l.fail(t.readParcels(l))
	select {
	case <-t.closing:
		return // it is this process that leaves
	default:
	}
	for _, m := range l.models {
		t.lost(m, err)
	}
}

func (t *TCP) readParcels(l *link) error {
	for {
		_ = l.conn.SetReadDeadline(time.Now().Add(t.options.Silence))
		body, err := readFrame(l.reader)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			return fmt.Errorf("%s at %s has said nothing for %v", t.names(l), l.address, t.options.Silence)
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s at %s closed the connection", t.names(l), l.address)
		case err != nil:
			return fmt.Errorf("read from %s at %s: %w", t.names(l), l.address, err)
		case len(body) == 0:
			continue
		}
		p, err := decodeParcel(body, len(t.byModel))
		if err == nil && (t.byModel[p.From] != l || t.byModel[p.To] != nil) {
			err = fmt.Errorf("a parcel from model %d to model %d", p.From, p.To)
		}
		if err != nil {
			return fmt.Errorf("%s at %s sent %w", t.names(l), l.address, err)
		}
		t.deliver(p)
	}
}

// Close ends all connections and waits for the loops.
func (t *TCP) Close() error {
	t.once.Do(func() {
		close(t.closing)
		for _, l := range t.links {
			if l.conn != nil {
				_ = l.conn.Close()
			}
		}
		t.running.Wait()
	})
	return nil
}
