package scheduler_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tokenrouter/tokenrouter/algorithms"
	. "github.com/tokenrouter/tokenrouter/scheduler"
)

// system is n cores and what is under way between them: a driver without a
// clock, which plays one instant a command and prints what the cores say.
//
//	system models=2 rule=delayed b=1,2 ...   new cores (see newSystem)
//	at NS                                    the time of the next commands
//	arrive M id=1 prompt=3 max=5 eos=7       a request of the tokens 100, 101, 102
//	done M 1:105>2 2:-                       the step at M ends; without results each
//	                                         entry stays and samples 100·id + position
//	deliver 0>1                              the oldest hand-off on this way arrives
//	deliver                                  all that is on its way arrives
//	abort M ID, stop M ID, drain M, wake M   events of these names
//	step M EVENT                             any event, as it prints
//	show M                                   what the core knows
//
// Commands on one line, parted by semicolons, are one instant. With wire=slow
// hand-offs wait for deliver; otherwise they arrive at once.
type system struct {
	cores   []*Core
	batches []*Batch // in flight, by model
	slow    bool
	gated   bool
	wire    [][][]Event // by from, to
	inbox   []dueEvent
	live    int
	moved   bool
	nowNs   int64
	out     []string
	fresh   func(m int) *Core // makes a core as it was at first
	calls   [][]call          // by model
}

// call is a call of a core and what it said.
type call struct {
	event string // empty: Settle, or Launch
	batch string // launched
	start bool   // Launch
	said  []string
}

type dueEvent struct {
	model int
	event Event
}

// tester is an algorithm whose Route is told by the transcript.
type tester struct {
	keep   string // all, none, or peers: home's departures drop their token
	accept int    // -1: all
}

func (a *tester) Name() string                           { return "tester" }
func (a *tester) Needs(int) algorithms.Need              { return 0 }
func (a *tester) Route(*algorithms.View) algorithms.Dest { return algorithms.Stay }
func (a *tester) Send(d algorithms.Departure, _ *PeerReq) bool {
	return a.keep == "all" || a.keep == "peers" && d.From != d.Home
}
func (a *tester) Receive(req *PeerReq) []Token {
	if a.accept < 0 {
		return req.Suffix
	}
	return req.Suffix[:min(a.accept, len(req.Suffix))]
}

// streamer is a tester with the default Receive.
type streamer struct {
	algorithms.AcceptAll
	*tester
}

func (s streamer) Receive(req *PeerReq) []Token { return s.AcceptAll.Receive(req) }

// options are the key=value words of a command.
type options map[string]string

func (o options) str(key, otherwise string) string {
	if v, ok := o[key]; ok {
		return v
	}
	return otherwise
}

func (o options) num(key string, otherwise int) int {
	if v, ok := o[key]; ok {
		return number(v)
	}
	return otherwise
}

// nums reads a value a model; one value stands for all.
func (o options) nums(key string, n, otherwise int) []int {
	var out []int
	for _, v := range strings.Split(o.str(key, strconv.Itoa(otherwise)), ",") {
		out = append(out, number(v))
	}
	for len(out) < n {
		out = append(out, out[0])
	}
	return out
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(fmt.Sprintf("%q is not a number", s))
	}
	return n
}

func split(words []string) (plain []string, o options) {
	o = options{}
	for _, w := range words {
		if key, value, ok := strings.Cut(w, "="); ok {
			o[key] = value
		} else {
			plain = append(plain, w)
		}
	}
	return plain, o
}

var rules = map[string]Rule{"eager": Eager{}, "alternate": Alternate{}, "lockstep": Lockstep{}}

func newSystem(o options) *system {
	told := &tester{o.str("keep", "peers"), o.num("receive", -1)}
	if told.accept < 0 {
		return newSystemOf(streamer{tester: told}, o)
	}
	return newSystemOf(told, o)
}

