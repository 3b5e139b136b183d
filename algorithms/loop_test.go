package algorithms

import (
	"math"
	"slices"
	"testing"
)

const (
	vocabulary = 64
	eos        = Token(0)
)

// fakeModel is a deterministic language model: all it returns is a hash of
// its name and of the tokens so far.
type fakeModel uint64

// logits spread over scales from nearly uniform to nearly certain, so that
// every signal falls on both sides of the thresholds used here.
func (m fakeModel) logits(tokens []Token) []float32 {
	h := uint64(m)
	for i, t := range tokens {
		h = Bits(h, i, Purpose(t))
	}
	scale := 120 * Draw(h, 0, 1000)
	out := make([]float32, vocabulary)
	for i := range out {
		out[i] = float32(scale * Draw(h, i, 1001))
	}
	return out
}

func (m fakeModel) forward(tokens []Token, need Need) (Token, Signals) {
	logits := m.logits(tokens)
	var all []TokenProb
	sum := 0.0
	for i, x := range logits {
		all = append(all, TokenProb{Token(i), math.Exp(float64(x))})
		sum += all[i].Prob
	}
	for i := range all {
		all[i].Prob /= sum
	}
	slices.SortStableFunc(all, func(a, b TokenProb) int {
		switch {
		case a.Prob > b.Prob:
			return -1
		case a.Prob < b.Prob:
			return 1
		}
		return 0
	})
	var s Signals
	if need&NeedEntropy != 0 {
		s.Entropy = NormalisedEntropy(logits)
	}
	if need&NeedMaxProb != 0 {
		s.MaxProb = all[0].Prob
	}
	if need&NeedTopK != 0 {
		s.TopK = all[:10]
	}
	if need&NeedDeferLogit != 0 {
		s.DeferLogit = 5 - float64(logits[0])/10
	}
	if need&NeedRouterScore != 0 {
		s.RouterScore = Sigmoid(float64(logits[1])/10 - 5)
	}
	return all[0].Token, s
}

// run is the outcome of one request.
type run struct {
	tokens   []Token // output only
	writers  []int   // who wrote each
	forwards []int   // per model
	hops     int
}

// loop is the plain one-request loop that every driver must agree with.
func loop(t *testing.T, a Algorithm, models []fakeModel, home int, seed uint64, budget int) run {
	t.Helper()
	tokens := []Token{3, 1, 4, 1, 5}
	prompt := len(tokens)
	r := run{forwards: make([]int, len(models))}
	at, stayStart, departed := home, prompt, prompt
	var extra []float64
	write := func(token Token, writer int) (ended bool) {
		tokens = append(tokens, token)
		r.writers = append(r.writers, writer)
		return token == eos || len(tokens) == prompt+budget
	}
	for steps, ended := 0, false; !ended; steps++ {
		if steps > budget*(len(models)+1) {
			t.Fatalf("%s: %d forwards for %d tokens: livelock", a.Name(), steps, len(r.writers))
		}
		token, signals := models[at].forward(tokens, a.Needs(at))
		r.forwards[at]++
		v := View{Seed: seed, Model: at, Home: home, Position: len(tokens), StayStart: stayStart,
			Hops: r.hops, Token: token, Signals: signals, Extra: extra}
		dest := a.Route(&v)
		extra = v.Extra
		if dest == Stay {
			ended = write(v.Token, at)
			continue
		}
		if dest.Model() == at {
			t.Fatalf("%s at %d: routes to itself", a.Name(), at)
		}
		req := PeerReq{Home: home, From: at, Seed: seed, Extra: extra, Prompt: prompt}
		d := Departure{From: at, To: dest.Model(), Home: home, Position: v.Position, Token: v.Token}
		if a.Send(d, &req) {
			ended = write(v.Token, at)
		}
		switch home {
		case at:
			departed = len(tokens)
		case dest.Model():
			req.Suffix = tokens[departed:]
			tokens = tokens[:departed+len(a.Receive(&req))]
		}
		r.hops++
		at, stayStart, extra = dest.Model(), len(tokens), req.Extra
	}
	r.tokens = tokens[prompt:]
	return r
}

// alone is a model writing by itself.
func alone(m fakeModel, budget int) []Token {
	tokens := []Token{3, 1, 4, 1, 5}
	for n := 0; n < budget; n++ {
		token, _ := m.forward(tokens, 0)
		if tokens = append(tokens, token); token == eos {
			break
		}
	}
	return tokens[5:]
}

func mustNew(t *testing.T, name string, p Params) Algorithm {
	t.Helper()
	a, err := New(name, p)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// modelSets gives several pairs, so that no outcome hangs on one stream.
func modelSets(k int) [][]fakeModel {
	var sets [][]fakeModel
	for s := range 6 {
		set := make([]fakeModel, k)
		for i := range set {
			set[i] = fakeModel(100*s + i)
		}
		sets = append(sets, set)
	}
	return sets
}

func TestDegenerateSettings(t *testing.T) {
	pair := func(threshold float64) Params { return Params{Models: 2, Large: 1, Threshold: &threshold} }
	for _, c := range []struct {
		name          string
		never, always Params
	}{
		{"citer", pair(-1), pair(1.01)},
		{"r2r", pair(1.01), pair(0)},
		{"collm", pair(1), pair(-0.1)},
		{"rstitch", pair(1), pair(-0.1)},
		{"confidence", pair(0), pair(1.01)},
		{"me", Params{Models: 2, Weights: []float64{1, 0}}, Params{}},
		{"fusion", Params{Models: 2, Weights: []float64{1, 0}}, Params{Models: 2, Weights: []float64{0, 1}}},
		{"matrix", Params{Models: 2, Matrix: [][]float64{{1, 0}, {1, 0}}}, Params{Models: 2, Matrix: [][]float64{{0, 1}, {0, 1}}}},
		{"bursty", Params{}, Params{Models: 2, Large: 1, MeanGap: 1}},
		{"never", Params{Models: 2}, Params{}},
	} {
		for _, models := range modelSets(2) {
			if c.never.Models > 0 {
				r := loop(t, mustNew(t, c.name, c.never), models, 0, 7, 60)
				if want := alone(models[0], 60); !slices.Equal(r.tokens, want) {
					t.Errorf("%s, never routing: %v, small alone %v", c.name, r.tokens, want)
				}
			}
			if c.always.Models > 0 {
				r := loop(t, mustNew(t, c.name, c.always), models, 0, 7, 60)
				if want := alone(models[1], 60); !slices.Equal(r.tokens, want) {
					t.Errorf("%s, always routing: %v, large alone %v", c.name, r.tokens, want)
				}
			}
		}
	}
}

// TestVisits checks between the degenerate ends that both models write, and
// how many forwards are wasted: one per token of the large model where a visit
// is one token long, fewer for R-Stitch, whose visits are longer.
func TestVisits(t *testing.T) {
	th := 0.5
	for _, name := range []string{"citer", "r2r", "collm", "confidence", "rstitch"} {
		a := mustNew(t, name, Params{Models: 2, Large: 1, Threshold: &th})
		for home := range 2 {
			var written [2]int
			wasted := 0
			for _, models := range modelSets(2) {
				r := loop(t, a, models, home, 7, 80)
				for _, w := range r.writers {
					written[w]++
				}
				wasted += r.forwards[0] + r.forwards[1] - len(r.writers)
			}
			if written[0] == 0 || written[1] == 0 {
				t.Errorf("%s, home %d: tokens written by each model %v, want both to write", name, home, written)
			}
			// A request that enters at the large model gets one token there
			// before any is dropped.
			want := written[1] - home*len(modelSets(2))
			if oneToken := name != "rstitch"; oneToken && wasted != want || !oneToken && wasted >= want {
				t.Errorf("%s, home %d: %d forwards wasted for %d routed tokens", name, home, wasted, want)
			}
		}
	}
}

func TestRStitchDoesNotLivelock(t *testing.T) {
	for _, threshold := range []float64{0.03, 0.3, 0.6, 0.9} {
		a := RStitch{Pair{Small: 0, Large: 1}, threshold}
		for _, models := range modelSets(2) {
			// One model on both sides is the hard case: it is as uncertain
			// when asked again.
			r := loop(t, a, []fakeModel{models[0], models[0]}, 0, 7, 60)
			if want := alone(models[0], 60); !slices.Equal(r.tokens, want) {
				t.Errorf("τ %g: one model on both sides wrote %v, alone %v", threshold, r.tokens, want)
			}
		}
	}
}

// TestFusionRing checks the ring against the sum computed in one place.
func TestFusionRing(t *testing.T) {
	weights := []float64{0.5, 0.3, 0.2}
	for _, sample := range []bool{false, true} {
		a := mustNew(t, "fusion", Params{Models: 3, Weights: weights, Sample: sample})
		for home := range 3 {
			for _, models := range modelSets(3) {
				r := loop(t, a, models, home, 7, 20)
				if n := len(r.tokens); r.forwards[0] != n || r.forwards[1] != n || r.forwards[2] != n {
					t.Fatalf("home %d: forwards %v for %d tokens", home, r.forwards, n)
				}
				tokens := []Token{3, 1, 4, 1, 5}
				for i, got := range r.tokens {
					if want := fused(models, weights, tokens, sample); got != want {
						t.Fatalf("home %d, sample %v, token %d: %d, want %d", home, sample, i, got, want)
					}
					if last := (home + 2) % 3; r.writers[i] != last {
						t.Fatalf("home %d: token %d written by %d, want %d", home, i, r.writers[i], last)
					}
					tokens = append(tokens, got)
				}
			}
		}
	}
}

// TestFusionEdges: ties go to the lower token, a ring of one stays, tokens
// stand where no signals are, and what travelled is not written to.
func TestFusionEdges(t *testing.T) {
	f := Fusion{Weights: []float64{0.5, 0.5}}
	extra := []float64{5, 0.25}
	top := []TokenProb{{9, 0.5}, {2, 0.25}}
	v := View{Model: 1, Extra: extra, Token: 9, Signals: Signals{TopK: top}}
	if dest := f.Route(&v); dest != To(0) || v.Token != 5 || len(v.Extra) != 0 {
		t.Errorf("tie of 5 and 9: Route = %d, token %d, extra %v", dest, v.Token, v.Extra)
	}
	if extra[0] != 5 || extra[1] != 0.25 || top[0].Token != 9 || top[1].Token != 2 {
		t.Errorf("Route wrote to what travelled %v or to the signals %v", extra, top)
	}
	v = View{Model: 1, Token: 9}
	if f.Route(&v); v.Token != 9 {
		t.Errorf("without signals the token became %d", v.Token)
	}
	one := Fusion{Weights: []float64{1}}
	v = View{Token: 9, Signals: Signals{TopK: top}}
	if dest := one.Route(&v); dest != Stay || v.Token != 9 {
		t.Errorf("one model: Route = %d, token %d", dest, v.Token)
	}
	if kept, dest := one.Stay(&v); kept != Forever || dest != Stay {
		t.Errorf("one model: Stay = %d, %d", kept, dest)
	}
}

// fused is Σ w_k p_k over the union of top tokens, densely.
func fused(models []fakeModel, weights []float64, tokens []Token, sample bool) Token {
	mass := make([]float64, vocabulary)
	for k, m := range models {
		_, s := m.forward(tokens, NeedTopK)
		for _, tp := range s.TopK {
			mass[tp.Token] += weights[k] * tp.Prob
		}
	}
	if sample {
		return Token(pick(Draw(7, len(tokens), PurposeFuse), mass, -1))
	}
	best := 0
	for i, x := range mass {
		if x > mass[best] {
			best = i
		}
	}
	return Token(best)
}

// TestScriptsAreReplayed takes the six requests of the schedules experiment.
func TestScriptsAreReplayed(t *testing.T) {
	scripts := []string{"SSS", "SSSS", "SLSS", "SLSL", "SLSL", "LLLL"}
	a := mustNew(t, "script", Params{Models: 2, Large: 1, Scripts: scripts, PromptTokens: 5}).(*Script)
	for seed, script := range scripts {
		for home := range 2 {
			r := loop(t, a, modelSets(2)[3], home, uint64(seed), len(script))
			got := ""
			for _, w := range r.writers {
				got += string("SL"[w])
			}
			if got != script[:len(got)] || len(got) < len(script) && r.tokens[len(got)-1] != eos {
				t.Errorf("script %s from home %d: written by %s", script, home, got)
			}
			wasted := r.forwards[0] + r.forwards[1] - len(got)
			if entersRight := home == a.Writers(uint64(seed))[0]; entersRight && wasted != 0 || !entersRight && wasted != 1 {
				t.Errorf("script %s from home %d: %d forwards wasted", script, home, wasted)
			}
		}
	}
}

// TestLoopAgreesWithStays runs the sources token by token, through Route, and
// stay by stay: the same models must write the same tokens.
func TestLoopAgreesWithStays(t *testing.T) {
	for _, name := range []string{"me", "matrix", "bursty", "fusion", "never"} {
		p := exampleParams(name, nil)
		s := mustNew(t, name, p).(source)
		for home := range p.Models {
			for seed, models := range modelSets(p.Models) {
				r := loop(t, s, models, home, uint64(seed), 80)
				var want []int
				walkFrom(s, home, uint64(seed), 5, len(r.writers), func(w int) { want = append(want, w) })
				if !slices.Equal(r.writers, want) {
					t.Errorf("%s, home %d, seed %d: written by %v, stay by stay %v", name, home, seed, r.writers, want)
				}
			}
		}
	}
}

// TestEnsembleKeepsAllTokens: no forward of ME is wasted.
func TestEnsembleKeepsAllTokens(t *testing.T) {
	a := mustNew(t, "me", Params{Models: 3})
	for _, models := range modelSets(3) {
		r := loop(t, a, models, 0, 7, 80)
		if n := r.forwards[0] + r.forwards[1] + r.forwards[2]; n != len(r.tokens) {
			t.Errorf("%d forwards for %d tokens", n, len(r.tokens))
		}
		for i, w := range r.writers[1:] {
			if want := pick(Draw(7, 5+i, PurposeModel), EnsembleWeights(), -1); w != want {
				t.Errorf("token %d written by %d, drawn %d", i+1, w, want)
			}
		}
	}
}
