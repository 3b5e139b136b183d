package algorithms

import "slices"

// EnsembleWeights returns the weights of TokenRouter's three-model experiments.
// Their order is not published; the models' listed order is assumed.
func EnsembleWeights() []float64 { return []float64{0.5, 0.3, 0.2} }

// longestWalk bounds the search for the end of a stay. No request has as many
// tokens, so a stay that outlasts it never ends.
const longestWalk = 1 << 24

// Ensemble is the token-level ensemble ME read as a mixture by model choice
// (its exact rule is not published): after each token the next writer is drawn
// by Weights, from the request's seed and the position, and all tokens are
// kept. The home writes the first token. Where every model samples from its
// own untruncated distribution, a token's distribution is exactly Σ w_k p_k,
// at one forward per token; Fusion computes that sum instead.
type Ensemble struct {
	AcceptAll
	Weights []float64 // one per model, summing to 1
}

func (Ensemble) Name() string                  { return "me" }
func (Ensemble) Needs(int) Need                { return 0 }
func (Ensemble) Send(Departure, *PeerReq) bool { return true }

func (e Ensemble) Route(v *View) Dest { return e.after(v, v.Position) }

// after draws the writer of the token that follows position.
func (e Ensemble) after(v *View, position int) Dest {
	next := pick(Draw(v.Seed, position, PurposeModel), e.Weights, -1)
	if next == v.Model {
		return Stay
	}
	return To(next)
}

// Stay looks the draws of the coming positions up until one names another
// model.
func (e Ensemble) Stay(v *View) (kept int, dest Dest) {
	if onlySelf(e.Weights, v.Model) {
		return Forever, Stay
	}
	for kept := range longestWalk {
		if dest := e.after(v, v.StayStart+kept); dest != Stay {
			return kept, dest
		}
	}
	return Forever, Stay
}

// RoutingMatrix is Weights in every row.
func (e Ensemble) RoutingMatrix() [][]float64 {
	rows := make([][]float64, len(e.Weights))
	for i := range rows {
		rows[i] = slices.Clone(e.Weights)
	}
	return rows
}
