package serving

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tokenrouter/tokenrouter/backend/frontdoor"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// batchOf is a step of so many requests and rows.
func batchOf(requests, rows int) *scheduler.Batch {
	return &scheduler.Batch{Entries: make([]scheduler.Entry, requests), Rows: rows}
}

func TestBatchesAreCounted(t *testing.T) {
	var s modelSteps
	counts := func(maxRunning int) []frontdoor.BatchCount {
		var st frontdoor.Stats
		s.tell(&st, maxRunning)
		return st.Batches
	}
	for _, n := range []int{1, 1, 3, 8, 9, 10} {
		s.note(batchOf(n, 3*n))
	}
	want := []frontdoor.BatchCount{{Upto: 1, Steps: 2}, {Upto: 2}, {Upto: 3, Steps: 1}, {Upto: 4}, {Upto: 5}, {Upto: 6}, {Upto: 7}, {Upto: 8, Steps: 1}, {Upto: 10, Steps: 2}}
	if diff := cmp.Diff(want, counts(10)); diff != "" {
		t.Errorf("with 10 places (-want +got):\n%s", diff)
	}
	if got := counts(1); len(got) != 1 || got[0] != want[0] {
		t.Errorf("with one place they are %v", got)
	}
	s.note(batchOf(2000, 2000))
	all := counts(4096)
	if last := all[len(all)-1]; last.Upto != 4096 || last.Steps != 1 {
		t.Errorf("the largest batch is in %v", last)
	}
	s.handOff()
	var st frontdoor.Stats
	s.tell(&st, 10)
	if st.Batch != 2000 || st.Requests != 2032 || st.Handoffs != 1 {
		t.Errorf("the last batch has %d requests, all steps %d, and %d were handed off", st.Batch, st.Requests, st.Handoffs)
	}
	// Of bounds 1, 8, 16, …: sizes 1 1 3 8 9 10, rows 3 3 9 24 27 30.
	if !slices.Equal(st.BySize[:4], []int64{2, 2, 2, 0}) || !slices.Equal(st.ByRows[:4], []int64{0, 2, 1, 3}) {
		t.Errorf("by size %v, by rows %v", st.BySize, st.ByRows)
	}
}
