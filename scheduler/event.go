package scheduler

import "github.com/tokenrouter/tokenrouter/algorithms"

// The core speaks of the same things as the routing algorithms.
type (
	Token     = algorithms.Token
	RequestID = algorithms.RequestID
	PeerReq   = algorithms.PeerReq
)

// EventKind says what happened.
type EventKind uint8

const (
	Arrived      EventKind = iota // a client's request entered here: Arrival
	PeerArrived                   // a request came to be extended: Req
	PeerReturned                  // tokens or a verdict came home: Req
	StepDone                      // the step in flight ended: Results
	PeerState                     // another model started, ended or changed its ready count: Peer, Busy, Ready
	LiveChanged                   // live requests in the whole system: Live
	Wake                          // the time of a WakeAt has come
	Aborted                       // the client went away: Request
	Stop                          // home found a stop string: Request
	Released                      // home ended the request: Request
	Drain                         // take no new request, finish the others
	Flush                         // forget the KV of prefixes that nobody uses
	eventKinds
)

// Event is one thing that happened at one instant. Only the fields that its
// kind names are read. Req passes to the core, which recycles it.
type Event struct {
	Kind    EventKind
	AtNs    int64
	Request RequestID
	Arrival *Arrival
	Req     *PeerReq
	Results []Result
	Peer    int
	Busy    bool
	Ready   int
	Live    int
}

// Arrival is a client's request as it enters its home. The core copies it.
type Arrival struct {
	ID        RequestID
	Seed      uint64
	Prompt    []Token // at least one
	MaxTokens int     // output tokens at most, at least 1
	EOS       []Token // ids that end the request
}

// Result is what a step brought for one entry of its batch, in the same order.
// Sampled is false where the entry did not reach its last token (a chunk).
type Result struct {
	ID      RequestID
	Sampled bool
	Token   Token
	Dest    algorithms.Dest
	Extra   []float64 // what Route left in View.Extra
	// Run holds the tokens of the steps before the last where several steps ran
	// as one, all of which stayed. It is as long for every entry of the batch.
	Run []Token
}

// MessageKind says what the driver has to do.
type MessageKind uint8

const (
	Send    MessageKind = iota // deliver Req to model To as PeerArrived
	Return                     // deliver Req to model To, its home, as PeerReturned
	Emit                       // show Tokens, which start at Start and were written by Writer, to the client
	Finish                     // the request ended for Reason; the client has all its tokens
	Refuse                     // the request was not taken, for Reason
	Retract                    // the request lost its KV here; it will be extended again
	Release                    // deliver to model To as Released
	WakeAt                     // step a Wake at AtNs
	State                      // tell all other models Busy and Ready as PeerState
	Live                       // add Delta to the system's live count, then step LiveChanged everywhere
	messageKinds
)

// Message is one thing that a driver has to do. Tokens belongs to the core and
// is valid until the next call; Req passes to the driver.
type Message struct {
	Kind    MessageKind
	Request RequestID
	To      int
	Req     *PeerReq
	Start   int
	Tokens  []Token
	Writer  int
	Reason  Reason
	AtNs    int64
	Busy    bool
	Ready   int
	Delta   int
}

// Reason says why a request ended or was refused.
type Reason uint8

const (
	ReasonStop      Reason = iota // an end-of-sequence id or a stop string
	ReasonLength                  // its token budget is used up
	ReasonAbort                   // the client left, a peer failed, or it outgrew a KV pool
	ReasonTooLong                 // refused: prompt + 1 token exceeds a KV pool
	ReasonQueueFull               // refused: the admission queue is full
	ReasonDraining                // refused: the subserver takes no new request
	reasons
)

var (
	eventNames = [eventKinds]string{"arrived", "peer-arrived", "peer-returned", "step-done",
		"peer-state", "live", "wake", "aborted", "stop", "released", "drain", "flush"}
	messageNames = [messageKinds]string{"send", "return", "emit", "finish", "refuse",
		"retract", "release", "wake-at", "state", "live"}
	reasonNames = [reasons]string{"stop", "length", "abort", "too-long", "queue-full", "draining"}
)

func (k EventKind) String() string   { return nameOf(eventNames[:], int(k)) }
func (k MessageKind) String() string { return nameOf(messageNames[:], int(k)) }
func (r Reason) String() string      { return nameOf(reasonNames[:], int(r)) }

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}

// Batch is one forward step. It belongs to the core and is valid until the
// StepDone that answers it.
type Batch struct {
	Entries []Entry
	// Steps is how many steps this batch would be launched again unchanged, one
	// after the other, if every token stays and nothing else happens here. A
	// driver may run up to that many as one and answer with one StepDone, whose
	// results carry the earlier tokens in Run.
	Steps         int
	Rows          int // token positions fed
	ContextTokens int // sum of the entries' contexts
}

// Entry is one request's part in a step: what the engine feeds and what Route
// has to be told.
type Entry struct {
	ID      RequestID
	Tokens  []Token // ids to feed, one a row
	Start   int     // position of the first row
	Context int     // tokens whose KV the request has after the step
	Blocks  []int32 // block table that covers them
	Samples bool    // the rows reach the last token, so a token is sampled

	Seed      uint64
	Home      int
	Position  int // position of the token to be sampled
	StayStart int // position of the first decision of this stay
	Hops      int // hand-offs before this stay
	Extra     []float64

	ReadySinceNs    int64 // since when the request waited for this step
	KVWaitNs        int64 // before that: in the KV queue
	AdmissionWaitNs int64 // before that: in the admission queue

	Slot int32 // index that stays the request's while the core holds it: for the driver's own tables
}
