package timeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type event struct {
	Ph, Name, Cat, S string
	Pid, Tid         int
	Ts, Dur          json.Number
	Args             map[string]any
}

type trace struct {
	TraceEvents []event           `json:"traceEvents"`
	OtherData   map[string]string `json:"otherData"`
}

func decode(t interface{ Fatalf(string, ...any) }, data []byte) trace {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	d.DisallowUnknownFields()
	var tr trace
	if err := d.Decode(&tr); err != nil {
		t.Fatalf("not a trace: %v\n%s", err, data)
	}
	return tr
}

// ns reads microseconds back without going through a float.
func ns(t interface{ Fatalf(string, ...any) }, n json.Number) int64 {
	whole, frac, _ := strings.Cut(n.String(), ".")
	v := int64(0)
	for _, c := range whole + (frac + "000")[:3] {
		if c < '0' || c > '9' {
			t.Fatalf("time %q is not a plain decimal", n)
		}
		v = v*10 + int64(c-'0')
	}
	return v
}

// span is a slice of a thread as a viewer rebuilds it.
type span struct {
	Name     string
	From, To int64
	Depth    int
}

// spansOf rebuilds the slices of every thread and fails where they do not nest.
func spansOf(t interface{ Fatalf(string, ...any) }, tr trace) map[int][]span {
	out := map[int][]span{}
	open := map[int][]span{}
	for _, e := range tr.TraceEvents {
		switch e.Ph {
		case "B":
			s := span{Name: e.Name, From: ns(t, e.Ts), Depth: len(open[e.Tid])}
			if k := len(open[e.Tid]); k > 0 && s.From < open[e.Tid][k-1].From {
				t.Fatalf("%s begins before the slice round it", e.Name)
			}
			open[e.Tid] = append(open[e.Tid], s)
		case "E":
			k := len(open[e.Tid])
			if k == 0 {
				t.Fatalf("thread %d: an end without a begin", e.Tid)
			}
			s := open[e.Tid][k-1]
			s.To = ns(t, e.Ts)
			if s.To < s.From {
				t.Fatalf("%s ends before it begins", s.Name)
			}
			open[e.Tid] = open[e.Tid][:k-1]
			out[e.Tid] = append(out[e.Tid], s)
		case "X":
			s := span{Name: e.Name, From: ns(t, e.Ts)}
			s.To = s.From + ns(t, e.Dur)
			if k := len(out[e.Tid]); k > 0 && s.From < out[e.Tid][k-1].To {
				t.Fatalf("thread %d: steps overlap", e.Tid)
			}
			out[e.Tid] = append(out[e.Tid], s)
		}
	}
	for tid, o := range open {
		if len(o) > 0 {
			t.Fatalf("thread %d: %d slices never end", tid, len(o))
		}
	}
	return out
}

