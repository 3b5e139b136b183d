package algorithms

// Token is a vocabulary id.
type Token int32

// RequestID names a request in the whole system. Ids are never reused.
type RequestID uint64

// Dest is the answer of Route: 0 keeps the request where it is, k > 0 hands it
// to the k-th model of the list.
type Dest int32

// Stay keeps the request at the model that has just run.
const Stay Dest = 0

// To is the destination for the model with the given index, counted from 0.
func To(model int) Dest { return Dest(model + 1) }

// Model is the index, counted from 0, of the model that d names; -1 for Stay.
func (d Dest) Model() int { return int(d) - 1 }

// Algorithm is a routing algorithm: the three functions, and the signals that
// Route reads. A value holds settings only, never state of a request, so one
// value serves all requests of all models at once.
type Algorithm interface {
	// Name is the algorithm's name in experiment files.
	Name() string

	// Needs declares the signals that Route reads at the model with this
	// index. An engine computes these and no others.
	Needs(model int) Need

	// Route decides, after a forward step that sampled a token, whether the
	// request stays. The driver calls it beside the forward, where the signals
	// are. It may replace v.Token (fusion) and set v.Extra, which travels to
	// the destination.
	Route(v *View) Dest

	// Send packs a departure into req, whose ID, Home, From and Seed are set and
	// whose Extra holds what Route
	// left in View.Extra, and reports whether the token just sampled is kept:
	// a kept token stays in the request and travels in the suffix, a dropped
	// one is forgotten and the peer writes that position.
	Send(d Departure, req *PeerReq) (keep bool)

	// Receive answers which of the returned tokens the home accepts; it must
	// be a prefix of req.Suffix. Embed AcceptAll for the default, which lets
	// tokens stream to the client while a visit goes on.
	Receive(req *PeerReq) []Token
}

// View is what Route may look at: one request at one model, after one forward.
type View struct {
	Request   RequestID
	Seed      uint64 // the request's seed: the key of every random draw
	Model     int    // index of the model that ran
	Home      int    // index of the model where the client's request entered
	Position  int    // position of Token in the request, prompt included
	StayStart int    // position of the first decision of this stay
	Hops      int    // hand-offs of this request before this stay
	Token     Token  // the token just sampled
	Signals   Signals
	Extra     []float64 // what travelled here; what Route leaves in it travels on
}

// Departure tells Send which request leaves from where to where.
type Departure struct {
	From, To, Home int
	Position       int // position that the sampled token has if it is kept
	Token          Token
}

// Status says what a peer request means to the one who gets it.
type Status uint8

const (
	// Visit asks a peer to extend the request and write on.
	Visit Status = iota
	// Running brings tokens home while the visit goes on.
	Running
	// Returned brings the request home, ready to run there.
	Returned
	// Finished brings the last tokens of the request home.
	Finished
	// Refused says that the request has outgrown the peer's KV pool.
	Refused
	// Failed says that the peer can no longer run the request.
	Failed
)

var statusNames = [...]string{"visit", "running", "returned", "finished", "refused", "failed"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "status?"
}

// PeerReq is a request in transit between two subservers: plain data.
type PeerReq struct {
	ID     RequestID
	Home   int    // model where the client's request entered
	From   int    // model that packed this
	Status Status // what the receiver is asked to do
	Seed   uint64

	Start  int     // position of Suffix[0] in the request
	Suffix []Token // the tokens that the receiver has not seen

	// Anchors holds, per model, how many token ids of the request that model
	// knows: the next suffix to it starts there.
	Anchors []int

	Prompt    int       // tokens of the prompt
	Budget    int       // output tokens that may still be written
	EOS       []Token   // ids that end the request
	ArrivedNs int64     // arrival at home: the request's age under KV pressure
	Hops      int       // hand-offs so far, this one included
	Extra     []float64 // fields of the algorithm
}

// AcceptAll is the default Receive: every returned token is accepted.
type AcceptAll struct{}

// Receive accepts all returned tokens.
func (AcceptAll) Receive(req *PeerReq) []Token { return req.Suffix }

func (AcceptAll) acceptsAll() {}

// AcceptsAll reports whether a uses the default Receive, so that tokens may be
// shown to the client before a visit has ended.
func AcceptsAll(a Algorithm) bool {
	_, ok := a.(interface{ acceptsAll() })
	return ok
}

// StaySource is an algorithm whose decision does not depend on signals: it
// knows at the start of a stay how the stay will end. A simulator asks once a
// stay instead of once a token; Route must give the same answers.
type StaySource interface {
	// Stay returns how many decisions keep the request at v.Model before one
	// makes it leave, and where it then goes. It reads v.Seed, v.Model,
	// v.Home, v.StayStart and v.Hops only.
	Stay(v *View) (kept int, dest Dest)
}
