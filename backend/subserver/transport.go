package subserver

import (
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Parcel is what one model's subserver tells another: an event for its core
// with what the core does not know of the request, or a word of the launch
// gate. Whoever gets a parcel owns it, its slices included.
type Parcel struct {
	From, To int // models

	// Event is PeerArrived, PeerReturned, Released, PeerState, LiveChanged or Flush. Its
	// AtNs is not read: the receiver has a clock of its own. The Live of a
	// LiveChanged is by how much From's share of the live count changed. Event is
	// not read if Gate is set.
	Event scheduler.Event

	// Round is the last round of the launch gate that From had decided in when
	// it sent this; To reads the parcel only once it has decided in it as well.
	// 0 under rules that need no gate.
	Round int64
	Gate  *GateWord

	// Sampling, Logprobs and Routing go along with a visit (PeerArrived), so that
	// the peer samples and routes as the home would. They do not change while the
	// request lives.
	Sampling *backend.Sampling
	Logprobs int // below 0 for none
	Routing  Routing
	// Top holds what the client asked to know of tokens that its home has not
	// shown yet: of the last len(Top) tokens of Event.Req.Suffix, in order. Of a
	// Result only Token, Logprob and Top are set.
	Top []backend.Result
	// Lost, if above 0, is 1 + a model whose process From does not reach any more,
	// for the reason in Problem: that is all that the parcel tells.
	Lost int
	// Problem says in a sentence why a visit failed; it goes along with
	// PeerReturned of status failed.
	Problem string
}

// GateWord is what a core and the coordinator of the launch gate tell each
// other under the rules that take turns. The coordinator is in the process that
// has model 0: reports go To model 0, and questions come From it.
type GateWord struct {
	// Ask: the coordinator asks To whether it launches in round Round, provided
	// that its state is still number State. Otherwise From reports that it has
	// decided in Round and is in state number State.
	Ask   bool
	Round int64
	State int64
	// Sent and Stepped count, by model, the parcels that From has sent there, and
	// those from there that it has stepped. Reports only.
	Sent, Stepped []int64
}

// Transport carries parcels to the models that other processes have. A system
// uses one transport for all models of its process.
type Transport interface {
	// Send hands a parcel over. It may block for as long as the way is full, but
	// not for the answer of a peer: only the loop that carries parcels out waits
	// for it. Parcels from one model to another arrive in the order in which
	// they were sent, once each, or To is reported lost to this process. The
	// parcel is the transport's from now on. Calls come from several goroutines,
	// none before Start has returned.
	Send(p *Parcel) error
	// Start begins delivery: deliver is called for each parcel that comes in, in
	// order for each pair of models, and lost when the process that has a model
	// is gone for good, once a model and after its last parcel. Neither blocks,
	// and both may be called from several goroutines at once.
	Start(deliver func(*Parcel), lost func(model int, err error)) error
	// Close ends delivery. No call may follow.
	Close() error
}
