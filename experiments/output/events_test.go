package output

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const streamed = `
question = "Who runs when?"
on       = ["sim"]
systems  = ["tokenrouter"]
[[models]]
name    = "small"
step_ms.base = 4
[[models]]
name    = "large"
step_ms.base = 32
B = 2
[routing]
matrix = [[0.8, 0.2], [0.5, 0.5]]
[workload]
kind = "poisson"
rate_per_s = 4
requests = 25
output_tokens = { min = 5, max = 40 }
`

type line struct {
	TimeNs  int64 `json:"time_ns"`
	Kind    string
	Model   string
	Request int
	Start   int
	Tokens  int
}

func eventsOf(t *testing.T, limit int64) (lines []line, said string) {
	t.Helper()
	dir := t.TempDir()
	said, err := WriteEvents(results(t, streamed), dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(dir, EventsJSONL))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for s := bufio.NewScanner(file); s.Scan(); {
		var l line
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			t.Fatalf("%v in %s", err, s.Text())
		}
		lines = append(lines, l)
	}
	return lines, said
}

// Events stand in order of time; every request that arrives gets its tokens in
// order and finishes once.
func TestEventsTellTheWholeRun(t *testing.T) {
	lines, said := eventsOf(t, 1_000_000)
	last := int64(0)
	next, kinds := map[int]int{}, map[string]int{}
	for _, l := range lines {
		kinds[l.Kind]++
		if l.TimeNs < last {
			t.Fatalf("%+v after %d ns", l, last)
		}
		last = l.TimeNs
		switch l.Kind {
		case "arrived":
			next[l.Request] = l.Tokens
		case "emit":
			if l.Start != next[l.Request] {
				t.Fatalf("%+v, want it at %d", l, next[l.Request])
			}
			next[l.Request] += l.Tokens
		case "finish":
			if n := next[l.Request] - 100; n < 5 || n > 40 {
				t.Errorf("request %d has %d tokens", l.Request, n)
			}
			delete(next, l.Request)
		}
	}
	if kinds["arrived"] != 25 || kinds["finish"] != 25 || len(next) != 0 || kinds["send"] == 0 || kinds["send"] != kinds["peer-arrived"] ||
		kinds["return"] != kinds["peer-returned"] || kinds["cut"] != 0 {
		t.Errorf("%v, %d open", kinds, len(next))
	}
	if !strings.HasPrefix(said, "all ") || !strings.HasSuffix(said, " events of tokenrouter, seed 1") {
		t.Error(said)
	}
	some, said := eventsOf(t, 100)
	if len(some) != 101 || some[100].Kind != "cut" || said != "the first 100 events of tokenrouter, seed 1; more were left out" {
		t.Errorf("%d lines: %s", len(some), said)
	}
	for i := range 100 {
		if some[i] != lines[i] {
			t.Fatalf("line %d is %+v of a few and %+v of all", i, some[i], lines[i])
		}
	}
}

func TestEventsNeedASimulation(t *testing.T) {
	_, err := WriteEvents(results(t, small, "on=dtmc", "models.large.B=2"), t.TempDir(), 10)
	if !errors.Is(err, ErrNoSimulation) {
		t.Errorf("got %v", err)
	}
}
