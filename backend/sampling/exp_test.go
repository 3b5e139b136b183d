package sampling

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestExp(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	check := func(x float64) {
		t.Helper()
		got, want := exp(x), math.Exp(x)
		if x <= -underflow {
			want = 0
		}
		if math.Abs(got-want) > 2e-15*want {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	for range 300_000 {
		check(-underflow * r.Float64())
		check(-r.ExpFloat64())
	}
	for k := range 200 {
		// The ends of the pieces, where rounding to a whole number turns over.
		x := -(float64(k) + 0.5) * math.Ln2 / pieces
		check(math.Nextafter(x, 0))
		check(x)
		check(math.Nextafter(x, -1))
	}
	for _, x := range []float64{0, math.Copysign(0, -1), -1e-300, -699.999, -700, -1e300, math.Inf(-1)} {
		check(x)
	}
	if exp(0) != 1 {
		t.Errorf("exp(0) = %v: the most probable token must weigh exactly 1", exp(0))
	}
}

func TestLn(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	check := func(x float64) {
		t.Helper()
		if got, want := ln(x), math.Log(x); math.Abs(got-want) > 1e-15*want {
			t.Fatalf("ln(%v) = %v, want %v", x, got, want)
		}
	}
	for range 100_000 {
		check(1 + r.ExpFloat64())
		check(math.Exp(20 * r.Float64()))
	}
	for _, x := range []float64{1, math.Nextafter(1, 2), math.Sqrt2, 2, 4, 151936, 1e300} {
		check(x)
	}
}
