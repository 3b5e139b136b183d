package algorithms

// Confidence needs no training: a largest probability below Threshold gives
// the position to the large model, which writes one token; one equal to it
// stays. No paper states a threshold for it.
type Confidence struct {
	Pair
	Threshold float64
}

func (Confidence) Name() string           { return "confidence" }
func (c Confidence) Needs(model int) Need { return c.atSmall(model, NeedMaxProb) }
func (c Confidence) Route(v *View) Dest {
	return c.oneTokenVisit(v, v.Signals.MaxProb < c.Threshold)
}