func newWriter(t *testing.T, b *bytes.Buffer, o Options) *Writer {
	t.Helper()
	w, err := NewWriter(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// visit is one request that goes to the large model and comes back.
func visit(w *Writer) {
	w.Live(0, 1)
	w.Request(7, 0, Ready, 0)
	w.ReadyCount(0, 0, 1)
	w.Request(7, 10, InFlight, 0)
	w.ReadyCount(0, 10, 0)
	w.Step(Step{Model: 0, StartNs: 10, DurNs: 4_000_123, Requests: 1, Rows: 2, B: 1})
	w.Request(7, 4_000_133, Pending, 0)
	w.Request(7, 4_000_133, Ready, 1) // a hand-off that takes no time
	w.Request(7, 5_000_000, InFlight, 1)
	w.Step(Step{Model: 1, StartNs: 5_000_000, DurNs: 32_000_000, Requests: 1, Rows: 3, B: 2})
	w.Request(7, 37_000_000, InTransit, 0)
	w.Request(7, 37_000_500, Ready, 0)
	w.Request(7, 38_000_000, Done, 0)
	w.Live(38_000_000, 0)
}

func TestVisitNestsInsidePending(t *testing.T) {
	var b bytes.Buffer
	w := newWriter(t, &b, Options{Models: []string{"small", "large"}, About: []KV{{"experiment", `a "quoted" <name>`}}})
	visit(w)
	sum, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	tr := decode(t, b.Bytes())
	want := map[int][]span{
		101: {{"step", 10, 4_000_133, 0}},
		102: {{"step", 5_000_000, 37_000_000, 0}},
		1001: {
			{"ready small", 0, 10, 0}, {"in flight small", 10, 4_000_133, 0},
			{"ready large", 4_000_133, 5_000_000, 1}, {"in flight large", 5_000_000, 37_000_000, 1}, {"in transit small", 37_000_000, 37_000_500, 1},
			{"pending small", 4_000_133, 37_000_500, 0}, {"ready small", 37_000_500, 38_000_000, 0},
		},
	}
	if d := cmp.Diff(want, spansOf(t, tr)); d != "" {
		t.Error(d)
	}
	if sum.Cut || sum.Requests != 1 || int(sum.Events) != len(tr.TraceEvents) {
		t.Errorf("summary %+v for %d events", sum, len(tr.TraceEvents))
	}
	if d := cmp.Diff(map[string]string{"experiment": `a "quoted" <name>`, "cut": "false", "left_out": "0", "requests": "1"}, tr.OtherData); d != "" {
		t.Error(d)
	}
	if bytes.Contains(b.Bytes(), []byte("displayTimeUnit")) {
		t.Error("displayTimeUnit changes the unit of ts in some versions of Perfetto")
	}
	if !bytes.HasPrefix(b.Bytes(), []byte(`{"traceEvents":[`)) {
		t.Error("traceEvents must be the first key")
	}
}

func TestStepsAndCounters(t *testing.T) {
	var b bytes.Buffer
	w := newWriter(t, &b, Options{Models: []string{"small", "large"}})
	visit(w)
	w.ReadyCount(0, 38_000_000, 0) // unchanged: not written again
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var steps []map[string]any
	var counters []string
	names := map[int]string{}
	for _, e := range decode(t, b.Bytes()).TraceEvents {
		switch {
		case e.Ph == "X":
			steps = append(steps, e.Args)
		case e.Ph == "C":
			for k, v := range e.Args {
				counters = append(counters, e.Name+" "+k+" "+v.(json.Number).String()+" @"+e.Ts.String())
			}
		case e.Ph == "M" && e.Name == "thread_name":
			names[e.Tid] = e.Args["name"].(string)
		}
	}
	n := func(s string) any { return json.Number(s) }
	if d := cmp.Diff([]map[string]any{{"requests": n("1"), "rows": n("2"), "B": n("1")}, {"requests": n("1"), "rows": n("3"), "B": n("2")}}, steps); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"live requests 1 @0", "ready small 1 @0", "ready small 0 @0.010", "live requests 0 @38000"}, counters); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[int]string{101: "small", 102: "large", 1001: "request 7"}, names); d != "" {
		t.Error(d)
	}
}

func TestTimesAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Int64Range(0, math.MaxInt64/2).Draw(t, "from")
		dur := rapid.Int64Range(0, math.MaxInt64/2).Draw(t, "dur")
		var b bytes.Buffer
		w, err := NewWriter(&b, Options{Models: []string{"m"}})
		if err != nil {
			t.Fatal(err)
		}
		w.Step(Step{StartNs: from, DurNs: dur})
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got := spansOf(t, decode(t, b.Bytes()))[101][0]
		if got.From != from || got.To != from+dur {
			t.Fatalf("%d+%d came back as %d to %d", from, dur, got.From, got.To)
		}
	})
}

// TestAnyRunNests drives a mesh of three models at random, with every limit.
func TestAnyRunNests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 120).Draw(t, "limit")
		var b bytes.Buffer
		w, err := NewWriter(&b, Options{Models: []string{"a", "b", "c"}, MaxEvents: limit, MaxRequests: rapid.IntRange(1, 4).Draw(t, "requests")})
		if err != nil {
			t.Fatal(err)
		}
		now, calls := int64(0), 0
		var stepEnd [3]int64
		done := map[int64]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "calls") {
			calls++
			now += rapid.Int64Range(0, 2000).Draw(t, "gap")
			m := rapid.IntRange(0, 2).Draw(t, "model")
			switch rapid.IntRange(0, 3).Draw(t, "call") {
			case 0:
				w.Step(Step{Model: m, StartNs: stepEnd[m], DurNs: now - stepEnd[m]})
				stepEnd[m] = now
			case 1:
				w.ReadyCount(m, now, calls)
			default:
				id := rapid.Int64Range(0, 6).Draw(t, "id")
				if done[id] {
					continue
				}
				s := State(rapid.IntRange(0, int(states)-1).Draw(t, "state"))
				done[id] = s == Done
				w.Request(id, now, s, m)
			}
		}
		sum, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		tr := decode(t, b.Bytes())
		spansOf(t, tr)
		if int(sum.Events) != len(tr.TraceEvents) {
			t.Fatalf("%d events, summary says %d", len(tr.TraceEvents), sum.Events)
		}
		if (tr.OtherData["cut"] == "true") != (sum.LeftOut > 0) || sum.Cut != (sum.LeftOut > 0) {
			t.Fatalf("cut %q, summary %+v", tr.OtherData["cut"], sum)
		}
		// Beyond the limit: names of the models, ends of open slices, the mark.
		if most := max(limit, 10) + 4*4 + 1; limit > 0 && len(tr.TraceEvents) > most {
			t.Fatalf("%d events with a limit of %d", len(tr.TraceEvents), limit)
		}
	})
}