// newSystemOf takes an algorithm of the caller's.
func newSystemOf(alg algorithms.Algorithm, o options) *system {
	n := o.num("models", 1)
	s := &system{slow: o.str("wire", "fast") == "slow"}
	rule := rules[o.str("rule", "delayed")]
	if rule == nil {
		rule = Delayed{MaxDelayNs: int64(o.num("max-delay", 0))}
	}
	s.gated = rule.NeedsPeers()
	var b Thresholds
	for row := range strings.SplitSeq(o.str("b", "1"), "/") {
		b = append(b, options{"b": row}.nums("b", n, 1))
	}
	s.fresh = func(m int) *Core {
		core, err := New(Config{
			Model: m, Algorithm: alg, Rule: rule, Thresholds: b,
			MaxRunning: o.nums("running", n, 8), KVTokens: o.nums("kv", n, 1000),
			BlockTokens: o.num("block", 4), ChunkTokens: o.nums("chunk", n, 64)[m], QueueLimit: o.num("queue", 8),
			PrefixReuse: o.str("reuse", "true") == "true",
		})
		if err != nil {
			panic(err)
		}
		return core
	}
	for m := range n {
		s.cores = append(s.cores, s.fresh(m))
		s.wire = append(s.wire, make([][]Event, n))
		s.calls = append(s.calls, nil)
	}
	s.batches = make([]*Batch, n)
	return s
}

// run plays the commands of one line as one instant and returns what was said.
func (s *system) run(line string) []string {
	s.out = nil
	for command := range strings.SplitSeq(line, ";") {
		s.command(strings.Fields(command))
	}
	s.instant()
	return s.out
}

func (s *system) command(words []string) {
	name := words[0]
	plain, o := split(words[1:])
	m := 0
	if name != "deliver" && len(plain) > 0 {
		m = number(plain[0])
	}
	switch name {
	case "at":
		s.nowNs = int64(m)
	case "arrive":
		s.arrive(m, o)
	case "done":
		s.due(m, Event{Kind: StepDone, Results: s.results(m, plain[1:])})
	case "deliver":
		s.deliver(plain)
	case "abort":
		s.due(m, Event{Kind: Aborted, Request: RequestID(number(plain[1]))})
	case "stop":
		s.due(m, Event{Kind: Stop, Request: RequestID(number(plain[1]))})
	case "drain":
		s.due(m, Event{Kind: Drain})
	case "flush":
		s.due(m, Event{Kind: Flush})
	case "wake":
		s.due(m, Event{Kind: Wake})
	case "step":
		ev, err := ParseEvent(strings.Join(words[2:], " "))
		if err != nil {
			panic(err)
		}
		s.due(m, ev)
	case "show":
		for _, line := range s.cores[m].States() {
			s.out = append(s.out, fmt.Sprintf("%d: %s", m, line))
		}
	default:
		panic("unknown command " + name)
	}
}

func (s *system) due(m int, ev Event) {
	ev.AtNs = s.nowNs
	s.inbox = append(s.inbox, dueEvent{m, ev})
}

func (s *system) arrive(m int, o options) {
	id := o.num("id", 0)
	a := &Arrival{ID: RequestID(id), Seed: uint64(id), MaxTokens: o.num("max", 100)}
	if _, ok := o["eos"]; ok {
		a.EOS = []Token{Token(o.num("eos", 0))}
	}
	for i := range o.num("prompt", 1) {
		a.Prompt = append(a.Prompt, Token(100*o.num("text", id)+i))
	}
	s.due(m, Event{Kind: Arrived, Arrival: a})
}

// results reads id:token>dest words through the event parser.
func (s *system) results(m int, words []string) []Result {
	if s.batches[m] == nil {
		panic("no step in flight at " + strconv.Itoa(m))
	}
	said := map[RequestID]Result{}
	if len(words) > 0 {
		ev, err := ParseEvent("step-done at=0 results=" + strings.Join(words, ","))
		if err != nil {
			panic(err)
		}
		for _, r := range ev.Results {
			said[r.ID] = r
		}
	}
	var out []Result
	for i := range s.batches[m].Entries {
		e := &s.batches[m].Entries[i]
		r, ok := said[e.ID]
		if !ok {
			r = Result{ID: e.ID, Sampled: e.Samples}
			if e.Samples {
				r.Token = Token(100*int(e.ID) + e.Position)
			}
		}
		out = append(out, r)
	}
	s.batches[m] = nil
	return out
}

func (s *system) deliver(ways []string) {
	for from := range s.wire {
		for to := range s.wire[from] {
			queue := &s.wire[from][to]
			take := len(*queue)
			if len(ways) > 0 {
				take = min(take, 1)
				if !slices.Contains(ways, fmt.Sprintf("%d>%d", from, to)) {
					take = 0
				}
			}
			for _, ev := range (*queue)[:take] {
				s.due(to, ev)
			}
			*queue = (*queue)[take:]
		}
	}
}

