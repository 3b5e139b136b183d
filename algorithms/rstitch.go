package algorithms

// RStitchThreshold is the τ of TokenRouter's experiments, on normalised
// entropy: 0.358 nats at a vocabulary of 151,936.
const RStitchThreshold = 0.03

// RStitch (arXiv 2507.17307) tests normalised entropy on both sides. The small
// model leaves above Threshold and its token is dropped. The large model writes
// until it has written a token at Threshold or below, and that token is kept:
// if it were dropped, the small model would face the same position with the
// same entropy and leave again, forever.
//
// With a Threshold below 0 the large model never returns.
type RStitch struct {
	Pair
	Threshold float64
}

func (RStitch) Name() string   { return "rstitch" }
func (RStitch) Needs(int) Need { return NeedEntropy }

func (r RStitch) Route(v *View) Dest {
	uncertain := v.Signals.Entropy > r.Threshold
	switch {
	case v.Model == r.Small && uncertain:
		return To(r.Large)
	case v.Model != r.Small && !uncertain:
		return To(r.Small)
	}
	return Stay
}
