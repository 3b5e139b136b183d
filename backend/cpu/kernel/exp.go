package kernel

import (
	"fmt"
	"math"
)

// exp of x is 2^n·p(r) with x = n·ln 2 + r and |r| ≤ ln 2 / 2. ln 2 is cut in two,
// so that n·ln2High is exact, and p is the polynomial of the Cephes library's
// expf. The error is below 2 units in the last place (see the tests).
const (
	expLeast = -104        // below, the result is 0
	expMost  = 89          // above, it is infinite
	log2E    = 1.44269504  // 1 / ln 2
	ln2High  = 0.693359375 // 355/512
	ln2Low   = -2.12194440e-4
	// Adding this and taking it away rounds to the nearest integer, and while it
	// is added, the integer stands in the low bits.
	integerBits = 0x1.8p23
)

var expCoefficients = [...]float32{
	1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1, 1,
}

// expGo is the exponential function of all levels, operation by operation.
func expGo(x float32) float32 {
	if x < expLeast {
		x = expLeast
	}
	if x > expMost {
		x = expMost
	}
	shifted := fma(x, log2E, integerBits)
	n := shifted - integerBits
	r := fma(n, -ln2High, x)
	r = fma(n, -ln2Low, r)
	p := expCoefficients[0]
	for _, c := range expCoefficients[1:] {
		p = fma(p, r, c)
	}
	// 2^n in two factors: alone it may be too large or too small for a float32.
	power := int32(math.Float32bits(shifted)) - int32(math.Float32bits(integerBits))
	half := power >> 1
	p *= math.Float32frombits(uint32(half+127) << 23)
	// The conversion keeps compilers from fusing the product with a later sum.
	return float32(p * math.Float32frombits(uint32(power-half+127)<<23))
}

// Softmax replaces x by exp(x[i]-m) / Σ exp(x[j]-m), where m is the largest. The
// sum has the lanes of a dot product with ones. x is not empty; if it holds a
// NaN or +Inf, all of it becomes NaN, and so it does if all of it is -Inf.
func Softmax(x []float32) {
	// A NaN may get lost here: its own exponential keeps it.
	most := largest(x)
	scale(x, x, 1/expSum(x, most), nil)
}

// largest returns the largest number of x, which is not empty, or if x holds a
// NaN, anything.
func largest(x []float32) float32 {
	most, whole := x[0], wholeBlocks(len(x))
	if whole > 0 {
		var lane [lanes]float32
		copy(lane[:], x)
		largestBlocks(x[:whole], &lane)
		for _, v := range lane {
			most = max(most, v)
		}
	}
	for _, v := range x[whole:] {
		most = max(most, v)
	}
	return most
}

// scale computes y = x·a, and y = x·a·w if w is not nil.
func scale(y, x []float32, a float32, w []float32) {
	whole := wholeBlocks(len(y))
	if whole > 0 {
		scaleBlocks(y[:whole], x, a, w)
	}
	for i := whole; i < len(y); i++ {
		y[i] = x[i] * a
		if w != nil {
			y[i] *= w[i]
		}
	}
}

// wholeBlocks is how many of n numbers the kernels in assembly take.
func wholeBlocks(n int) int {
	if level == plainGo {
		return 0
	}
	return n / lanes * lanes
}

// expSum replaces x by exp(x[i]-shift) and returns the sum.
func expSum(x []float32, shift float32) float32 {
	if level == plainGo {
		return expSumGo(x, shift)
	}
	var sum [lanes]float32
	whole := wholeBlocks(len(x))
	if whole > 0 {
		expSumBlocks(x[:whole], shift, &sum)
	}
	if whole < len(x) {
		var end [lanes]float32
		for i := copy(end[:], x[whole:]); i < lanes; i++ {
			end[i] = float32(math.Inf(-1)) // adds nothing
		}
		expSumBlocks(end[:], shift, &sum)
		copy(x[whole:], end[:])
	}
	return addLanes(&sum)
}

func expSumGo(x []float32, shift float32) float32 {
	var sum [lanes]float32
	for i, v := range x {
		x[i] = expGo(v - shift)
		sum[i%lanes] += x[i]
	}
	return addLanes(&sum)
}

// SiLUMul computes y[i] = gate[i] / (1+exp(-gate[i])) · up[i]. All are equally long;
// y may be gate or up.
func SiLUMul(y, gate, up []float32) {
	if len(gate) != len(y) || len(up) != len(y) {
		panic(fmt.Sprintf("kernel: SiLU of %d gates times %d into %d", len(gate), len(up), len(y)))
	}
	if level == plainGo {
		siluMulGo(y, gate, up)
		return
	}
	whole := wholeBlocks(len(y))
	if whole > 0 {
		siluMulBlocks(y[:whole], gate, up)
	}
	if whole < len(y) {
		var g, u [lanes]float32
		copy(g[:], gate[whole:])
		copy(u[:], up[whole:])
		siluMulBlocks(g[:], g[:], u[:])
		copy(y[whole:], g[:])
	}
}

func siluMulGo(y, gate, up []float32) {
	for i, g := range gate {
		y[i] = float32(g/(1+expGo(-g))) * up[i]
	}
}

// RMSNorm computes y[i] = x[i]·s·w[i] with s = 1/√(Σx²/len(x) + epsilon). All are
// equally long; y may be x. The sum of squares is Dot(x, x), s is computed in
// float64 and rounded once.
func RMSNorm(y, x, w []float32, epsilon float64) {
	if len(x) != len(y) || len(w) != len(y) {
		panic(fmt.Sprintf("kernel: RMSNorm of %d numbers, %d weights, into %d", len(x), len(w), len(y)))
	}
	scale(y, x, float32(1/math.Sqrt(float64(Dot(x, x))/float64(len(x))+epsilon)), w)
}
