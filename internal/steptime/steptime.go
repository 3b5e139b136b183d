// Package steptime says how long one forward step takes. The simulator, the
// Markov chain and the paced engine read the same profiles through it.
package steptime

// StepTime is a compiled step-time function: integer nanoseconds, at least 1,
// so that no rounding depends on the order in which steps are added up.
type StepTime interface {
	// Ns is the length of one step with that many requests (at least 1) and
	// rows (token positions fed; at least requests), whose contexts sum to
	// contextTokens.
	Ns(requests, rows, contextTokens int) int64
}
