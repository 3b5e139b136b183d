// Package timeline writes what models and requests did as a trace that Perfetto
// (ui.perfetto.dev) and chrome://tracing open: the JSON object form of the Trace
// Event Format.
//
// Process 1 holds one thread a model with its steps, and the counters; process 2
// holds one thread a request. Choices that follow from how Perfetto reads JSON:
//
//   - There is no displayTimeUnit: Perfetto took "ns" there for the unit of ts.
//   - Perfetto names threads by number alone and takes thread N of process N for
//     its main thread, so all these numbers differ. Number 0 is its idle thread.
//   - traceEvents comes first: a reader may stop at the first key that it does
//     not know.
//   - Slices of a request are begin and end events in time order, not complete
//     events, whose nesting is undefined where parent and child start together.
package timeline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// State is where a request stands.
type State uint8

const (
	Ready     State = iota // waits for a step of Model
	InFlight               // in a step of Model
	Pending                // away from Model, which keeps its KV
	InTransit              // handed off, on the way to Model
	Done
	states
)

var stateNames = [states]string{"ready", "in flight", "pending", "in transit", "done"}

func (s State) String() string { return stateNames[s] }

// Options fix what a Writer writes.
type Options struct {
	Models []string // in the order of model indices
	// MaxEvents bounds the file; 0 stands for 200 000, about 20 MB, which a
	// browser still opens at once.
	MaxEvents int
	// MaxRequests bounds the threads of requests: the first ones seen get one.
	// 0 stands for 256.
	MaxRequests int
	// About is printed into otherData: experiment, system, seed, version.
	About []KV
}

// KV is one entry of otherData.
type KV struct{ Key, Value string }

const (
	defaultEvents   = 200_000
	defaultRequests = 256

	modelProcess, requestProcess = 1, 2
	firstModelThread             = 101
	firstRequestThread           = 1001
	maxModels                    = firstRequestThread - firstModelThread
)

// Step is one finished forward pass.
type Step struct {
	Model          int
	StartNs, DurNs int64
	Requests       int // in the batch
	Rows           int // token positions fed
	B              int // threshold in force at launch
}

// Summary says what Close has written.
type Summary struct {
	Events   int64 // in the file, names of threads included
	LeftOut  int64 // calls that wrote nothing because of a limit
	Requests int   // with a thread
	Cut      bool  // some calls wrote nothing
	CutAtNs  int64 // nothing after this time is in the file; 0 if MaxEvents was not reached
}

// Writer streams a trace. Its methods are not safe for concurrent use. Times are
// nanoseconds from the start of the run and must not run backward for a model or
// a request; that, and an unknown model, is a broken invariant of the caller and
// panics. Errors of the underlying writer are returned by Close.
type Writer struct {
	out    *bufio.Writer
	buf    []byte
	opts   Options
	names  [][]byte // of models, quoted
	slices [][states][]byte

	rows    map[int64]*row
	stepEnd []int64
	ready   []int // last counter values; -1 before the first
	live    int
	lastNs  int64
	sum     Summary
	stopped bool // MaxEvents reached
}

// row is one request's thread.
type row struct {
	thread  int
	sinceNs int64
	pending []int // models it is pending at, outermost first
	leaf    bool  // a slice is open inside the pending ones
	done    bool
}

// NewWriter begins a trace on w. It fails without a model or with more models
// than thread numbers.
func NewWriter(w io.Writer, o Options) (*Writer, error) {
	if len(o.Models) == 0 || len(o.Models) > maxModels {
		return nil, fmt.Errorf("timeline: %d models; want 1 to %d", len(o.Models), maxModels)
	}
	if o.MaxEvents < 0 || o.MaxRequests < 0 {
		return nil, fmt.Errorf("timeline: limits of %d events and %d requests; want at least 0 (0 for the default)", o.MaxEvents, o.MaxRequests)
	}
	seen := []string{"cut", "left_out", "requests"} // written by Close
	for _, kv := range o.About {
		if slices.Contains(seen, kv.Key) {
			return nil, fmt.Errorf("timeline: key %q of About stands twice; rename one", kv.Key)
		}
		seen = append(seen, kv.Key)
	}
	if o.MaxEvents == 0 {
		o.MaxEvents = defaultEvents
	}
	if o.MaxRequests == 0 {
		o.MaxRequests = defaultRequests
	}
	t := &Writer{out: bufio.NewWriterSize(w, 1<<16), opts: o, rows: map[int64]*row{}, live: -1}
	for _, m := range o.Models {
		t.names = append(t.names, quote(m))
		var s [states][]byte
		for i, n := range stateNames {
			s[i] = quote(n + " " + m)
		}
		t.slices = append(t.slices, s)
		t.stepEnd, t.ready = append(t.stepEnd, 0), append(t.ready, -1)
	}
	t.buf = append(t.buf, `{"traceEvents":[`...)
	t.name("process_name", modelProcess, modelProcess, []byte(`"models"`), 0)
	t.name("process_name", requestProcess, requestProcess, []byte(`"requests"`), 1)
	for i, n := range t.names {
		t.name("thread_name", modelProcess, firstModelThread+i, n, i)
	}
	return t, nil
}

