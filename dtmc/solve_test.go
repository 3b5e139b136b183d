package dtmc

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// lu solves πP = π, Σπ = 1 by a method that shares nothing with ours.
func lu(t *testing.T, f *flow) []float64 {
	n := len(f.keys)
	a := mat.NewDense(n, n, nil)
	for i := range n {
		for e := f.rowStart[i]; e < f.rowStart[i+1]; e++ {
			j := int(f.col[e])
			a.Set(j, i, a.At(j, i)+f.val[e])
			a.Set(i, i, a.At(i, i)-f.val[e])
		}
	}
	for i := range n {
		a.Set(n-1, i, 1)
	}
	rhs := mat.NewVecDense(n, nil)
	rhs.SetVec(n-1, 1)
	var pi mat.VecDense
	if err := pi.SolveVec(a, rhs); err != nil {
		t.Fatal(err)
	}
	return pi.RawVector().Data
}

func distance(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += math.Abs(a[i] - b[i])
	}
	return sum
}

// exploreOnly arranges the chain of cfg without solving it.
func exploreOnly(t testing.TB, cfg Config) *predictor {
	t.Helper()
	p, err := newPredictor(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.arrange(cfg.inForce(nil)); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestThreeSolversAgree(t *testing.T) {
	for _, cfg := range []Config{
		ratio427(.1, 1, 4, 1, 1),
		ratio427(.02, .35, 4, 1, 2),
		ratio427(.4, 1, 6, 1, 2),
		ratio427(.1, 1, 8, 1, 4),
		ratio427(.98, 1, 6, 2, 2),
		ratio427(1, 1, 6, 1, 1),
		pair(qwenSmall, qwenLarge, .2, .35, 3, 1, 1),
	} {
		f := &exploreOnly(t, cfg).flow
		var a, b solver
		eliminated := a.eliminate(f)
		iterated, err := b.iterate(f, maxSweeps)
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%v %v, %d states", cfg.Routing, cfg.Thresholds, len(f.keys))
		if d := distance(eliminated.pi, iterated.pi); d > 1e-9 {
			t.Errorf("%s: GTH and Gauss-Seidel differ by %.1e", what, d)
		}
		if d := distance(eliminated.pi, lu(t, f)); d > 1e-9 {
			t.Errorf("%s: GTH and LU differ by %.1e", what, d)
		}
		if eliminated.residual > 1e-12 || iterated.residual > 1e-9 {
			t.Errorf("%s: residuals %.1e, %.1e", what, eliminated.residual, iterated.residual)
		}
	}
}

// randomFlow is any irreducible chain, in no helpful order: edges that close a
// ring, then a few more. period > 1 keeps to edges that advance the state's
// residue by one, so that the chain has that period.
func randomFlow(rng *rand.Rand, n, period int) *flow {
	f := &flow{rowStart: []int32{0}}
	number := rng.Perm(n)
	place := make([]int, n)
	for i, x := range number {
		place[x] = i
	}
	for i := range n {
		at := number[i]
		weight := map[int]float64{(at + 1) % n: rng.Float64() + .01}
		for range rng.IntN(4) {
			to := rng.IntN(n)
			if to != at && (to-at-1+n)%period == 0 {
				weight[to] = rng.Float64()
			}
		}
		sum := 0.0
		for to := range n { // in order, so that the sum is reproducible
			sum += weight[to]
		}
		for to := range n {
			if weight[to] > 0 {
				f.col = append(f.col, int32(place[to]))
				f.val = append(f.val, weight[to]/sum)
			}
		}
		f.leave = append(f.leave, 1)
		f.rowStart = append(f.rowStart, int32(len(f.col)))
		f.keys = append(f.keys, uint64(i)+1)
		f.quanta = append(f.quanta, 1+float64(rng.IntN(9)))
		f.tokens = append(f.tokens, rng.Float64())
		f.atHome = append(f.atHome, int32(rng.IntN(9)))
	}
	f.atHome[0], f.atHome[n-1] = 10, -1
	return f
}

func TestIterationOnAnyChain(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range 150 {
		period := 1 + i%3
		n := period * (2 + rng.IntN(40))
		f := randomFlow(rng, n, period)
		var a, b solver
		want := a.eliminate(f)
		got, err := b.iterate(f, maxSweeps)
		if err != nil {
			t.Fatalf("chain %d: %d states of period %d: %v", i, n, period, err)
		}
		if d := distance(want.pi, got.pi); d > 1e-8 {
			t.Errorf("chain %d: %d states of period %d: differs from GTH by %.1e", i, n, period, d)
		}
	}
}

// Two halves that nearly never meet: elimination is exact all the same, and
// iteration must not take its two different answers for one.
func TestNearlySeparateHalves(t *testing.T) {
	const rare = 1e-13
	f := &flow{
		keys:     []uint64{1, 2, 3, 4},
		rowStart: []int32{0, 2, 3, 5, 6},
		col:      []int32{1, 2, 0, 3, 0, 2},
		val:      []float64{1 - rare, rare, 1, 1 - 3*rare, 3 * rare, 1},
		leave:    []float64{1, 1, 1, 1},
		quanta:   []float64{1, 1, 2, 2}, tokens: []float64{1, 1, 1, 1}, atHome: []int32{1, 1, 0, 0},
	}
	var a, b solver
	want := []float64{.375, .375, .125, .125}
	if d := distance(a.eliminate(f).pi, want); d > 1e-12 {
		t.Errorf("GTH is off by %.1e", d)
	}
	got, err := b.iterate(f, maxSweeps)
	if err == nil && distance(got.pi, want) > acceptedGap {
		t.Errorf("iteration accepted %v, want %v", got.pi, want)
	}
	if err != nil && !errors.Is(err, ErrSlowMixing) {
		t.Errorf("got %v, want ErrSlowMixing", err)
	}
}

// With a return probability of 1 and p near 1, patterns of groups that move
// together last for ages. Iterating must not take the first one for the long
// run: either it gets there or it refuses, and then elimination answers.
func TestLastingPatterns(t *testing.T) {
	refused := 0
	for _, n := range []int{4, 8, 12, 16} {
		for _, p := range []float64{.99, .9999, 1 - 1e-6} {
			for _, b := range []int{1, n / 2} {
				cfg := ratio427(p, 1, n, 1, b)
				f := &exploreOnly(t, cfg).flow
				if len(f.keys) > 400 {
					continue
				}
				var a, b solver
				want := a.eliminate(f)
				got, err := b.iterate(f, 300)
				if err != nil {
					refused++
				} else if d := distance(want.pi, got.pi); d > 1e-5 {
					t.Errorf("n %d p %v: accepted a distribution off by %.1e", n, p, d)
				}
				if r := mustPredict(t, cfg); err != nil && r.Method != methodGTH {
					t.Errorf("n %d p %v: solved by %s where iterating is refused", n, p, r.Method)
				}
			}
		}
	}
	if refused == 0 {
		t.Error("no pattern was refused: the cells are too easy to test anything")
	}
}

// All moves certain, and two patterns of different throughput, each for ever.
func TestPatternsForEver(t *testing.T) {
	cfg := pair(linear{base: 2}, linear{base: 9}, 1, 1, 4, 2, 1)
	cfg.Models[0].MaxRunning, cfg.Models[1].MaxRunning = 3, 2
	if _, err := Predict(cfg); !errors.Is(err, ErrSlowMixing) {
		t.Errorf("got %v, want ErrSlowMixing", err)
	}
}

func TestTooFewSweepsAreRefused(t *testing.T) {
	f := &exploreOnly(t, ratio427(.1, 1, 16, 1, 1)).flow
	var s solver
	_, err := s.iterate(f, plainSweeps)
	if !errors.Is(err, ErrSlowMixing) {
		t.Errorf("got %v, want ErrSlowMixing", err)
	}
}

// The rows of every explored chain are probabilities, and flow order leaves few
// edges backwards: only those of completions of the slowest model.
func TestFlowOrder(t *testing.T) {
	p := exploreOnly(t, ratio427(.1, .35, 8, 1, 2))
	f, l := &p.flow, &p.chain.layout
	for i := range f.keys {
		sum := 1 - 1/f.leave[i]
		for e := f.rowStart[i]; e < f.rowStart[i+1]; e++ {
			sum += f.val[e]
			if int(f.col[e]) < i && l.inFlight[1].get(f.keys[i]) > 0 && float64(l.remaining[1].get(f.keys[i])) > f.quanta[i] {
				t.Errorf("an edge leads backwards although the large model goes on")
			}
		}
		near(t, "row", sum, 1, 1e-12)
	}
}

// stubborn starts whenever anything is ready, but model 1 waits for two.
type stubborn struct{ scheduler.Eager }

func (stubborn) Launch(l *scheduler.Load) bool { return l.Ready > l.Model }

func TestRuleThatStalls(t *testing.T) {
	cfg := ratio427(.5, 1, 1)
	cfg.Rule = stubborn{}
	if _, err := Predict(cfg); err == nil {
		t.Error("a rule that never starts the last request was accepted")
	}
}
