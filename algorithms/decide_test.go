package algorithms

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestDirectionsAndEquality pins, per algorithm and side, on which side of
// the threshold a request leaves and what happens exactly at it.
func TestDirectionsAndEquality(t *testing.T) {
	pair := Pair{Small: 0, Large: 1}
	const d = -1.25 // A defer logit; Co-LLM's threshold is its sigmoid, so equality is exact.
	score := func(x float64) Signals { return Signals{RouterScore: x} }
	entropy := func(x float64) Signals { return Signals{Entropy: x} }
	for _, c := range []struct {
		what  string
		a     Algorithm
		model int
		s     Signals
		want  Dest
	}{
		{"citer low", CITER{pair, 0.98}, 0, score(0.97), To(1)},
		{"citer equal", CITER{pair, 0.98}, 0, score(0.98), Stay},
		{"citer high", CITER{pair, 0.98}, 0, score(0.99), Stay},
		{"citer large", CITER{pair, 0.98}, 1, score(0.99), To(0)},
		{"r2r low", R2R{pair, 0.5}, 0, score(0.49), Stay},
		{"r2r equal", R2R{pair, 0.5}, 0, score(0.5), To(1)},
		{"r2r high", R2R{pair, 0.5}, 0, score(0.51), To(1)},
		{"r2r large", R2R{pair, 0.5}, 1, score(0.51), To(0)},
		{"collm low", CoLLM{pair, Sigmoid(d)}, 0, Signals{DeferLogit: d - 0.01}, Stay},
		{"collm equal", CoLLM{pair, Sigmoid(d)}, 0, Signals{DeferLogit: d}, Stay},
		{"collm high", CoLLM{pair, Sigmoid(d)}, 0, Signals{DeferLogit: d + 0.01}, To(1)},
		{"collm large", CoLLM{pair, Sigmoid(d)}, 1, Signals{DeferLogit: d + 0.01}, To(0)},
		{"rstitch small low", RStitch{pair, 0.03}, 0, entropy(0.02), Stay},
		{"rstitch small equal", RStitch{pair, 0.03}, 0, entropy(0.03), Stay},
		{"rstitch small high", RStitch{pair, 0.03}, 0, entropy(0.04), To(1)},
		{"rstitch large low", RStitch{pair, 0.03}, 1, entropy(0.02), To(0)},
		{"rstitch large equal", RStitch{pair, 0.03}, 1, entropy(0.03), To(0)},
		{"rstitch large high", RStitch{pair, 0.03}, 1, entropy(0.04), Stay},
		{"confidence low", Confidence{pair, 0.5}, 0, Signals{MaxProb: 0.49}, To(1)},
		{"confidence equal", Confidence{pair, 0.5}, 0, Signals{MaxProb: 0.5}, Stay},
		{"confidence high", Confidence{pair, 0.5}, 0, Signals{MaxProb: 0.51}, Stay},
		{"confidence large", Confidence{pair, 0.5}, 1, Signals{MaxProb: 0.51}, To(0)},
	} {
		v := View{Model: c.model, Signals: c.s, Position: 10, StayStart: 10}
		if got := c.a.Route(&v); got != c.want {
			t.Errorf("%s: Route = %d, want %d", c.what, got, c.want)
		}
		if keep := c.a.Send(Departure{From: c.model, To: 1 - c.model}, &PeerReq{}); keep != (c.model == 1) {
			t.Errorf("%s: Send keeps %v", c.what, keep)
		}
	}
}

// TestExtremesAreWhatErrorsSay checks that -1 and 2 route as the error says that
// names them: which is which depends on the algorithm.
func TestExtremesAreWhatErrorsSay(t *testing.T) {
	for _, name := range []string{"citer", "r2r", "collm", "rstitch", "confidence"} {
		far := 3.0
		_, err := New(name, exampleParams(name, &far))
		for _, extreme := range []float64{-1, 2} {
			a := mustNew(t, name, exampleParams(name, &extreme))
			routed := 0
			for _, x := range []float64{0, 0.5, 1} {
				v := View{Signals: Signals{RouterScore: x, DeferLogit: 1000 * (x - 0.5), Entropy: x, MaxProb: x}, Position: 10, StayStart: 10}
				if a.Route(&v) != Stay {
					routed++
				}
			}
			word, known := map[int]string{0: "never", 3: "always"}[routed]
			if says := fmt.Sprintf("%g to route %s", extreme, word); !known || err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s at %g routes %d of 3, and the error is: %v", name, extreme, routed, err)
			}
		}
	}
}

