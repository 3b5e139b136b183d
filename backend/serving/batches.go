package serving

import (
	"math"
	"slices"
	"sync"

	"github.com/tokenrouter/tokenrouter/backend/frontdoor"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// modelSteps is what an observer notes of a model.
type modelSteps struct {
	mu       sync.Mutex
	batch    int   // requests in the last step
	requests int64 // summed over steps
	handoffs int64
	decodes  int64 // steps of a row each
	// lost are the requests that lost their KV and were in no step since.
	lost    map[scheduler.RequestID]bool
	batches [len(batchUpto)]int64 // steps by their requests, finely
	// Both in the buckets of frontdoor.StepBounds.
	bySize, byRows [len(frontdoor.StepBounds) + 1]int64
}

// batchUpto are the largest batches that are counted together: the small ones,
// where B lies, each for itself.
var batchUpto = [...]int{1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, math.MaxInt}

// note counts a step of so many requests.
func (s *modelSteps) note(batch *scheduler.Batch) {
	requests, rows := len(batch.Entries), batch.Rows
	s.mu.Lock()
	defer s.mu.Unlock()
	if requests == rows {
		s.decodes++
	}
	if len(s.lost) > 0 {
		for i := range batch.Entries {
			delete(s.lost, batch.Entries[i].ID)
		}
	}
	s.batch = requests
	s.requests += int64(requests)
	s.batches[bucket(batchUpto[:], requests)]++
	s.bySize[bucket(frontdoor.StepBounds[:], requests)]++
	s.byRows[bucket(frontdoor.StepBounds[:], rows)]++
}

// bucket is that of a size among bounds, each of which belongs to its own.
func bucket(bounds []int, n int) int {
	i, _ := slices.BinarySearch(bounds, n)
	return i
}

// handOff counts a request that was sent to another model.
func (s *modelSteps) handOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handoffs++
}

// lose notes that a request has lost its KV.
func (s *modelSteps) lose(id scheduler.RequestID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = map[scheduler.RequestID]bool{}
	}
	s.lost[id] = true
}

// leave forgets a request that is over here.
func (s *modelSteps) leave(id scheduler.RequestID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lost, id)
}

// tell fills in what was noted. Batches lists those that occur with so many
// places.
func (s *modelSteps) tell(st *frontdoor.Stats, maxRunning int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Batch, st.Requests, st.Handoffs, st.Decodes, st.LostKV = s.batch, s.requests, s.handoffs, s.decodes, len(s.lost)
	st.BySize, st.ByRows = slices.Clone(s.bySize[:]), slices.Clone(s.byRows[:])
	for i, upto := range batchUpto {
		st.Batches = append(st.Batches, frontdoor.BatchCount{Upto: min(upto, maxRunning), Steps: s.batches[i]})
		if upto >= maxRunning {
			break
		}
	}
}
