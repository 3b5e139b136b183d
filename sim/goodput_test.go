package sim

import (
	"math"
	"slices"
	"testing"

	"github.com/tokenrouter/tokenrouter/internal/workload"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// diary notes when each token of each request was shown.
type diary struct {
	arrivedNs map[scheduler.RequestID]int64
	shownNs   map[scheduler.RequestID][]int64
	endedNs   map[scheduler.RequestID]int64
}

func (d *diary) Stepped(int, int64, int64, *scheduler.Batch, int) {}

func (d *diary) Event(_ int, ev *scheduler.Event) {
	if ev.Kind == scheduler.Arrived {
		d.arrivedNs[ev.Arrival.ID] = ev.AtNs
	}
}

func (d *diary) Messages(_ int, atNs int64, out []scheduler.Message) {
	for i := range out {
		switch m := &out[i]; m.Kind {
		case scheduler.Emit:
			for range m.Tokens {
				d.shownNs[m.Request] = append(d.shownNs[m.Request], atNs)
			}
		case scheduler.Finish:
			d.endedNs[m.Request] = atNs
		}
	}
}

// figures works out from the diary what the requests of a class saw; class -1
// is all of them.
func (d *diary) figures(w *Workload, seed uint64, class int) (ttft, tpot, itl, e2e []float64, good, n int) {
	for id, shown := range d.shownNs {
		r := workload.RequestAt(&w.Arrivals, w.Mix, seed, int(id)-1)
		if class >= 0 && r.Class != class {
			continue
		}
		n++
		limits := w.Mix.Classes[r.Class].Limits
		first := float64(shown[0]-d.arrivedNs[id]) / 1e6
		ttft = append(ttft, first)
		e2e = append(e2e, float64(d.endedNs[id]-d.arrivedNs[id])/1e6)
		each := 0.0
		if len(shown) > 1 {
			each = float64(shown[len(shown)-1]-shown[0]) / 1e6 / float64(len(shown)-1)
			tpot = append(tpot, each)
		}
		for i := range shown[1:] {
			itl = append(itl, float64(shown[i+1]-shown[i])/1e6)
		}
		if (limits.TTFTMs == 0 || first <= limits.TTFTMs) && (limits.TPOTMs == 0 || each <= limits.TPOTMs) {
			good++
		}
	}
	for _, x := range [][]float64{ttft, tpot, itl, e2e} {
		slices.Sort(x)
	}
	return ttft, tpot, itl, e2e, good, n
}

// A plain count over everything that clients saw gives the figures of the
// recorder, for all requests and for each class.
func TestFiguresAgainstADiary(t *testing.T) {
	for name, w := range openKinds() {
		w.Mix.Classes[1].Limits = workload.Limits{TTFTMs: 40, TPOTMs: 8}
		cfg := openPair(t, w)
		d := &diary{map[scheduler.RequestID]int64{}, map[scheduler.RequestID][]int64{}, map[scheduler.RequestID]int64{}}
		cfg.Observer = d
		r := run(t, cfg)
		seconds := float64(r.EndNs) / 1e9
		check := func(class int, got []float64, perS, share float64) {
			t.Helper()
			ttft, tpot, itl, e2e, good, n := d.figures(&w, cfg.Seed, class)
			at := func(x []float64, q float64) float64 { return x[max(int(math.Ceil(q*float64(len(x)))), 1)-1] }
			want := []float64{at(ttft, 0.99), at(tpot, 0.95), at(itl, 0.99), at(e2e, 0.5), float64(good) / seconds, float64(good) / float64(n)}
			for i, x := range append(got, perS, share) {
				if math.Abs(x-want[i]) > 0.002*want[i]+1e-9 { // gaps are in buckets
					t.Errorf("%s, class %d: figure %d is %g, the diary says %g", name, class, i, x, want[i])
				}
			}
			if good == 0 || good == n {
				t.Errorf("%s, class %d: %d of %d requests are good, which tells little", name, class, good, n)
			}
		}
		check(-1, []float64{r.TTFTMs.P99, r.TPOTMs.P95, r.ITLMs.P99, r.E2EMs.P50}, r.GoodputReqPerS, r.GoodShare)
		for i, c := range r.Classes {
			check(i, []float64{c.TTFTMs.P99, c.TPOTMs.P95, c.ITLMs.P99, c.E2EMs.P50}, c.GoodputReqPerS, c.GoodShare)
		}
		cfg.Observer = nil
		if merged := run(t, cfg); !sameResult(merged, r) {
			t.Errorf("%s: without an observer\n%+v\nwith one\n%+v", name, merged, r)
		}
	}
}
