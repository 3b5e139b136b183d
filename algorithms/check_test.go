package algorithms

import (
	"fmt"
	"strings"
	"testing"
)

// TestEveryAlgorithmKeepsTheContract looks at each that New can make: a new one
// that has no case here fails it.
func TestEveryAlgorithmKeepsTheContract(t *testing.T) {
	never, half, always := -1.0, 0.5, 2.0
	cases := map[string][]Params{
		"matrix": {{Models: 2, Matrix: [][]float64{{0.8, 0.2}, {1, 0}}}, {Models: 3, RoutedKept: true, Matrix: [][]float64{{0.5, 0.3, 0.2}, {0.5, 0.2, 0.3}, {1, 0, 0}}}},
		"bursty": {{Models: 2, Large: 1, MeanGap: 7.5, GapCV: 1.5, GapLag1: 0.3}, {Models: 3, Small: 1, Large: 2, MeanGap: 3, GapCV: 0.9, ReturnProb: 0.5}},
		"script": {{Models: 2, Large: 1, PromptTokens: 7, Scripts: []string{"SLSSL", "L", "SSSS"}}},
		"me":     {{Models: 3}, {Models: 2, Weights: []float64{0.5, 0.5}}},
		"fusion": {{Models: 3}, {Models: 2, Weights: []float64{0.3, 0.7}, Sample: true}},
		"never":  {{Models: 1}, {Models: 3}},
	}
	for _, name := range []string{"citer", "r2r", "collm", "rstitch", "confidence"} {
		for _, threshold := range []*float64{&never, &half, &always} {
			cases[name] = append(cases[name], Params{Models: 2, Large: 1, Threshold: threshold})
		}
	}
	for _, name := range Names() {
		if len(cases[name]) == 0 {
			t.Errorf("%s has no case", name)
		}
		for _, p := range cases[name] {
			a, err := New(name, p)
			if err != nil {
				t.Fatal(err)
			}
			if err := Check(a, p.Models, p.Small, max(p.PromptTokens, 5)); err != nil {
				t.Error(err)
			}
		}
	}
}

// planted keeps the contract but for one fault.
type planted struct {
	*Matrix
	fault string
	asked *int
}

func (p planted) Stay(v *View) (int, Dest) {
	kept, dest := p.Matrix.Stay(v)
	switch p.fault {
	case "longer stay":
		return kept + 1, dest
	case "negative stay":
		return -1, dest
	case "stay to itself":
		return kept, To(v.Model)
	case "leaves for nowhere":
		return kept, Stay
	}
	return kept, dest
}

func (p planted) Route(v *View) Dest {
	*p.asked++
	switch dest := p.Matrix.Route(v); {
	case p.fault == "unknown model" && dest != Stay:
		return To(7)
	case p.fault == "below zero" && dest != Stay:
		return -1
	case p.fault == "of two minds" && *p.asked%5 == 0:
		return To(1 - v.Model)
	default:
		return dest
	}
}

func (p planted) Send(d Departure, r *PeerReq) bool {
	return p.fault != "keeps nothing" && p.Matrix.Send(d, r)
}

func (p planted) Receive(r *PeerReq) []Token {
	switch p.fault {
	case "receives others":
		return []Token{9999}
	case "receives more":
		return append(r.Suffix[:len(r.Suffix):len(r.Suffix)], 1)
	}
	return r.Suffix
}

func TestCheckFindsBreaches(t *testing.T) {
	m, err := NewMatrix([][]float64{{0.7, 0.3}, {1, 0}}, false)
	if err != nil {
		t.Fatal(err)
	}
	for fault, want := range map[string]string{
		"":                   "",
		"longer stay":        "Route answers 2, but Stay said",
		"negative stay":      "Stay keeps -1 decisions",
		"stay to itself":     "Stay sends the request to the model where it is",
		"leaves for nowhere": "Stay leaves for nowhere",
		"unknown model":      "Route answers 8, which is none of the 2 models",
		"below zero":         "Route answers -1, which is none",
		"of two minds":       "it may depend on the View only",
		"keeps nothing":      "some visits have to keep a token",
		"receives others":    "Receive accepts [9999]",
		"receives more":      "does not begin the returned tokens",
	} {
		err := Check(planted{m, fault, new(int)}, 2, 0, 5)
		switch got := fmt.Sprint(err); {
		case fault == "" && err != nil, fault != "" && !strings.Contains(got, want):
			t.Errorf("%q: %v, want %q", fault, err, want)
		case err != nil && !strings.HasPrefix(got, "algorithm matrix, at model "):
			t.Errorf("%q does not say where: %v", fault, err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	m, err := NewMatrix([][]float64{{0.9, 0.1}, {1, 0}}, false)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := Check(m, 2, 0, 5); err != nil {
			b.Fatal(err)
		}
	}
}
