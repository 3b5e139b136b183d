// Package frontdoor speaks HTTP with clients of vLLM and SGLang: the OpenAI
// completions and chat completions, SGLang's own /generate, their streams,
// errors and metrics. It turns text into tokens and checks what clients ask for;
// behind it a Service writes the tokens. It knows no scheduler and no engine.
//
// Where vLLM and SGLang differ the answer holds what clients of both look for:
// errors are nested and flat at once, an end is explained by stop_reason and by
// matched_stop, and most figures have two names.
package frontdoor

import (
	"context"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
)

// Token is a vocabulary id.
type Token = algorithms.Token

// Service is the running system of models behind the door. Its methods are
// called from many goroutines.
type Service interface {
	// Submit hands a request over. It leaves every model when ctx ends. An *Error
	// is told to the client as it is, any other error as a failure of the server.
	Submit(ctx context.Context, r *Request) (Stream, error)
	// Stats tells how each model stands, in the order of House.Models. It does not
	// wait for a step.
	Stats() []Stats
	// Err is the first failure of an engine or of another process.
	Err() error
	// Flush drops all KV that no request holds, at every model or at none.
	Flush() error
	// Drain ends when no request is open, or ctx does.
	Drain(ctx context.Context) error
}

// Routed stands for a model in a Request that all models write together.
const Routed = -1

// Request is what the door asks for: the tokens that follow Prompt.
type Request struct {
	Model     int      // that writes alone; Routed: where routing sends it
	Threshold *float64 // in place of the routing algorithm's own; nil: no change
	Prompt    []Token
	MaxTokens int     // at least 1
	Ends      []Token // ids that end it
	Seed      uint64
	Sampling  backend.Sampling
	Stop      []string // text that ends it
	ShowStop  bool     // and is shown
	Logprobs  int      // most probable tokens to tell of; below 0: no log probabilities at all
	Text      Detokenizer
}

// Detokenizer turns one request's tokens into text as they come.
type Detokenizer interface {
	// Next returns the text that the tokens complete.
	Next(tokens []Token) string
	// Rest returns what was held back, when no token follows.
	Rest() string
}

// Stream is where the answer to a Request comes. One goroutine reads it.
type Stream interface {
	// Next waits for what comes next: io.EOF after the last chunk if the request
	// ran to its end, ErrCanceled if ctx of Submit or Cancel ended it, and
	// otherwise what went wrong.
	Next(ctx context.Context) (Chunk, error)
	// End says why the request ended, after Next has returned io.EOF.
	End() End
	// Cancel ends the request early.
	Cancel()
}

// Chunk holds tokens that follow all earlier ones, in text as far as it is
// certain: it may lag behind the tokens and come without any.
type Chunk struct {
	Tokens []Token
	Writer int // model that wrote them
	Text   string
	Top    []backend.Result // one for each of Tokens, if Request.Logprobs asks
}

// End says how a request ended.
type End struct {
	Length bool   // its tokens are used up; else by one of Ends or Stop
	Stop   string // the text of Stop that ended it, "" if none did
	Cached int    // tokens of the prompt whose KV was there already
	// Begun is when the first step on it began: until then it waited. Zero where
	// nobody knows.
	Begun     time.Time
	Retracted int // times that it lost its KV where it entered
}

// Stats are a model's figures.
type Stats struct {
	Running  int // requests in the step under way, or in the next one
	Waiting  int // not taken in yet, for want of a place or of KV
	Ready    int // would run in the next step
	Pending  int // of this home, away at another model
	Away     int // of other homes, not here now
	KVHeld   int // tokens of KV that requests hold
	KVCached int // that only stay for prefixes to come
	KVTotal  int
	KVBlock  int // tokens of KV that are given out together
	B        int // threshold in force

	Steps    int64 // that ended
	Rows     int64 // token positions fed by them
	Requests int64 // in them, summed over steps
	Sampled  int64 // tokens sampled by them
	BusyNs   int64 // that they took
	Batch    int   // requests in the last of them
	Handoffs int64 // requests sent to another model to go on there
	// BySize and ByRows count steps by the requests in them and by the rows that
	// they fed: entry i holds those of more than StepBounds[i-1] and up to
	// StepBounds[i], the last one those beyond. nil where nothing is known.
	BySize, ByRows []int64
	// Batches counts steps by their requests more finely, the smallest batches first.
	Batches []BatchCount

	// Decodes are the steps that fed one row a request: no prompt and no extend.
	Decodes int64

	Retired int64 // requests that had to give up their KV
	LostKV  int   // those of them that were in no step since
	Entered int64 // tokens of requests that came in
	Cached  int64 // those of them whose KV was there already
	Broken  string
	Here    bool // in this process; otherwise all figures are 0
}

// BatchCount are the steps with up to Upto requests, and more than the entry
// before.
type BatchCount struct {
	Upto  int
	Steps int64
}

// StepBounds are the sizes by which steps are counted: vLLM's.
var StepBounds = [...]int{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}

// Model is one of the models behind the door.
type Model struct {
	Name     string
	Here     bool     // clients of this door may ask for it
	Defaults Defaults // of requests that start at it
}

// Defaults are what a model's makers suggest, from generation_config.json; a
// client's own words go before. nil was not suggested.
type Defaults struct {
	Temperature, TopP, MinP, RepetitionPenalty *float64
	TopK                                       *int64
}
