package algorithms

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// source is an algorithm that knows how its stays end.
type source interface {
	Algorithm
	StaySource
}

// walk follows a source for a request of n tokens without any model, after a
// prompt of 100, and calls each with the writer of every token.
func walk(s source, home int, seed uint64, n int, each func(writer int)) {
	walkFrom(s, home, seed, 100, n, each)
}

func walkFrom(s source, home int, seed uint64, prompt, n int, each func(writer int)) {
	v := View{Seed: seed, Model: home, Home: home, StayStart: prompt}
	for written := 0; written < n; v.Hops++ {
		kept, dest := s.Stay(&v)
		d := Departure{From: v.Model, To: dest.Model(), Home: home, Position: v.StayStart + kept}
		stay := kept
		if dest == Stay || s.Send(d, &PeerReq{Seed: seed}) {
			stay++
		}
		for range min(stay, n-written) {
			each(v.Model)
		}
		written += stay
		v.StayStart += stay
		v.Model = dest.Model()
	}
}

// TestMatrixShares compares the writers of many tokens with the stationary
// distribution of the rows.
func TestMatrixShares(t *testing.T) {
	rows := [][]float64{{0.7, 0.2, 0.1}, {0.5, 0.25, 0.25}, {0, 0.6, 0.4}}
	m, err := NewMatrix(rows, true)
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{1, 0, 0}
	for range 200 {
		next := make([]float64, 3)
		for i, w := range want {
			for j, p := range rows[i] {
				next[j] += w * p
			}
		}
		want = next
	}
	const seeds, tokens = 400, 2000
	var counts [3]float64
	for seed := range uint64(seeds) {
		walk(m, 0, seed, tokens, func(w int) { counts[w]++ })
	}
	for k := range counts {
		near(t, fmt.Sprintf("share of model %d", k), counts[k]/(seeds*tokens), want[k], 0.003)
	}
}

// TestMatrixDropsRoutedTokens checks the large share where the token that is
// routed away is dropped: with a = chance to leave per small step and q =
// chance to return per large one, (1/q) / ((1/a − 1) + 1/q).
func TestMatrixDropsRoutedTokens(t *testing.T) {
	for _, c := range []struct{ a, q float64 }{{0.1, 1}, {0.4, 1}, {0.2, 0.35}} {
		m, err := NewMatrix([][]float64{{1 - c.a, c.a}, {c.q, 1 - c.q}}, false)
		if err != nil {
			t.Fatal(err)
		}
		large := 0.0
		const seeds, tokens = 400, 2000
		for seed := range uint64(seeds) {
			walk(m, 0, seed, tokens, func(w int) { large += float64(w) })
		}
		want := (1 / c.q) / ((1/c.a - 1) + 1/c.q)
		near(t, fmt.Sprintf("large share at a %g, q %g", c.a, c.q), large/(seeds*tokens), want, 0.004)
	}
}

// TestMatrixDrawsGapAndDestinationApart: where a stay ends must not depend on
// how long it was.
func TestMatrixDrawsGapAndDestinationApart(t *testing.T) {
	m, err := NewMatrix([][]float64{{0.5, 0.3, 0.2}, {1, 0, 0}, {1, 0, 0}}, false)
	if err != nil {
		t.Fatal(err)
	}
	var short, toFirst float64
	for seed := range uint64(100_000) {
		if kept, dest := m.Stay(&View{Seed: seed, StayStart: 100}); kept == 0 {
			short++
			if dest == To(1) {
				toFirst++
			}
		}
	}
	near(t, "share of stays that end at once", short/100_000, 0.5, 0.01)
	near(t, "share of them that go to model 1", toFirst/short, 0.6, 0.01)
}

// TestMatrixRowShortByRounding: a row that all but sums to 1 on its diagonal
// leaves for nowhere.
func TestMatrixRowShortByRounding(t *testing.T) {
	m, err := NewMatrix([][]float64{{1 - 5e-10, 0}, {1, 0}}, false)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(100) {
		if kept, dest := m.Stay(&View{Seed: seed}); kept != Forever || dest != Stay {
			t.Fatalf("Stay = %d, %d", kept, dest)
		}
	}
}

