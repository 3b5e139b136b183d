package subserver

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// A process that wants to leave is told when no other one needs it any more.
func TestPeersAreAwaited(t *testing.T) {
	for _, rule := range rules {
		synctest.Test(t, func(t *testing.T) {
			p := plan{algorithm: "matrix", params: algorithms.Params{Models: 2, Large: 1, Matrix: [][]float64{{0.5, 0.5}, {0.5, 0.5}}},
				rule: rule, b: 1, concurrency: 1, requests: 1, kvTokens: 4000, blockTokens: 4, chunk: 16, maxRunning: 8, seed: 1}
			ofModel := p.processes(t, false)
			home, peer := ofModel[0].sys, ofModel[1].sys
			if err := peer.AwaitPeers(t.Context()); err != nil {
				t.Errorf("nobody needs it: %v", err)
			}
			r := long(1, 400)
			stream := submit(t, home, r)
			time.Sleep(100 * time.Millisecond)
			hurry, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := peer.AwaitPeers(hurry); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: it may leave in the middle of a request: %v", rule, err)
			}
			if err := home.AwaitPeers(t.Context()); err != nil {
				t.Errorf("the home is needed by its own requests only: %v", err)
			}
			free := make(chan error, 1)
			go func() { free <- peer.AwaitPeers(t.Context()) }()
			if o := read(t, r, stream, -1); o.err != nil {
				t.Error(o.err)
			}
			if err := <-free; err != nil {
				t.Error(err)
			}
			closeAll(t, ofModel)
		})
	}
}

// A start that takes longer than people like to wait says whom it waits for.
func TestAStartTellsWhoIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(network)
		var mu sync.Mutex
		var said [3][]string
		var options []TCPOptions
		for i, own := range abc {
			o := n.options(own)
			o.Missing = func(who string) {
				mu.Lock()
				defer mu.Unlock()
				said[i] = append(said[i], who)
			}
			options = append(options, o)
		}
		ends, errs := n.startAll(t, 1500*time.Millisecond, options...)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		// a has waited for 3 s, by then for c alone; b and c for less than 2 s.
		mu.Lock()
		defer mu.Unlock()
		want := []string{"the process of c at c:1"}
		if !slices.Equal(said[0], want) || len(said[1])+len(said[2]) > 0 {
			t.Errorf("said %q, want %q by the first and nothing else", said, want)
		}
		for _, e := range ends {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// Who calls a wrong address is told what is wrong with it while it waits.
func TestAStartTellsWhyItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(network).options("c:1")
		o.Wait = 3 * time.Second
		o.Dial = func(context.Context, string) (net.Conn, error) { return nil, errors.New("no such host") }
		var said []string
		var mu sync.Mutex
		o.Missing = func(who string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, who)
		}
		tcp, err := NewTCP(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := tcp.Start(nil, nil); err == nil {
			t.Error("it met nobody, and has started")
		}
		mu.Lock()
		defer mu.Unlock()
		if want := "the process of a at a:1 (no such host), the process of b at b:1 (no such host)"; len(said) != 1 || said[0] != want {
			t.Errorf("said %q, want %q", said, want)
		}
	})
}
