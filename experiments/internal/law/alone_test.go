package law

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// Routing never is the small model alone, and always the large one: what the
// pair writes is what a system of that model writes, and the plain loop on it.
func TestNeverAndAlways(t *testing.T) {
	pair := func(name string, p algorithms.Params) source {
		p.Models, p.Large = 2, 1
		return source{name, p}
	}
	for _, c := range []struct {
		name   string
		writer int
		source source
	}{
		{"never", 0, pair("never", algorithms.Params{})},
		{"confidence-never", 0, pair("confidence", algorithms.Params{Threshold: number(-1)})},
		{"confidence-always", 1, pair("confidence", algorithms.Params{Threshold: number(2)})},
		{"rstitch-never", 0, pair("rstitch", algorithms.Params{Threshold: number(2)})},
		{"rstitch-always", 1, pair("rstitch", algorithms.Params{Threshold: number(-1)})},
		{"matrix-never", 0, pair("matrix", algorithms.Params{Matrix: [][]float64{{1, 0}, {1, 0}}})},
		{"matrix-always", 1, pair("matrix", algorithms.Params{Matrix: [][]float64{{0, 1}, {0, 1}}})},
		{"matrix-always-back", 1, pair("matrix", algorithms.Params{Matrix: [][]float64{{0, 1}, {1, 0}}})},
		{"bursty-always", 1, pair("bursty", algorithms.Params{MeanGap: 1})},
		{"me-never", 0, pair("me", algorithms.Params{Weights: []float64{1, 0}})},
	} {
		for i, rule := range rules {
			if testing.Short() && i%3 > 0 {
				continue
			}
			routed := cell{source: c.source, rule: rule, b: 1 + i, users: 5, warm: true, kv: largeKV, tcp: i == 1,
				text: uint64(3*i + 1), blockTokens: 7, chunk: 24, maxRows: 16, threads: 1}
			alone := routed
			alone.source, alone.tcp, alone.firstToy = source{"never", algorithms.Params{Models: 1}}, false, c.writer
			t.Run(fmt.Sprintf("%s/%v", c.name, rule), func(t *testing.T) {
				routed.equals(t, &alone, c.writer)
			})
		}
	}
}

// equals holds what a pair writes to what a model alone writes; that both write
// what their plain loops do is for obey to say.
func (c *cell) equals(t *testing.T, alone *cell, writer int) {
	for _, p := range append(c.obey(t, new(figures)), alone.obey(t, new(figures))...) {
		t.Error(p)
	}
	pair, one := c.answers(t), alone.answers(t)
	for i, got := range pair {
		want := one[i]
		if got == nil || want == nil {
			continue // said already
		}
		if len(got.tokens) == 0 || !slices.Equal(got.writers, slices.Repeat([]int{writer}, len(got.tokens))) {
			t.Errorf("request %d is written by %v, want %d", i+1, got.writers, writer)
		}
		got.writers = want.writers
		if d := got.differs(want, true); d != "" {
			t.Errorf("request %d of the pair and alone: %s", i+1, d)
		}
	}
}

// answers serves all requests at once.
func (c *cell) answers(t *testing.T) []*outcome {
	s, err := c.start(t, new(figures))
	if err != nil {
		t.Fatal(err)
	}
	out := make([]*outcome, c.requests())
	var users sync.WaitGroup
	for i := range out {
		users.Go(func() {
			var err error
			r := c.request(i)
			if out[i], err = ask(s.ofModel[r.Home], r); err != nil {
				t.Error(err)
			}
		})
	}
	users.Wait()
	for _, p := range s.end() {
		t.Error(p)
	}
	return out
}