// TestSmallMayComeSecond checks that the two parts follow the fields, not the
// order of the list, and that a third model plays the large part.
func TestSmallMayComeSecond(t *testing.T) {
	low := Signals{RouterScore: 0.1}
	a := CITER{Pair{Small: 2, Large: 0}, 0.5}
	for model, want := range []Dest{To(2), To(2), To(0)} {
		if got := a.Route(&View{Model: model, Home: 1, Signals: low}); got != want {
			t.Errorf("at %d: Route = %d, want %d", model, got, want)
		}
		if keep := a.Send(Departure{From: model}, &PeerReq{}); keep != (model != 2) {
			t.Errorf("at %d: Send keeps %v", model, keep)
		}
	}
}

// TestDeclaredSignalsSuffice spoils every signal that an algorithm has not
// declared: its answers must not change.
func TestDeclaredSignalsSuffice(t *testing.T) {
	th := 0.5
	routed := 0
	for _, name := range Names() {
		p := exampleParams(name, &th)
		a := mustNew(t, name, p)
		for model := range p.Models {
			need := a.Needs(model)
			for _, tokens := range [][]Token{{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}} {
				token, s := fakeModel(model).forward(tokens, need)
				clean := View{Seed: 3, Model: model, Position: 100, StayStart: 99, Token: token, Signals: s}
				spoilt := clean
				if need&NeedEntropy == 0 {
					spoilt.Signals.Entropy = math.NaN()
				}
				if need&NeedMaxProb == 0 {
					spoilt.Signals.MaxProb = 1e9
				}
				if need&NeedDeferLogit == 0 {
					spoilt.Signals.DeferLogit = 1e9
				}
				if need&NeedRouterScore == 0 {
					spoilt.Signals.RouterScore = -1e9
				}
				if need&NeedTopK == 0 {
					spoilt.Signals.TopK = []TokenProb{{63, 1}}
				}
				got, want := a.Route(&spoilt), a.Route(&clean)
				if got != want || spoilt.Token != clean.Token {
					t.Errorf("%s at %d reads a signal outside %v", name, model, need)
				}
				if want != Stay {
					routed++
				}
			}
		}
	}
	if routed == 0 {
		t.Error("nothing was routed, so nothing was tested")
	}
}

// exampleParams are settings that the named algorithm takes.
func exampleParams(name string, threshold *float64) Params {
	p := Params{Models: 2, Large: 1}
	switch name {
	case "citer", "r2r", "collm", "rstitch", "confidence":
		p.Threshold = threshold
	case "me", "fusion":
		p = Params{Models: 3, Large: 2}
	case "matrix":
		p.Matrix = [][]float64{{0.6, 0.4}, {0.3, 0.7}}
	case "bursty":
		p.MeanGap, p.GapCV, p.GapLag1, p.ReturnProb = 8, 1.5, 0.2, 0.5
	case "script":
		p.Scripts, p.PromptTokens = []string{"SLSS", "LLSS"}, 100
	}
	return p
}

func TestEveryAlgorithmStreams(t *testing.T) {
	th := 0.5
	for _, name := range Names() {
		a := mustNew(t, name, exampleParams(name, &th))
		if a.Name() != name {
			t.Errorf("New(%q) is called %q", name, a.Name())
		}
		if !AcceptsAll(a) {
			t.Errorf("%s does not accept all tokens", name)
		}
	}
}

// TestNoAllocationPerToken holds for all but fusion, which builds what travels.
func TestNoAllocationPerToken(t *testing.T) {
	th := 0.5
	for _, name := range Names() {
		if name == "fusion" {
			continue
		}
		a := mustNew(t, name, exampleParams(name, &th))
		v := View{Seed: 3, Position: 101, StayStart: 100}
		sum := Stay
		if n := testing.AllocsPerRun(100, func() {
			v.Position, v.StayStart, v.Hops = v.Position+1, v.StayStart+1, v.Hops+1
			sum += a.Route(&v)
			if s, ok := a.(StaySource); ok {
				_, dest := s.Stay(&v)
				sum += dest
			}
		}); n != 0 {
			t.Errorf("%s allocates %g times per token", name, n)
		}
	}
}

// TestScriptPastItsEnd keeps what is written there.
func TestScriptPastItsEnd(t *testing.T) {
	s := mustNew(t, "script", exampleParams("script", nil))
	v := View{Model: 1, Position: 104, StayStart: 104}
	if dest := s.Route(&v); dest != Stay {
		t.Errorf("Route = %d", dest)
	}
	if !s.Send(Departure{From: 1, Position: 104}, &PeerReq{}) {
		t.Error("a token past the end is dropped")
	}
}
