package scheduler_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tokenrouter/tokenrouter/algorithms"
	. "github.com/tokenrouter/tokenrouter/scheduler"
)

// exact compares floats by their bits, except that all NaN are one.
var exact = cmp.Options{
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b float64) bool {
		return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
	}),
}

func drawTokens(t *rapid.T, label string) []Token {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Token { return Token(rapid.Int32().Draw(t, "token")) }), 0, 5).Draw(t, label)
}

func drawFloats(t *rapid.T) []float64 {
	return rapid.SliceOfN(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{
		math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), math.SmallestNonzeroFloat64, 0.1})), 0, 4).Draw(t, "extra")
}

func drawCount(t *rapid.T, label string) int { return rapid.IntRange(0, math.MaxInt64).Draw(t, label) }

func drawReq(t *rapid.T) *PeerReq {
	return &PeerReq{
		ID: RequestID(rapid.Uint64().Draw(t, "id")), Home: drawCount(t, "home"), From: drawCount(t, "from"),
		Status: algorithms.Status(rapid.IntRange(0, int(algorithms.Failed)).Draw(t, "status")),
		Seed:   rapid.Uint64().Draw(t, "seed"), Start: drawCount(t, "start"), Suffix: drawTokens(t, "suffix"),
		Anchors: rapid.SliceOfN(rapid.IntRange(0, math.MaxInt64), 0, 4).Draw(t, "anchors"),
		Prompt:  drawCount(t, "prompt"), Budget: drawCount(t, "budget"), EOS: drawTokens(t, "eos"),
		ArrivedNs: rapid.Int64Min(0).Draw(t, "arrived"), Hops: drawCount(t, "hops"), Extra: drawFloats(t),
	}
}

func drawEvent(t *rapid.T) Event {
	e := Event{Kind: EventKind(rapid.IntRange(0, int(Flush)).Draw(t, "kind")), AtNs: rapid.Int64Min(0).Draw(t, "at")}
	switch e.Kind {
	case Arrived:
		e.Arrival = &Arrival{ID: RequestID(rapid.Uint64().Draw(t, "id")), Seed: rapid.Uint64().Draw(t, "seed"),
			Prompt: drawTokens(t, "prompt"), MaxTokens: drawCount(t, "max"), EOS: drawTokens(t, "eos")}
		e.Request = e.Arrival.ID
	case PeerArrived, PeerReturned:
		e.Req = drawReq(t)
		e.Request = e.Req.ID
	case StepDone:
		e.Results = rapid.SliceOfN(rapid.Custom(drawResult), 0, 4).Draw(t, "results")
	case PeerState:
		e.Peer, e.Busy, e.Ready = drawCount(t, "peer"), rapid.Bool().Draw(t, "busy"), drawCount(t, "ready")
	case LiveChanged:
		e.Live = rapid.IntRange(-5, 1000).Draw(t, "live")
	case Aborted, Stop, Released:
		e.Request = RequestID(rapid.Uint64().Draw(t, "id"))
	}
	return e
}

func drawResult(t *rapid.T) Result {
	r := Result{ID: RequestID(rapid.Uint64().Draw(t, "id")), Sampled: rapid.Bool().Draw(t, "sampled")}
	if r.Sampled {
		r.Token = Token(rapid.Int32().Draw(t, "token"))
		r.Dest = algorithms.Dest(rapid.Int32Range(0, math.MaxInt32).Draw(t, "dest"))
		r.Extra = drawFloats(t)
		r.Run = drawTokens(t, "run")
	}
	return r
}

func drawMessage(t *rapid.T) Message {
	m := Message{Kind: MessageKind(rapid.IntRange(0, int(Live)).Draw(t, "kind"))}
	switch m.Kind {
	case Send, Return:
		m.To, m.Req = drawCount(t, "to"), drawReq(t)
		m.Request = m.Req.ID
	case WakeAt:
		m.AtNs = rapid.Int64Min(0).Draw(t, "at")
	case State:
		m.Busy, m.Ready = rapid.Bool().Draw(t, "busy"), drawCount(t, "ready")
	case Live:
		m.Delta = rapid.IntRange(-9, 9).Draw(t, "delta")
	default:
		m.Request = RequestID(rapid.Uint64().Draw(t, "id"))
	}
	switch m.Kind {
	case Emit:
		m.Start, m.Writer, m.Tokens = drawCount(t, "start"), drawCount(t, "writer"), drawTokens(t, "tokens")
	case Finish:
		m.Start = drawCount(t, "length")
		fallthrough
	case Refuse:
		m.Reason = Reason(rapid.IntRange(0, int(ReasonDraining)).Draw(t, "reason"))
	case Release:
		m.To = drawCount(t, "to")
	}
	return m
}

func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		back, err := ParseEvent(e.String())
		if err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		if diff := cmp.Diff(e, back, exact); diff != "" {
			t.Fatalf("%s\n%s", e, diff)
		}
		m := drawMessage(t)
		backM, err := ParseMessage(m.String())
		if err != nil {
			t.Fatalf("%s: %v", m, err)
		}
		if diff := cmp.Diff(m, backM, exact); diff != "" {
			t.Fatalf("%s\n%s", m, diff)
		}
	})
}

func TestAppendTextAppends(t *testing.T) {
	b, err := Event{Kind: Wake, AtNs: 3}.AppendText([]byte("> "))
	if err != nil || string(b) != "> wake at=3" {
		t.Errorf("got %q, %v", b, err)
	}
	b, err = Message{Kind: Live, Delta: -1}.AppendText([]byte("< "))
	if err != nil || string(b) != "< live delta=-1" {
		t.Errorf("got %q, %v", b, err)
	}
}

