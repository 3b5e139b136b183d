package algorithms_test

import (
	"fmt"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// everyNth is a whole algorithm: the small model writes, and every n-th
// position goes to the large one, which writes one token.
type everyNth struct {
	algorithms.AcceptAll
	n, large int
}

func (everyNth) Name() string              { return "every-nth" }
func (everyNth) Needs(int) algorithms.Need { return 0 }
func (e everyNth) Route(v *algorithms.View) algorithms.Dest {
	switch {
	case v.Model == e.large:
		return algorithms.To(v.Home)
	case v.Position%e.n == 0:
		return algorithms.To(e.large)
	}
	return algorithms.Stay
}

// Send drops the token that the large model will replace.
func (e everyNth) Send(d algorithms.Departure, _ *algorithms.PeerReq) bool {
	return d.From == e.large
}

// A new algorithm is one type. Any driver runs it; the plainest is a loop over
// one request, here with two models that always write the same token.
func Example() {
	var a algorithms.Algorithm = everyNth{n: 3, large: 1}
	models := []algorithms.Token{7, 8}
	tokens := []algorithms.Token{1, 2, 3, 4}

	at, hops := 0, 0
	for stayStart := len(tokens); len(tokens) < 14; {
		v := algorithms.View{Model: at, Position: len(tokens), StayStart: stayStart, Hops: hops, Token: models[at]}
		dest := a.Route(&v)
		if dest == algorithms.Stay {
			tokens = append(tokens, v.Token)
			continue
		}
		d := algorithms.Departure{From: at, To: dest.Model(), Position: v.Position, Token: v.Token}
		if a.Send(d, &algorithms.PeerReq{From: at, Extra: v.Extra}) {
			tokens = append(tokens, v.Token)
		}
		at, hops, stayStart = dest.Model(), hops+1, len(tokens)
	}
	fmt.Println(tokens, hops)
	// Output: [1 2 3 4 7 7 8 7 7 8 7 7 8 7] 6
}
