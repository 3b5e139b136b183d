package kernel

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exactFMA rounds the exact x·y+z once, by arbitrary precision arithmetic.
func exactFMA(x, y, z float32) float32 {
	exact := func(v float32) *big.Float { return new(big.Float).SetPrec(1000).SetFloat64(float64(v)) }
	sum := exact(x)
	sum.Mul(sum, exact(y)).Add(sum, exact(z))
	if sum.Sign() == 0 { // big.Float adds zeros by other rules
		return float32(float64(x)*float64(y) + float64(z))
	}
	out, _ := sum.Float32()
	return out
}

func TestFMAIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	doubly := 0
	check := func(x, y, z float32) {
		t.Helper()
		want := exactFMA(x, y, z)
		if diff := sameBits([]float32{fma(x, y, z)}, []float32{want}); diff != "" {
			t.Fatalf("%x·%x+%x: %s", x, y, z, diff)
		}
		if diff := sameBits([]float32{fmaEmulated(x, y, z)}, []float32{want}); diff != "" {
			t.Fatalf("emulated %x·%x+%x: %s", x, y, z, diff)
		}
		if float32(math.FMA(float64(x), float64(y), float64(z))) != want {
			doubly++
		}
	}
	for range 20000 {
		nastySums(r, check)
	}
	if doubly == 0 {
		t.Error("no case in which rounding twice is wrong: the test is too tame")
	}
}

// nastySums draws x, y, z for x·y+z with results that are easily rounded wrongly.
func nastySums(r *rand.Rand, use func(x, y, z float32)) {
	finite := func() float32 {
		for {
			if v := math.Float32frombits(r.Uint32()); v-v == 0 {
				return v
			}
		}
	}
	x, y := finite(), finite()
	use(x, y, finite())
	// The product is about half a unit in the last place of z, so that the sum
	// lies close to the middle of two float32.
	z := float32(math.Ldexp(float64(r.IntN(1<<23)+1<<23), r.IntN(200)-140))
	unit := math.Nextafter32(z, float32(math.Inf(1))) - z
	x = float32(math.Ldexp(1+float64(r.IntN(3)-1)*0x1p-23, r.IntN(20)))
	use(x, unit/2/x, z)
	use(x, -unit/2/x, z)
	use(1+0x1p-23, unit/2*(1-0x1p-23), z)
	use(1+0x1p-12, unit/2*(1-0x1p-12), z)
	// Results among the denormals, where the middles lie elsewhere.
	small := func() float32 { return float32(math.Ldexp(r.Float64()-0.5, -60-r.IntN(30))) }
	use(small(), small(), float32(math.Ldexp(r.Float64()-0.5, -120-r.IntN(30))))
	use(0x1p-75*(1+0x1p-23), 0x1p-75*(1-0x1p-23), math.Float32frombits(r.Uint32N(1<<24)))
}

// TestProcessorAgrees compares the emulation with the processor's instruction.
func TestProcessorAgrees(t *testing.T) {
	faster(t)
	r := rand.New(rand.NewPCG(2, 2))
	for range 50000 {
		nastySums(r, func(x, y, z float32) {
			got, want := []float32{z}, []float32{fmaEmulated(x, y, z)}
			addScaled(got, x, []float32{y})
			if diff := sameBits(got, want); diff != "" {
				t.Fatalf("%x·%x+%x: %s", x, y, z, diff)
			}
		})
	}
}
