package subserver

import (
	"errors"

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

// checkedRoute is route of a request that was checked.
func (c *Config) checkedRoute(r *Routing) algorithms.Algorithm {
	a, err := c.route(r)
	if err != nil {
		panic("subserver: a request that was checked cannot be routed: " + err.Error())
	}
	return a
}

// route returns what decides for a request after each of its tokens; nil if
// nobody does, because it stays.
func (c *Config) route(r *Routing) (algorithms.Algorithm, error) {
	switch {
	case r.Alone:
		return nil, nil
	case r.Threshold == nil:
		return c.Algorithm, nil
	case c.Params.Models == 0:
		return nil, errors.New("has a threshold, but the system does not say what its algorithm was made from")
	}
	params := c.Params
	params.Threshold = r.Threshold
	return algorithms.New(c.Algorithm.Name(), params)
}
