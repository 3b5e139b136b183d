package scheduler_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	. "github.com/tokenrouter/tokenrouter/scheduler"
)

func TestClampExamples(t *testing.T) {
	for _, c := range []struct {
		asked, limit []int
		live         int
		want         []int
	}{
		{[]int{1, 4}, []int{64, 64}, 8, []int{1, 4}},
		{[]int{1, 8}, []int{64, 64}, 8, []int{1, 8}},           // 9 = 8 + 2 - 1 still fits
		{[]int{2, 8}, []int{64, 64}, 8, []int{2, 7}},           // the largest gives
		{[]int{8, 8}, []int{64, 64}, 8, []int{5, 4}},           // ties: the highest index first
		{[]int{9, 9, 9}, []int{4, 64, 64}, 99, []int{4, 9, 9}}, // cut to max_running
		{[]int{9, 9, 9}, []int{0, 0, 0}, 2, []int{2, 1, 1}},    // 0 is no limit
		{[]int{5, 5}, []int{64, 64}, 0, []int{1, 1}},           // live 0 counts as 1
		{[]int{5, 5}, []int{64, 64}, -3, []int{1, 1}},
		{[]int{7}, []int{64}, 3, []int{3}},
	} {
		if got := Clamp(nil, c.asked, c.limit, c.live); !slices.Equal(got, c.want) {
			t.Errorf("Clamp(%v, %v, %d) = %v, want %v", c.asked, c.limit, c.live, got, c.want)
		}
	}
}

func TestClampWritesIntoDst(t *testing.T) {
	dst := make([]int, 0, 4)
	got := Clamp(dst, []int{3, 3}, []int{9, 9}, 2)
	if &got[0] != &dst[:1][0] {
		t.Error("Clamp did not use dst")
	}
}

func sum(v []int) (s int) {
	for _, x := range v {
		s += x
	}
	return s
}

func drawAsked(t *rapid.T) (asked, limit []int) {
	k := rapid.IntRange(1, 5).Draw(t, "models")
	asked = rapid.SliceOfN(rapid.IntRange(1, 40), k, k).Draw(t, "asked")
	limit = rapid.SliceOfN(rapid.IntRange(0, 40), k, k).Draw(t, "limit")
	return asked, limit
}

func TestClampProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		asked, limit := drawAsked(t)
		live := rapid.IntRange(0, 100).Draw(t, "live")
		got := Clamp(nil, asked, limit, live)
		bound := max(live, 1) + len(asked) - 1
		cut := 0 // what the limits alone leave
		for i, b := range got {
			most := asked[i]
			if limit[i] > 0 {
				most = min(most, limit[i])
			}
			cut += most
			if b < 1 || b > most {
				t.Fatalf("B %d of model %d, asked %d, limit %d", b, i, asked[i], limit[i])
			}
		}
		// The sum fits, and no more was taken than it had to be.
		if want := min(cut, bound); sum(got) != want {
			t.Fatalf("%v sums to %d, want %d", got, sum(got), want)
		}
		// The largest gave: whoever gave anything is within 1 of the largest.
		largest := slices.Max(got)
		for i, b := range got {
			most := asked[i]
			if limit[i] > 0 {
				most = min(most, limit[i])
			}
			if b < most && b < largest-1 {
				t.Fatalf("%v of %v: model %d gave before larger ones", got, asked, i)
			}
		}
		// Clamping again changes nothing.
		if again := Clamp(nil, got, limit, live); !slices.Equal(again, got) {
			t.Fatalf("clamped again %v becomes %v", got, again)
		}
	})
}

// More live requests, or a larger B asked of one model, never make that
// model's B smaller.
func TestClampIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		asked, limit := drawAsked(t)
		live := rapid.IntRange(0, 100).Draw(t, "live")
		less := Clamp(nil, asked, limit, live)
		more := Clamp(nil, asked, limit, live+rapid.IntRange(1, 20).Draw(t, "more"))
		for i := range less {
			if more[i] < less[i] {
				t.Fatalf("B falls from %v to %v as live grows", less, more)
			}
		}
		i := rapid.IntRange(0, len(asked)-1).Draw(t, "model")
		larger := slices.Clone(asked)
		larger[i] += rapid.IntRange(1, 20).Draw(t, "larger")
		if got := Clamp(nil, larger, limit, live); got[i] < less[i] {
			t.Fatalf("asking %v instead of %v gives %v instead of %v", larger, asked, got, less)
		}
	})
}

// stalls reports whether requests can stand so that no model of Delayed
// launches: that is, one short of its B at each at most.
func stalls(b []int, live int) bool {
	room := 0
	for _, x := range b {
		room += x - 1
	}
	return live > 0 && live <= room
}

// TestLiveness holds the bound to what it promises, over all thresholds of up
// to three models and all placements of the live requests: within live + K - 1
// some model launches wherever the requests stand; one above, they can stand
// so that none does, so the bound cuts no more than it must.
func TestLiveness(t *testing.T) {
	for _, b := range [][]int{{1}, {3}, {1, 1}, {1, 4}, {3, 3}, {2, 5}, {1, 1, 1}, {2, 3, 2}, {1, 4, 2}} {
		for live := 1; live <= 9; live++ {
			launched, stood := 0, 0
			place(b, live, nil, func(at []int) {
				if launchesSomewhere(b, at, live) {
					launched++
				} else {
					stood++
				}
			})
			fits := sum(b) <= live+len(b)-1
			if fits != (stood == 0) || fits == stalls(b, live) {
				t.Errorf("B %v, %d live: fits %v, but %d placements launch and %d stall", b, live, fits, launched, stood)
			}
		}
	}
}

func launchesSomewhere(b, at []int, live int) bool {
	for m := range b {
		if (Delayed{}).Launch(&Load{Model: m, Ready: at[m], Live: live, B: b[m]}) {
			return true
		}
	}
	return false
}

// place calls f with every way to spread n requests over the models.
func place(b []int, n int, at []int, f func([]int)) {
	if len(at) == len(b)-1 {
		f(append(slices.Clone(at), n))
		return
	}
	for here := range n + 1 {
		place(b, n-here, append(slices.Clone(at), here), f)
	}
}
