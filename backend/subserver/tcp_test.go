package subserver

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// network is addresses that can be listened on and dialled, in memory.
type network struct {
	mu        sync.Mutex
	listeners map[string]*memListener
}

type memListener struct {
	net     *network
	address string
	calls   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (n *network) listen(address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &memListener{net: n, address: address, calls: make(chan net.Conn), closed: make(chan struct{})}
	if n.listeners == nil {
		n.listeners = map[string]*memListener{}
	}
	n.listeners[address] = l
	return l, nil
}

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	mine, theirs := net.Pipe()
	select {
	case l.calls <- theirs:
		return mine, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.calls:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *memListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *memListener) Addr() net.Addr { return nil }

var abc = []string{"a:1", "b:1", "c:1"}

func (n *network) options(own string) TCPOptions {
	return TCPOptions{Models: []string{"a", "b", "c"}, Addresses: abc, Own: own, Settings: "same",
		Listen: n.listen, Dial: n.dial}
}

// end is one process's end of the transport with what came out of it.
type end struct {
	*TCP
	mu   sync.Mutex
	got  []*Parcel
	lost map[int]error
}

// parcels and loss look at what came out so far.
func (e *end) parcels() []*Parcel {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got
}

func (e *end) loss(model int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost[model]
}

// start starts a process; the error is that of Start.
func (n *network) start(t *testing.T, o TCPOptions) (*end, error) {
	tcp, err := NewTCP(o)
	if err != nil {
		t.Fatal(err)
	}
	e := &end{TCP: tcp, lost: map[int]error{}}
	err = tcp.Start(func(p *Parcel) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.got = append(e.got, p)
	}, func(model int, err error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.lost[model] != nil {
			t.Errorf("model %d was lost twice", model)
		}
		e.lost[model] = err
	})
	return e, err
}

// startAll starts a process for each address, some later than others.
func (n *network) startAll(t *testing.T, late time.Duration, options ...TCPOptions) ([]*end, []error) {
	ends, errs := make([]*end, len(options)), make([]error, len(options))
	var wg sync.WaitGroup
	for i, o := range options {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * late)
			ends[i], errs[i] = n.start(t, o)
		})
	}
	wg.Wait()
	return ends, errs
}

func released(from, to int, id int) *Parcel {
	return &Parcel{From: from, To: to, Logprobs: -1, Event: scheduler.Event{Kind: scheduler.Released, Request: scheduler.RequestID(id)}}
}

