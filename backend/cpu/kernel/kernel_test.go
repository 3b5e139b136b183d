package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// faster are the levels that this machine has beside plain Go.
func faster(t *testing.T) (names []string) {
	t.Helper()
	best := Level()
	t.Cleanup(func() { mustSet(t, best) })
	for l := avx2; l <= bestLevel(); l++ {
		names = append(names, levelNames[l])
	}
	if names == nil {
		t.Skip("this machine has no kernels in assembly: nothing to compare")
	}
	return names
}

func mustSet(t testing.TB, name string) {
	t.Helper()
	if err := SetLevel(name); err != nil {
		t.Fatal(err)
	}
}

// sameBits says where two results differ; all NaNs are the same.
func sameBits(got, want []float32) string {
	for i, g := range got {
		if w := want[i]; math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
			return fmt.Sprintf("at %d: %v (%08x), want %v (%08x)", i, g, math.Float32bits(g), w, math.Float32bits(w))
		}
	}
	return ""
}

// draws are ways to fill a matrix, from the harmless to the nasty.
var draws = []struct {
	name string
	draw func(r *rand.Rand) float32
}{
	{"even", func(r *rand.Rand) float32 { return r.Float32() - 0.5 }},
	{"any bits", func(r *rand.Rand) float32 { return math.Float32frombits(r.Uint32()) }},
	{"huge and small", func(r *rand.Rand) float32 {
		return float32(math.Ldexp(r.Float64()-0.5, r.IntN(120)-60))
	}},
	{"denormal", func(r *rand.Rand) float32 {
		return float32(math.Ldexp(r.Float64()-0.5, -60-r.IntN(90)))
	}},
	{"cancelling", func(r *rand.Rand) float32 {
		return []float32{1, -1, 0x1p24, -0x1p24, 1 + 0x1p-23, 0x1p-24}[r.IntN(6)]
	}},
	{"overflowing", func(r *rand.Rand) float32 { return float32(math.Ldexp(r.Float64()-0.5, 64+r.IntN(2))) }},
	{"special", func(r *rand.Rand) float32 {
		if r.IntN(40) == 0 {
			return []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}[r.IntN(3)]
		}
		return []float32{0, float32(math.Copysign(0, -1)), 1, -3}[r.IntN(4)]
	}},
}

func fill(r *rand.Rand, n int, draw func(*rand.Rand) float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = draw(r)
	}
	return x
}

// stored16 are the high halves of what draw gives: bfloat16 values and, read as
// IEEE halves, numbers of all kinds.
func stored16(r *rand.Rand, n int, draw func(*rand.Rand) float32) []uint16 {
	w := make([]uint16, n)
	for i := range w {
		w[i] = uint16(math.Float32bits(draw(r)) >> 16)
	}
	return w
}

func TestProductsAreTheSameOnAllLevels(t *testing.T) {
	names := faster(t)
	for _, d := range draws {
		r := rand.New(rand.NewPCG(1, 2))
		for _, k := range []int{1, 31, 32, 33, 96, 200, 544, 1061} { // the last walk in pieces
			rows, n := 9, 31
			x, w32 := fill(r, rows*k, d.draw), fill(r, n*k, d.draw)
			w16 := stored16(r, n*k, d.draw)
			multiply := func(level string, rows, lo, hi int) [3][]float32 {
				mustSet(t, level)
				var y [3][]float32
				for i := range y {
					y[i] = make([]float32, rows*n)
				}
				MatMulF32(y[0], x, w32, rows, k, n, lo, hi)
				MatMulBF16(y[1], x, w16, rows, k, n, lo, hi)
				MatMulF16(y[2], x, w16, rows, k, n, lo, hi)
				return y
			}
			want := multiply("go", rows, 0, n)
			for _, level := range names {
				for rows := 1; rows <= 9; rows++ {
					cut := r.IntN(n + 1)
					left, right := multiply(level, rows, 0, cut), multiply(level, rows, cut, n)
					for f := range want {
						for i, v := range right[f] {
							if i%n >= cut {
								left[f][i] = v
							} else if v != 0 {
								t.Fatalf("%s wrote column %d, left of %d", level, i%n, cut)
							}
						}
						if diff := sameBits(left[f], want[f][:rows*n]); diff != "" {
							t.Fatalf("%s, k %d, %d rows cut at %d, %s, %v: %s", d.name, k, rows, cut, level, []string{"f32", "bf16", "f16"}[f], diff)
						}
					}
				}
			}
		}
	}
}

// TestLargePanels takes more rows and more weights than one panel and chunk hold.
func TestLargePanels(t *testing.T) {
	names := faster(t)
	r := rand.New(rand.NewPCG(3, 4))
	const k = 4096
	rows, n := panelBytes/(4*k)+5, 2*chunkBytes/(2*k)+5
	x, w := fill(r, rows*k, draws[0].draw), stored16(r, n*k, draws[0].draw)
	for _, level := range names {
		mustSet(t, level)
		got, want := make([]float32, rows*n), make([]float32, rows*n)
		MatMulBF16(got, x, w, rows, k, n, 0, n)
		for row := range rows {
			for j := range n { // one at a time
				MatMulBF16(want[row*n+j:], x[row*k:], w[j*k:], 1, k, 1, 0, 1)
			}
		}
		if diff := sameBits(got, want); diff != "" {
			t.Errorf("%s: %s", level, diff)
		}
	}
}

