package cpu

// turn rotates the pairs (x[i], x[i+D/2]) by the angles whose cosines are
// turns[:D/2] and sines turns[D/2:], which is the order of Hugging Face's
// checkpoints, and multiplies them by scale. Products are rounded before they
// are added: Go would fuse them on some machines and not on others.
func turn(x, turns []float32, scale float32) {
	half := len(x) / 2
	low, high := x[:half], x[half:]
	cos, sin := turns[:half], turns[half:]
	high, cos, sin = high[:len(low)], cos[:len(low)], sin[:len(low)]
	for i := range low {
		a, b := low[i], high[i]
		low[i] = (float32(a*cos[i]) - float32(b*sin[i])) * scale
		high[i] = (float32(b*cos[i]) + float32(a*sin[i])) * scale
	}
}