func TestCutIsSaid(t *testing.T) {
	var b bytes.Buffer
	w := newWriter(t, &b, Options{Models: []string{"m"}, MaxEvents: 20})
	w.Request(1, 0, Ready, 0)
	for i := range int64(100) {
		w.Step(Step{StartNs: i * 10, DurNs: 10})
	}
	sum, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	tr := decode(t, b.Bytes())
	last := tr.TraceEvents[len(tr.TraceEvents)-1]
	if !sum.Cut || sum.LeftOut == 0 || tr.OtherData["cut"] != "true" || last.Ph != "i" || !strings.Contains(last.Name, "cut here") {
		t.Errorf("summary %+v, otherData %v, last event %+v", sum, tr.OtherData, last)
	}
	for tid, spans := range spansOf(t, tr) {
		for _, s := range spans {
			if s.To > sum.CutAtNs {
				t.Errorf("thread %d: %+v ends after the cut at %d ns", tid, s, sum.CutAtNs)
			}
		}
	}
}

func TestBrokenCallersPanic(t *testing.T) {
	for name, call := range map[string]func(*Writer){
		"overlapping steps":   func(w *Writer) { w.Step(Step{StartNs: 0, DurNs: 10}); w.Step(Step{StartNs: 9, DurNs: 1}) },
		"negative time":       func(w *Writer) { w.Live(-1, 0) },
		"unknown model":       func(w *Writer) { w.ReadyCount(1, 0, 0) },
		"request from death":  func(w *Writer) { w.Request(1, 0, Ready, 0); w.Request(1, 1, Done, 0); w.Request(1, 2, Ready, 0) },
		"time runs backwards": func(w *Writer) { w.Request(1, 5, Ready, 0); w.Request(1, 4, InFlight, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := newWriter(t, &b, Options{Models: []string{"m"}})
			defer func() {
				if s, _ := recover().(string); !strings.HasPrefix(s, "timeline: ") {
					t.Errorf("recovered %q", s)
				}
			}()
			call(w)
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{}, {Models: []string{"m"}, MaxEvents: -1}, {Models: []string{"m"}, About: []KV{{"cut", "x"}}}, {Models: make([]string, 1000)}} {
		if _, err := NewWriter(&bytes.Buffer{}, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("pipe") }

func TestWriteErrorsAreReturned(t *testing.T) {
	w, err := NewWriter(brokenPipe{}, Options{Models: []string{"m"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err == nil {
		t.Error("no error from a broken writer")
	}
}

func TestSameCallsSameBytes(t *testing.T) {
	var a, b bytes.Buffer
	for _, buf := range []*bytes.Buffer{&a, &b} {
		w := newWriter(t, buf, Options{Models: []string{"small", "large"}})
		for id := range int64(20) {
			w.Request(id, 0, Ready, 0) // all still open at Close
		}
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("the same calls wrote different bytes")
	}
}

func TestNoAllocationPerEvent(t *testing.T) {
	w := newWriter(t, &bytes.Buffer{}, Options{Models: []string{"m"}, MaxEvents: 1 << 30})
	at := int64(0)
	w.Request(1, 0, Ready, 0)
	if n := testing.AllocsPerRun(200, func() {
		at += 1234
		w.Request(1, at, InFlight, 0)
		w.Step(Step{StartNs: at, DurNs: 10})
		w.Request(1, at, Ready, 0)
	}); n > 0.5 {
		// The buffer below grows now and then, which is not ours.
		t.Errorf("%g allocations per three events", n)
	}
}
