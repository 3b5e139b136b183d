package kernel

// Level names the instruction set in use: "avx512", "avx2" or "go". It changes
// how long a call takes and nothing else.
func Level() string { return "go" }

func product[W stored](y, x []float32, w []W, f format, s shape, lo, hi int) {
	productGo(y, x, w, f, s, lo, hi)
}
