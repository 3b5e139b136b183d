//go:build !arm64

package kernel

// fma returns x·y+z, rounded once to float32.
func fma(x, y, z float32) float32 { return fmaEmulated(x, y, z) }
