package law

import "testing"

// Each algorithm lets every model write, and stop strings, stop ids and budgets
// all end requests; else the law would hold for want of cases.
func TestOraclesReachAll(t *testing.T) {
	for _, s := range sources {
		c := cell{source: s, users: 16}
		writes, ends, total := make([]int, s.params.Models), map[string]int{}, 0
		for c.text = range uint64(6) {
			for i := range c.requests() {
				o := c.want(t, i)
				for _, w := range o.writers {
					writes[w]++
					total++
				}
				how := o.reason.String()
				if o.stop != "" {
					how = "stop string"
				}
				ends[how]++
			}
		}
		t.Logf("%v: tokens by model %v, ends %v", &s, writes, ends)
		for m, n := range writes {
			if n*20 < total && s.name != "fusion" {
				t.Errorf("%v: model %d wrote %d of %d tokens", &s, m, n, total)
			}
		}
		for _, how := range []string{"stop", "length", "stop string"} {
			if ends[how] < 5 {
				t.Errorf("%v: %d requests of 96 end by %s", &s, ends[how], how)
			}
		}
	}
}
