package sim

import (
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Requests of a steady workload never end, so the cores forget old tokens. The
// tokens that come out are those of a lone run all the same, far past the point
// where the first are forgotten.
func TestSteadyRequestsForgetOldTokens(t *testing.T) {
	mesh := [][]float64{{.6, .3, .1}, {.5, .3, .2}, {.4, .2, .4}}
	for _, kept := range []bool{false, true} {
		alg, err := algorithms.NewMatrix(mesh, kept)
		if err != nil {
			t.Fatal(err)
		}
		tr := &trial{seed: 3, cfg: Config{Models: models(linear{2, 1}, linear{5, 1}, linear{11, 1}), Algorithm: alg,
			Rule: scheduler.Delayed{}, Thresholds: scheduler.Thresholds{{1, 2, 2}}, HandoffNs: 3, Workload: steady(3, 120_000, 10)}}
		for m := range tr.cfg.Models {
			tr.cfg.Models[m].KVTokens = 4000
		}
		c := newChecker(tr, false, fault{})
		c.enough = 6000
		tr.cfg.hooks, tr.cfg.Observer = c, c
		r := run(t, tr.cfg)
		for id, s := range c.seen { // order: each request alone
			if s.got != c.enough {
				t.Errorf("request %d has %d tokens, want %d or more (%d in all)", id, s.got, c.enough, r.Tokens)
			}
		}
	}
}
