package scheduler

// state is where a request stands at one core.
type state uint8

const (
	free     state = iota // the slot is not in use
	queued                // at home, not admitted yet
	ready                 // could run in the next step
	kvQueued              // waits for KV blocks: neither ready nor live
	inFlight              // in the step that is running
	pending               // at home, but away at a peer; KV kept
	away                  // a peer's request that is not here now; ids kept
	ended                 // over, but still in the step that is running
	states
)

var stateNames = [states]string{"free", "queued", "ready", "kv-queued", "in-flight", "pending", "away", "ended"}

func (s state) String() string { return nameOf(stateNames[:], int(s)) }

// mayFollow is the only transition table: mayFollow[from] holds the states
// that a request may enter from there.
var mayFollow = [states]uint16{
	free:     1<<queued | 1<<ready,                                 // arrival; a peer's arrival
	queued:   1<<ready | 1<<free,                                   // admitted; ended
	ready:    1<<inFlight | 1<<kvQueued | 1<<free,                  // launched; no blocks; ended or outgrown
	kvQueued: 1<<ready | 1<<free,                                   // blocks; ended or outgrown
	inFlight: 1<<ready | 1<<pending | 1<<away | 1<<ended | 1<<free, // stays; leaves; leaves; ended
	pending:  1<<ready | 1<<free,                                   // returned; ended
	away:     1<<ready | 1<<free,                                   // arrives again; released
	ended:    1 << free,                                            // the step is over
}

// request is what one core knows of one request.
type request struct {
	id        RequestID
	state     state
	home      int
	seed      uint64
	arrivedNs int64 // at home: the request's age
	prompt    int
	budget    int // output tokens that may still be written
	eos       []Token

	ids       history
	fed       int     // positions whose KV is here
	blocks    []int32 // covers at least fed
	published int     // leading blocks that other requests can find

	anchors   []int // per model, ids that it knows; current while the request is here
	stayStart int
	hops      int
	extra     []float64
	early     []*PeerReq // returns that lie ahead of a gap

	readySinceNs    int64
	waitSinceNs     int64 // start of the stay in a queue
	kvWaitNs        int64
	admissionWaitNs int64
}

func (r *request) unseen() int { return r.ids.len() - r.fed }

// older orders requests by age: arrival at home, then id.
func (r *request) older(s *request) bool {
	return r.arrivedNs < s.arrivedNs || r.arrivedNs == s.arrivedNs && r.id < s.id
}

func (r *request) ends(t Token) bool {
	for _, e := range r.eos {
		if e == t {
			return true
		}
	}
	return false
}

// reset empties r and keeps its storage.
func (r *request) reset() {
	*r = request{
		eos: r.eos[:0], ids: history{ids: r.ids.ids[:0]}, blocks: r.blocks[:0],
		anchors: r.anchors[:0], extra: r.extra[:0], early: r.early[:0],
	}
}

// history holds a request's token ids. Ids before base are forgotten, which
// only requests that never end do: nobody asks for them again.
type history struct {
	base int
	ids  []Token
}

func (h *history) len() int             { return h.base + len(h.ids) }
func (h *history) push(t Token)         { h.ids = append(h.ids, t) }
func (h *history) from(pos int) []Token { return h.ids[pos-h.base:] }
func (h *history) span(a, b int) []Token {
	return h.ids[a-h.base : b-h.base]
}
func (h *history) truncate(n int) { h.ids = h.ids[:n-h.base] }

// forget drops the ids before pos.
func (h *history) forget(pos int) {
	n := copy(h.ids, h.ids[pos-h.base:])
	h.ids = h.ids[:n]
	h.base = pos
}
