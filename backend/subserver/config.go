// Package subserver is the real runtime of a system of models: it drives the
// scheduler's cores and the engines in real time. Each subserver is one model
// with three loops: the client loop (client.go) takes requests in and streams
// tokens out, the decode loop (decode.go) owns the core and runs steps, and the
// peer loop (peer.go) exchanges requests with the other subservers.
//
// A core is driven by the duties that package scheduler lists. Loops speak to
// each other through mailboxes that are never full, so none waits for another,
// and what fills them is bounded by the requests that are open.
package subserver

import (
	"io"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Model is one model of the system. All processes of a system list the same
// models in the same order.
type Model struct {
	Name        string
	Engine      backend.Engine // nil: another process has it
	MaxRunning  int            // requests in a step at most
	ChunkTokens int            // rows in a step at most; more than MaxRunning
	KVTokens    int            // size of the KV pool, at most what the engine has
	BlockTokens int            // tokens in a KV block
	MaxContext  int            // tokens of a request at most; 0: what the engine says, or the KV pool if it is elsewhere
	Rule        scheduler.Rule // nil: that of the Config
}

// Config is a system of subservers, or this process's part of one.
type Config struct {
	Models     []Model
	Algorithm  algorithms.Algorithm
	Rule       scheduler.Rule       // of the models that have none of their own
	Thresholds scheduler.Thresholds // B of each model, by how many requests are live
	QueueLimit int                  // arrivals that may wait at a home; beyond it they are refused
	NoReuse    bool                 // equal prompts do not share KV
	Static     bool                 // admit nobody until all who were admitted have ended
	Reread     bool                 // every visit extends the whole request again
	// HoldContext, if above 0, is what every request counts with; only engines
	// that read no KV can run so.
	HoldContext int
	TopK        int // entries of Signals.TopK, for algorithms that need it; 0 means 20
	// NewDetokenizer makes what turns a request's tokens into text, for chunks
	// and stop strings; nil leaves chunks without text and refuses requests with
	// stop strings.
	NewDetokenizer func() Detokenizer
	// Log, if not nil, gets the event log that Replay reads. Params are what
	// Algorithm was made from by algorithms.New; only the log needs them.
	Log       io.Writer
	Params    algorithms.Params
	Observer  Observer  // nil: nobody watches
	Transport Transport // nil: all models are in this process

	epoch time.Time // when the clock began; zero: at Start
	hooks *hooks    // of tests
}

// Detokenizer turns a request's tokens into text as they come.
type Detokenizer interface {
	// Next returns the text that the tokens complete; it holds back the bytes
	// of a character that is not whole.
	Next(tokens []algorithms.Token) string
	// Rest returns what was held back, when no token follows.
	Rest() string
}

// Observer sees the cores as they go. Calls for one model come one at a time,
// those for several at once; slices are valid during the call only.
type Observer interface {
	// Stepped tells of a step that ended: the requests in it, and the threshold
	// in force when it started.
	Stepped(model int, startNs, endNs int64, batch *scheduler.Batch, threshold int)
	// Event and Messages tell what went into a core and came out of it.
	Event(model int, ev *scheduler.Event)
	Messages(model int, atNs int64, out []scheduler.Message)
}

// Request is what a client asks for.
type Request struct {
	// ID names the request in the whole system. 0: the system numbers it; give
	// ids to all requests of a system or to none. They are never used again.
	ID        scheduler.RequestID
	Home      int // model where it enters
	Prompt    []algorithms.Token
	MaxTokens int                // output tokens at most, at least 1
	EOS       []algorithms.Token // ids that end it; none: ignore_eos
	Seed      uint64
	Sampling  backend.Sampling
	Stop      []string // text that ends it, and is not shown
	ShowStop  bool     // but show it
	Logprobs  int      // see backend.Sequence; below 0 for none
	Routing   Routing
	// Detokenizer makes this request's text; nil: one of Config.NewDetokenizer.
	Detokenizer Detokenizer

	// counted is where the client's prompt ends, if that is before the end of
	// Prompt: a dispatcher submits what was written so far as a prompt.
	counted int
}

// Chunk is what a client gets at once: tokens that follow all earlier ones.
type Chunk struct {
	Start  int // position of Tokens[0] in the request, the prompt included
	Tokens []algorithms.Token
	Writer int    // model that wrote them
	Text   string // that came to be certain; it may lag behind the tokens
	AtNs   int64  // when the home showed them, on System.NowNs's clock
	// BegunNs is when the home's first step for the request began, on the same
	// clock: until then it waited. 0 where a chunk brings no tokens.
	BegunNs int64
	// Cached counts the tokens of the prompt whose KV the home had at that time.
	Cached int
	// Retracted counts how often the request has lost its KV at the home so far.
	Retracted int
	// Top tells of each of Tokens what Request.Logprobs asked for: Token, Logprob
	// and Top are set. nil if nothing was asked.
	Top []backend.Result
}
