package subserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// logs are the event logs of a run, one a process.
type logs struct {
	bytes.Buffer
	more [3]bytes.Buffer
}

// judge replays all of them: everything that the observer saw is there.
func (l *logs) judge(t *testing.T, w *gateWatch) {
	var all Report
	for _, text := range [][]byte{l.Bytes(), l.more[0].Bytes(), l.more[1].Bytes(), l.more[2].Bytes()} {
		if len(text) == 0 {
			continue
		}
		rep, err := Replay(bytes.NewReader(text))
		if err != nil {
			t.Error(err)
		}
		all.Events += rep.Events
		all.Messages += rep.Messages
		all.Steps += rep.Steps
	}
	if all.Events != w.events || all.Messages != w.messages || all.Steps < int64(w.steps) {
		t.Errorf("the logs have %+v, the observer saw %d events, %d messages and %d steps", all, w.events, w.messages, w.steps)
	}
}

// aLog is the log of a small run.
func aLog(t *testing.T, seed uint64) []byte {
	p := plan{algorithm: "rstitch", params: sources[4].params, rule: scheduler.Delayed{MaxDelayNs: 3e7}, b: 2, concurrency: 3, requests: 5,
		kvTokens: 96, blockTokens: 4, chunk: 8, maxRunning: 4, seed: seed}
	log := new(logs)
	synctest.Test(t, func(t *testing.T) {
		cfg := p.config(t)
		cfg.Log = log
		p.serve(t, cfg)
	})
	return log.Bytes()
}

func TestReplayFindsTheFirstDifference(t *testing.T) {
	lines := strings.SplitAfter(string(aLog(t, 1)), "\n")
	rng := rand.New(rand.NewPCG(1, 1))
	spoilt := 0
	for i, line := range lines {
		if i == 0 || rng.IntN(8) > 0 {
			continue
		}
		want := i + 1
		var other string
		switch {
		case strings.Contains(line, " > emit"):
			other = strings.Replace(line, "tokens=", "tokens=1", 1)
		case strings.Contains(line, " = "):
			other = strings.Replace(line, "+", "+1", 1)
		case strings.Contains(line, " > "): // lost
		default:
			continue
		}
		spoilt++
		text := strings.Join(lines[:i], "") + other + strings.Join(lines[i+1:], "")
		_, err := Replay(strings.NewReader(text))
		var diff *Difference
		if !errors.As(err, &diff) {
			t.Errorf("line %d is spoilt: %v", want, err)
		} else if diff.Line < want || other != "" && diff.Line != want {
			t.Errorf("line %d is spoilt, found in line %d", want, diff.Line)
		}
	}
	if spoilt < 10 {
		t.Errorf("only %d lines were spoilt", spoilt)
	}
}

// A log may end anywhere: between two calls that is all there is, elsewhere it
// is said where it ends.
func TestReplayOfACutLog(t *testing.T) {
	text := aLog(t, 2)
	if rep, err := Replay(bytes.NewReader(text)); err != nil || rep.Open != 0 {
		t.Errorf("the whole log: %d requests are open, %v", rep.Open, err)
	}
	open := 0
	for cut := 0; cut < len(text); cut += 1 + cut/40 {
		rep, err := Replay(bytes.NewReader(text[:cut]))
		var bad *LogError
		line := 1 + bytes.Count(text[:cut], []byte("\n"))
		switch {
		case err == nil && cut > 0 && text[cut-1] == '\n':
			open = max(open, rep.Open)
		case errors.As(err, &bad) && bad.Line == line:
		default:
			t.Fatalf("cut after %d bytes, in line %d: %v", cut, line, err)
		}
	}
	if open == 0 {
		t.Error("no cut left a request open, though each of them is under way somewhere")
	}
}

func TestReplayRefuses(t *testing.T) {
	lines := strings.SplitAfter(string(aLog(t, 3)), "\n")
	head := lines[0]
	for _, c := range []struct{ text, want string }{
		{"", "line 1: the log is empty"},
		{"hello\n", "line 1: this is no header"},
		{strings.Replace(head, `"Version":1`, `"Version":2`, 1), "version 2"},
		{strings.Replace(head, `"Static"`, `"Statik"`, 1), "unknown field"},
		{strings.Replace(head, `"rstitch"`, `"restitch"`, 1), `algorithm: "restitch" is none`},
		{strings.Replace(head, `"MaxRunning":4`, `"MaxRunning":400000`, 1), "MaxRunning is 400000"},
		{strings.Replace(head, `"KVTokens":96`, `"KVTokens":9600000000`, 1), "KVTokens is 9600000000"},
		{strings.Replace(head, `"delayed"`, `"eagre"`, 1), `rule "eagre" is none`},
		{strings.Replace(head, `"Thresholds":[[2,2]]`, `"Thresholds":[]`, 1), "thresholds: no row"},
		{strings.Replace(head, `"Models":2`, `"Models":3`, 1), "3 models in Params and 2 in Models"},
		{head + "7 settle\n", `line 2: "7 settle" does not begin with a model`},
		{head + "settle\n", "does not begin with a model"},
		{head + "0 sit\n", `"sit" is none of`},
		{head + "0 + arrive at=1\n", `line 2: event: kind "arrive"`},
		{head + "0 + step-done at=1\n", "line 2: this cannot have happened: scheduler: StepDone"},
		{head + "0 + peer-state at=1 peer=9 busy=true ready=1\n", "line 2: this cannot have happened"},
		{head + "0 + wake at=5\n0 + wake at=4\n", "line 3: this cannot have happened"},
		{head + "0 > live delta=1\n", "line 2: the core of fake0 differs"},
	} {
		_, err := Replay(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v, want %q", c.text, err, c.want)
		}
	}
}

