package measure

import (
	"math"
	"testing"

	"github.com/tokenrouter/tokenrouter/internal/metrics"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

const us = 1000

// ran tells the collector of a step.
func ran(c *collector, model int, startUs, endUs int64, threshold int, ids ...scheduler.RequestID) {
	b := &scheduler.Batch{Rows: len(ids)}
	for _, id := range ids {
		b.Entries = append(b.Entries, scheduler.Entry{ID: id, ReadySinceNs: startUs * us})
	}
	c.Stepped(model, startUs*us, endUs*us, b, threshold)
}

// A step's overhead counts from the last step that it had to wait for: its
// model's own, or the one out of which the request came that made the batch
// full; with rules that take turns, from the last of any model.
func TestOverheadCountsFromTheCause(t *testing.T) {
	for _, c := range []struct {
		name string
		rule scheduler.Rule
		play func(c *collector)
		want float64 // µs, of the last step; NaN for none
	}{
		{"its own step", scheduler.Eager{}, func(c *collector) {
			ran(c, 0, 0, 100, 1, 1)
			ran(c, 0, 107, 200, 1, 1)
		}, 7},
		{"a request from another model", scheduler.Eager{}, func(c *collector) {
			ran(c, 0, 0, 100, 1, 1)
			ran(c, 1, 112, 200, 1, 1)
		}, 12},
		{"the one that made it full", scheduler.Delayed{}, func(c *collector) {
			ran(c, 0, 0, 100, 1, 1)
			ran(c, 0, 101, 200, 1, 2)
			ran(c, 0, 201, 300, 1, 3)
			ran(c, 1, 204, 400, 2, 1, 2) // two of B = 2 were there at 200
		}, 4},
		{"its own step, later than the requests", scheduler.Eager{}, func(c *collector) {
			ran(c, 0, 0, 100, 1, 1)
			ran(c, 1, 1, 300, 1, 2)
			ran(c, 1, 309, 400, 1, 1, 2)
		}, 9},
		{"fewer than B: it waited long enough", scheduler.Delayed{MaxDelayNs: 5}, func(c *collector) {
			ran(c, 0, 0, 100, 3, 1)
		}, math.NaN()},
		{"taking turns", scheduler.Alternate{}, func(c *collector) {
			ran(c, 0, 0, 100, 1, 1, 2)
			ran(c, 1, 103, 200, 1, 1)
			ran(c, 0, 208, 300, 1, 2)
		}, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			col := newCollector(2, -1, 0, c.rule, nil)
			for id := range scheduler.RequestID(3) {
				col.arrived(id+1, 0, 0)
			}
			c.play(col)
			got := math.NaN()
			if n := len(col.overheadUs); n > 0 {
				got = col.overheadUs[n-1]
			}
			if got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
				t.Errorf("%g µs, want %g", got, c.want)
			}
		})
	}
}

// The end of the window cuts a step: what of it lay inside counts as busy, and
// what happens later counts not at all.
func TestWindowCuts(t *testing.T) {
	c := newCollector(1, 100*us, 1000*us, scheduler.Eager{}, []metrics.Limits{{}})
	c.arrived(1, 0, 0)
	ran(c, 0, 50, 150, 1, 1)    // half of it before the window
	ran(c, 0, 900, 1100, 1, 1)  // half of it after
	ran(c, 0, 1200, 1300, 1, 1) // after
	c.emitted(1, 50*us, 3, 0)
	c.emitted(1, 150*us, 2, 0)
	c.emitted(1, 1100*us, 9, 0)
	c.ended(1, 1100*us, false)
	r := c.result(0)
	if r.Tokens != 2 || r.Requests != 0 || r.EndNs != 1000*us || r.Steps[0] != 1 {
		t.Errorf("%d tokens, %d requests, %d steps, end at %d", r.Tokens, r.Requests, r.Steps[0], r.EndNs)
	}
	if want := (50.0 + 100) / 900; math.Abs(r.Utilisation[0]-want) > 1e-9 {
		t.Errorf("utilisation %g, want %g", r.Utilisation[0], want)
	}
	if r.Silent != 0 {
		t.Errorf("%d silent requests", r.Silent)
	}
}

// Without an end the run is as long as its last request.
func TestEndlessWindow(t *testing.T) {
	c := newCollector(1, 0, 0, scheduler.Eager{}, nil)
	for id := range scheduler.RequestID(2) { // they end
		c.arrived(id, 0, 0)
		c.emitted(id, int64(id+1)*100*us, 4, 0)
		c.ended(id, int64(id+1)*100*us, false)
	}
	c.arrived(3, 0, 0) // a user's first request
	c.arrived(9, 0, 0) // and a later one
	r := c.result(4)
	if r.EndNs != 200*us || r.Requests != 2 || math.Abs(r.ThroughputTokPerS-8/200e-6) > 1e-6 || r.Silent != 1 {
		t.Errorf("end %d, %d requests, %g token/s, %d silent", r.EndNs, r.Requests, r.ThroughputTokPerS, r.Silent)
	}
}
