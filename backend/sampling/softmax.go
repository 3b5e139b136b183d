package sampling

import "math"

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
	d.logSum = math.Log(d.sum)
	return d
}

// entropy is −Σ p ln p / ln V: with p = e^−below / sum, −ln p = below + ln sum.
func (d *distribution) entropy(vocab int) float64 {
	if vocab == 1 {
		return 0
	}
	h := (d.logSum + d.weighted/d.sum) / math.Log(float64(vocab))
	return max(0, min(h, 1)) // rounding may leave the range by an ulp
}

func (d *distribution) logprob(logit float32) float64 { return float64(logit) - d.largest - d.logSum }

func (d *distribution) prob(logit float32) float64 { return exp(float64(logit)-d.largest) / d.sum }

// underflow is how far below the largest logit a probability counts as 0.
const underflow = 700

const (
	pieces   = 64 // of a doubling, with a table entry each
	perPiece = pieces / math.Ln2
	// ln 2 / pieces in two parts, the upper of 32 bits, so that its product with
	// a whole number below 2^21 is exact (Cody and Waite, 1980).
	pieceHigh = 0x1.62e42feep-7
	pieceLow  = math.Ln2/pieces - pieceHigh
	// rounder added and taken away again rounds to a whole number.
	rounder = 0x1.8p52
)

// powers[i] is 2^(i/pieces).
var powers = func() (t [pieces]float64) {
	for i := range t {
		t[i] = math.Exp2(float64(i) / pieces)
	}
	return t
}()

// exp is e^x for x ≤ 0, within 2e-15 relative, and 0 where x ≤ -underflow. It
// is several times faster than math.Exp, and the same on every processor:
// e^x = 2^(n/64) e^r with |r| ≤ ln 2 / 128, where five terms of Taylor's series
// err by r^6/720 < 4e-17.
func exp(x float64) float64 {
	if !(x > -underflow) {
		return 0
	}
	n := float64(x*perPiece) + rounder - rounder
	r := float64(x-float64(n*pieceHigh)) - float64(n*pieceLow)
	k := int64(n)
	p := 1 + float64(r*(1+float64(r*(1.0/2+float64(r*(1.0/6+float64(r*(1.0/24+float64(r*(1.0/120))))))))))
	scale := math.Float64frombits(uint64(k>>6+1023) << 52)
	return scale * (powers[k&(pieces-1)] * p)
}
