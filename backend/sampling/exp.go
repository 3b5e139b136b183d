package sampling

import (
	"math"
	"math/big"
)

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

// powers[i] is 2^(i/pieces), rounded once: math.Exp2 differs between processors.
var powers = func() (t [pieces]float64) {
	const bits = 96 // 64 products lose less than the 43 beyond float64's 53
	root := new(big.Float).SetPrec(bits).SetInt64(2)
	for n := pieces; n > 1; n /= 2 {
		root.Sqrt(root)
	}
	power := new(big.Float).SetPrec(bits).SetInt64(1)
	for i := range t {
		t[i], _ = power.Float64()
		power.Mul(power, root)
	}
	return t
}()

// exps replaces each x ≤ 0 by e^x, within 2e-15 relative, or by 0 where x ≤
// -underflow. It is several times faster than math.Exp, and the same on every
// processor: e^x = 2^(n/64) e^r with |r| ≤ ln 2 / 128, where five terms of
// Taylor's series err by r^6/720 < 4e-17.
func exps(xs []float64) {
	for i, x := range xs {
		if !(x > -underflow) {
			xs[i] = 0
			continue
		}
		n := float64(x*perPiece) + rounder - rounder
		r := float64(x-float64(n*pieceHigh)) - float64(n*pieceLow)
		square := float64(r * r)
		p := float64(1+r) + float64(square*(float64(1.0/2+float64(r*(1.0/6)))+float64(square*(1.0/24+float64(r*(1.0/120))))))
		k := int64(n)
		scale := math.Float64frombits(uint64(k>>6+1023) << 52)
		xs[i] = scale * float64(powers[k&(pieces-1)]*p)
	}
}

// exp is e^x, as exps has it.
func exp(x float64) float64 {
	one := [1]float64{x}
	exps(one[:])
	return one[0]
}

// ln is the natural logarithm of x ≥ 1, within 1e-15 relative, the same on every
// processor: x = m 2^e with m around 1, and ln m = 2 artanh s with
// s = (m−1)/(m+1) below 0.172, by twelve terms of its series; the next is s^25/25.
func ln(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	s := (m - 1) / (m + 1)
	square := float64(s * s)
	series := 0.0
	for k := 23; k >= 1; k -= 2 {
		series = float64(series*square) + 1/float64(k)
	}
	return float64(float64(e)*math.Ln2) + float64(2*s*series)
}