func TestThreeProcessesMeetAndKeepOrder(t *testing.T) {
	for _, late := range []time.Duration{0, 7 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			n := new(network)
			// The one that is called by all starts last.
			ends, errs := n.startAll(t, late, n.options("c:1"), n.options("b:1"), n.options("a:1"))
			for _, err := range errs {
				if err != nil {
					t.Fatal(err)
				}
			}
			c, b, a := ends[0], ends[1], ends[2]
			var wg sync.WaitGroup
			const each = 200
			for i, e := range []*end{a, b, c} {
				for j := range abc {
					if i != j {
						wg.Go(func() {
							for id := range each {
								if err := e.Send(released(i, j, id+1)); err != nil {
									t.Error(err)
								}
							}
						})
					}
				}
			}
			wg.Wait()
			synctest.Wait()
			for j, e := range []*end{a, b, c} {
				next := map[int]scheduler.RequestID{}
				for _, p := range e.parcels() {
					if next[p.From]++; p.To != j || p.Event.Request != next[p.From] {
						t.Fatalf("model %d got request %d for model %d from %d, want %d", j, p.Event.Request, p.To, p.From, next[p.From])
					}
				}
				if len(e.parcels()) != 2*each {
					t.Errorf("model %d got %d parcels, want %d", j, len(e.parcels()), 2*each)
				}
				// A minute of silence between live processes is no loss.
				time.Sleep(time.Minute)
				for m := range abc {
					if err := e.loss(m); err != nil {
						t.Errorf("model %d lost %d: %v", j, m, err)
					}
				}
			}
			for _, e := range ends {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestAProcessThatEndsIsLostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(network)
		// Models b and c share a process.
		share := func(own string) TCPOptions {
			o := n.options(own)
			o.Addresses = []string{"a:1", "bc:1", "bc:1"}
			return o
		}
		ends, errs := n.startAll(t, 0, share("a:1"), share("bc:1"))
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		a, bc := ends[0], ends[1]
		if err := bc.Send(released(2, 0, 5)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := bc.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(a.parcels()) != 1 {
			t.Errorf("what was sent before the end did not come: %d parcels", len(a.parcels()))
		}
		for _, m := range []int{1, 2} {
			if err := a.loss(m); err == nil || !strings.Contains(err.Error(), "the process of b, c at bc:1") {
				t.Errorf("model %d: lost with %v", m, err)
			}
		}
		if err := a.Send(released(0, 1, 6)); err == nil {
			t.Error("sending to a lost process did not fail")
		}
		if err := bc.loss(0); err != nil {
			t.Errorf("the process that left reports others lost: %v", err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAProcessThatFallsSilentIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(network)
		o := n.options("a:1")
		o.Models, o.Addresses = o.Models[:2], abc[:2]
		done := make(chan struct{})
		go func() { // speaks the protocol but stops: no beat follows
			defer close(done)
			var conn net.Conn
			for conn == nil {
				time.Sleep(time.Millisecond)
				conn, _ = n.dial(t.Context(), "a:1")
			}
			go func() { _, _ = readFrame(conn) }()
			if err := writeFrame(conn, []byte(`{"version":2,"models":["a","b"],"has":[1],"settings":"same"}`)); err != nil {
				t.Error(err)
			}
		}()
		a, err := n.start(t, o)
		if err != nil {
			t.Fatal(err)
		}
		<-done
		time.Sleep(11 * time.Second)
		if err := a.loss(1); err == nil || !strings.Contains(err.Error(), "10s") {
			t.Errorf("lost with %v, want the 10 s of silence", err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestProcessesThatDoNotFitRefuse(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*TCPOptions)
		want   string
	}{
		{"settings", func(o *TCPOptions) { o.Settings = "other" }, "disagree on their settings"},
		{"models", func(o *TCPOptions) { o.Models = []string{"a", "x", "c"} }, "has the models"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := new(network)
				b := n.options("b:1")
				c.change(&b)
				_, errs := n.startAll(t, time.Second, n.options("a:1"), b)
				for i, err := range errs {
					if err == nil || !strings.Contains(err.Error(), c.want) {
						t.Errorf("process %d: %v, want an error with %q", i, err, c.want)
					}
				}
			})
		})
	}
}

func TestWaitingForAProcessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(network)
		_, errs := n.startAll(t, 0, n.options("a:1"), n.options("b:1"))
		for i, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "c at c:1") || !strings.Contains(err.Error(), "1m0s") {
				t.Errorf("process %d: %v, want one that names the missing process and the time", i, err)
			}
		}
		if _, err := n.start(t, n.options("c:1")); err == nil {
			t.Error("a process met others that are gone")
		}
	})
}

func TestStrangersDoNotHoldUpTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(network)
		o := n.options("a:1")
		o.Models, o.Addresses = o.Models[:2], abc[:2]
		p := o
		p.Own = "b:1"
		go func() {
			var conn net.Conn
			for conn == nil { // calls and says nothing
				time.Sleep(time.Millisecond)
				conn, _ = n.dial(t.Context(), "a:1")
			}
			conn, err := n.dial(t.Context(), "a:1") // speaks something else
			if err == nil {
				go func() { _, _ = readFrame(conn) }()
				_, _ = conn.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
			}
		}()
		start := time.Now()
		ends, errs := n.startAll(t, time.Second, o, p)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("strangers held the start up for %v", took)
		}
		for _, e := range ends {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTCPOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*TCPOptions)
		want   string
	}{
		{"too few addresses", func(o *TCPOptions) { o.Addresses = abc[:2] }, "2 addresses for 3 models"},
		{"no own", func(o *TCPOptions) { o.Own = "d:1" }, `"d:1"`},
		{"no port", func(o *TCPOptions) { o.Addresses = []string{"a:1", "b", "c:1"} }, "model b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := new(network).options("a:1")
			c.change(&o)
			if _, err := NewTCP(o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestSettingsThatDifferAreTold(t *testing.T) {
	for _, c := range [][3]string{
		{"b 1\nrule eager\nseed 3", "b 2\nrule eager\nseed 3", "b 1 there, b 2 here"},
		{"b 1\nrule eager\nseed 3", "b 2\nrule eager\nseed 4", "b 1 there, b 2 here; seed 3 there, seed 4 here"},
		{"b 1", "b 1\nseed 3", "nothing there, seed 3 here"},
	} {
		if got := differences(c[0], c[1]); got != c[2] {
			t.Errorf("%q and %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
