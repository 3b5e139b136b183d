package kernel

import "math"

// format is how a matrix is stored.
type format int

const (
	formatF32 format = iota
	formatBF16
	formatF16
)

// shape is what a product needs to know of its operands: y[r*yStride+j] =
// Σ_{i<k} x[r*xStride+i]·w[j*wStride+i] for r < rows.
type shape struct{ rows, k, yStride, xStride, wStride int }

// stored is an element of a matrix, whatever its format.
type stored interface{ uint16 | float32 }

// widen puts the float32 values of w into dst, which is equally long.
func widen[W stored](dst []float32, w []W, f format) {
	switch w := any(w).(type) {
	case []float32:
		copy(dst, w)
	case []uint16:
		for i, h := range w {
			if f == formatBF16 {
				dst[i] = math.Float32frombits(uint32(h) << 16)
			} else {
				dst[i] = halfToFloat(h)
			}
		}
	}
}

// halfToFloat widens an IEEE half, exactly.
func halfToFloat(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch exponent {
	case 0: // zero or denormal: fraction units of 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case 31: // infinity or NaN
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

// productGo is the product in plain Go: the twin of the kernels in assembly and
// what runs where there is none.
func productGo[W stored](y, x []float32, w []W, f format, s shape, lo, hi int) {
	row := make([]float32, s.k)
	for j := lo; j < hi; j++ {
		widen(row, w[j*s.wStride:][:s.k], f)
		for r := range s.rows {
			y[r*s.yStride+j] = dotGo(x[r*s.xStride:][:s.k], row)
		}
	}
}

// dotGo is the accumulation tree of package kernel.
func dotGo(x, w []float32) float32 {
	var sum [lanes]float32
	for ; len(x) >= lanes; x, w = x[lanes:], w[lanes:] {
		for l := range sum {
			sum[l] = fma(x[l], w[l], sum[l])
		}
	}
	if len(x) > 0 {
		var xEnd, wEnd [lanes]float32
		copy(xEnd[:], x)
		copy(wEnd[:], w)
		for l := range sum {
			sum[l] = fma(xEnd[l], wEnd[l], sum[l])
		}
	}
	return addLanes(&sum)
}

// addLanes adds the lanes of a sum in their fixed order.
func addLanes(sum *[lanes]float32) float32 {
	for half := lanes / 2; half >= 4; half /= 2 {
		for l := range half {
			sum[l] += sum[l+half]
		}
	}
	return (sum[0] + sum[1]) + (sum[2] + sum[3])
}

// weightedSumGo is WeightedSum in plain Go.
func weightedSumGo(y, a, v []float32, rows, k, n, aStride, vStride int) {
	for j := range n {
		row := v[j*vStride:][:k]
		for r := range rows {
			scale, out := a[r*aStride+j], y[r*k:][:k]
			for i, value := range row {
				out[i] = fma(scale, value, out[i])
			}
		}
	}
}
