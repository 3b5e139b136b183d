package subserver

import (
	"errors"
	"fmt"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Why a request got less than it asked for. errors.Is finds these in what
// Stream.Next and Submit return.
var (
	ErrTooLong   = errors.New("the prompt is longer than a KV pool that it may need")
	ErrQueueFull = errors.New("too many requests are waiting")
	ErrDraining  = errors.New("the server is shutting down")
	ErrCanceled  = errors.New("the client has gone")
	ErrOutgrown  = errors.New("the request has outgrown a KV pool")
	ErrFailed    = errors.New("an engine or a peer has failed")
	ErrDuplicate = errors.New("a request with this id is open")
)

// EndError says how a request ended that was refused or broken off.
type EndError struct {
	Request scheduler.RequestID
	Reason  scheduler.Reason
	Cause   error  // one of the above
	Detail  string // what happened, "" if Cause says it all
}

func (e *EndError) Error() string {
	s := fmt.Sprintf("request %d: %v", e.Request, e.Cause)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

func (e *EndError) Unwrap() error { return e.Cause }

// RequestError is a field of a Request that Submit refuses.
type RequestError struct {
	Field   string
	Problem string // with what would be right
	cause   error
}

func (e *RequestError) Error() string { return "request: " + e.Field + " " + e.Problem }
func (e *RequestError) Unwrap() error { return e.cause }

func requestErrorf(field, format string, args ...any) error {
	return &RequestError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
