package algorithms

import (
	"cmp"
	"slices"
)

// Fusion is the token-level ensemble ME read as full fusion: the token at each
// position comes from Σ w_k p_k over the union of the models' most probable
// tokens, where a token outside a model's list counts 0 for it.
//
// Every position is a ring over all models, in list order from the home. Each
// model but the last drops the token it sampled and sends the sum so far on in
// Extra; the last adds its own share, chooses the token, keeps it, and hands
// the request to the home for the next ring.
//
// Extra holds pairs, ascending by token: [token, Σ w_k p_k, token, Σ w_k p_k,
// …]. It is empty where a ring starts.
type Fusion struct {
	AcceptAll
	Weights []float64 // one per model, summing to 1
	Sample  bool      // draw from the sum, renormalised; otherwise its largest, ties to the lower token
}

func (Fusion) Name() string   { return "fusion" }
func (Fusion) Needs(int) Need { return NeedTopK }

// last is the model that completes a ring that starts at home.
func (f Fusion) last(home int) int {
	k := len(f.Weights)
	return (home + k - 1) % k
}

// next is the model after model in the ring; Stay if there is only one.
func (f Fusion) next(model int) Dest {
	k := len(f.Weights)
	if k == 1 {
		return Stay
	}
	return To((model + 1) % k)
}

// Route adds this model's share. It leaves the slice that travelled here as it
// was, so asking twice gives the same answer.
func (f Fusion) Route(v *View) Dest {
	sum := addShare(v.Extra, v.Signals.TopK, f.Weights[v.Model])
	if v.Model != f.last(v.Home) {
		v.Extra = sum
		return f.next(v.Model)
	}
	v.Extra = nil
	if len(sum) > 0 {
		v.Token = f.choose(sum, Draw(v.Seed, v.Position, PurposeFuse))
	}
	return f.next(v.Model)
}

// Send keeps the token of the model that completes the ring.
func (f Fusion) Send(d Departure, _ *PeerReq) bool { return d.From == f.last(d.Home) }

// Stay says that every stay is one decision: where a request goes does not
// depend on signals, though the token does.
func (f Fusion) Stay(v *View) (kept int, dest Dest) {
	if dest = f.next(v.Model); dest == Stay {
		return Forever, Stay
	}
	return 0, dest
}

// addShare merges weight × top into sum; both are by token in the result.
func addShare(sum []float64, top []TokenProb, weight float64) []float64 {
	top = slices.Clone(top)
	slices.SortFunc(top, func(a, b TokenProb) int { return cmp.Compare(a.Token, b.Token) })
	out := make([]float64, 0, len(sum)+2*len(top))
	for i, j := 0, 0; i < len(sum) || j < len(top); {
		switch {
		case j == len(top) || i < len(sum) && sum[i] < float64(top[j].Token):
			out = append(out, sum[i], sum[i+1])
			i += 2
		case i == len(sum) || sum[i] > float64(top[j].Token):
			out = append(out, float64(top[j].Token), weight*top[j].Prob)
			j++
		default:
			out = append(out, sum[i], sum[i+1]+weight*top[j].Prob)
			i, j = i+2, j+1
		}
	}
	return out
}

// choose returns the token of the pairs in sum that u selects, or the one of
// the largest mass.
func (f Fusion) choose(sum []float64, u float64) Token {
	mass := make([]float64, 0, len(sum)/2)
	best := 0
	for i := 1; i < len(sum); i += 2 {
		mass = append(mass, sum[i])
		if sum[i] > mass[best] {
			best = len(mass) - 1
		}
	}
	if f.Sample && mass[best] > 0 {
		best = pick(u, mass, -1)
	}
	return Token(sum[2*best])
}
