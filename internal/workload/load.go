package workload

import (
	"math"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// Kind says how requests come.
type Kind uint8

const (
	// Steady keeps Users requests that never end and all arrive at the start.
	Steady Kind = iota
	// Closed has Users users who each send the next request when the last one has
	// ended.
	Closed
	// Listed sends the requests of a list.
	Listed
	// Open sends requests at times that do not depend on how the others fare.
	Open
)

// Load is all requests of one run, simulated or real: the one definition of who
// asks what. Which request comes next depends on nothing but the user and how
// many came before, so it is the same request under every rule and threshold.
type Load struct {
	Kind     Kind
	Seed     uint64
	Users    int       // Steady, Closed
	Limit    int       // Closed, Open: requests in all; 0 is no limit
	Prompt   int       // Steady: tokens of every prompt
	Arrivals *Arrivals // Open
	Mix      *Mix      // Closed, Open
	List     []Request // Listed
}

// Number is the number, from 1, of a user's request: users take turns in the
// numbering, so that numbers do not depend on who ends first.
func (l *Load) Number(user, turn int) int { return turn*l.Users + user + 1 }

// Next is the number of a user's request, or false if the run has no more.
func (l *Load) Next(user, turn int) (number int, ok bool) {
	number = l.Number(user, turn)
	return number, l.Limit == 0 || number <= l.Limit
}

// Request is the one of that number. Its arrival is set in a list only.
func (l *Load) Request(number int) Request {
	switch l.Kind {
	case Listed:
		return l.List[number-1]
	case Open:
		return RequestAt(l.Arrivals, l.Mix, l.Seed, number-1)
	}
	r := l.Mix.Request(number-1, l.Seed)
	if l.Kind == Steady {
		r.Prompt, r.Output = l.Prompt, Endless
	}
	return r
}

// BackOffNs is how long a user of a closed load waits after a refusal: the least
// that an HTTP server can ask for by Retry-After, in whole seconds.
const BackOffNs = 1_000_000_000

// Endless is the output of a request that never ends: longer than any run, and
// still far from overflow when a position is added.
const Endless = math.MaxInt / 4

// MaxTokens is what the client of a request allows it to write. Users of a
// closed workload allow the most that their class may write.
func (l *Load) MaxTokens(r *Request) int {
	if l.Kind == Closed {
		return l.Mix.Classes[r.Class].Lengths.Output.Max
	}
	return r.Output
}

// Stream starts the stream of an open workload.
func (l *Load) Stream() *Stream { return NewStream(l.Arrivals, l.Mix, l.Seed, l.Limit) }

// QueryModel draws the model that serves a whole request, with these chances.
func QueryModel(seed uint64, shares []float64) int {
	u := algorithms.Draw(seed, 0, purposeQuery)
	for m, share := range shares {
		if u -= share; u < 0 {
			return m
		}
	}
	return len(shares) - 1
}
