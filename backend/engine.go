// Package backend states what an engine is: that which runs the forward steps
// of one model. It knows rows and KV blocks, and no request, no queue and no
// other model. The CPU engine and the paced one implement it, and package
// subserver drives it with the scheduler's core.
package backend

import "github.com/tokenrouter/tokenrouter/algorithms"

// Token is a vocabulary id.
type Token = algorithms.Token

// Engine runs the forward steps of one model. One goroutine calls Forward, one
// step at a time. What comes out of a sequence depends on that sequence's
// tokens, seed and sampling alone: never on the batch around it, on how the
// tokens were cut into steps, or on which blocks hold its KV.
type Engine interface {
	Info() Info

	// Forward runs one step and blocks until it is done: it feeds every
	// sequence's tokens, writes their KV, and fills results[i] for each
	// Sequences[i] that Samples. It keeps nothing of step afterwards; what it
	// leaves in results is valid until the next call. An error means that the
	// engine is lost: nothing was sampled, and no further call will work.
	Forward(step *Step, results []Result) error

	// Close gives back what the engine holds. No call may follow.
	Close() error
}

// Info describes a loaded engine. It does not change.
type Info struct {
	Model       string          // the name that users see
	Vocab       int             // logits for each position; tokens are below it
	MaxContext  int             // tokens of a sequence, at most
	BlockTokens int             // tokens in a KV block
	Blocks      int             // KV blocks in the pool, numbered from 0
	Signals     algorithms.Need // the signals that it can compute
	WeightBytes int64           // read by every step
	KVBytes     int64           // of one token, all layers
}

// Step is one forward pass over several sequences.
type Step struct {
	Sequences []Sequence
	Needs     algorithms.Need // signals to compute where a sequence samples; within Info.Signals
	TopK      int             // entries of Signals.TopK, if that is among Needs
}

// Rows counts the token positions that the step feeds.
func (s *Step) Rows() int {
	n := 0
	for i := range s.Sequences {
		n += len(s.Sequences[i].Tokens)
	}
	return n
}

// Sequence is one request's part in a step.
type Sequence struct {
	Tokens  []Token // to feed, one a row, at positions Start, Start+1, …; at least one
	Start   int     // so many positions have their KV in Blocks already
	Blocks  []int32 // block table; covers Start + len(Tokens) positions
	Context int     // tokens that the step is priced with; Start + len(Tokens) but in steady workloads
	Samples bool    // sample the token after the last row

	Seed     uint64    // key of the draw, with the position of the sampled token
	Sampling *Sampling // nil: greedy
	Prompt   int       // tokens of the prompt: penalties and MinTokens count from there
	// History is all tokens of the request up to and with the last of Tokens. It
	// is set only if Sampling.ReadsHistory.
	History []Token
	// Logprobs asks for the log probability of the sampled token and of that
	// many most probable ones; below 0 for none at all.
	Logprobs int
}

// Position is the position that the sampled token has.
func (s *Sequence) Position() int { return s.Start + len(s.Tokens) }

// Result is what a sequence that Samples got.
type Result struct {
	Token   Token
	Signals algorithms.Signals // those of Step.Needs
	// Logprob and Top are of the raw logits, natural logarithms, set if the
	// sequence asks for them. Top holds the most probable tokens first.
	Logprob float64
	Top     []TokenLogprob
}

// TokenLogprob is a token and the natural logarithm of its probability.
type TokenLogprob struct {
	Token   Token
	Logprob float64
}
