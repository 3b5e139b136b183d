package subserver

import (
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Parcel is an event on its way from one subserver to another, with what the
// core does not know of the request.
type Parcel struct {
	From, To int // models
	Event    scheduler.Event
	// Sampling and Logprobs go along with a visit, so that the peer samples as
	// the home would.
	Sampling *backend.Sampling
	Logprobs int
	// Top holds the log probabilities that the client asked for, one for each
	// token of a run that comes home.
	Top []backend.Result
}

// Transport carries parcels to the models that other processes have.
type Transport interface {
	// Send hands a parcel over without waiting for its arrival. Parcels from one
	// model to another arrive in the order in which they were sent, once each,
	// or the peer is reported lost.
	Send(p *Parcel) error
	// Start begins delivery: deliver is called for each parcel that comes in, and
	// lost when the process that has a model is gone for good.
	Start(deliver func(*Parcel), lost func(model int, err error)) error
	Close() error
}
