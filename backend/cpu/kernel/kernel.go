// Package kernel is the float32 arithmetic of the CPU engine. Every result has
// one fixed accumulation tree: its bits depend on its own operands alone, never
// on the batch around it, on how rows and columns were cut into tiles, on the
// number of threads, or on the instruction set. AVX-512, AVX2 and plain Go give
// the same bits; only the bits inside a NaN are left open. Denormals are kept.
//
// A dot product of length k is computed in 32 lanes. Lane l starts at +0 and
// takes the elements l, l+32, l+64, … in this order, each by one fused
// multiply-add. A vector whose length is no multiple of 32 is padded with zeros.
// Then the lanes are added pairwise: lane l and l+16, l and l+8, l and l+4, and
// of the four that are left (0+1)+(2+3).
//
// No function here starts a goroutine, and all may run at the same time on
// different outputs. To share a product among threads, cut its columns.
package kernel

import (
	"fmt"
	"math"
)

const lanes = 32

// MatMulF32 computes y[r*n+j] = Σ_i x[r*k+i]·w[j*k+i] for all rows r and for the
// columns lo ≤ j < hi. x is [rows, k], w is [n, k], y is [rows, n], all row by
// row; the other columns of y are left alone.
func MatMulF32(y, x, w []float32, rows, k, n, lo, hi int) {
	checkMatMul(len(y), len(x), len(w), rows, k, n, lo, hi)
	product(y, x, w, formatF32, shape{rows, k, n, k, k}, lo, hi)
}

// MatMulBF16 is MatMulF32 for weights in bfloat16, which are widened exactly.
func MatMulBF16(y, x []float32, w []uint16, rows, k, n, lo, hi int) {
	checkMatMul(len(y), len(x), len(w), rows, k, n, lo, hi)
	product(y, x, w, formatBF16, shape{rows, k, n, k, k}, lo, hi)
}

// MatMulF16 is MatMulF32 for weights in IEEE half precision, which are widened
// exactly.
func MatMulF16(y, x []float32, w []uint16, rows, k, n, lo, hi int) {
	checkMatMul(len(y), len(x), len(w), rows, k, n, lo, hi)
	product(y, x, w, formatF16, shape{rows, k, n, k, k}, lo, hi)
}

func checkMatMul(y, x, w, rows, k, n, lo, hi int) {
	if rows < 0 || k < 0 || lo < 0 || lo > hi || hi > n || y < rows*n || x < rows*k || w < n*k {
		panic(fmt.Sprintf("kernel: product of x[%d, %d] and w[%d, %d], columns %d to %d, in slices of %d, %d and %d (y)",
			rows, k, n, k, lo, hi, x, w, y))
	}
}

// Dots computes y[r*yStride+j] = Σ_i x[r*k+i]·w[j*wStride+i] for r < rows and
// j < n: the scores of a group of query heads against the keys of their
// positions. The tree is that of MatMulF32.
func Dots(y, x, w []float32, rows, k, n, yStride, wStride int) {
	checkStrided(len(y), len(x), len(w), rows, k, n, yStride, wStride)
	product(y, x, w, formatF32, shape{rows, k, yStride, k, wStride}, 0, n)
}

// checkStrided checks rows of n scores at yStride, rows of k values without
// gaps, and n rows of k values at wStride.
func checkStrided(scores, values, w, rows, k, n, yStride, wStride int) {
	if rows == 0 || n == 0 {
		return
	}
	if rows < 0 || k < 0 || n < 0 || yStride < n || wStride < k ||
		scores < (rows-1)*yStride+n || values < rows*k || w < (n-1)*wStride+k {
		panic(fmt.Sprintf("kernel: %d rows of %d, %d rows at stride %d, scores at stride %d, in slices of %d, %d and %d",
			rows, k, n, wStride, yStride, values, w, scores))
	}
}

// Dot returns Σ x[i]·y[i]. x and y are equally long.
func Dot(x, y []float32) float32 {
	if len(x) != len(y) {
		panic(fmt.Sprintf("kernel: dot product of %d and %d numbers", len(x), len(y)))
	}
	if len(x) == 0 {
		return 0
	}
	var out [1]float32
	product(out[:], x, y, formatF32, shape{1, len(x), 1, len(x), len(x)}, 0, 1)
	return out[0]
}

// WeightedSum adds Σ_j a[r*aStride+j]·v[j*vStride+i] to y[r*k+i] for r < rows and
// i < k: the values of n positions, weighted by a group of query heads. The n
// terms are added one after the other by fused multiply-adds, so that cutting
// the positions into several calls changes nothing.
func WeightedSum(y, a, v []float32, rows, k, n, aStride, vStride int) {
	checkStrided(len(a), len(y), len(v), rows, k, n, aStride, vStride)
	if rows == 0 || k == 0 || n == 0 || level == plainGo {
		weightedSumGo(y, a, v, rows, k, n, aStride, vStride)
		return
	}
	for r := range rows {
		weightedSumRow(y[r*k:][:k], a[r*aStride:], v, vStride, n)
	}
}

// ReadThrough reads all of x as fast as this machine can and returns the XOR of
// its bits: the yardstick for kernels that stream weights from memory.
func ReadThrough(x []float32) uint32 {
	var sum [lanes]uint32
	whole := wholeBlocks(len(x))
	if whole > 0 {
		readBlocks(x[:whole], &sum)
	}
	var all uint32
	for _, v := range x[whole:] {
		all ^= math.Float32bits(v)
	}
	for _, v := range sum {
		all ^= v
	}
	return all
}
