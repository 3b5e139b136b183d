package model

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every half number, against its definition: sign · fraction · 2^exponent.
func TestHalf(t *testing.T) {
	for i := range 1 << 16 {
		bits := uint16(i)
		exponent, fraction := int(bits>>10&0x1f), float64(bits&0x3ff)
		want := math.Ldexp(fraction, -24)
		switch {
		case exponent == 0x1f && fraction != 0:
			want = math.NaN()
		case exponent == 0x1f:
			want = math.Inf(1)
		case exponent > 0:
			want = math.Ldexp(1024+fraction, exponent-25)
		}
		if bits>>15 == 1 {
			want = math.Copysign(want, -1)
		}
		got := widenHalf(bits)
		if math.IsNaN(want) {
			if !math.IsNaN(float64(got)) {
				t.Fatalf("%#04x widens to %v, not NaN", bits, got)
			}
			continue
		}
		if float64(got) != want || math.Signbit(float64(got)) != math.Signbit(want) {
			t.Fatalf("%#04x widens to %v, want %v", bits, got, want)
		}
		if back := narrowHalf(got); back != bits {
			t.Fatalf("%#04x widens to %v and narrows to %#04x", bits, got, back)
		}
	}
}

// Between two neighbours the nearer one is taken, in the middle the even one.
func TestNarrow(t *testing.T) {
	for i := range 0x7bff {
		low, high := float64(widenHalf(uint16(i))), float64(widenHalf(uint16(i+1)))
		middle := (low + high) / 2
		even := uint16(i + i%2)
		for v, want := range map[float64]uint16{middle: even, middle - (high-low)/8: uint16(i), middle + (high-low)/8: uint16(i + 1)} {
			if got := narrowHalf(float32(-v)); got != want|0x8000 {
				t.Fatalf("%v narrows to %#04x, want %#04x", -v, got, want|0x8000)
			}
		}
	}
	if got := narrowHalf(65520); got != 0x7c00 {
		t.Errorf("65520 narrows to %#04x, want infinity", got)
	}
	for _, c := range []struct {
		v    uint32
		want uint16
	}{{0x3f80_8000, 0x3f80}, {0x3f81_8000, 0x3f82}, {0x3f80_8001, 0x3f81}, {0x3f80_7fff, 0x3f80}, {0xbf80_ffff, 0xbf81}} {
		if got := narrowBF16(math.Float32frombits(c.v)); got != c.want {
			t.Errorf("%#08x narrows to %#04x, want %#04x", c.v, got, c.want)
		}
	}
}

func TestFloats(t *testing.T) {
	for _, tensor := range []Tensor{
		{Dtype: BF16, U16: []uint16{0, 0x3f80, 0xc000, 0x3e80}},
		{Dtype: F16, U16: []uint16{0, 0x3c00, 0xc000, 0x3400}},
		{Dtype: F32, F32: []float32{0, 1, -2, 0.25}},
	} {
		got := make([]float32, 3)
		tensor.Floats(got, 1)
		if !slices.Equal(got, []float32{1, -2, 0.25}) {
			t.Errorf("%s: %v", tensor.Dtype, got)
		}
	}
}

// A fault is found in every lane of a word, and in what is left after the words.
func TestCheckFindsEveryFault(t *testing.T) {
	const n = 45
	for _, c := range []struct {
		dtype  Dtype
		finite []uint32 // bits of the largest numbers and of others with many bits set
		faults []uint32
	}{
		{BF16, []uint32{0x7f7f, 0xff7f, 0x807f}, []uint32{0x7f80, 0xff80, 0x7fc0, 0xff81}},
		{F16, []uint32{0x7bff, 0xfbff, 0x83ff}, []uint32{0x7c00, 0xfc00, 0x7e00, 0xfc01}},
		{F32, []uint32{0x7f7f_ffff, 0xff7f_ffff, 0x807f_ffff}, []uint32{0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0xff80_0001}},
	} {
		tensor := Tensor{Name: "t", Dtype: c.dtype, Shape: []int{n}, path: "file"}
		set := func(i int, bits uint32) {
			if c.dtype == F32 {
				tensor.F32[i] = math.Float32frombits(bits)
			} else {
				tensor.U16[i] = uint16(bits)
			}
		}
		if c.dtype == F32 {
			tensor.F32 = make([]float32, n)
		} else {
			tensor.U16 = make([]uint16, n)
		}
		for i := range n {
			set(i, c.finite[i%3])
		}
		if !finite(tensor.raw(), c.dtype) {
			t.Errorf("%s: finite numbers are refused", c.dtype)
		}
		for i := range n {
			for _, bits := range c.faults {
				set(i, bits)
				if finite(tensor.raw(), c.dtype) {
					t.Errorf("%s: %#x at %d is not found", c.dtype, bits, i)
				}
			}
			set(i, c.finite[i%3])
		}
	}
}

func TestCheck(t *testing.T) {
	m := randomToy(t, "llama", F16)
	var last, total int64
	progress := func(done, of int64) {
		if done <= last {
			t.Errorf("done %d of %d after %d", done, of, last)
		}
		last, total = done, of
	}
	if err := m.Check(t.Context(), progress); err != nil || last != total || total != m.WeightBytes() {
		t.Errorf("%v after %d of %d bytes, the model has %d", err, last, total, m.WeightBytes())
	}
	m.Layers[2].Up.U16[7] = 0x7e00
	m.Layers[1].Up.U16[9] = 0xfc00
	m.Layers[1].Up.U16[11] = 0x7c00
	err := m.Check(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "tensor model.layers.1.mlp.up_proj.weight is -Inf at index 9") {
		t.Errorf("not the first fault: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Check(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Looking for NaN should cost no more than reading: the ratio is that of its
// speed to the speed of a copy, which reads and writes.
func BenchmarkCheck(b *testing.B) {
	weights := make([]byte, 64<<20)
	to := make([]byte, len(weights))
	var looking, copying time.Duration
	for b.Loop() {
		start := time.Now()
		if !finite(weights, BF16) {
			b.Fatal("zeros are not finite")
		}
		middle := time.Now()
		copy(to, weights)
		looking, copying = looking+middle.Sub(start), copying+time.Since(middle)
	}
	b.ReportMetric(float64(copying)/float64(looking), "copies/check")
}
