package subserver

import (
	"errors"
	"fmt"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// Routing is what one request has different from the system's routing. It
// travels with the request, so every model routes it alike. The zero value
// changes nothing.
type Routing struct {
	// Alone keeps the request at its home: Route is not asked.
	Alone bool `json:"alone,omitempty"`
	// Threshold stands in for that of the system's algorithm; nil: no change.
	// Send and Receive, which the cores call, do not read it.
	Threshold *float64 `json:"threshold,omitempty"`
}

// route returns what decides for a request after each of its tokens; nil if
// nobody does, because it stays.
func (s *System) route(r *Routing) (algorithms.Algorithm, error) {
	switch {
	case r.Alone:
		return nil, nil
	case r.Threshold == nil:
		return s.cfg.Algorithm, nil
	case s.cfg.Params.Models == 0:
		return nil, errors.New("has a threshold, but the system does not say what its algorithm was made from")
	}
	params := s.cfg.Params
	params.Threshold = r.Threshold
	a, err := algorithms.New(s.cfg.Algorithm.Name(), params)
	if err != nil {
		return nil, fmt.Errorf("changes the %w", err)
	}
	return a, nil
}
