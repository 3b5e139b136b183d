package scheduler

import (
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

func testConfig() Config {
	return Config{Algorithm: algorithms.Never{}, Rule: Eager{}, Thresholds: Thresholds{{1, 1}}, MaxRunning: []int{2, 2},
		KVTokens: []int{32, 32}, BlockTokens: 4, ChunkTokens: 8, QueueLimit: 4}
}

// busyCore has a request of each kind: 1 in flight, 2 ready, 3 and 4 queued,
// and visitor 5 away.
func busyCore(t *testing.T) *Core {
	t.Helper()
	c, err := New(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	visit := func() *PeerReq {
		return &PeerReq{ID: 5, Home: 1, From: 1, Suffix: []Token{1, 2}, Anchors: []int{2, 2}, Prompt: 2, Budget: 1, EOS: []Token{0}}
	}
	c.Step(&Event{Kind: PeerArrived, Req: visit()})
	if _, _, ok := c.Launch(); !ok {
		t.Fatal("the visitor does not start")
	}
	c.Step(&Event{Kind: StepDone, Results: []Result{{ID: 5, Sampled: true, Token: 9}}})
	arrive := func(id RequestID) {
		c.Step(&Event{Kind: Arrived, Arrival: &Arrival{ID: id, Prompt: []Token{1, 2, 3}, MaxTokens: 5}})
	}
	arrive(1)
	if _, _, ok := c.Launch(); !ok {
		t.Fatal("the request does not start")
	}
	arrive(2)
	arrive(3)
	arrive(4)
	c.Settle()
	c.Check()
	return c
}

func (c *Core) request(id RequestID) *request { return &c.slots[c.byID[id]] }

// Each invariant is broken by hand once, and Check names it.
func TestCheckNamesTheInvariant(t *testing.T) {
	for _, b := range []struct {
		rule  string
		spoil func(c *Core)
	}{
		{"C1", func(c *Core) { delete(c.byID, 3) }},
		{"C1", func(c *Core) { c.unused = append(c.unused, 0) }},
		{"C2", func(c *Core) { c.ready = nil }},
		{"C2", func(c *Core) { c.request(2).state = pending }},
		{"C3", func(c *Core) { c.kvWait = append(c.kvWait, c.byID[2]) }},
		{"C4", func(c *Core) { c.arrived[0], c.arrived[1] = c.arrived[1], c.arrived[0] }},
		{"C5", func(c *Core) { c.busy = false }},
		{"C5", func(c *Core) { c.batch[0].ID = 2 }},
		{"C6", func(c *Core) { c.request(1).fed = 5 }},
		{"C7", func(c *Core) { c.request(1).fed = 3 }},
		{"C8", func(c *Core) { c.admitted++ }},
		{"C9", func(c *Core) { c.request(2).anchors[1] = 9 }},
		{"C10", func(c *Core) { c.request(5).home = 0 }},
		{"C11", func(c *Core) { c.inForce = []int{9, 9} }},
		{"C11", func(c *Core) { c.inForce[0] = 0 }},
		{"C12", func(c *Core) { c.request(1).blocks = append(c.request(1).blocks, 7) }},
		{"C13", func(c *Core) { c.counts[away]++ }},
		{"K1", func(c *Core) { c.kv.nFree-- }},
	} {
		c := busyCore(t)
		b.spoil(c)
		if err := c.check(); err == nil || !strings.Contains(err.Error(), "invariant "+b.rule+":") {
			t.Errorf("%s is broken, Check says %v", b.rule, err)
		}
	}
}

// What a driver must not do panics with what it did.
func TestDriverMistakesPanic(t *testing.T) {
	for _, m := range []struct {
		want string
		do   func(c *Core)
	}{
		{"wake at 0 ns after an event at 5 ns", func(c *Core) {
			c.Step(&Event{Kind: Wake, AtNs: 5})
			c.Step(&Event{Kind: Wake})
		}},
		{"a request id arrived twice", func(c *Core) {
			c.Step(&Event{Kind: Arrived, Arrival: &Arrival{ID: 1, Prompt: []Token{1}, MaxTokens: 1}})
		}},
		{"an arrival needs a prompt", func(c *Core) { c.Step(&Event{Kind: Arrived, Arrival: &Arrival{ID: 9, MaxTokens: 1}}) }},
		{"StepDone does not answer", func(c *Core) { c.Step(&Event{Kind: StepDone}) }},
		{"a result does not match", func(c *Core) { c.Step(&Event{Kind: StepDone, Results: []Result{{ID: 2, Sampled: true}}}) }},
		{"a result does not match", func(c *Core) { c.Step(&Event{Kind: StepDone, Results: []Result{{ID: 1}}}) }},
		{"Route names a model that is not there", func(c *Core) {
			c.Step(&Event{Kind: StepDone, Results: []Result{{ID: 1, Sampled: true, Dest: 3}}})
		}},
		{"arrived while the request was here", func(c *Core) { c.Step(&Event{Kind: PeerArrived, Req: &PeerReq{ID: 2}}) }},
		{"not pending", func(c *Core) { c.Step(&Event{Kind: PeerReturned, Req: &PeerReq{ID: 2}}) }},
		{"a suffix leaves a gap", func(c *Core) { c.Step(&Event{Kind: PeerArrived, Req: &PeerReq{ID: 5, Start: 4}}) }},
		{"only home ends a request", func(c *Core) { c.Step(&Event{Kind: Aborted, Request: 5}); c.Settle() }},
		{"home was told to release", func(c *Core) { c.Step(&Event{Kind: Released, Request: 2}); c.Settle() }},
		{"unknown event", func(c *Core) { c.Step(&Event{Kind: eventKinds}) }},
	} {
		t.Run(m.want, func(t *testing.T) {
			c := busyCore(t)
			defer func() {
				if r, _ := recover().(string); !strings.HasPrefix(r, "scheduler: ") || !strings.Contains(r, m.want) {
					t.Errorf("panic %q, want %q", r, m.want)
				}
			}()
			m.do(c)
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		want  string
		spoil func(c *Config)
	}{
		{"MaxRunning has 0 entries", func(c *Config) { c.MaxRunning = nil }},
		{"KVTokens 1, want one a model", func(c *Config) { c.KVTokens = []int{9} }},
		{"Model is 2 of 2", func(c *Config) { c.Model = 2 }},
		{"Model is -1 of 2", func(c *Config) { c.Model = -1 }},
		{"Algorithm and Rule must be set", func(c *Config) { c.Algorithm = nil }},
		{"Algorithm and Rule must be set", func(c *Config) { c.Rule = nil }},
		{"BlockTokens must be at least 1", func(c *Config) { c.BlockTokens = 0 }},
		{"QueueLimit", func(c *Config) { c.QueueLimit = -1 }},
		{"HoldContext", func(c *Config) { c.HoldContext = -1 }},
		{"ChunkTokens is 2, want more than MaxRunning (2)", func(c *Config) { c.ChunkTokens = 2 }},
		{"model 1: MaxRunning", func(c *Config) { c.MaxRunning[1] = 0 }},
		{"model 1: MaxRunning and KVTokens", func(c *Config) { c.KVTokens[1] = 0 }},
		{"KVTokens is 3, want at least one block of 4", func(c *Config) { c.KVTokens[0] = 3 }},
		{"thresholds: no row", func(c *Config) { c.Thresholds = nil }},
		{"thresholds: row 1 has 1 entries", func(c *Config) { c.Thresholds = Thresholds{{1}} }},
	} {
		cfg := testConfig()
		c.spoil(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestStatesFollowTheTableOnly(t *testing.T) {
	c := busyCore(t)
	defer func() {
		if r, _ := recover().(string); r != "scheduler: request 5 cannot go from away to in-flight" {
			t.Errorf("panic %q", r)
		}
	}()
	c.enter(c.request(5), inFlight)
}
