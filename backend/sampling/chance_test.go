package sampling

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tokenrouter/tokenrouter/backend"
)

// TestShares draws many tokens and asks whether their counts fit the shares
// that the filters leave: the chi-square statistic stays below what it exceeds
// once in 100,000. Seeds are fixed, so the answer never changes.
func TestShares(t *testing.T) {
	e := math.Exp
	logits := []float32{0, 1, 2, -1, 2, masked}
	for _, c := range []struct {
		name     string
		sampling backend.Sampling
		shares   []float64 // up to a factor
	}{
		{"all", backend.Sampling{Temperature: 1}, []float64{1, e(1), e(2), e(-1), e(2)}},
		{"warm", backend.Sampling{Temperature: 2}, []float64{1, e(0.5), e(1), e(-0.5), e(1)}},
		{"cold", backend.Sampling{Temperature: 0.5}, []float64{1, e(2), e(4), e(-2), e(4)}},
		{"top_k", backend.Sampling{Temperature: 1, TopK: 3}, []float64{0, e(1), e(2), 0, e(2)}},
		{"top_p", backend.Sampling{Temperature: 1, TopP: 0.9}, []float64{0, e(1), e(2), 0, e(2)}},
		{"min_p", backend.Sampling{Temperature: 1, MinP: 0.1}, []float64{1, e(1), e(2), 0, e(2)}},
		{"bias", backend.Sampling{Temperature: 1, LogitBias: []backend.TokenBias{{Token: 3, Bias: 3}}}, []float64{1, e(1), e(2), e(2), e(2)}},
	} {
		const draws = 20_000
		counts := make([]float64, len(logits))
		for n := range draws {
			// Seeds and positions both vary: neither alone may carry the chance.
			counts[choose(t, logits, at(1+n%100, uint64(n/100), &c.sampling))]++
		}
		total := 0.0
		for _, s := range c.shares {
			total += s
		}
		chi, degrees := 0.0, -1.0
		for token, n := range counts {
			share := 0.0
			if token < len(c.shares) {
				share = c.shares[token] / total
			}
			if share == 0 {
				if n > 0 {
					t.Errorf("%s: token %d was drawn %v times", c.name, token, n)
				}
				continue
			}
			chi += (n - draws*share) * (n - draws*share) / (draws * share)
			degrees++
		}
		if limit := (distuv.ChiSquared{K: degrees}).Quantile(1 - 1e-5); chi > limit {
			t.Errorf("%s: chi-square %.1f of counts %v, want below %.1f", c.name, chi, counts, limit)
		}
	}
}
