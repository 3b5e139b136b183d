package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	. "github.com/tokenrouter/tokenrouter/scheduler"
)

// One test for each claim that the paper (arXiv 2610.12242) makes about the
// mechanism. The figures it measures are the business of experiments.

// start makes a system and plays commands on it.
func start(t *testing.T, setup string, commands ...string) *system {
	t.Helper()
	_, o := split(strings.Fields(setup))
	s := newSystem(o)
	for _, c := range commands {
		s.run(c)
	}
	return s
}

// entry is the part of a request in the step in flight at a model.
func (s *system) entry(t *testing.T, model int, id RequestID) Entry {
	t.Helper()
	if s.batches[model] != nil {
		for _, e := range s.batches[model].Entries {
			if e.ID == id {
				return e
			}
		}
	}
	t.Fatalf("request %d is not in flight at model %d", id, model)
	return Entry{}
}

func (s *system) inFlight(model int) (ids []RequestID) {
	if s.batches[model] != nil {
		for _, e := range s.batches[model].Entries {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func said(out []string, kind string) (lines []string) {
	for _, line := range out {
		if strings.HasPrefix(line[strings.Index(line, ":")+2:], kind+" ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// "route: 0 stays, otherwise the peer's id", after every forward step.
func TestPaperRouteNamesTheNextModel(t *testing.T) {
	for dest, want := range []int{0, 0, 1, 2} {
		s := start(t, "system models=3", "arrive 0 id=1 prompt=3", "at 10")
		s.run(strings.TrimSuffix(fmt.Sprintf("done 0 1:7>%d", dest), ">0"))
		for m := range 3 {
			if got := len(s.inFlight(m)); (got == 1) != (m == want) {
				t.Errorf("route %d: %d requests in flight at model %d", dest, got, m)
			}
		}
	}
}

// "A request that is away is pending: the scheduler skips it, its KV and prefix
// match stay; on return tokens are appended." "A switch costs about what
// appending a token costs": one row, in the same blocks, and nothing is matched
// again.
func TestPaperPendingKeepsItsKVAndAReturnCostsARow(t *testing.T) {
	s := start(t, "system models=2 wire=slow block=2", "arrive 0 id=1 prompt=5", "arrive 0 id=2 prompt=3")
	before := slices.Clone(s.entry(t, 0, 1).Blocks)
	s.run("at 10")
	s.run("done 0 1:105>2")
	held, _, _ := s.cores[0].KVBlocks()
	for i := range 3 { // it is skipped while 2 goes on
		if got := s.inFlight(0); !slices.Equal(got, []RequestID{2}) {
			t.Fatalf("step %d at home runs %v, want 2 alone", i, got)
		}
		s.run("done 0")
	}
	if now, _, _ := s.cores[0].KVBlocks(); now < held {
		t.Errorf("home holds %d blocks, %d before the visit", now, held)
	}
	s.run("deliver")
	s.run("at 20")
	s.run("done 1 1:555>1")
	s.run("deliver")
	s.run("done 0")
	e := s.entry(t, 0, 1)
	if len(e.Tokens) != 1 || e.Tokens[0] != 555 || e.Start != 5 {
		t.Errorf("the return feeds %v at %d, want one row: 555 at 5", e.Tokens, e.Start)
	}
	if !slices.Equal(e.Blocks[:len(before)], before) {
		t.Errorf("blocks %v before the visit, %v after", before, e.Blocks)
	}
}

// "send packs the suffix the peer has not seen, and a position anchor."
func TestPaperSendPacksTheUnseenSuffix(t *testing.T) {
	s := start(t, "system models=2", "arrive 0 id=1 prompt=4", "done 0 1:7>2", "done 1 1:500>1", "done 0 1:501", "done 0 1:502")
	out := said(s.run("done 0 1:7>2"), "send")
	if len(out) != 1 || !strings.HasSuffix(out[0], "start=5 suffix=501,502") {
		t.Errorf("the second visit brings %q, want the two tokens that home wrote since", out)
	}
	if e := s.entry(t, 1, 1); len(e.Tokens) != 3 || e.Start != 4 {
		t.Errorf("the peer feeds %d rows from %d, want its own last token and the suffix", len(e.Tokens), e.Start)
	}
}

// "Whether the token just sampled is in the suffix is the algorithm's choice."
func TestPaperTheAlgorithmKeepsOrDropsTheToken(t *testing.T) {
	for keep, want := range map[string]string{"all": "suffix=100,101,777", "none": "suffix=100,101"} {
		s := start(t, "system models=2 keep="+keep, "arrive 0 id=1 prompt=2")
		out := s.run("done 0 1:777>2")
		if got := said(out, "send"); len(got) != 1 || !strings.HasSuffix(got[0], " "+want) {
			t.Errorf("keep %s: %q, want %s", keep, got, want)
		}
		if shown := len(said(out, "emit")) == 1; shown != (keep == "all") {
			t.Errorf("keep %s: the client sees the token: %v", keep, shown)
		}
	}
}

// "receive: default: accept all returned tokens."
func TestPaperReceiveAcceptsAll(t *testing.T) {
	s := start(t, "system models=2", "arrive 0 id=1 prompt=2", "done 0 1:7>2")
	shown := ""
	for _, step := range []string{"done 1 1:501", "done 1 1:502", "done 1 1:503>1"} {
		shown += strings.Join(said(s.run(step), "emit"), "")
	}
	for _, token := range []string{"501", "502", "503"} {
		if strings.Count(shown, token) != 1 {
			t.Errorf("token %s is shown %d times in %q", token, strings.Count(shown, token), shown)
		}
	}
}

// "State goes to running or finished" on return.
func TestPaperAReturnRunsOrFinishes(t *testing.T) {
	s := start(t, "system models=2", "arrive 0 id=1 prompt=2 eos=9", "done 0 1:7>2")
	out := s.run("done 1 1:501>1")
	if got := s.inFlight(0); len(said(out, "finish")) != 0 || !slices.Equal(got, []RequestID{1}) {
		t.Errorf("returned: %q, in flight at home %v", out, got)
	}
	s.run("done 0 1:7>2")
	out = s.run("done 1 1:9")
	if got := said(out, "finish"); len(got) != 1 || got[0] != "0: finish id=1 reason=stop length=4" {
		t.Errorf("finished at the peer: %q", out)
	}
}

// "One front door": whoever writes a token, only home speaks to the client.
func TestPaperOnlyHomeSpeaksToTheClient(t *testing.T) {
	s := start(t, "system models=3")
	var out []string
	for _, c := range []string{"arrive 1 id=1 prompt=2 max=4", "done 1 1:7>1", "done 0 1:501", "done 0 1:502>3", "done 2 1:503", "done 2 1:504"} {
		out = append(out, s.run(c)...)
	}
	for _, kind := range []string{"emit", "finish"} {
		lines := said(out, kind)
		for _, line := range lines {
			if !strings.HasPrefix(line, "1: ") {
				t.Errorf("%q does not come from home", line)
			}
		}
		if len(lines) == 0 {
			t.Errorf("no %s in %q", kind, out)
		}
	}
}

// "Step desynchronisation": while the large model is in a step, the small one
// goes on.
func TestPaperModelsRunAsynchronously(t *testing.T) {
	s := start(t, "system models=2", "arrive 0 id=1 prompt=2; arrive 0 id=2 prompt=2", "done 0 1:7>2")
	for i := range 4 {
		if len(s.inFlight(0)) != 1 || len(s.inFlight(1)) != 1 {
			t.Fatalf("step %d: %v and %v in flight", i, s.inFlight(0), s.inFlight(1))
		}
		s.run("done 0")
	}
}

// "Delayed batching: buffer arrivals, launch only when B requests for that
// model are there; every subserver has its own B."
func TestPaperDelayedBatchingBuffers(t *testing.T) {
	s := start(t, "system models=2 b=1,3", "arrive 0 id=1 prompt=1; arrive 0 id=2 prompt=1; arrive 0 id=3 prompt=1; arrive 0 id=4 prompt=1")
	for i, want := range []int{0, 0, 3} {
		s.run(fmt.Sprintf("done 0 %d:7>2", i+1))
		if got := len(s.inFlight(1)); got != want {
			t.Errorf("%d requests came, %d in flight at the large model, want %d", i+1, got, want)
		}
		if len(s.inFlight(0)) != 3-i {
			t.Errorf("the small model, B 1, has %v in flight", s.inFlight(0))
		}
	}
}

// Figure 4's kinds of schedule on six requests (ours: the paper's own are not
// published): a letter is a kept token of that model, a large step lasts 4
// small ones, B of the large model is 2. Mean latencies 8.67, 10.83 and 13.00
// are the published ones; with a barrier it publishes 13.33.
func TestPaperSchedules(t *testing.T) {
	scripts := []string{"SSS", "SSSS", "SLSS", "SLSL", "SLSL", "LLLL"}
	for rule, sixths := range map[string]int64{"delayed": 52, "eager": 65, "alternate": 78, "lockstep": 83} {
		script, err := algorithms.NewScript(scripts, algorithms.Pair{Small: 0, Large: 1}, 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		_, o := split(strings.Fields("system models=2 b=1,2 rule=" + rule))
		s := newSystemOf(script, o)
		for i, letters := range scripts {
			s.due(script.Writers(uint64(i))[0], Event{Kind: Arrived, Arrival: &Arrival{
				ID: RequestID(i + 1), Seed: uint64(i), Prompt: []Token{1}, MaxTokens: len(letters)}})
		}
		if got := s.playOut(script, []int64{1, 4}); got != sixths {
			t.Errorf("%s: mean latency %d/6, want %d/6", rule, got, sixths)
		}
	}
}

// playOut runs until nobody is in flight, with steps of fixed lengths, and
// returns the sum of the times at which requests finish.
func (s *system) playOut(alg algorithms.Algorithm, lengths []int64) (sum int64) {
	ends := make([]int64, len(s.cores))
	for {
		s.out = nil
		s.instant()
		sum += s.nowNs * int64(len(said(s.out, "finish")))
		next := int64(-1)
		for m, b := range s.batches {
			if b == nil {
				ends[m] = 0
				continue
			}
			if ends[m] == 0 {
				ends[m] = s.nowNs + lengths[m]
			}
			if next < 0 || ends[m] < next {
				next = ends[m]
			}
		}
		if next < 0 {
			return sum
		}
		s.nowNs = next
		for m, b := range s.batches {
			if b != nil && ends[m] == next {
				ends[m] = 0
				s.due(m, Event{Kind: StepDone, Results: routed(alg, m, b)})
				s.batches[m] = nil
			}
		}
	}
}

// routed answers a batch with what the algorithm says.
func routed(alg algorithms.Algorithm, m int, b *Batch) (results []Result) {
	for i := range b.Entries {
		e := &b.Entries[i]
		v := algorithms.View{Request: e.ID, Seed: e.Seed, Model: m, Home: e.Home, Position: e.Position,
			StayStart: e.StayStart, Hops: e.Hops, Token: 5}
		results = append(results, Result{ID: e.ID, Sampled: e.Samples, Token: 5, Dest: alg.Route(&v)})
	}
	return results
}
