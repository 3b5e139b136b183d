package algorithms

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s = %.9g, want %.9g ± %g", what, got, want, tolerance)
	}
}

func TestEntropyVectors(t *testing.T) {
	near(t, "Hn(2,1,0,-1)", NormalisedEntropy([]float32{2, 1, 0, -1}), 0.683503, 1e-6)
	near(t, "H(2,1,0,-1) in nats", NormalisedEntropy([]float32{2, 1, 0, -1})*math.Log(4), 0.947537, 1e-6)
	near(t, "Hn(8,0,0,0)", NormalisedEntropy([]float32{8, 0, 0, 0}), 0.006527, 1e-6)
	near(t, "H(8,0,0,0) in nats", NormalisedEntropy([]float32{8, 0, 0, 0})*math.Log(4), 0.009049, 1e-6)
	near(t, "Hn of equal logits", NormalisedEntropy([]float32{5, 5, 5}), 1, 1e-15)
	near(t, "Hn of one logit", NormalisedEntropy([]float32{5}), 0, 0)
	near(t, "Hn of one live logit", NormalisedEntropy([]float32{-3, float32(math.Inf(-1))}), 0, 0)
	near(t, "Hn of far logits", NormalisedEntropy([]float32{3e38, -3e38}), 0, 0)

	a := RStitch{Pair{Small: 0, Large: 1}, RStitchThreshold}
	for _, c := range []struct {
		logit float32
		want  Dest
	}{{8, Stay}, {6.254857 + 2e-6, Stay}, {6.254857 - 2e-6, To(1)}} {
		v := View{Signals: Signals{Entropy: NormalisedEntropy([]float32{c.logit, 0, 0, 0})}}
		if got := a.Route(&v); got != c.want {
			t.Errorf("logits %g,0,0,0 at τ 0.03: Route = %d, want %d", c.logit, got, c.want)
		}
	}
	near(t, "τ of R-Stitch in nats", RStitchThreshold*math.Log(151936), 0.358, 5e-4)
}

func TestEntropyIgnoresShift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfN(rapid.Float32Range(-20, 20), 2, 50).Draw(t, "logits")
		shift := float32(rapid.IntRange(-64, 64).Draw(t, "shift"))
		moved := make([]float32, len(logits))
		for i, x := range logits {
			moved[i] = x + shift
		}
		a, b := NormalisedEntropy(logits), NormalisedEntropy(moved)
		if a < 0 || a > 1 || math.Abs(a-b) > 1e-4 {
			t.Fatalf("Hn %g, moved %g", a, b)
		}
	})
}

func TestCutVectors(t *testing.T) {
	near(t, "Co-LLM cut", Logit(CoLLMThreshold), -1.734601, 1e-6)
	near(t, "CITER cut", Logit(CITERThreshold), 3.891820, 1e-6)
	near(t, "R2R cut", Logit(0.40595959595959596), -0.380694, 1e-6)
	near(t, "Co-LLM loss", DeferLoss(-1, 0.2, 0.7), 1.095205, 1e-6)
	near(t, "Co-LLM loss, sure to stay", DeferLoss(-800, 0.2, 0.7), -math.Log(0.2), 1e-12)
	near(t, "Co-LLM loss, sure to defer", DeferLoss(800, 0.2, 0.7), -math.Log(0.7), 1e-12)
	for _, x := range []float64{-700, -5, -0.1, 0, 0.1, 5, 30} {
		near(t, "Logit(Sigmoid)", Logit(Sigmoid(x)), x, 1e-3*math.Max(1, math.Abs(x)))
	}
	near(t, "Sigmoid far below", Sigmoid(-1e300), 0, 0)
	near(t, "Sigmoid far above", Sigmoid(1e300), 1, 0)
	if !math.IsInf(Logit(0), -1) || !math.IsInf(Logit(-0.1), -1) || !math.IsInf(Logit(1), 1) || !math.IsInf(Logit(1.01), 1) {
		t.Error("Logit outside (0, 1) must be infinite")
	}

	// The cut and the decision are the same test.
	a := CoLLM{Pair{Small: 0, Large: 1}, CoLLMThreshold}
	for _, c := range []struct {
		d    float64
		want Dest
	}{{-1.734602, Stay}, {-1.734600, To(1)}} {
		if got := a.Route(&View{Signals: Signals{DeferLogit: c.d}}); got != c.want {
			t.Errorf("defer logit %g: Route = %d, want %d", c.d, got, c.want)
		}
	}
}

func TestEnsembleShares(t *testing.T) {
	e := Ensemble{Weights: EnsembleWeights()}
	const n = 1_000_000
	var counts [3]float64
	for i := range n {
		// Any model's view gives the same next writer; seeds and positions mix.
		dest := e.Route(&View{Seed: uint64(i / 1000), Position: i % 1000, Model: 1})
		next := dest.Model()
		if dest == Stay {
			next = 1
		}
		counts[next]++
	}
	for k, want := range e.Weights {
		near(t, "share", counts[k]/n, want, 0.002)
	}
}

// TestEnsembleMarginal checks that drawing a model and then its token gives
// the fused distribution, and that the ring's Extra holds that distribution.
func TestEnsembleMarginal(t *testing.T) {
	ps := [][]float64{{0.9, 0.1}, {0.5, 0.5}, {0.2, 0.8}}
	weights := EnsembleWeights()
	const n = 400_000
	zero := 0.0
	for i := range n {
		p := ps[pick(Draw(11, i, PurposeModel), weights, -1)]
		if pick(Draw(11, i, PurposeSample), p, -1) == 0 {
			zero++
		}
	}
	near(t, "P(token 0)", zero/n, 0.64, 0.003)

	var sum []float64
	for k, p := range ps {
		sum = addShare(sum, []TokenProb{{0, p[0]}, {1, p[1]}}, weights[k])
	}
	if len(sum) != 4 || sum[0] != 0 || sum[2] != 1 {
		t.Fatalf("fused pairs %v", sum)
	}
	near(t, "fused mass of token 0", sum[1], 0.64, 1e-12)
	near(t, "fused mass of token 1", sum[3], 0.36, 1e-12)
}
