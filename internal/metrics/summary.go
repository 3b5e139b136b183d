// Package metrics turns what a system did into the figures that experiments
// report. Simulated and measured runs share these definitions.
package metrics

// Quantiles describes a distribution, in the unit that its field name says.
// All fields are NaN when nothing was observed.
type Quantiles struct{ Mean, P50, P95, P99 float64 }

// Cause says what a ready request waited for.
type Cause uint8

const (
	CauseStep      Cause = iota // its model had a step in flight
	CauseThreshold              // fewer than B requests were ready
	CauseKV                     // no KV blocks were free
	CausePeer                   // the launch rule waited for another model
	CauseAdmission              // the home had no place for another request
	Causes                      // number of causes
)

var causeNames = [Causes]string{"step", "threshold", "kv", "peer", "admission"}

func (c Cause) String() string { return causeNames[c] }

// Summary is what one run showed between the end of warm-up and its end.
// Slices are indexed by model. A figure that was not observed is NaN.
type Summary struct {
	WindowS  float64 // observed time, seconds
	Requests int64   // requests that ended in the window, aborted ones not counted
	Aborted  int64   // requests that ended without finishing
	Tokens   int64   // visible output tokens

	ThroughputTokPerS float64 // Tokens / WindowS
	ThroughputRelSE   float64 // relative standard error of it, by batch means
	PerUserTokPerS    float64 // mean over requests of tokens / E2E; steady: throughput / users

	TTFTMs Quantiles // arrival to first token
	TPOTMs Quantiles // (E2E − TTFT) / (tokens − 1), requests of at least two tokens
	ITLMs  Quantiles // each gap between two tokens of a request; 0 inside a run
	E2EMs  Quantiles // arrival to end

	// A request is good if its TTFT and its TPOT are within the limits of its
	// class; aborted and refused ones are not. NaN if no class has limits.
	GoodputReqPerS float64 // good requests that ended / WindowS
	GoodShare      float64 // good requests / all that ended, aborted ones included

	GPUSecondsPer1kTok float64 // GPUs · WindowS / (Tokens / 1000); see CountGPUs

	// Classes holds the figures of each class where there are several, else nil.
	Classes []ClassSummary

	MeanBatch   []float64 // requests per step
	MeanRows    []float64 // rows per step
	Steps       []int64   // steps that ended in the window
	Utilisation []float64 // share of the window with a step in flight
	BInForce    []float64 // mean threshold over the model's launches
	TokenShare  []float64 // share of visible tokens that each model wrote

	// WaitingMs is the time that requests spent waiting, per visible output
	// token, by cause: milliseconds.
	WaitingMs [Causes]float64
}
