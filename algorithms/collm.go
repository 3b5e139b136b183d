package algorithms

// CoLLMThreshold is the η of TokenRouter's experiments; Co-LLM's own code
// falls back to 0.5.
const CoLLMThreshold = 0.15

// CoLLM (arXiv 2403.03870) reads the logit of a defer token that its fine-tuned
// small model has learned. A deferral probability above Threshold gives the
// position to the large model, which writes one token; one equal to it stays.
type CoLLM struct {
	Pair
	Threshold float64
}

func (CoLLM) Name() string           { return "collm" }
func (c CoLLM) Needs(model int) Need { return c.atSmall(model, NeedDeferLogit) }
func (c CoLLM) Route(v *View) Dest {
	return c.oneTokenVisit(v, Sigmoid(v.Signals.DeferLogit) > c.Threshold)
}