// quote returns s as a JSON string that also keeps <, > and & readable.
func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic("timeline: a string does not encode: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}

// name writes the metadata that names and orders a process or thread.
func (t *Writer) name(kind string, pid, tid int, quoted []byte, order int) {
	t.open('M', pid, tid)
	t.buf = append(append(append(t.buf, `,"name":"`...), kind...), `","args":{"name":`...)
	t.buf = append(append(t.buf, quoted...), `}}`...)
	t.open('M', pid, tid)
	t.buf = append(append(t.buf, `,"name":"`...), kind[:len(kind)-len("name")]...)
	t.buf = append(t.buf, `sort_index","args":{"sort_index":`...)
	t.buf = append(strconv.AppendInt(t.buf, int64(order), 10), `}}`...)
	t.flush()
}

// open begins an event.
func (t *Writer) open(phase byte, pid, tid int) {
	if t.sum.Events > 0 {
		t.buf = append(t.buf, ',')
	}
	t.sum.Events++
	t.buf = append(t.buf, "\n{\"ph\":\""...)
	t.buf = append(t.buf, phase)
	t.buf = append(t.buf, `","pid":`...)
	t.buf = strconv.AppendInt(t.buf, int64(pid), 10)
	t.buf = append(t.buf, `,"tid":`...)
	t.buf = strconv.AppendInt(t.buf, int64(tid), 10)
}

// us appends a time in microseconds, exactly.
func (t *Writer) us(key string, ns int64) {
	t.buf = append(append(append(t.buf, `,"`...), key...), `":`...)
	t.buf = strconv.AppendInt(t.buf, ns/1000, 10)
	if r := ns % 1000; r != 0 {
		t.buf = append(t.buf, '.', byte('0'+r/100), byte('0'+r/10%10), byte('0'+r%10))
	}
}

func (t *Writer) field(key string, v int64) {
	t.buf = append(append(append(t.buf, `"`...), key...), `":`...)
	t.buf = strconv.AppendInt(t.buf, v, 10)
}

func (t *Writer) flush() {
	t.out.Write(t.buf) // an error stays in out until Close
	t.buf = t.buf[:0]
}

// admit tells whether n more events may be written, and notes the time.
func (t *Writer) admit(atNs int64, n int) bool {
	if atNs < 0 {
		panic(fmt.Sprintf("timeline: time %d ns is before the run", atNs))
	}
	if !t.stopped && t.sum.Events+int64(n) > int64(t.opts.MaxEvents) {
		t.stopped, t.sum.CutAtNs = true, max(atNs, t.lastNs)
	}
	if t.stopped {
		t.sum.LeftOut++
		return false
	}
	t.lastNs = max(t.lastNs, atNs)
	return true
}

func (t *Writer) checkModel(m int) {
	if m < 0 || m >= len(t.names) {
		panic(fmt.Sprintf("timeline: model %d of %d", m, len(t.names)))
	}
}

// Step writes one step of a model. Call it at the step's end, when its length is
// known.
func (t *Writer) Step(s Step) {
	t.checkModel(s.Model)
	if s.DurNs < 0 || s.StartNs < t.stepEnd[s.Model] {
		panic(fmt.Sprintf("timeline: a step of %s starts at %d ns and takes %d ns, but the one before ended at %d ns",
			t.opts.Models[s.Model], s.StartNs, s.DurNs, t.stepEnd[s.Model]))
	}
	t.stepEnd[s.Model] = s.StartNs + s.DurNs
	if !t.admit(s.StartNs+s.DurNs, 1) {
		return
	}
	t.open('X', modelProcess, firstModelThread+s.Model)
	t.buf = append(t.buf, `,"cat":"step","name":"step"`...)
	t.us("ts", s.StartNs)
	t.us("dur", s.DurNs)
	t.buf = append(t.buf, `,"args":{`...)
	t.field("requests", int64(s.Requests))
	t.buf = append(t.buf, ',')
	t.field("rows", int64(s.Rows))
	t.buf = append(t.buf, ',')
	t.field("B", int64(s.B))
	t.buf = append(t.buf, `}}`...)
	t.flush()
}

// ReadyCount sets the counter of requests that are ready at a model.
func (t *Writer) ReadyCount(model int, atNs int64, n int) {
	t.checkModel(model)
	if t.ready[model] == n || !t.admit(atNs, 1) {
		return
	}
	t.ready[model] = n
	t.counter(`ready`, firstModelThread+model, t.names[model], atNs, n)
}

// Live sets the counter of live requests.
func (t *Writer) Live(atNs int64, n int) {
	if t.live == n || !t.admit(atNs, 1) {
		return
	}
	t.live = n
	t.counter(`live`, firstModelThread, []byte(`"requests"`), atNs, n)
}

func (t *Writer) counter(name string, tid int, quoted []byte, atNs int64, n int) {
	t.open('C', modelProcess, tid)
	t.buf = append(append(append(t.buf, `,"name":"`...), name...), '"')
	t.us("ts", atNs)
	t.buf = append(append(t.buf, `,"args":{`...), quoted...)
	t.buf = append(t.buf, ':')
	t.buf = append(strconv.AppendInt(t.buf, int64(n), 10), `}}`...)
	t.flush()
}

// Request says that a request enters a state at a model (Done: anywhere). What
// it does at other models shows inside its Pending slice, which ends when it is
// ready or in flight at that model again.
func (t *Writer) Request(id, atNs int64, s State, model int) {
	if s >= states {
		panic(fmt.Sprintf("timeline: state %d", s))
	}
	if s != Done {
		t.checkModel(model)
	}
	r := t.rows[id]
	if r == nil && (len(t.rows) >= t.opts.MaxRequests || s == Done) {
		t.sum.LeftOut++
		return
	}
	if r != nil && (r.done || atNs < r.sinceNs) {
		panic(fmt.Sprintf("timeline: request %d becomes %s at %d ns, but was seen at %d ns (done: %t)", id, s, atNs, r.sinceNs, r.done))
	}
	// At most: two names, an end for the leaf and each pending model, a begin.
	need := 4
	if r != nil {
		need += len(r.pending)
	}
	if !t.admit(atNs, need) {
		return
	}
	if r == nil {
		r = &row{thread: firstRequestThread + len(t.rows)}
		t.rows[id] = r
		t.name("thread_name", requestProcess, r.thread, quote("request "+strconv.FormatInt(id, 10)), len(t.rows))
	}
	r.sinceNs = atNs
	t.move(r, atNs, s, model)
	t.flush()
}

// move closes what ends and opens what begins.
func (t *Writer) move(r *row, atNs int64, s State, model int) {
	if r.leaf {
		t.end(r, atNs)
		r.leaf = false
	}
	keep := len(r.pending)
	if s == Done {
		keep = 0
	} else if i := slices.Index(r.pending, model); i >= 0 {
		keep = i
		if s == Pending || s == InTransit {
			keep = i + 1 // still away, or on the way back
		}
	}
	for len(r.pending) > keep {
		t.end(r, atNs)
		r.pending = r.pending[:len(r.pending)-1]
	}
	switch {
	case s == Done:
		r.done = true
	case s == Pending:
		if keep == 0 || r.pending[keep-1] != model {
			t.begin(r, atNs, s, model)
			r.pending = append(r.pending, model)
		}
	default:
		t.begin(r, atNs, s, model)
		r.leaf = true
	}
}

func (t *Writer) begin(r *row, atNs int64, s State, model int) {
	t.open('B', requestProcess, r.thread)
	t.buf = append(append(t.buf, `,"cat":"request","name":`...), t.slices[model][s]...)
	t.us("ts", atNs)
	t.buf = append(t.buf, '}')
}

func (t *Writer) end(r *row, atNs int64) {
	t.open('E', requestProcess, r.thread)
	t.us("ts", atNs)
	t.buf = append(t.buf, '}')
}

// Close ends open slices at the last time seen, says whether anything was left
// out, and flushes. The file is complete JSON only after Close.
func (t *Writer) Close() (Summary, error) {
	endNs := t.lastNs
	t.sum.Requests, t.sum.Cut = len(t.rows), t.sum.LeftOut > 0
	open := make([]*row, 0, len(t.rows))
	for _, r := range t.rows {
		open = append(open, r)
	}
	slices.SortFunc(open, func(a, b *row) int { return a.thread - b.thread })
	for _, r := range open {
		if !r.done {
			t.move(r, max(endNs, r.sinceNs), Done, 0)
		}
	}
	if t.stopped {
		// A mark that the reader sees where the trace breaks off.
		t.open('i', modelProcess, firstModelThread)
		t.buf = append(t.buf, `,"s":"g","name":"cut here: event limit reached"`...)
		t.us("ts", t.sum.CutAtNs)
		t.buf = append(t.buf, '}')
	}
	t.buf = append(t.buf, "\n],\"otherData\":{"...)
	for _, kv := range t.opts.About {
		t.buf = append(append(t.buf, quote(kv.Key)...), ':')
		t.buf = append(append(t.buf, quote(kv.Value)...), ',')
	}
	t.buf = fmt.Appendf(t.buf, `"cut":"%t","left_out":"%d","requests":"%d"}}`, t.sum.Cut, t.sum.LeftOut, t.sum.Requests)
	t.buf = append(t.buf, '\n')
	t.flush()
	if err := t.out.Flush(); err != nil {
		return t.sum, fmt.Errorf("timeline: writing the trace: %w", err)
	}
	return t.sum, nil
}
