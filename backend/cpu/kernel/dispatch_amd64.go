package kernel

import "unsafe"

//go:generate go -C gen run . -out ../kernel_amd64.s -stubs ../kernel_amd64.go -pkg kernel

// rowsInRegisters computes n columns of 1 or tileRows rows of a product over
// blocks·32 values, and over 32 more at end if it is not nil.
func rowsInRegisters[W stored](y []float32, yStride int, x []float32, xStride int, w []W, wStride int, f format, rows, blocks, n int, end *ends[W]) {
	var xEnd *float32
	var wEnd unsafe.Pointer
	if end != nil {
		xEnd, wEnd = &end.x[0], unsafe.Pointer(&end.w[0])
	}
	wide, many := level == avx512, rows == tileRows
	if f == formatF32 {
		w, wEnd := (*float32)(unsafe.Pointer(&w[0])), (*float32)(wEnd)
		switch {
		case wide && many:
			rows4F32AVX512(&y[0], yStride, &x[0], xStride, w, wStride, blocks, n, xEnd, wEnd)
		case wide:
			rows1F32AVX512(&y[0], yStride, &x[0], xStride, w, wStride, blocks, n, xEnd, wEnd)
		case many:
			rows4F32AVX2(&y[0], yStride, &x[0], xStride, w, wStride, blocks, n, xEnd, wEnd)
		default:
			rows1F32AVX2(&y[0], yStride, &x[0], xStride, w, wStride, blocks, n, xEnd, wEnd)
		}
		return
	}
	w16, wEnd16 := (*uint16)(unsafe.Pointer(&w[0])), (*uint16)(wEnd)
	bf16 := f == formatBF16
	switch {
	case bf16 && wide && many:
		rows4BF16AVX512(&y[0], yStride, &x[0], xStride, w16, wStride, blocks, n, xEnd, wEnd16)
	case bf16 && wide && !many:
		rows1BF16AVX512(&y[0], yStride, &x[0], xStride, w16, wStride, blocks, n, xEnd, wEnd16)
	case bf16 && !wide && many:
		rows4BF16AVX2(&y[0], yStride, &x[0], xStride, w16, wStride, blocks, n, xEnd, wEnd16)
	case bf16 && !wide && !many:
		rows1BF16AVX2(&y[0], yStride, &x[0], xStride, w16, wStride, blocks, n, xEnd, wEnd16)
	case !bf16 && wide && many:
		rows4F16AVX512(&y[0], yStride, &x[0], xStride, w16, wStride, blocks, n, xEnd, wEnd16)
	case !bf16 && wide && !many:
		rows1F16AVX512(&y[0], yStride, &x[0], xStride, w16, wStride, blocks, n, xEnd, wEnd16)
	case !bf16 && !wide && many:
		rows4F16AVX2(&y[0], yStride, &x[0], xStride, w16, wStride, blocks, n, xEnd, wEnd16)
	case !bf16 && !wide && !many:
		rows1F16AVX2(&y[0], yStride, &x[0], xStride, w16, wStride, blocks, n, xEnd, wEnd16)
	}
}

// weightedSumRow adds n scaled rows of v, which are as long as y, to y.
func weightedSumRow[W stored](y, a []float32, v []W, vStride, n int) {
	switch v := any(&v[0]).(type) {
	case *float32:
		if level == avx512 {
			weightedSumF32AVX512(&y[0], &a[0], v, vStride, n, len(y))
		} else {
			weightedSumF32AVX2(&y[0], &a[0], v, vStride, n, len(y))
		}
	case *uint16:
		if level == avx512 {
			weightedSumBF16AVX512(&y[0], &a[0], v, vStride, n, len(y))
		} else {
			weightedSumBF16AVX2(&y[0], &a[0], v, vStride, n, len(y))
		}
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

// readBlocks XORs the bits of x into the lanes of sum. The length of x is a
// multiple of 32 and not 0.
func readBlocks(x []float32, sum *[lanes]uint32) {
	if level == avx512 {
		readThroughAVX512(&x[0], len(x)/lanes, &sum[0])
	} else {
		readThroughAVX2(&x[0], len(x)/lanes, &sum[0])
	}
}
