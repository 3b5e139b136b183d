package sim

import (
	"github.com/tokenrouter/tokenrouter/internal/metrics"
	"github.com/tokenrouter/tokenrouter/internal/workload"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// record is what the simulator keeps of a request.
type record struct {
	times metrics.RequestTimes
	last  int // position of the token that ends it
	user  int32
	turn  int32
	over  bool
}

var eosIDs = []scheduler.Token{workload.EOS}

// load keeps a record of each request of a workload.
type load struct {
	work   *Workload
	of     workload.Load
	stream *workload.Stream // Open
	coming workload.Request // Open: the next to arrive

	records []record // by id - 1 - base
	base    int      // so many requests came before the first record; all are over
	over    int      // leading records of requests that are over
	keep    int      // so many of them stay at least
	open    int      // arrived and not ended
	spent   []*scheduler.Arrival
}

func newLoad(work *Workload, seed uint64) load {
	l := load{work: work, of: work.Load(seed), keep: 1024}
	if work.Kind == Open {
		l.stream = l.of.Stream()
	}
	return l
}

// Load says which requests the workload sends.
func (w *Workload) Load(seed uint64) workload.Load {
	l := workload.Load{Kind: w.Kind, Seed: seed, Users: w.Users, Limit: w.Requests,
		Prompt: (w.PromptMin + w.PromptMax) / 2, Arrivals: &w.Arrivals, Mix: w.Mix}
	if l.Mix == nil {
		l.Mix = workload.Single(workload.Lengths{
			Prompt: workload.Uniform(w.PromptMin, w.PromptMax),
			Output: workload.Uniform(w.OutputMin, w.OutputMax),
		})
	}
	for i := range w.List {
		r := &w.List[i]
		l.List = append(l.List, workload.Request{ArrivalNs: r.ArrivalNs, Seed: r.Seed, Class: r.Class,
			Prompt: r.PromptTokens, Output: r.OutputTokens, Shared: r.Shared, SharedSeed: r.SharedSeed})
	}
	return l
}

// limits lists what the classes are promised.
func (l *load) limits() []metrics.Limits {
	var out []metrics.Limits
	for _, c := range l.of.Mix.Classes {
		out = append(out, metrics.Limits(c.Limits))
	}
	return out
}

// next returns the arrival of a user's request at an instant, or false if there
// is none.
func (l *load) next(user, turn int, atNs int64) (*scheduler.Arrival, bool) {
	number, ok := l.of.Next(user, turn)
	if !ok {
		return nil, false
	}
	id := scheduler.RequestID(number)
	r := l.of.Request(number)
	r.ArrivalNs = atNs
	a := l.arrival(id, r)
	a.MaxTokens = l.of.MaxTokens(&r)
	rec := l.record(id)
	rec.user, rec.turn = int32(user), int32(turn)
	return a, true
}

// arrival opens a request's record. What it returns may come back by recycle.
func (l *load) arrival(id scheduler.RequestID, r workload.Request) *scheduler.Arrival {
	for int(id)-l.base > len(l.records) {
		l.records = append(l.records, record{})
	}
	*l.record(id) = record{last: r.Prompt + r.Output - 1, times: metrics.RequestTimes{ArrivedNs: r.ArrivalNs, Class: r.Class}}
	l.open++
	var a *scheduler.Arrival
	if n := len(l.spent); n > 0 {
		a, l.spent = l.spent[n-1], l.spent[:n-1]
	} else {
		a = new(scheduler.Arrival)
	}
	*a = scheduler.Arrival{ID: id, Seed: r.Seed, Prompt: r.AppendPrompt(a.Prompt[:0]), MaxTokens: r.Output, EOS: eosIDs}
	return a
}

// recycle takes an arrival back that a core has copied.
func (l *load) recycle(a *scheduler.Arrival) {
	const enough = 64
	if len(l.spent) < enough {
		l.spent = append(l.spent, a)
	}
}

// advance draws the next request of an open workload.
func (l *load) advance() (ok bool) {
	l.coming, ok = l.stream.Next()
	return ok
}

func (l *load) record(id scheduler.RequestID) *record { return &l.records[int(id)-1-l.base] }

// last is the position of the token that ends a request. A peer may ask for it
// when the request is over at home and its Release still on the way.
func (l *load) last(id scheduler.RequestID) int {
	if int(id) > l.base {
		return l.record(id).last
	}
	r := l.of.Request(int(id))
	return r.Prompt + r.Output - 1
}

// forget drops the records of the oldest requests that are over, so that a run
// of any length keeps no more than those that overlap.
func (l *load) forget() {
	for l.over < len(l.records) && l.records[l.over].over {
		l.over++
	}
	if l.over > l.keep && l.over*2 > len(l.records) {
		n := copy(l.records, l.records[l.over:])
		l.records = l.records[:n]
		l.base += l.over
		l.over = 0
	}
}
