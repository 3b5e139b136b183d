package kernel

import "math"

// fmaEmulated returns x·y+z, rounded once to float32: what the processors'
// instruction computes, which all kernels in assembly use.
//
// The product of two float32 has at most 48 bits, so it is exact in float64. The
// sum is not, and rounding it a second time to float32 is wrong if the first
// rounding has landed on the middle between two float32. There the sum is
// rounded to odd instead: a float64 with an odd last bit is never such a middle,
// and it lies on the same side as the exact sum (Boldo and Melquiond, "Emulation
// of a FMA and correctly rounded sums: proved algorithms using rounding to odd").
func fmaEmulated(x, y, z float32) float32 {
	p := float64(x) * float64(y)
	s := p + float64(z)
	b := math.Float64bits(s)
	const (
		cut     = 1<<29 - 1  // the bits that float32 drops
		middle  = 1 << 28    // what they are in the middle
		normal  = 1023 - 126 // exponent field of the least normal float32
		special = 0x7ff      // exponent field of infinities and NaN
	)
	if e := b >> 52 & special; b&cut != middle && e >= normal || e == special {
		return float32(s)
	}
	return float32(roundToOdd(p, float64(z), s))
}

// roundToOdd returns p+z rounded to odd, given s, which is p+z rounded to the
// nearest. The magnitudes stay far from the ends of float64.
func roundToOdd(p, z, s float64) float64 {
	v := s - p
	rest := (p - (s - v)) + (z - v) // exactly p+z-s (Knuth's TwoSum)
	b := math.Float64bits(s)
	if rest == 0 || b&1 == 1 {
		return s
	}
	if (rest > 0) == (s > 0) {
		return math.Float64frombits(b + 1)
	}
	return math.Float64frombits(b - 1)
}
