package algorithms

// CITERThreshold is the τ of TokenRouter's experiments. CITER's own programs
// use 0.95 by default.
const CITERThreshold = 0.98

// CITER (arXiv 2502.01976) scores how sure its router is that the small
// model's token is fine. A score below Threshold gives the position to the
// large model, which writes one token; a score equal to it stays.
type CITER struct {
	Pair
	Threshold float64
}

func (CITER) Name() string           { return "citer" }
func (c CITER) Needs(model int) Need { return c.atSmall(model, NeedRouterScore) }
func (c CITER) Route(v *View) Dest   { return c.oneTokenVisit(v, v.Signals.RouterScore < c.Threshold) }