// rowOf draws a row of n probabilities that sum to 1, some of them 0 or 1.
func rowOf(t *rapid.T, n int) []float64 {
	row := make([]float64, n)
	sum := 0.0
	for i := range row {
		row[i] = float64(rapid.SampledFrom([]int{0, 0, 1, 1, 2, 5, 30}).Draw(t, "weight"))
		sum += row[i]
	}
	if sum == 0 {
		row[rapid.IntRange(0, n-1).Draw(t, "sure")], sum = 1, 1
	}
	for i := range row {
		row[i] /= sum
	}
	return row
}

func anySource(t *rapid.T) (s source, models int) {
	models = rapid.IntRange(2, 4).Draw(t, "models")
	p := Params{Models: models, Large: 1, RoutedKept: rapid.Bool().Draw(t, "kept")}
	name := rapid.SampledFrom([]string{"matrix", "bursty", "me", "script", "never", "fusion"}).Draw(t, "source")
	switch name {
	case "matrix":
		for range models {
			p.Matrix = append(p.Matrix, rowOf(t, models))
		}
	case "bursty":
		p.MeanGap = rapid.Float64Range(1.01, 50).Draw(t, "mean")
		least := math.Sqrt(1 - 1/p.MeanGap)
		p.GapCV = least + rapid.Float64Range(0.01, 3).Draw(t, "excess")
		most := (1 - least*least/(p.GapCV*p.GapCV)) / 2
		p.GapLag1 = most * rapid.Float64Range(0, 1).Draw(t, "share")
		p.ReturnProb = rapid.Float64Range(0.05, 1).Draw(t, "return")
	case "me", "fusion":
		p.RoutedKept = false
		p.Weights = rowOf(t, models)
	case "script":
		p.RoutedKept = false
		p.PromptTokens = 100
		p.Scripts = rapid.SliceOfN(rapid.StringMatching("[SL01]{1,12}"), 1, 4).Draw(t, "scripts")
	case "never":
		p.RoutedKept = false
	}
	a, err := New(name, p)
	if err != nil {
		t.Fatal(err)
	}
	return a.(source), models
}

// TestStayAgreesWithRoute asks Route at every decision of a stay.
func TestStayAgreesWithRoute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, models := anySource(t)
		start := 100 + rapid.IntRange(0, 15).Draw(t, "start")
		v := View{
			Seed:      rapid.Uint64().Draw(t, "seed"),
			Model:     rapid.IntRange(0, models-1).Draw(t, "model"),
			Home:      rapid.IntRange(0, models-1).Draw(t, "home"),
			StayStart: start,
			Hops:      rapid.IntRange(0, 40).Draw(t, "hops"),
		}
		asked := v
		kept, dest := s.Stay(&asked)
		if asked.Position != 0 {
			t.Fatalf("Stay wrote Position")
		}
		if kept < 0 || kept > Forever || (dest == Stay) != (kept == Forever) || dest.Model() == v.Model || dest.Model() >= models {
			t.Fatalf("Stay = %d, %d at model %d", kept, dest, v.Model)
		}
		for i := 0; i <= min(kept, 300); i++ {
			want := Stay
			if i == kept {
				want = dest
			}
			w := v
			w.Position = start + i
			if got := s.Route(&w); got != want {
				t.Fatalf("%s: decision %d of a stay of %d: Route = %d, want %d", s.Name(), i, kept, got, want)
			}
		}
	})
}

// gapsOf are the first n gaps of a request, by home stay.
func gapsOf(b *Bursty, seed uint64, n int) []float64 {
	gaps := make([]float64, n)
	v := View{Seed: seed, StayStart: 100}
	for i := range gaps {
		kept, _ := b.Stay(&v)
		gaps[i] = float64(kept + 1)
		v.StayStart += kept + 1
		v.Hops += 2
	}
	return gaps
}

func TestBurstyFigures(t *testing.T) {
	for _, g := range []Gaps{
		{7.5, 1.5, 0.2},
		{35.5, 1.2, 0.15},
		{1.5, 2, 0.3},           // The burst mean would fall below 1.
		{10, 3, 0.45},           // The state never changes.
		{10, 2, 0},              // Each stay draws its state anew.
		{10, math.Sqrt(0.9), 0}, // Geometric.
	} {
		b, err := NewBursty(Pair{Small: 0, Large: 1}, g, 1, false, 2)
		if err != nil {
			t.Fatal(err)
		}
		const seeds, n = 20_000, 50
		var sum, squares, products float64
		for seed := range uint64(seeds) {
			gaps := gapsOf(b, seed, n)
			for i, x := range gaps {
				sum += x
				squares += x * x
				products += x * gaps[(i+1)%n] * float64(min(1, n-1-i))
			}
		}
		mean := sum / (seeds * n)
		variance := squares/(seeds*n) - mean*mean
		cov := products/(seeds*(n-1)) - mean*mean
		name := fmt.Sprint(g)
		near(t, name+" mean", mean/g.Mean, 1, 0.02)
		near(t, name+" CV", math.Sqrt(variance)/mean, g.CV, 0.02*g.CV)
		near(t, name+" lag-1", cov/variance, g.Lag1, 0.015)
	}
}

// TestBurstyKeepsItsState looks at the first two stays, where the walk back ends.
func TestBurstyKeepsItsState(t *testing.T) {
	b, err := NewBursty(Pair{Small: 0, Large: 1}, Gaps{10, 2, 0.2}, 1, false, 2)
	if err != nil {
		t.Fatal(err)
	}
	const n = 100_000
	same, burst := 0.0, 0.0
	for seed := range uint64(n) {
		first, second := b.state(seed, 0), b.state(seed, 1)
		burst += float64(first)
		if first == second {
			same++
		}
	}
	// V = (100·3 + 10)/2 = 155 of a variance of 400; balanced means.
	pi, persist := (1+math.Sqrt(155./255))/2, 0.2*400/155
	near(t, "share of bursts", burst/n, pi, 0.006)
	near(t, "share of equal neighbours", same/n, persist+(1-persist)*(pi*pi+(1-pi)*(1-pi)), 0.006)
}

// TestBurstyIgnoresCallOrder asks for the stays of a request backwards.
func TestBurstyIgnoresCallOrder(t *testing.T) {
	b, err := NewBursty(Pair{Small: 0, Large: 1}, Gaps{10, 2.5, 0.4}, 1, false, 2)
	if err != nil {
		t.Fatal(err)
	}
	const n = 200
	var states, backwards []int
	for i := range n {
		states = append(states, b.state(5, i))
		backwards = append(backwards, b.state(5, n-1-i))
	}
	slices.Reverse(backwards)
	if !slices.Equal(states, backwards) {
		t.Errorf("states %v, asked backwards %v", states, backwards)
	}
	if !slices.Contains(states, 0) || !slices.Contains(states, 1) {
		t.Errorf("one state only: %v", states)
	}
	// The halved hop counts a stay once, whichever model is home.
	even, _ := b.Stay(&View{Seed: 5, StayStart: 100, Hops: 2 * 7})
	odd, _ := b.Stay(&View{Seed: 5, StayStart: 100, Hops: 2*7 + 1, Home: 1})
	if even != odd {
		t.Errorf("stay 7 keeps %d from home 0 and %d from home 1", even, odd)
	}
}

func TestRoutingMatrixKeepsTheMeans(t *testing.T) {
	b, err := NewBursty(Pair{Small: 1, Large: 0}, Gaps{8, 2, 0.3}, 0.25, false, 3)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]float64{{0.75, 0.25, 0}, {0.125, 0.875, 0}, {0, 0.25, 0.75}}
	for i, row := range b.RoutingMatrix() {
		if !slices.Equal(row, want[i]) {
			t.Errorf("row %d = %v, want %v", i, row, want[i])
		}
	}
	if _, err := NewMatrix(Ensemble{Weights: EnsembleWeights()}.RoutingMatrix(), true); err != nil {
		t.Error(err)
	}
	kept, n := 0, 20_000
	for i := range n {
		k, _ := b.Stay(&View{Seed: uint64(i), Model: 0, StayStart: 100})
		kept += k
	}
	near(t, "mean kept at the large model", float64(kept)/float64(n), 3, 0.1)
}

// TestRefusals checks that each refusal names the field and says what would do.
func TestRefusals(t *testing.T) {
	nan, far := math.NaN(), 98.0
	pair := Params{Models: 2, Large: 1}
	with := func(change func(*Params)) Params { p := pair; change(&p); return p }
	bursty := func(mean, cv, lag1 float64) Params {
		return Params{Models: 2, Large: 1, MeanGap: mean, GapCV: cv, GapLag1: lag1}
	}
	matrix := func(rows ...[]float64) Params { return Params{Models: 2, Matrix: rows} }
	for _, c := range []struct {
		name  string
		p     Params
		field string
		says  string
	}{
		{"citre", pair, "algorithm", "use one of citer, r2r"},
		{"citer", Params{Large: 1}, "models", "at least one"},
		{"citer", Params{Models: 1}, "models", "needs a small and a large"},
		{"citer", Params{Models: 2}, "large", "is the small model too"},
		{"citer", Params{Models: 2, Large: 2}, "large", "indices are 0 to 1"},
		{"citer", Params{Models: 2, Small: -1}, "small", "indices are 0 to 1"},
		{"citer", with(func(p *Params) { p.Threshold = &far }), "threshold", "98"},
		{"rstitch", with(func(p *Params) { p.Threshold = &nan }), "threshold", "NaN"},
		{"r2r", with(func(p *Params) { p.Weights = []float64{1, 0} }), "weights", "r2r does not read it"},
		{"matrix", with(func(p *Params) { p.Matrix = [][]float64{{1, 0}, {1, 0}}; p.MeanGap = 3 }), "mean_gap", "does not read"},
		{"confidence", pair, "threshold", "is missing"},
		{"me", pair, "weights", "0 weights for 2 models"},
		{"me", Params{Models: 2, Weights: []float64{0.5, 0.4}}, "weights", "sums to 0.9;"},
		{"fusion", Params{Models: 2, Weights: []float64{1.5, -0.5}}, "weights", "entry 1 is 1.5"},
		{"matrix", pair, "matrix", "is missing"},
		{"matrix", matrix([]float64{1, 0}), "matrix", "1 rows for 2 models"},
		{"matrix", matrix([]float64{0.9, 0.1}, []float64{1}), "matrix", "row 2 has 1 entries"},
		{"matrix", matrix([]float64{0.9, 0.1}, []float64{0.9, 0.2}), "matrix", "row 2 sums to 1.1;"},
		{"matrix", matrix([]float64{0.9, 0.1 + 2e-9}, []float64{1, 0}), "matrix", "row 1 sums to 1.000000002;"},
		{"matrix", matrix([]float64{nan, 0.1}, []float64{1, 0}), "matrix", "row 1 entry 1 is NaN"},
		{"bursty", pair, "mean_gap", "is missing"},
		{"bursty", bursty(0.5, 1, 0), "mean_gap", "1 to 2^31"},
		{"bursty", bursty(10, 0.5, 0), "gap_cv", "0.948684"},
		{"bursty", bursty(1, 1, 0), "gap_cv", "raise mean_gap"},
		{"bursty", bursty(10, nan, 0), "gap_cv", "NaN"},
		// The one public trace that was measured: two geometric states cannot have its lag-1.
		{"bursty", bursty(35.5, 1.2, 0.45), "gap_lag1", "0 to 0.162558"},
		{"bursty", bursty(10, 2, -0.1), "gap_lag1", "0 to 0.387500"},
		{"bursty", with(func(p *Params) { p.MeanGap, p.GapCV, p.ReturnProb = 10, 1, 1.5 }), "return_probability", "(0, 1]"},
		{"script", pair, "scripts", "is missing"},
		{"script", with(func(p *Params) { p.Scripts = []string{"SLS"} }), "prompt_tokens", "0 is not"},
		{"script", with(func(p *Params) { p.Scripts, p.PromptTokens = []string{"S", "SLX"}, 5 }), "scripts", `script 2, "SLX", has 'X' at place 3; use S, L or 0 to 1`},
		{"script", with(func(p *Params) { p.Scripts, p.PromptTokens = []string{"S", ""}, 5 }), "scripts", "script 2 is empty"},
		{"script", with(func(p *Params) { p.Models, p.Scripts, p.PromptTokens = 12, []string{":"}, 5 }), "scripts", "use S, L or 0 to 9"},
	} {
		a, err := New(c.name, c.p)
		fe, ok := errors.AsType[*FieldError](err)
		if !ok || a != nil {
			t.Errorf("New(%s, %+v) = %v, %v: want a FieldError", c.name, c.p, a, err)
			continue
		}
		if fe.Field != c.field || !strings.Contains(err.Error(), c.says) {
			t.Errorf("New(%s): %q, want field %s and %q", c.name, err, c.field, c.says)
		}
	}
}

