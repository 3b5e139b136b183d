package workload

import (
	"errors"
	"fmt"
	"math"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// Request is one request.
type Request struct {
	Index     int // counted from 0
	ArrivalNs int64
	Seed      uint64
	Class     int
	Prompt    int // tokens
	Output    int // tokens
	// Shared is how many tokens the prompt starts with that other prompts start
	// with too; SharedSeed makes up their text.
	Shared     int
	SharedSeed uint64
}

// Limits are what a request is promised. 0 promises nothing.
type Limits struct{ TTFTMs, TPOTMs float64 }

// Class is one kind of request.
type Class struct {
	Name    string
	Share   float64 // of all requests; shares need not sum to 1
	Lengths Lengths // not read where a trace gives them
	Limits  Limits
}

// Prefix says what prompts have in common: a share of the requests start with
// one of Distinct texts of Tokens tokens, each as likely. The last token of a
// prompt is never shared, so a shorter prompt shares less.
type Prefix struct {
	Share    float64 // 0: none
	Distinct int
	Tokens   int
}

// Mix says what requests look like.
type Mix struct {
	Classes []Class // at least one
	Prefix  Prefix
}

// Single is a mix of one class.
func Single(l Lengths) *Mix { return &Mix{Classes: []Class{{Share: 1, Lengths: l}}} }

// Validate says what is wrong with m. Lengths are not looked at if a trace gives
// them.
func (m *Mix) Validate(traced bool) error {
	if len(m.Classes) == 0 {
		return errors.New("workload: a mix needs a class")
	}
	sum := 0.0
	for i := range m.Classes {
		c := &m.Classes[i]
		if !(c.Share >= 0) || math.IsInf(c.Share, 0) {
			return fmt.Errorf("workload: the share of class %d is %g", i, c.Share)
		}
		sum += c.Share
		if traced {
			continue
		}
		if err := c.Lengths.Validate(); err != nil {
			return fmt.Errorf("workload: class %d: %w", i, err)
		}
	}
	p := &m.Prefix
	switch {
	case !(sum > 0):
		return errors.New("workload: the shares of all classes are 0")
	case !(p.Share >= 0 && p.Share <= 1):
		return fmt.Errorf("workload: the share of prompts with a shared prefix is %g", p.Share)
	case p.Share > 0 && (p.Distinct < 1 || p.Tokens < 1):
		return errors.New("workload: shared prefixes need a number and a length")
	}
	return nil
}

// Request draws the request of that index. Its arrival is not set.
func (m *Mix) Request(index int, seed uint64) Request {
	// The draw counts from 1, as the requests of a simulation do.
	r := Request{Index: index, Seed: algorithms.Bits(seed, index+1, purposeRequest)}
	r.Class = m.class(r.Seed)
	l := &m.Classes[r.Class].Lengths
	if l.Paired {
		u := algorithms.Draw(r.Seed, 0, purposePair)
		r.Prompt, r.Output = l.Prompt.Quantile(u), l.Output.Quantile(u)
	} else {
		r.Prompt = l.Prompt.draw(r.Seed, purposePromptLength)
		r.Output = l.Output.draw(r.Seed, purposeOutputLength)
	}
	m.share(&r, seed)
	return r
}

func (l *Length) draw(seed uint64, purpose algorithms.Purpose) int {
	if l.IsFixed() {
		return l.Min
	}
	return l.Quantile(algorithms.Draw(seed, 0, purpose))
}

// recorded is the request of that index with the lengths of a trace.
func (m *Mix) recorded(index int, seed uint64, prompt, output int) Request {
	r := Request{Index: index, Seed: algorithms.Bits(seed, index+1, purposeRequest), Prompt: prompt, Output: output}
	r.Class = m.class(r.Seed)
	m.share(&r, seed)
	return r
}

func (m *Mix) class(seed uint64) int {
	if len(m.Classes) == 1 {
		return 0
	}
	sum := 0.0
	for i := range m.Classes {
		sum += m.Classes[i].Share
	}
	u := sum * algorithms.Draw(seed, 0, purposeClass)
	last := 0
	for i := range m.Classes {
		if m.Classes[i].Share == 0 {
			continue
		}
		last = i
		if u -= m.Classes[i].Share; u < 0 {
			break
		}
	}
	return last
}

// share lets a prompt start with a shared prefix.
func (m *Mix) share(r *Request, seed uint64) {
	p := &m.Prefix
	if p.Share == 0 || algorithms.Draw(r.Seed, 0, purposeShares) >= p.Share {
		return
	}
	which := int(algorithms.Draw(r.Seed, 0, purposePrefix) * float64(p.Distinct))
	r.Shared = min(p.Tokens, r.Prompt-1)
	r.SharedSeed = algorithms.Bits(seed, which, purposePrefixText)
}

// Stream gives the requests of an open workload in the order of their arrival.
type Stream struct {
	mix   *Mix
	seed  uint64
	limit int
	clock clock
	index int
}

// NewStream starts a stream. It gives at most limit requests; 0 is no limit.
// Arrivals and mix must be valid.
func NewStream(a *Arrivals, m *Mix, seed uint64, limit int) *Stream {
	return &Stream{mix: m, seed: seed, limit: limit, clock: newClock(a, seed)}
}

// Next returns the next request, or false after the last.
func (s *Stream) Next() (Request, bool) {
	if s.limit > 0 && s.index >= s.limit {
		return Request{}, false
	}
	atNs, ok := s.clock.next()
	if !ok {
		return Request{}, false
	}
	r := RequestAt(s.clock.arrivals, s.mix, s.seed, s.index)
	r.ArrivalNs = atNs
	s.index++
	return r, true
}

// RequestAt is the request of that index, counted from 0, in the stream of the
// same arguments. Only its arrival, for which all earlier gaps would have to be
// added up, is left out.
func RequestAt(a *Arrivals, m *Mix, seed uint64, index int) Request {
	if a.Process != Recorded {
		return m.Request(index, seed)
	}
	row := index % a.Trace.Len()
	return m.recorded(index, seed, int(a.Trace.Prompt[row]), int(a.Trace.Output[row]))
}
