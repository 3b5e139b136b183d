// Package subserver is the real runtime of a system of models: it drives the
// scheduler's cores and the engines in real time. Each subserver is one model
// with three loops: the client loop (client.go) takes requests in and streams
// tokens out, the decode loop (decode.go) runs steps, and the peer loop
// (peer.go) exchanges requests with the other subservers over a transport.
package subserver

import (
	"io"

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
	BlockTokens int
	Rule        scheduler.Rule // nil: that of the Config
}

// Config is a system of subservers, or this process's part of one.
type Config struct {
	Models     []Model
	Algorithm  algorithms.Algorithm
	Rule       scheduler.Rule
	Thresholds scheduler.Thresholds
	QueueLimit int  // arrivals that may wait at a home
	NoReuse    bool // equal prompts do not share KV
	Static     bool // admit nobody until all who were admitted have ended
	Reread     bool // every visit extends the whole request again
	// HoldContext, if above 0, is what every request counts with; only engines
	// that read no KV can run so.
	HoldContext int
	TopK        int // entries of Signals.TopK, for algorithms that need it; 0 means 20
	// Detokenize turns tokens into text, for stop strings; nil refuses requests
	// that have any.
	NewDetokenizer func() Detokenizer
	Log            io.Writer // event log for replay; nil: none
	Observer       Observer  // nil: nobody watches
	Transport      Transport // nil: all models are in this process
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
	ID        scheduler.RequestID // 0: the system numbers it
	Home      int                 // model where it enters
	Prompt    []algorithms.Token
	MaxTokens int
	EOS       []algorithms.Token // ids that end it; none: ignore_eos
	Seed      uint64
	Sampling  backend.Sampling
	Stop      []string // text that ends it, and is not shown
	ShowStop  bool     // but show it
	Logprobs  int      // see backend.Sequence; below 0 for none
}

// Chunk is what a client gets at once: tokens that follow all earlier ones.
type Chunk struct {
	Start  int // position of Tokens[0] in the request, the prompt included
	Tokens []algorithms.Token
	Writer int    // model that wrote them
	Text   string // that they complete; "" without a detokenizer
	AtNs   int64  // when the home showed them
}
