package sim

import (
	"math"

	"github.com/tokenrouter/tokenrouter/algorithms"
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

// purposeQuery is that of the simulator's own draw. It lies among those of
// package workload.
const purposeQuery algorithms.Purpose = 0x5105

// load turns a workload into arrivals. Which request comes next depends on
// nothing but the user and how many came before, so it is the same request
// under every rule and threshold.
type load struct {
	work   *Workload
	seed   uint64
	mix    *workload.Mix
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
	l := load{work: work, seed: seed, mix: work.Mix, keep: 1024}
	if l.mix == nil {
		l.mix = workload.Single(workload.Lengths{
			Prompt: workload.Uniform(work.PromptMin, work.PromptMax),
			Output: workload.Uniform(work.OutputMin, work.OutputMax),
		})
	}
	if work.Kind == Open {
		l.stream = workload.NewStream(&work.Arrivals, l.mix, seed, work.Requests)
	}
	return l
}

// limits lists what the classes are promised.
func (l *load) limits() []metrics.Limits {
	var out []metrics.Limits
	for _, c := range l.mix.Classes {
		out = append(out, metrics.Limits(c.Limits))
	}
	return out
}

// id of a user's request: users take turns in the numbering, so that ids do
// not depend on who ends first.
func (l *load) id(user, turn int) scheduler.RequestID {
	return scheduler.RequestID(turn*l.work.Users + user + 1)
}

// next returns the arrival of a user's request at an instant, or false if there
// is none.
func (l *load) next(user, turn int, atNs int64) (*scheduler.Arrival, bool) {
	id := l.id(user, turn)
	if l.work.Requests > 0 && int(id) > l.work.Requests {
		return nil, false
	}
	r := l.request(id)
	r.ArrivalNs = atNs
	a := l.arrival(id, r)
	if l.work.Kind == Closed {
		a.MaxTokens = l.mix.Classes[r.Class].Lengths.Output.Max
	}
	rec := l.record(id)
	rec.user, rec.turn = int32(user), int32(turn)
	return a, true
}

// request is the one of that id, but for its arrival.
func (l *load) request(id scheduler.RequestID) workload.Request {
	switch l.work.Kind {
	case Listed:
		r := &l.work.List[id-1]
		return workload.Request{ArrivalNs: r.ArrivalNs, Seed: r.Seed, Class: r.Class,
			Prompt: r.PromptTokens, Output: r.OutputTokens, Shared: r.Shared, SharedSeed: r.SharedSeed}
	case Open:
		return workload.RequestAt(&l.work.Arrivals, l.mix, l.seed, int(id)-1)
	}
	r := l.mix.Request(int(id)-1, l.seed)
	if l.work.Kind == Steady {
		r.Prompt, r.Output = (l.work.PromptMin+l.work.PromptMax)/2, math.MaxInt/4
	}
	return r
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
	r := l.request(id)
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