// seedEvents and seedMessages show every kind once; they are the fuzz corpus.
var seedEvents = []string{
	"arrived at=0 id=1 seed=7 max=10 eos=0,2 prompt=11,12,13",
	"peer-arrived at=5 id=1 home=0 from=0 status=visit seed=7 prompt=3 budget=9 eos=0 arrived=0 hops=1 anchors=4,4 extra=0.25,NaN,-0 start=0 suffix=11,12,13,14",
	"peer-returned at=6 id=1 home=0 from=1 status=returned seed=7 prompt=3 budget=8 arrived=0 hops=2 anchors=5,5 start=4 suffix=15",
	"step-done at=4000000 results=1:52,2:-,3:7>2{0.25,1},4:-3{1e-300}",
	"peer-state at=7 peer=1 busy=true ready=3",
	"live at=8 live=12",
	"wake at=9",
	"aborted at=10 id=3",
	"stop at=11 id=3",
	"released at=12 id=3",
	"drain at=13",
	"flush at=14",
}

var seedMessages = []string{
	"send to=1 id=1 home=0 from=0 status=visit seed=7 prompt=3 budget=9 eos=0 arrived=0 hops=1 anchors=4,4 start=0 suffix=11,12,13,14",
	"return to=0 id=1 home=0 from=1 status=running seed=7 prompt=3 budget=8 arrived=0 hops=1 anchors=5,5 extra=1 start=4 suffix=15",
	"emit id=1 start=4 writer=1 tokens=15,16",
	"finish id=1 reason=length length=13",
	"refuse id=2 reason=queue-full",
	"retract id=1",
	"release id=1 to=1",
	"wake-at at=100",
	"state busy=false ready=2",
	"live delta=-1",
}

func TestEveryKindHasASeedThatIsCanonical(t *testing.T) {
	for kind, line := range seedEvents {
		e, err := ParseEvent(line)
		if err != nil || int(e.Kind) != kind || e.String() != line {
			t.Errorf("%q parses to %q, %v", line, e, err)
		}
	}
	for kind, line := range seedMessages {
		m, err := ParseMessage(line)
		if err != nil || int(m.Kind) != kind || m.String() != line {
			t.Errorf("%q parses to %q, %v", line, m, err)
		}
	}
	if len(seedEvents) != int(Flush)+1 || len(seedMessages) != int(Live)+1 {
		t.Error("a kind has no seed")
	}
}

func TestParseErrorsNameTheField(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", "empty"},
		{"arrive at=0", `kind "arrive" is none of arrived`},
		{"wake", "event wake: field at is missing"},
		{"wake at=-1", `field at is "-1", want a whole number from 0`},
		{"wake at=1 at=2", "field at is given twice"},
		{"wake at=1 id=2", "field id is unknown"},
		{"wake at=1 now", `"now" is not key=value`},
		{"live at=1 live=x", `field live is "x"`},
		{"live at=1 live=99999999999999999999", "field live"},
		{"aborted at=1 id=-1", `field id is "-1"`},
		{"peer-state at=1 peer=0 busy=maybe ready=1", `field busy is "maybe", want true or false`},
		{"peer-state at=1 peer=-2 busy=true ready=1", `field peer is "-2"`},
		{"arrived at=0 id=1 seed=7 max=10 prompt=11,,13", `field prompt has ""`},
		{"arrived at=0 id=1 seed=7 max=10 prompt=4294967296", `field prompt has "4294967296"`},
		{"step-done at=1 results=1", `field results has "1"`},
		{"step-done at=1 results=1:x", `field results has "x"`},
		{"step-done at=1 results=1:5>0", "not a model counted from 1"},
		{"step-done at=1 results=1:5}", "} has no {"},
		{"step-done at=1 results=1:5{a}", `field results has "a", want numbers`},
		{strings.Replace(seedEvents[1], "visit", "lost", 1), `field status is "lost", want one of visit, running`},
		{strings.Replace(seedEvents[1], " start=0", "", 1), "field start is missing"},
		{strings.Replace(seedEvents[1], "anchors=4,4", "anchors=4,-4", 1), `field anchors is "-4"`},
	} {
		if _, err := ParseEvent(c.line); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.line, err, c.want)
		}
	}
	for _, c := range []struct{ line, want string }{
		{"emitted id=1", "kind \"emitted\" is none of send"},
		{"finish id=1 reason=tired length=3", `message finish: field reason is "tired", want one of stop`},
		{"finish id=1 reason=stop", "field length is missing"},
	} {
		if _, err := ParseMessage(c.line); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.line, err, c.want)
		}
	}
}

// What parses prints canonically: the print parses to the same and prints the
// same again.
func FuzzParseEvent(f *testing.F) {
	for _, line := range seedEvents {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		e, err := ParseEvent(line)
		if err != nil {
			return
		}
		again, err := ParseEvent(e.String())
		if err != nil {
			t.Fatalf("%q prints %q: %v", line, e, err)
		}
		if diff := cmp.Diff(e, again, exact); diff != "" || again.String() != e.String() {
			t.Fatalf("%q prints %q, then %q\n%s", line, e, again, diff)
		}
	})
}

func FuzzParseMessage(f *testing.F) {
	for _, line := range seedMessages {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		m, err := ParseMessage(line)
		if err != nil {
			return
		}
		again, err := ParseMessage(m.String())
		if err != nil {
			t.Fatalf("%q prints %q: %v", line, m, err)
		}
		if diff := cmp.Diff(m, again, exact); diff != "" || again.String() != m.String() {
			t.Fatalf("%q prints %q, then %q\n%s", line, m, again, diff)
		}
	})
}
