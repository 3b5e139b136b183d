package loadtest

import (
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// Source says how the tokens of an answer were counted.
type Source uint8

// Ways to count tokens, from the best to the worst.
const (
	// ByTokenIDs counts the token ids that each chunk carries.
	ByTokenIDs Source = iota
	// ByRunningUsage counts by the usage that each chunk carries.
	ByRunningUsage
	// ByFinalUsage takes each chunk with text for one token and what the usage at
	// the end says beyond that for tokens of the last chunk. The number of
	// tokens, TTFT, TPOT, E2E and, since a token inside a chunk has a gap of 0
	// whichever chunk that is, ITL are exact wherever a chunk holds whole tokens.
	ByFinalUsage
	// ByChunks takes each chunk with text for one token: the server told nothing.
	ByChunks
	sources
)

var sourceNames = [sources]string{"token_ids", "running usage", "final usage", "chunks"}

func (s Source) String() string { return sourceNames[s] }

// Answer is what came of one request. A Target fills it.
type Answer struct {
	// PromptTokens is how long the prompt was as the server counts; 0 if it did
	// not tell.
	PromptTokens int
	Source       Source
	Finished     bool // the server said why it ended
	Disagrees    bool // the server's usage and its token ids do not agree

	Output []algorithms.Token // of a Dispatcher only

	start    time.Time // of the run
	moments  []moment
	tokens   int
	silence  *time.Timer // rings if no token comes for patience
	patience time.Duration
	progress *Progress
}

// moment is when tokens came.
type moment struct {
	atNs           int64
	tokens, writer int32
}

// Wrote notes tokens that one model wrote and that were read at one time.
func (a *Answer) Wrote(at time.Time, tokens, writer int) {
	a.moments = append(a.moments, moment{int64(at.Sub(a.start)), int32(tokens), int32(writer)})
	a.tokens += tokens
	a.progress.Tokens.Add(int64(tokens))
	a.silence.Reset(a.patience)
}

// Tokens is how many have come.
func (a *Answer) Tokens() int { return a.tokens }

// correct makes the number of tokens what the server says at the end: what it
// has more goes to the last chunk, what it has less is taken from there, since a
// chunk may have held half a token.
func (a *Answer) correct(tokens int) {
	if len(a.moments) == 0 {
		return
	}
	last := &a.moments[len(a.moments)-1]
	last.tokens += int32(tokens - a.tokens)
	a.tokens = tokens
	for len(a.moments) > 1 && last.tokens < 1 {
		rest := last.tokens
		a.moments = a.moments[:len(a.moments)-1]
		last = &a.moments[len(a.moments)-1]
		last.tokens += rest
	}
}