func FuzzReplay(f *testing.F) {
	head := `{"Log":"tokenrouter events","Version":1,"Algorithm":"never","Params":{"Models":1},"Models":[{"Name":"a","Here":true,` +
		`"MaxRunning":2,"ChunkTokens":8,"KVTokens":64,"BlockTokens":4,"Rule":"eager"}],"Thresholds":[[1]],"QueueLimit":4,"NoReuse":false,` +
		`"Static":false,"Reread":false,"HoldContext":0}` + "\n"
	f.Add(head + "0 + arrived at=1 id=1 seed=2 max=3 prompt=1,2\n0 settle\n0 > live delta=1\n0 + live at=1 live=1\n0 settle\n0 launch\n0 = 1:0+2!\n" +
		"0 + step-done at=5 results=1:7\n0 > emit id=1 start=2 writer=0 tokens=7\n0 settle\n0 launch\n0 = 1:2+1!\n")
	f.Add(head + "0 + drain at=1\n0 settle\n")
	f.Add(head + "0 + aborted at=1 id=1\n0 settle\n")
	f.Add("{}\n")
	f.Fuzz(func(t *testing.T, text string) {
		rep, err := Replay(strings.NewReader(text))
		var bad *LogError
		var diff *Difference
		if err != nil && !errors.As(err, &bad) && !errors.As(err, &diff) {
			t.Errorf("%v is of no kind that Replay tells of", err)
		}
		again, err2 := Replay(strings.NewReader(text))
		if !slices.Equal(rep.Models, again.Models) || fmt.Sprint(rep, err) != fmt.Sprint(again, err2) {
			t.Errorf("%v %v, then %v %v", rep, err, again, err2)
		}
	})
}

// A log that a replay could not follow is refused at the start.
func TestLogNeedsParams(t *testing.T) {
	p := plan{algorithm: "confidence", params: sources[3].params, rule: scheduler.Eager{}, b: 1, requests: 1, kvTokens: 64, blockTokens: 4, chunk: 8, maxRunning: 4}
	for _, c := range []struct {
		spoil func(*Config)
		want  string
	}{
		{func(c *Config) { c.Params = algorithms.Params{} }, "cannot make the algorithm"},
		{func(c *Config) { c.Params.Threshold = nil }, "cannot make the algorithm"},
		{func(c *Config) { x := 0.25; c.Params.Threshold = &x }, "make another confidence"},
		{func(c *Config) { c.Rule = never{} }, "cannot make the rule never"},
	} {
		cfg := p.config(t)
		cfg.Log = io.Discard
		c.spoil(&cfg)
		if _, err := Start(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

type never struct{ scheduler.Eager }

func (never) String() string { return "never" }

// A log that cannot be written is said at the end, and stops nobody.
func TestLogWriterFails(t *testing.T) {
	p := plan{algorithm: "never", params: algorithms.Params{Models: 1}, rule: scheduler.Eager{}, b: 1, concurrency: 1, requests: 2, kvTokens: 64, blockTokens: 4, chunk: 8, maxRunning: 4}
	synctest.Test(t, func(t *testing.T) {
		cfg := p.config(t)
		cfg.Log = full{}
		sys, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := p.request(0)
		s, err := sys.Submit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if o := read(t, r, s, -1); o.err != nil {
			t.Error(o.err)
		}
		if err := sys.Close(); !errors.Is(err, errFull) {
			t.Errorf("%v, want %v", err, errFull)
		}
	})
}

// A writer that is too slow makes no core wait: the log ends early, is whole as
// far as it goes, and that is said.
func TestLogWriterIsSlow(t *testing.T) {
	p := small()
	p.concurrency = 2
	synctest.Test(t, func(t *testing.T) {
		cfg := p.config(t)
		slow := &stuck{free: make(chan struct{})}
		cfg.Log, cfg.hooks.logLimit = slow, 3000
		sys, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := long(1, 100)
		if o := read(t, r, submit(t, sys, r), -1); o.err != nil || len(o.tokens) != 100 {
			t.Errorf("%d tokens, %v", len(o.tokens), o.err)
		}
		time.AfterFunc(time.Second, func() { close(slow.free) })
		if err := sys.Close(); !errors.Is(err, errLogLate) {
			t.Errorf("%v, want %v", err, errLogLate)
		}
		size := slow.Len()
		rep, err := Replay(&slow.Buffer)
		if err != nil || rep.Events < 5 || size > 5000 {
			t.Errorf("%d bytes: %+v, %v", size, rep, err)
		}
	})
}

// stuck is a writer that waits to be freed.
type stuck struct {
	bytes.Buffer
	free chan struct{}
}

func (s *stuck) Write(text []byte) (int, error) {
	<-s.free
	return s.Buffer.Write(text)
}

type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }
