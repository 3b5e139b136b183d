package kernel

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestExpIsRight compares with float64 over all that is neither 0 nor infinite.
func TestExpIsRight(t *testing.T) {
	worst := 0.0
	for x := float32(-104); x < 88.8; x += 0.000977 {
		got, want := float64(expGo(x)), math.Exp(float64(x))
		if want > math.MaxFloat32 {
			if !math.IsInf(got, 1) {
				t.Fatalf("exp(%v) = %v, want infinity", x, got)
			}
			continue
		}
		unit := math.Max(math.Ldexp(1, math.Ilogb(want)-23), 0x1p-149)
		worst = max(worst, math.Abs(got-want)/unit)
	}
	if worst > 2 {
		t.Errorf("wrong by %.2f units in the last place, at most 2", worst)
	}
	inf := float32(math.Inf(1))
	for _, c := range [][2]float32{{0, 1}, {-inf, 0}, {inf, inf}, {-200, 0}, {200, inf}, {float32(math.NaN()), float32(math.NaN())}} {
		if diff := sameBits([]float32{expGo(c[0])}, []float32{c[1]}); diff != "" {
			t.Errorf("exp(%v): %s", c[0], diff)
		}
	}
}

// TestActivationsAreTheSameOnAllLevels covers what the exponential is used for.
func TestActivationsAreTheSameOnAllLevels(t *testing.T) {
	names := faster(t)
	wide := draws[0]
	wide.name, wide.draw = "wide", func(r *rand.Rand) float32 { return 250 * (r.Float32() - 0.5) }
	for _, d := range append(slices.Clone(draws), wide) {
		r := rand.New(rand.NewPCG(9, 10))
		for _, n := range []int{1, 7, 32, 33, 64, 200, 3000} {
			x, up := fill(r, n, d.draw), fill(r, n, d.draw)
			compute := func(level string) [3][]float32 {
				mustSet(t, level)
				y := [3][]float32{slices.Clone(x), make([]float32, n), make([]float32, n)}
				Softmax(y[0])
				SiLUMul(y[1], x, up)
				RMSNorm(y[2], x, up, 1e-6)
				return y
			}
			want := compute("go")
			for _, level := range names {
				got := compute(level)
				for i := range got {
					if diff := sameBits(got[i], want[i]); diff != "" {
						t.Fatalf("%s, %d numbers, %s, result %d: %s", d.name, n, level, i, diff)
					}
				}
			}
		}
	}
}

func TestSoftmaxIsRight(t *testing.T) {
	x := []float32{1, 2, 3, float32(math.Inf(-1)), -1000}
	Softmax(x)
	sum := math.Exp(-2) + math.Exp(-1) + 1
	for i, want := range []float64{math.Exp(-2) / sum, math.Exp(-1) / sum, 1 / sum, 0, 0} {
		if math.Abs(float64(x[i])-want) > 1e-6 {
			t.Errorf("entry %d: %v, want %v", i, x[i], want)
		}
	}
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
		for at := range 3 {
			x := []float32{1, 2, 3}
			x[at] = bad
			Softmax(x)
			for i, v := range x {
				if v == v {
					t.Errorf("%v at %d: entry %d is %v, want NaN", bad, at, i, v)
				}
			}
		}
	}
}

func TestSiLUIsRight(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	gate, up := fill(r, 500, func(r *rand.Rand) float32 { return 40 * (r.Float32() - 0.5) }), fill(r, 500, draws[0].draw)
	y := make([]float32, len(gate))
	SiLUMul(y, gate, up)
	for i, g := range gate {
		want := float64(g) / (1 + math.Exp(-float64(g))) * float64(up[i])
		if math.Abs(float64(y[i])-want) > 4e-7*math.Abs(want) {
			t.Errorf("silu(%v)·%v = %v, want %v", g, up[i], y[i], want)
		}
	}
}

func TestRMSNormIsRight(t *testing.T) {
	y := make([]float32, 2)
	RMSNorm(y, []float32{3, 4}, []float32{1, 10}, 0)
	if want := math.Sqrt(12.5); math.Abs(float64(y[0])-3/want) > 1e-6 || math.Abs(float64(y[1])-40/want) > 1e-5 {
		t.Errorf("got %v, want 3 and 40 over %v", y, want)
	}
}

func TestReadThrough(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	x := fill(r, 1000, draws[1].draw)
	var want uint32
	for _, v := range x {
		want ^= math.Float32bits(v)
	}
	for _, level := range append(faster(t), "go") {
		mustSet(t, level)
		if got := ReadThrough(x); got != want {
			t.Errorf("%s: %08x, want %08x", level, got, want)
		}
	}
}

// TestBitsOfAllMachines compares with what another machine computed: levels can
// only be compared with each other on the machine that has them.
func TestBitsOfAllMachines(t *testing.T) {
	const want = 0x70c12d5c4919f7ab
	digest := fnv.New64a()
	for _, d := range draws {
		r := rand.New(rand.NewPCG(15, 16))
		const rows, k, n = 5, 80, 7
		x, w, w16 := fill(r, rows*k, d.draw), fill(r, n*k, d.draw), stored16(r, n*k, d.draw)
		y := make([]float32, 5*rows*k)
		MatMulF32(y, x, w, rows, k, n, 0, n)
		MatMulBF16(y[rows*k:], x, w16, rows, k, n, 0, n)
		MatMulF16(y[2*rows*k:], x, w16, rows, k, n, 0, n)
		WeightedSum(y[3*rows*k:][:k], x, w, 1, k, n, n, k)
		SiLUMul(y[3*rows*k+k:][:k], x[:k], w[:k])
		RMSNorm(y[3*rows*k+2*k:][:k], x[:k], w[:k], 1e-5)
		copy(y[4*rows*k:], x)
		Softmax(y[4*rows*k:])
		for _, v := range y {
			if v != v {
				v = float32(math.NaN())
			}
			digest.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
		}
	}
	if got := digest.Sum64(); got != want {
		t.Errorf("level %s: digest %#x, want %#x", Level(), got, uint64(want))
	}
}
