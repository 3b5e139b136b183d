package kernel

import "unsafe"

//go:generate go -C gen run . -out ../kernel_amd64.s -stubs ../kernel_amd64.go -pkg kernel

// productRows computes n columns of up to tileRows rows of a product over
// blocks·32 values, and over 32 more at end if it is not nil.
func productRows[W stored](y []float32, yStride int, x []float32, xStride int, w []W, wStride int, f format, rows, blocks, n int, end *ends[W]) {
	var xEnd *float32
	var wEnd unsafe.Pointer
	if end != nil {
		xEnd, wEnd = &end.x[0], unsafe.Pointer(&end.w[0])
	}
	if f == formatF32 {
		w, wEnd := (*float32)(unsafe.Pointer(&w[0])), (*float32)(wEnd)
		if level == avx512 {
			productF32AVX512(&y[0], yStride, &x[0], xStride, w, wStride, rows, blocks, n, xEnd, wEnd)
		} else {
			productF32AVX2(&y[0], yStride, &x[0], xStride, w, wStride, rows, blocks, n, xEnd, wEnd)
		}
		return
	}
	w16, wEnd16 := (*uint16)(unsafe.Pointer(&w[0])), (*uint16)(wEnd)
	switch {
	case f == formatBF16 && level == avx512:
		productBF16AVX512(&y[0], yStride, &x[0], xStride, w16, wStride, rows, blocks, n, xEnd, wEnd16)
	case f == formatBF16:
		productBF16AVX2(&y[0], yStride, &x[0], xStride, w16, wStride, rows, blocks, n, xEnd, wEnd16)
	case level == avx512:
		productF16AVX512(&y[0], yStride, &x[0], xStride, w16, wStride, rows, blocks, n, xEnd, wEnd16)
	default:
		productF16AVX2(&y[0], yStride, &x[0], xStride, w16, wStride, rows, blocks, n, xEnd, wEnd16)
	}
}

// weightedSumRow adds n scaled rows of v, which are as long as y, to y.
func weightedSumRow(y, a, v []float32, vStride, n int) {
	if level == avx512 {
		weightedSumAVX512(&y[0], &a[0], &v[0], vStride, n, len(y))
	} else {
		weightedSumAVX2(&y[0], &a[0], &v[0], vStride, n, len(y))
	}
}

// expSumBlocks replaces x by exp(x[i]-shift) and adds it to the lanes of sum. The
// length of x is a multiple of 32 and not 0.
func expSumBlocks(x []float32, shift float32, sum *[lanes]float32) {
	if level == avx512 {
		expSumAVX512(&x[0], shift, len(x)/lanes, &sum[0])
	} else {
		expSumAVX2(&x[0], shift, len(x)/lanes, &sum[0])
	}
}

// siluMulBlocks is SiLUMul for lengths that are a multiple of 32 and not 0.
func siluMulBlocks(y, gate, up []float32) {
	if level == avx512 {
		siluMulAVX512(&y[0], &gate[0], &up[0], len(y)/lanes)
	} else {
		siluMulAVX2(&y[0], &gate[0], &up[0], len(y)/lanes)
	}
}

// largestBlocks raises the lanes of most to the values of x. The length of x is a
// multiple of 32 and not 0. Of a NaN it makes anything.
func largestBlocks(x []float32, most *[lanes]float32) {
	if level == avx512 {
		largestAVX512(&x[0], len(x)/lanes, &most[0])
	} else {
		largestAVX2(&x[0], len(x)/lanes, &most[0])
	}
}

// scaleBlocks computes y = x·a, and y = x·a·w if w is not nil. The length of y is
// a multiple of 32 and not 0.
func scaleBlocks(y, x []float32, a float32, w []float32) {
	switch blocks := len(y) / lanes; {
	case w == nil && level == avx512:
		scaleAVX512(&y[0], &x[0], a, blocks)
	case w == nil:
		scaleAVX2(&y[0], &x[0], a, blocks)
	case level == avx512:
		scaleMulAVX512(&y[0], &x[0], a, &w[0], blocks)
	default:
		scaleMulAVX2(&y[0], &x[0], a, &w[0], blocks)
	}
}

// readBlocks XORs the bits of x into the lanes of sum. The length of x is a
// multiple of 32 and not 0.
func readBlocks(x []float32, sum *[lanes]uint32) {
	if level == avx512 {
		readThroughAVX512(&x[0], len(x)/lanes, &sum[0])
	} else {
		readThroughAVX2(&x[0], len(x)/lanes, &sum[0])
	}
}
