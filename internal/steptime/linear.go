package steptime

import "fmt"

// Linear is base + per request + per row, compiled to 2^-20 ns.
type Linear struct {
	baseUnits, perRequestUnits, perRowUnits int64
}

// A FieldError says which field of a step_ms table is wrong, for callers that
// know on which line the field stands.
type FieldError struct {
	Field   string // "base", "per_request" or "per_row"
	Problem string
}

func (e *FieldError) Error() string { return "step_ms." + e.Field + " " + e.Problem }

// NewLinear compiles step_ms = { base, per_request, per_row }, all in ms: a step
// takes baseMs + perRequestMs * requests + perRowMs * rows, where rows counts
// every token position fed, the one of each decoding request included. Decimals
// are exact: 32.0 + 0.1 * 3 ms is 32,300,000 ns. A field that is negative, not a
// number or above 1e6 ms, and a step that takes no time, is a *FieldError.
func NewLinear(baseMs, perRequestMs, perRowMs float64) (StepTime, error) {
	var l Linear
	for _, field := range []struct {
		name  string
		ms    float64
		units *int64
	}{
		{"base", baseMs, &l.baseUnits},
		{"per_request", perRequestMs, &l.perRequestUnits},
		{"per_row", perRowMs, &l.perRowUnits},
	} {
		units, err := unitsFromMs(field.ms)
		if err != nil {
			return nil, &FieldError{field.name, err.Error()}
		}
		*field.units = units
	}
	// The smallest step has one request and one row. Virtual time would stand
	// still in a step of 0, so such a profile is refused rather than rounded up.
	if l.units(1, 1) < 1<<(fractionBits-1) {
		return nil, &FieldError{"base", fmt.Sprintf(
			"+ per_request + per_row is %v ms: a step must take at least 1 ns; set base above 0",
			baseMs+perRequestMs+perRowMs)}
	}
	return l, nil
}

func (l Linear) units(requests, rows int64) int64 {
	units := addSaturating(l.baseUnits, timesSaturating(l.perRequestUnits, requests))
	return addSaturating(units, timesSaturating(l.perRowUnits, rows))
}

// Ns implements [StepTime]; contexts do not matter. It panics if requests is
// below 1, rows below requests or contextTokens below 0.
func (l Linear) Ns(requests, rows, contextTokens int) int64 {
	checkStep(requests, rows, contextTokens)
	return nsFromUnits(l.units(int64(requests), int64(rows)))
}

func checkStep(requests, rows, contextTokens int) {
	if requests < 1 || rows < requests || contextTokens < 0 {
		panic("steptime: a step needs a request, a row for each request and contexts of at least 0 tokens")
	}
}
