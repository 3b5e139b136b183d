package subserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// process is one process of a system whose models are spread over several.
type process struct {
	sys *System
	tcp *TCP
}

// spread gives each model its process; the last two of three share one if that
// is asked for.
func (p plan) spread(shared bool) []string {
	addresses := []string{"m0:1", "m1:1", "m2:1"}[:p.params.Models]
	if shared && p.params.Models == 3 {
		addresses[2] = addresses[1]
	}
	return addresses
}

// options of the process with the own address.
func (p plan) options(n *network, addresses []string, own string) TCPOptions {
	o := TCPOptions{Addresses: addresses, Own: own, Settings: p.String()}
	for m := range addresses {
		o.Models = append(o.Models, fmt.Sprintf("fake%d", m))
	}
	if n != nil {
		o.Listen, o.Dial = n.listen, n.dial
	}
	return o
}

// process starts the process with the own address, and returns once it has met
// the others.
func (p plan) process(t testing.TB, o TCPOptions) (*process, error) {
	tcp, err := NewTCP(o)
	if err != nil {
		return nil, err
	}
	cfg := p.config(t)
	cfg.Transport = tcp
	for m, a := range o.Addresses {
		if a != o.Own {
			cfg.Models[m].Engine = nil
		}
	}
	sys, err := Start(cfg)
	return &process{sys, tcp}, err
}

// processes starts all of them, and returns the one of each model.
func (p plan) processes(t testing.TB, shared bool) []*process {
	n, addresses := new(network), p.spread(shared)
	ofModel := make([]*process, len(addresses))
	var wg sync.WaitGroup
	for m, own := range addresses {
		if m > 0 && addresses[m-1] == own {
			continue
		}
		wg.Go(func() {
			proc, err := p.process(t, p.options(n, addresses, own))
			if err != nil {
				t.Error(err)
				return
			}
			for i := m; i < len(addresses) && addresses[i] == own; i++ {
				ofModel[i] = proc
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return ofModel
}

// at is where requests of a home are sent.
func at(ofModel []*process) func(home int) submitter {
	return func(home int) submitter { return ofModel[home].sys }
}

func closeAll(t testing.TB, ofModel []*process) {
	for m, proc := range ofModel {
		if m > 0 && ofModel[m-1] == proc {
			continue
		}
		for m := range proc.sys.Stats() {
			// A step in flight keeps requests that were broken off until it ends.
			left := func() bool {
				st := proc.sys.Stats()[m]
				return st.KVHeld != 0 || st.Counts != (scheduler.Counts{})
			}
			for wait := 0; left() && wait < 100; wait++ {
				time.Sleep(50 * time.Millisecond)
			}
			if left() {
				t.Errorf("a model is left with %+v", proc.sys.Stats()[m])
			}
		}
		if err := proc.sys.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestLawBetweenProcesses(t *testing.T) {
	for i, src := range sources {
		for j, rule := range rules {
			p := plan{algorithm: src.name, params: src.params, rule: rule, b: 1 + (i+j)%3, concurrency: 5, requests: 12,
				kvTokens: 400, blockTokens: 4, chunk: 16, maxRunning: 8, seed: uint64(i), homes: src.name == "matrix", cancels: 0.2}
			t.Run(fmt.Sprintf("%s%d/%v", src.name, src.params.Models, rule), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ofModel := p.processes(t, j%2 == 1)
					p.judge(t, ofModel[0].sys.cfg.Algorithm, p.ask(t, at(ofModel)))
					synctest.Wait()
					closeAll(t, ofModel)
				})
			})
		}
	}
}

func TestAProcessThatDiesFailsItsRequestsOnly(t *testing.T) {
	for j, rule := range rules {
		for _, src := range sources[:2] {
			p := plan{algorithm: src.name, params: src.params, rule: rule, b: 2, concurrency: 6, requests: 60,
				kvTokens: 4000, blockTokens: 4, chunk: 16, maxRunning: 8, seed: uint64(j), dies: true}
			t.Run(fmt.Sprintf("%s%d/%v", src.name, src.params.Models, rule), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ofModel := p.processes(t, false)
					last := ofModel[len(ofModel)-1]
					time.AfterFunc(700*time.Millisecond, func() { _ = last.tcp.Close() })
					out := p.ask(t, at(ofModel))
					if failed := p.judge(t, last.sys.cfg.Algorithm, out); failed == 0 || failed == len(out) {
						t.Errorf("%d of %d requests failed; some had ended before, some had not", failed, len(out))
					}
					synctest.Wait()
					for m, proc := range ofModel[:len(ofModel)-1] {
						if proc.sys.Err() == nil {
							t.Errorf("model %d takes itself for healthy", m)
						}
					}
					closeAll(t, ofModel[:len(ofModel)-1])
					_ = last.sys.Close()
				})
			})
		}
	}
}

