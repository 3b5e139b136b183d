//go:build !amd64

package kernel

func bestLevel() instructions { return plainGo }

// Without kernels in assembly nobody asks for these: level is plainGo.

func productRows[W stored](y []float32, yStride int, x []float32, xStride int, w []W, wStride int, f format, rows, blocks, n int, end *ends[W]) {
	panic("kernel: no assembly for this processor")
}

func weightedSumRow(y, a, v []float32, vStride, n int) {
	panic("kernel: no assembly for this processor")
}

func expSumBlocks(x []float32, shift float32, sum *[lanes]float32) {
	panic("kernel: no assembly for this processor")
}

func siluMulBlocks(y, gate, up []float32) {
	panic("kernel: no assembly for this processor")
}

func largestBlocks(x []float32, most *[lanes]float32) {
	panic("kernel: no assembly for this processor")
}

func scaleBlocks(y, x []float32, a float32, w []float32) {
	panic("kernel: no assembly for this processor")
}

func readBlocks(x []float32, sum *[lanes]uint32) {
	panic("kernel: no assembly for this processor")
}