// exactDot is the sum in arithmetic that is far better than float32.
func exactDot(x, w []float32) (sum, magnitude float64) {
	for i, v := range x {
		p := float64(v) * float64(w[i])
		sum += p
		magnitude += math.Abs(p)
	}
	return sum, magnitude
}

func TestDotIsRight(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for k := range 130 {
		x, w := fill(r, k, draws[0].draw), fill(r, k, draws[0].draw)
		want, magnitude := exactDot(x, w)
		// Each lane rounds k/32+1 times, then 5 levels are added.
		if got := float64(Dot(x, w)); math.Abs(got-want) > magnitude*float64(k/32+7)*0x1p-24 {
			t.Errorf("length %d: %v, want %v", k, got, want)
		}
	}
}

func TestHalfToFloat(t *testing.T) {
	for h := range 1 << 16 {
		sign, exponent, fraction := 1-2*float64(h>>15), h>>10&31, float64(h&1023)
		want := sign * math.Ldexp(1024+fraction, exponent-25)
		switch {
		case exponent == 0:
			want = math.Copysign(math.Ldexp(fraction, -24), sign)
		case exponent == 31 && fraction == 0:
			want = math.Inf(int(sign))
		case exponent == 31:
			want = math.NaN()
		}
		if diff := sameBits([]float32{halfToFloat(uint16(h))}, []float32{float32(want)}); diff != "" {
			t.Fatalf("half %04x: %s", h, diff)
		}
	}
}

func TestDotsAndWeightedSum(t *testing.T) {
	names := faster(t)
	for _, d := range draws {
		r := rand.New(rand.NewPCG(7, 8))
		for _, k := range []int{1, 15, 16, 64, 80, 128, 300} {
			rows, n, stride, scoreStride := 5, 11, k+3, 17
			q, v32 := fill(r, rows*k, d.draw), fill(r, n*stride, d.draw)
			a := fill(r, rows*scoreStride, d.draw)
			attend := func(level string) [2][]float32 {
				mustSet(t, level)
				y := [2][]float32{make([]float32, rows*scoreStride), make([]float32, rows*k)}
				Dots(y[0], q, v32, rows, k, n, scoreStride, stride)
				copy(y[1], q)
				for cut := 0; cut < n; cut += 4 { // the cut changes nothing
					m := min(4, n-cut)
					if level == "go" {
						cut, m = 0, n
					}
					WeightedSum(y[1], a[cut:], v32[cut*stride:], rows, k, m, scoreStride, stride)
					if level == "go" {
						break
					}
				}
				return y
			}
			want := attend("go")
			for _, level := range names {
				got := attend(level)
				for i := range got {
					if diff := sameBits(got[i], want[i]); diff != "" {
						t.Fatalf("%s, k %d, %s, result %d: %s", d.name, k, level, i, diff)
					}
				}
			}
		}
	}
}

// addScaled adds a·x[i] to each y[i], by one fused multiply-add.
func addScaled(y []float32, a float32, x []float32) {
	WeightedSum(y, []float32{a}, x, 1, len(x), 1, 1, len(x))
}

func TestWeightedSumIsFused(t *testing.T) {
	// 1+2^-23 squared is 1+2^-22+2^-46: only a fused operation keeps the end.
	y := []float32{-1 - 0x1p-22}
	addScaled(y, 1+0x1p-23, []float32{1 + 0x1p-23})
	if y[0] != 0x1p-46 {
		t.Errorf("got %g, want 2^-46", y[0])
	}
}

func TestRefusals(t *testing.T) {
	f := func(n int) []float32 { return make([]float32, n) }
	for name, call := range map[string]func(){
		"short y":     func() { MatMulF32(f(5), f(6), f(9), 2, 3, 3, 0, 3) },
		"short x":     func() { MatMulBF16(f(6), f(5), make([]uint16, 9), 2, 3, 3, 0, 3) },
		"short w":     func() { MatMulF16(f(6), f(6), make([]uint16, 8), 2, 3, 3, 0, 3) },
		"hi beyond n": func() { MatMulF32(f(6), f(6), f(9), 2, 3, 3, 0, 4) },
		"lo above hi": func() { MatMulF32(f(6), f(6), f(9), 2, 3, 3, 2, 1) },
		"dot":         func() { Dot(f(2), f(3)) },
		"stride":      func() { Dots(f(4), f(3), f(20), 1, 3, 4, 4, 2) },
		"short keys":  func() { Dots(f(4), f(3), f(14), 1, 3, 4, 4, 4) },
		"short a":     func() { WeightedSum(f(6), f(5), f(9), 2, 3, 3, 3, 3) },
		"silu":        func() { SiLUMul(f(2), f(2), f(1)) },
		"norm":        func() { RMSNorm(f(2), f(2), f(1), 1e-6) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("computed something")
				}
			}()
			call()
		})
	}
}

func TestSetLevelRefuses(t *testing.T) {
	before := Level()
	if err := SetLevel("mmx"); err == nil || Level() != before {
		t.Errorf("level mmx: %v, level now %s", err, Level())
	}
}
