package sampling

// distribution holds what is needed to turn raw logits into probabilities.
type distribution struct {
	largest  float64 // largest logit
	sum      float64 // Σ exp(x − largest), at least 1
	weighted float64 // Σ (largest − x) exp(x − largest)
	logSum   float64 // ln sum
}

// measure sums over all logits, in one pass: four sums, each of every fourth
// token, then those, so that four additions are under way at once.
func measure(logits []float32, largest float32) distribution {
	top := float64(largest)
	var sum, weighted [4]float64
	i := 0
	for ; i+4 <= len(logits); i += 4 {
		x := logits[i : i+4 : i+4]
		for lane := range 4 {
			below := top - float64(x[lane])
			if below < underflow { // −Inf gives 0 · Inf otherwise
				e := exp(-below)
				sum[lane] += e
				weighted[lane] += float64(below * e)
			}
		}
	}
	for ; i < len(logits); i++ {
		below := top - float64(logits[i])
		if below < underflow {
			e := exp(-below)
			sum[i%4] += e
			weighted[i%4] += float64(below * e)
		}
	}
	d := distribution{
		largest:  top,
		sum:      (sum[0] + sum[1]) + (sum[2] + sum[3]),
		weighted: (weighted[0] + weighted[1]) + (weighted[2] + weighted[3]),
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