// Two of three processes that lose each other, while the third reaches both,
// leave nobody waiting: not who goes from one to the other by way of the third,
// not the third for its turn.
func TestAConnectionThatBreaksLeavesNobodyWaiting(t *testing.T) {
	for j, rule := range rules {
		for _, pair := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
			p := plan{algorithm: sources[1].name, params: sources[1].params, rule: rule, b: 2, concurrency: 6, requests: 60, homes: true,
				kvTokens: 4000, blockTokens: 4, chunk: 16, maxRunning: 8, seed: uint64(j), dies: true}
			t.Run(fmt.Sprintf("%v/%v", rule, pair), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ofModel := p.processes(t, false)
					hangs := time.AfterFunc(time.Hour, func() { panic("a request hangs") })
					time.AfterFunc(700*time.Millisecond, func() {
						_ = ofModel[pair[0]].tcp.byModel[pair[1]].fail(errors.New("unplugged"))
					})
					out := p.ask(t, at(ofModel))
					hangs.Stop()
					if failed := p.judge(t, ofModel[0].sys.cfg.Algorithm, out); failed == 0 || failed == len(out) {
						t.Errorf("%d of %d requests failed; some had ended before, some had not", failed, len(out))
					}
					synctest.Wait()
					for m, proc := range ofModel {
						if proc.sys.Err() == nil {
							t.Errorf("model %d takes itself for healthy", m)
						}
					}
					closeAll(t, ofModel)
				})
			})
		}
	}
}

const childEnv = "TOKENROUTER_TEST_PEER" // addresses and own address of a child process

func twoProcesses() plan {
	return plan{algorithm: "matrix", params: sources[0].params, rule: scheduler.Eager{}, b: 1, concurrency: 8, requests: 32,
		kvTokens: 4000, blockTokens: 4, chunk: 16, maxRunning: 8, seed: 3}
}

// TestPeerProcess is the peer of the tests below, in a process of its own.
func TestPeerProcess(t *testing.T) {
	where := os.Getenv(childEnv)
	if where == "" {
		t.Skip("only runs as a child of other tests")
	}
	addresses := strings.Split(where, ",")
	proc, err := twoProcesses().process(t, twoProcesses().options(nil, addresses, addresses[1]))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("met")
	<-context.Background().Done()
	_ = proc
}

// freeAddress is one that nobody listens on.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestTwoRealProcesses serves half of the requests over sockets, then kills the
// peer with the other half under way.
func TestTwoRealProcesses(t *testing.T) {
	addresses := []string{freeAddress(t), freeAddress(t)}
	child := exec.Command(os.Args[0], "-test.run=^TestPeerProcess$", "-test.v")
	child.Env = append(os.Environ(), childEnv+"="+strings.Join(addresses, ","))
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p := twoProcesses()
	proc, err := p.process(t, p.options(nil, addresses, addresses[0]))
	if err != nil {
		t.Fatal(err)
	}
	go func() { // the pipe must not fill up
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
		}
	}()
	ofModel := []*process{proc, nil}
	alg := proc.sys.cfg.Algorithm
	p.judge(t, alg, p.ask(t, at(ofModel)))
	second := p
	second.seed, second.firstID, second.dies = p.seed+1, p.requests, true
	done := make(chan []outcome)
	before := proc.sys.Stats()[0].Steps
	go func() { done <- second.ask(t, at(ofModel)) }()
	for proc.sys.Stats()[0].Steps < before+5 { // until requests are under way
		time.Sleep(time.Millisecond)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	if failed := second.judge(t, alg, <-done); failed == 0 {
		t.Error("no request failed, but the peer was killed under load")
	}
	if proc.sys.Err() == nil {
		t.Error("the system takes itself for healthy without its peer")
	}
	closeAll(t, ofModel[:1])
}
