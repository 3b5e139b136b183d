package sim

import (
	"math"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/metrics"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// record is what the simulator keeps of a request.
type record struct {
	times metrics.RequestTimes
	last  int // position of the token that ends it
	seed  uint64
	user  int32
	turn  int32
	over  bool
}

// eos is the token that ends a request; made-up tokens are above it.
const eos = 0

var eosIDs = []scheduler.Token{eos}

// Purposes of the simulator's own draws. They start far above those of the
// algorithms, with which they share the function.
const (
	purposeOutputLength algorithms.Purpose = 0x5100 + iota
	purposePrompt
	purposeRequest
	purposeToken
	purposePromptLength
	purposeQuery
)

// uniform draws a whole number from low to high, both included.
func uniform(seed uint64, purpose algorithms.Purpose, low, high int) int {
	return low + int(algorithms.Draw(seed, 0, purpose)*float64(high-low+1))
}

// load turns a workload into arrivals. Which request comes next depends on
// nothing but the user and how many came before, so it is the same request
// under every rule and threshold.
type load struct {
	work    *Workload
	seed    uint64
	records []record // by id - 1
	open    int      // arrived and not ended
	prompt  []scheduler.Token
}

// id of a user's request: users take turns in the numbering, so that ids do
// not depend on who ends first.
func (l *load) id(user, turn int) scheduler.RequestID {
	return scheduler.RequestID(turn*l.work.Users + user + 1)
}

// next returns the arrival of a user's request, or false if there is none.
func (l *load) next(user, turn int) (scheduler.Arrival, bool) {
	id := l.id(user, turn)
	if l.work.Requests > 0 && int(id) > l.work.Requests {
		return scheduler.Arrival{}, false
	}
	seed := algorithms.Bits(l.seed, int(id), purposeRequest)
	prompt, output := (l.work.PromptMin+l.work.PromptMax)/2, math.MaxInt/4
	if l.work.Kind == Closed {
		prompt = uniform(seed, purposePromptLength, l.work.PromptMin, l.work.PromptMax)
		output = uniform(seed, purposeOutputLength, l.work.OutputMin, l.work.OutputMax)
	}
	a := l.arrival(id, seed, prompt, output)
	if l.work.Kind == Closed {
		a.MaxTokens = l.work.OutputMax
	}
	rec := l.record(id)
	rec.user, rec.turn = int32(user), int32(turn)
	return a, true
}

// listed returns the arrival of the i-th request of the list.
func (l *load) listed(i int) scheduler.Arrival {
	r := &l.work.List[i]
	return l.arrival(scheduler.RequestID(i+1), r.Seed, r.PromptTokens, r.OutputTokens)
}

func (l *load) arrival(id scheduler.RequestID, seed uint64, prompt, output int) scheduler.Arrival {
	for int(id) > len(l.records) {
		l.records = append(l.records, record{})
	}
	*l.record(id) = record{seed: seed, last: prompt + output - 1}
	l.prompt = l.prompt[:0]
	for i := range prompt {
		l.prompt = append(l.prompt, madeUp(seed, i, purposePrompt))
	}
	return scheduler.Arrival{ID: id, Seed: seed, Prompt: l.prompt, MaxTokens: output, EOS: eosIDs}
}

func (l *load) record(id scheduler.RequestID) *record { return &l.records[id-1] }

// madeUp returns a token that a seed and a position determine, never eos. A
// full-strength hash is not needed: tokens must differ between requests, no
// more.
func madeUp(seed uint64, position int, purpose algorithms.Purpose) scheduler.Token {
	x := (seed ^ uint64(position)*0x9e3779b97f4a7c15 ^ uint64(purpose)<<40) * 0xbf58476d1ce4e5b9
	return scheduler.Token(x>>34) + 1
}
