package algorithms

import "math"

// NormalisedEntropy returns −Σ p ln p / ln V of the softmax over all V logits,
// in [0, 1]: 0 where V is 1. V is the number of logits given; two models are
// comparable if both leave padding rows out. A logit of −Inf has probability
// 0. It panics on no logits.
func NormalisedEntropy(logits []float32) float64 {
	if len(logits) == 0 {
		panic("algorithms: entropy of no logits")
	}
	if len(logits) == 1 {
		return 0
	}
	top := logits[0]
	for _, x := range logits {
		top = max(top, x)
	}
	// With y = x − top: H = ln Σ e^y − Σ y e^y / Σ e^y.
	sum, weighted := 0.0, 0.0
	for _, x := range logits {
		y := float64(x) - float64(top)
		if e := math.Exp(y); e > 0 {
			sum += e
			weighted += y * e
		}
	}
	h := (math.Log(sum) - weighted/sum) / math.Log(float64(len(logits)))
	return min(max(h, 0), 1)
}

// Sigmoid is 1/(1+e^−x). Far below 0 the power is +Inf and the result 0.
func Sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// Logit is the inverse of Sigmoid: the cut on a router's or a defer token's
// raw output that a threshold p on its probability means. It is −Inf for
// p ≤ 0 and +Inf for p ≥ 1, where every and no finite output lies above.
func Logit(p float64) float64 {
	switch {
	case p <= 0:
		return math.Inf(-1)
	case p >= 1:
		return math.Inf(1)
	}
	return math.Log(p) - math.Log1p(-p)
}

// DeferLoss is Co-LLM's training loss at one position, −ln((1−σ(d))·small +
// σ(d)·large), where d is the defer logit and small and large are the
// probabilities, in (0, 1], that the two models give the right token.
func DeferLoss(d, small, large float64) float64 {
	// ln σ(±d) by softplus, so that a sure d does not round a share to 0.
	a := math.Log(small) - softplus(d)
	b := math.Log(large) - softplus(-d)
	return -(max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b))))
}

// softplus is ln(1+e^x).
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
