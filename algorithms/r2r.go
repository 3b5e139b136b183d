package algorithms

// R2RThreshold is what R2R's server applies when its configuration names none,
// as the shipped ones do. A router checkpoint stores its own (0.406, 0.42 and
// 0.139 for the R1-Distill routers of its three tasks), which its offline
// evaluator uses: set Threshold to that to follow the paper's accuracy.
const R2RThreshold = 0.5

// R2R (thu-nics/R2R) scores how likely the small model's token diverges from
// what the large model would mean. A score of Threshold or more gives the
// position to the large model, which writes one token.
type R2R struct {
	Pair
	Threshold float64
}

func (R2R) Name() string           { return "r2r" }
func (r R2R) Needs(model int) Need { return r.atSmall(model, NeedRouterScore) }
func (r R2R) Route(v *View) Dest   { return r.oneTokenVisit(v, v.Signals.RouterScore >= r.Threshold) }
