package algorithms

import "math"

// Gaps describes the distances between a small model's hand-offs, counted in
// its decisions, the leaving one included: so where the token is dropped and a
// visit lasts one token, the distance between two tokens of the large model.
type Gaps struct {
	Mean float64 // in decisions, ≥ 1
	CV   float64 // standard deviation / mean; √(1 − 1/Mean) is the geometric law
	Lag1 float64 // correlation of one gap with the next, ≥ 0
}

// Bursty stands in for a router whose hand-offs come in bursts, as those of
// real traces do. A home stay is in one of two states, burst or calm; its gap
// is geometric with the state's mean. From one stay to the next the state is
// kept with a probability, else drawn anew from its stationary distribution.
// The large model returns after one token, or after each token with a given
// probability.
type Bursty struct {
	Pair
	mean       float64
	burst      float64    // stationary probability of the burst state
	persist    float64    // probability that the next stay keeps the state
	stay       [2]float64 // probability that a decision stays, in calm and in burst
	returnProb float64
	routedKept bool
	models     int
}

// NewBursty solves the two states from three figures of the gaps. With V the
// variance of the state means and a geometric gap of mean m having variance
// m² − m: CV²·Mean² = Mean² − Mean + 2V, and Lag1 = persist·V/(CV²·Mean²).
// One degree of freedom is left: each state gives half of all tokens (balanced
// means), or, where that would need a burst mean below 1, the burst mean is 1.
// A figure that no two states can reach is a FieldError with the range that
// they can. returnProb is in (0, 1]; routedKept keeps the small model's token
// at a hand-off; models is the number of models, for RoutingMatrix.
func NewBursty(pair Pair, gaps Gaps, returnProb float64, routedKept bool, models int) (*Bursty, error) {
	if !(gaps.Mean >= 1) || gaps.Mean > Forever {
		return nil, fieldErrorf("mean_gap", "%g is outside 1 to 2^31; it counts decisions, the leaving one included, so 1 leaves every time", gaps.Mean)
	}
	if !(returnProb > 0 && returnProb <= 1) {
		return nil, fieldErrorf("return_probability", "%g is outside (0, 1]; 1 returns after one token", returnProb)
	}
	b := &Bursty{Pair: pair, mean: gaps.Mean, returnProb: returnProb, routedKept: routedKept, models: models}
	spread, err := gaps.spread()
	if err != nil {
		return nil, err
	}
	var calmMean, burstMean float64
	b.burst, calmMean, burstMean = twoMeans(gaps.Mean, spread)
	b.stay = [2]float64{1 - 1/calmMean, 1 - 1/burstMean}
	if spread > 0 {
		b.persist = min(1, gaps.Lag1*gaps.variance()/spread)
	}
	return b, nil
}

func (g Gaps) variance() float64 { return g.CV * g.CV * g.Mean * g.Mean }

// spread returns the variance that the two state means need, and refuses gaps
// that no pair of states has. A relative 1e-9 is granted to rounding.
func (g Gaps) spread() (float64, error) {
	least := math.Sqrt(1 - 1/g.Mean)
	if !(g.CV >= least*(1-1e-9)) || math.IsInf(g.CV, 1) {
		return 0, fieldErrorf("gap_cv", "%g cannot be reached with mean_gap %g: geometric gaps have %.6f, and two states only add; raise gap_cv to that or more",
			g.CV, g.Mean, math.Ceil(least*1e6)/1e6)
	}
	v := (g.variance() - g.Mean*g.Mean + g.Mean) / 2
	if v < 1e-9*g.Mean*g.Mean {
		v = 0
	}
	if v > 0 && g.Mean == 1 {
		return 0, fieldErrorf("gap_cv", "%g cannot be reached with mean_gap 1: every gap is then 1 and gap_cv 0; raise mean_gap", g.CV)
	}
	most := 0.0
	if v > 0 {
		most = v / g.variance()
	}
	if !(g.Lag1 >= 0 && g.Lag1 <= most*(1+1e-9)) {
		return 0, fieldErrorf("gap_lag1", "%g cannot be reached with mean_gap %g and gap_cv %g: two states allow 0 to %.6f; lower it, or raise gap_cv (the bound nears 0.5)",
			g.Lag1, g.Mean, g.CV, math.Floor(most*1e6)/1e6)
	}
	return v, nil
}

// twoMeans splits a mean into two states whose means have the given variance
// and returns the probability of the burst and both means.
func twoMeans(mean, variance float64) (burst, calmMean, burstMean float64) {
	burst = (1 + math.Sqrt(variance/(variance+mean*mean))) / 2
	if burstMean = mean / (2 * burst); burstMean >= 1 {
		return burst, mean / (2 * (1 - burst)), burstMean
	}
	below := mean - 1
	if below == 0 {
		return 1, 1, 1
	}
	return variance / (variance + below*below), mean + variance/below, 1
}

func (*Bursty) Name() string         { return "bursty" }
func (*Bursty) Needs(int) Need       { return 0 }
func (b *Bursty) Route(v *View) Dest { return routeAsStay(b, v) }

// Send drops the small model's token unless the source was made to keep it.
func (b *Bursty) Send(d Departure, req *PeerReq) bool { return b.routedKept || b.Pair.Send(d, req) }

func (b *Bursty) Stay(v *View) (kept int, dest Dest) {
	u := Draw(v.Seed, v.StayStart, PurposeGap.For(v.Model))
	if v.Model != b.Small {
		return geometric(u, 1-b.returnProb), To(b.Small)
	}
	// Stays at the small model come at every second hop, from the first or
	// the second on: halving numbers them without a gap.
	kept = geometric(u, b.stay[b.state(v.Seed, v.Hops/2)])
	if kept == Forever {
		return Forever, Stay
	}
	return kept, To(b.Large)
}

// state is the state of the i-th stay at the small model: 1 is burst. It walks
// back to the last stay whose state was drawn anew, so it is a function of
// seed and i whoever asks and in whatever order.
func (b *Bursty) state(seed uint64, i int) int {
	if b.persist >= 1 {
		i = 0
	}
	for i > 0 && Draw(seed, i, PurposeRefresh) < b.persist {
		i--
	}
	if Draw(seed, i, PurposeState) < b.burst {
		return 1
	}
	return 0
}

// RoutingMatrix has the same mean stays with geometric gaps.
func (b *Bursty) RoutingMatrix() [][]float64 {
	rows := make([][]float64, b.models)
	for i := range rows {
		rows[i] = make([]float64, b.models)
		rows[i][i] = 1 - b.returnProb
		rows[i][b.Small] = b.returnProb
	}
	rows[b.Small][b.Small] = 1 - 1/b.mean
	rows[b.Small][b.Large] = 1 / b.mean
	return rows
}