// instant follows the duties of doc.go.
func (s *system) instant() {
	for {
		for len(s.inbox) > 0 || s.moved {
			s.stepAll()
			for m, core := range s.cores {
				s.calls[m] = append(s.calls[m], call{})
				s.say(m, core.Settle())
			}
		}
		started := false
		for m, core := range s.cores {
			if s.gated && s.transit() {
				break
			}
			batch, messages, ok := core.Launch()
			s.calls[m] = append(s.calls[m], call{start: true})
			s.say(m, messages)
			if ok {
				s.batches[m] = &batch
				s.out = append(s.out, fmt.Sprintf("%d: %s", m, batchText(&batch)))
				s.calls[m][len(s.calls[m])-1].batch = batchText(&batch)
				started = true
			}
			core.Check()
		}
		if !started && len(s.inbox) == 0 && !s.moved {
			return
		}
	}
}

func (s *system) stepAll() {
	for len(s.inbox) > 0 || s.moved {
		for len(s.inbox) > 0 {
			next := s.inbox[0]
			s.inbox = s.inbox[1:]
			s.step(next.model, next.event)
		}
		if s.moved {
			s.moved = false
			for m := range s.cores {
				s.step(m, Event{Kind: LiveChanged, AtNs: s.nowNs, Live: s.live})
			}
		}
	}
}

func (s *system) step(m int, ev Event) {
	s.calls[m] = append(s.calls[m], call{event: ev.String()})
	s.say(m, s.cores[m].Step(&ev))
	s.cores[m].Check()
}

func (s *system) transit() bool {
	for _, row := range s.wire {
		for _, queue := range row {
			if len(queue) > 0 {
				return true
			}
		}
	}
	return false
}

func (s *system) say(m int, messages []Message) {
	for i := range messages {
		msg := &messages[i]
		s.out = append(s.out, fmt.Sprintf("%d: %s", m, msg))
		last := &s.calls[m][len(s.calls[m])-1]
		last.said = append(last.said, msg.String())
		switch msg.Kind {
		case Send:
			s.ship(m, msg.To, Event{Kind: PeerArrived, Req: msg.Req})
		case Return:
			s.ship(m, msg.To, Event{Kind: PeerReturned, Req: msg.Req})
		case Release:
			s.ship(m, msg.To, Event{Kind: Released, Request: msg.Request})
		case State:
			for p := range s.cores {
				if p != m {
					s.due(p, Event{Kind: PeerState, Peer: m, Busy: msg.Busy, Ready: msg.Ready})
				}
			}
		case Live:
			s.live += msg.Delta
			s.moved = true
		}
	}
}

func (s *system) ship(from, to int, ev Event) {
	if s.slow {
		s.wire[from][to] = append(s.wire[from][to], ev)
		return
	}
	s.due(to, ev)
}

// batchText prints id@position+rows of each entry, * where it samples.
func batchText(b *Batch) string {
	var entries []string
	for i := range b.Entries {
		e := &b.Entries[i]
		text := fmt.Sprintf("%d@%d+%d", e.ID, e.Start, len(e.Tokens))
		if e.Samples {
			text += "*"
		}
		entries = append(entries, text)
	}
	return fmt.Sprintf("step %s rows=%d context=%d", strings.Join(entries, " "), b.Rows, b.ContextTokens)
}

// replay plays the printed events into new cores and returns the first call
// that goes another way than it did.
func (s *system) replay() error {
	for m, calls := range s.calls {
		core := s.fresh(m)
		for i, c := range calls {
			var messages []Message
			var batch string
			switch {
			case c.start:
				b, out, ok := core.Launch()
				if messages = out; ok {
					batch = batchText(&b)
				}
			case c.event == "":
				messages = core.Settle()
			default:
				ev, err := ParseEvent(c.event)
				if err != nil {
					return err
				}
				messages = core.Step(&ev)
			}
			var said []string
			for _, msg := range messages {
				said = append(said, msg.String())
			}
			if !slices.Equal(said, c.said) || batch != c.batch {
				return fmt.Errorf("call %d of model %d, %q, says %q and launches %q; it said %q and launched %q",
					i, m, c.event, said, batch, c.said, c.batch)
			}
		}
	}
	return nil
}