// TestStatedBoundsAreReachable takes the bounds out of two refusals and asks again.
func TestStatedBoundsAreReachable(t *testing.T) {
	for _, g := range []Gaps{{10, 0.948684, 0}, {35.5, 1.2, 0.162558}, {10, 2, 0.3875}, {1, 0, 0}} {
		if _, err := NewBursty(Pair{Small: 0, Large: 1}, g, 1, false, 2); err != nil {
			t.Error(err)
		}
	}
}

func TestPublishedDefaults(t *testing.T) {
	for name, want := range map[string]Algorithm{
		"citer":   CITER{Pair{Small: 0, Large: 1}, 0.98},
		"r2r":     R2R{Pair{Small: 0, Large: 1}, 0.5},
		"collm":   CoLLM{Pair{Small: 0, Large: 1}, 0.15},
		"rstitch": RStitch{Pair{Small: 0, Large: 1}, 0.03},
	} {
		if got := mustNew(t, name, Params{Models: 2, Large: 1}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if got := mustNew(t, "me", Params{Models: 3}).(Ensemble).Weights; !slices.Equal(got, []float64{0.5, 0.3, 0.2}) {
		t.Errorf("me: weights %v", got)
	}
	zero := 0.0
	if got := mustNew(t, "r2r", Params{Models: 2, Large: 1, Threshold: &zero}).(R2R); got.Threshold != 0 {
		t.Errorf("a threshold of 0 became %g", got.Threshold)
	}
}

func TestDraws(t *testing.T) {
	// A change here changes what every recorded seed means.
	if got := Bits(1, 2, PurposeGap); got != bitsOf1_2Gap {
		t.Errorf("Bits(1, 2, PurposeGap) = %#x, recorded %#x", got, uint64(bitsOf1_2Gap))
	}
	// Neighbouring keys, in any of the three, give independent uniforms.
	for name, draw := range map[string]func(i int) float64{
		"seed":     func(i int) float64 { return Draw(uint64(i), 5, PurposeGap) },
		"position": func(i int) float64 { return Draw(5, i, PurposeGap) },
		"purpose":  func(i int) float64 { return Draw(5, 5, Purpose(i)) },
		"model":    func(i int) float64 { return Draw(5, 5, PurposeGap.For(i)) },
	} {
		const n = 100_000
		var mean, square, product, before float64
		for i := range n {
			u := draw(i)
			if u < 0 || u >= 1 {
				t.Fatalf("%s: draw %g", name, u)
			}
			mean += u / n
			square += u * u / n
			product += u * before / n
			before = u
		}
		near(t, name+": mean", mean, 0.5, 0.005)
		near(t, name+": mean square", square, 1./3, 0.005)
		near(t, name+": mean product of neighbours", product, 0.25, 0.005)
	}
	// Cumulative weights: u < 0.5 is the first, u < 0.8 the second.
	for _, c := range []struct {
		u    float64
		skip int
		want int
	}{{0, -1, 0}, {math.Nextafter(0.5, 0), -1, 0}, {0.5, -1, 1}, {math.Nextafter(0.8, 0), -1, 1}, {0.8, -1, 2}, {math.Nextafter(1, 0), -1, 2},
		{0, 0, 1}, {0.59, 0, 1}, {0.61, 0, 2}, {0.99, 2, 1}} {
		if got := pick(c.u, EnsembleWeights(), c.skip); got != c.want {
			t.Errorf("pick(%g, skip %d) = %d, want %d", c.u, c.skip, got, c.want)
		}
	}
	near(t, "geometric at u 0", float64(geometric(0, 0.9)), 0, 0)
	near(t, "geometric near 1", float64(geometric(math.Nextafter(1, 0), 1-1e-12)), Forever, 0)
}

// Computed from the documented definition by another program.
const bitsOf1_2Gap = 0xc313915189c4ec21
