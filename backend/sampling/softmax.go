package sampling

import "slices"

// distribution holds what is needed to turn raw logits into probabilities.
type distribution struct {
	largest  float64 // largest logit
	sum      float64 // Σ exp(x − largest), at least 1
	weighted float64 // Σ (largest − x) exp(x − largest)
	logSum   float64 // ln sum
}

// measure sums over all logits: in blocks, and in each of them in four sums, of
// every fourth token, so that four additions are under way at once.
func measure(logits []float32, largest float32) distribution {
	d := distribution{largest: float64(largest)}
	var above, e [blockTokens]float64 // above the largest, so at most 0
	for block := range slices.Chunk(logits, blockTokens) {
		for i, x := range block {
			a := float64(x) - d.largest
			if a < -underflow {
				a = -underflow // −Inf would make 0 · Inf
			}
			above[i], e[i] = a, a
		}
		exps(e[:len(block)])
		clear(e[len(block):])
		var sum, weighted [4]float64
		for i := 0; i < len(block); i += 4 {
			for lane := range 4 {
				sum[lane] += e[i+lane]
				weighted[lane] -= float64(above[i+lane] * e[i+lane])
			}
		}
		d.sum += (sum[0] + sum[1]) + (sum[2] + sum[3])
		d.weighted += (weighted[0] + weighted[1]) + (weighted[2] + weighted[3])
	}
	d.logSum = ln(d.sum)
	return d
}

// entropy is −Σ p ln p / ln V: with p = e^−below / sum, −ln p = below + ln sum.
func (d *distribution) entropy(vocab int) float64 {
	if vocab == 1 {
		return 0
	}
	h := (d.logSum + d.weighted/d.sum) / ln(float64(vocab))
	return max(0, min(h, 1)) // rounding may leave the range by an ulp
}

func (d *distribution) logprob(logit float32) float64 { return float64(logit) - d.largest - d.logSum }

func (d *distribution) prob(logit float32) float64 { return exp(float64(logit)-d.largest) / d.sum }
