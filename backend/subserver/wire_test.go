package subserver

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// drawParcel draws a parcel that may cross between models of a system of three.
func drawParcel(t *rapid.T) *Parcel {
	from := rapid.IntRange(0, 2).Draw(t, "from")
	p := &Parcel{From: from, To: (from + rapid.IntRange(1, 2).Draw(t, "way")) % 3, Logprobs: -1}
	token := rapid.Custom(func(t *rapid.T) algorithms.Token {
		return algorithms.Token(rapid.Int32Range(0, math.MaxInt32).Draw(t, "token"))
	})
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 0:
		p.Event = scheduler.Event{Kind: scheduler.Released, Request: scheduler.RequestID(rapid.Uint64().Draw(t, "id"))}
	case 1:
		p.Event = scheduler.Event{Kind: scheduler.PeerState, Peer: from, Busy: rapid.Bool().Draw(t, "busy"), Ready: rapid.IntRange(0, 9).Draw(t, "ready")}
	case 2:
		p.Event = scheduler.Event{Kind: scheduler.LiveChanged, Live: rapid.IntRange(-2, 2).Draw(t, "live")}
	case 3:
		p.Event = scheduler.Event{Kind: scheduler.Flush}
	case 4:
		p.Gate = &GateWord{Round: rapid.Int64().Draw(t, "round"), Sent: []int64{1, 2, 3}, Stepped: []int64{0, 0, math.MaxInt64}}
		p.Logprobs = 0
	case 5:
		p.Lost, p.Logprobs = rapid.IntRange(1, 3).Draw(t, "lost"), 0
	default:
		status := algorithms.Status(rapid.IntRange(0, 5).Draw(t, "status"))
		r := &algorithms.PeerReq{ID: 7, Home: 1, From: from, Status: status, Seed: rapid.Uint64().Draw(t, "seed"),
			Start: rapid.IntRange(0, 1000).Draw(t, "start"), Suffix: rapid.SliceOfN(token, 1, 5).Draw(t, "suffix"),
			Anchors: []int{3, 4, 5}, Prompt: 3, Budget: 10, EOS: []algorithms.Token{2}, ArrivedNs: 99, Hops: 4,
			Extra: rapid.SliceOfN(rapid.Float64(), 1, 3).Draw(t, "extra")}
		p.Event = scheduler.Event{Kind: scheduler.PeerReturned, Request: 7, Req: r}
		if status == algorithms.Visit {
			p.Event.Kind = scheduler.PeerArrived
			p.Sampling = &backend.Sampling{Temperature: rapid.Float64Range(0, 2).Draw(t, "temperature"),
				LogitBias: []backend.TokenBias{{Token: 5, Bias: -100}}, Ends: []algorithms.Token{2}}
			p.Logprobs = rapid.IntRange(-1, 20).Draw(t, "logprobs")
			threshold := rapid.Float64Range(-1, 2).Draw(t, "threshold")
			p.Routing = Routing{Alone: rapid.Bool().Draw(t, "alone"), Threshold: &threshold}
		}
		if status == algorithms.Failed {
			p.Problem = "engine lost: \"kaputt\"\n"
		}
		for _, token := range r.Suffix {
			p.Top = append(p.Top, backend.Result{Token: token, Logprob: rapid.Float64().Draw(t, "p"),
				Top: []backend.TokenLogprob{{Token: token, Logprob: math.Inf(-1)}}})
		}
	}
	return p
}

func TestParcelsCrossUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParcel(t)
		body, err := encodeParcel(p)
		if err != nil {
			t.Fatal(err)
		}
		var way bytes.Buffer
		if err := writeFrame(&way, body); err != nil {
			t.Fatal(err)
		}
		got, err := readFrame(&way)
		if err != nil || way.Len() > 0 {
			t.Fatalf("read %v, %d bytes are left", err, way.Len())
		}
		q, err := decodeParcel(got, 3)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, q); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFramesThatLie(t *testing.T) {
	frame := func(n uint32, body string) string {
		return string(binary.BigEndian.AppendUint32(nil, n)) + body
	}
	for _, c := range []struct{ name, bytes, want string }{
		{"an HTTP client", "GET / HTTP/1.1\r\n\r\n", "not a tokenrouter process"},
		{"short", frame(10, "abc"), "unexpected EOF"},
		{"long and short", frame(100<<20, strings.Repeat("x", 1000)), "unexpected EOF"},
		{"half a length", "\x00\x00", "unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readFrame(strings.NewReader(c.bytes))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestParcelsThatCannotBe(t *testing.T) {
	visit := `peer-arrived at=0 id=1 home=0 from=0 status=visit seed=1 prompt=1 budget=5 arrived=0 hops=1 anchors=1,0,0 start=0 suffix=4`
	for _, c := range []struct{ name, body, want string }{
		{"text", `hi`, "not JSON"},
		{"to itself", `{"from":1,"to":1,"event":"released at=0 id=1"}`, "from model 1 to model 1"},
		{"beyond", `{"from":0,"to":3,"event":"released at=0 id=1"}`, "model 3 of 3"},
		{"no event", `{"from":0,"to":1}`, "event"},
		{"a client's event", `{"from":0,"to":1,"event":"aborted at=0 id=1"}`, "no peer's to send"},
		{"state of nobody", `{"from":0,"to":1,"event":"peer-state at=0 peer=5 busy=false ready=1"}`, "model 5 of 3"},
		{"no sampling", `{"from":0,"to":1,"event":"` + visit + `"}`, "without sampling"},
		{"home beyond", `{"from":0,"to":1,"sampling":{},"event":"` + strings.Replace(visit, "home=0", "home=9", 1) + `"}`, "beyond the last"},
		{"negative token", `{"from":0,"to":1,"sampling":{},"event":"` + strings.Replace(visit, "suffix=4", "suffix=-4", 1) + `"}`, "token"},
		{"loss of nobody", `{"from":0,"to":1,"lost":4}`, "model 3 of 3"},
		{"gate of two", `{"from":0,"to":1,"gate":{"Sent":[1],"Stepped":[1]}}`, "launch gate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := decodeParcel([]byte(c.body), 3)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := decodeParcel([]byte(`{"from":0,"to":1,"sampling":{},"event":"`+visit+`"}`), 3); err != nil {
		t.Errorf("a sound visit was refused: %v", err)
	}
}

func FuzzDecodeParcel(f *testing.F) {
	f.Add([]byte(`{"from":0,"to":1,"event":"released at=0 id=1","logprobs":-1}`))
	f.Add([]byte(`{"from":0,"to":1,"gate":{"Ask":true,"Round":3,"State":4}}`))
	f.Add([]byte(`{"from":2,"to":1,"sampling":{"Temperature":1},"event":"peer-arrived at=0 id=1 home=0 from=2 status=visit seed=1 prompt=1 budget=5 arrived=0 hops=1 anchors=1,0,0 extra=0.5 start=0 suffix=4","top":[{"token":4,"bits":3}]}`))
	f.Add([]byte(`{"from":2,"to":1,"lost":1,"problem":"gone"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := decodeParcel(body, 3)
		if err != nil {
			return
		}
		again, err := encodeParcel(p)
		if err != nil {
			t.Skip() // a sampling that JSON cannot hold does not come from JSON
		}
		q, err := decodeParcel(again, 3)
		if err != nil {
			t.Fatalf("%s\nbecame\n%s\nand that is refused: %v", body, again, err)
		}
		third, err := encodeParcel(q)
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("%s\nbecame\n%s\nand then\n%s (%v)", body, again, third, err)
		}
	})
}
