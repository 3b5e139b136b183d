package steptime

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func load(t testing.TB, name string) *Profile {
	t.Helper()
	p, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLinearIsExact(t *testing.T) {
	for _, c := range []struct {
		base, perRequest, perRow float64
		requests, rows           int
		want                     int64
	}{
		{32.0, 0.1, 0, 1, 1, 32_100_000},
		{32.0, 0.1, 0, 3, 3, 32_300_000},
		{32.0, 0.1, 0, 7, 900, 32_700_000},
		{4, 0.05, 0, 8, 8, 4_400_000},
		{0.1, 0.2, 0.3, 1, 2, 900_000},
		{0, 0, 0.000001, 1, 5, 5},
		{0.0000005, 0, 0, 1, 1, 1},
		{0.0000014, 0, 0, 1, 1, 1},
		{0.0000015, 0, 0, 1, 1, 2},
		{0, 0.000000001, 0.000001, 500, 500, 501}, // 500.5 rounds up
		{1e6, 0, 0, 1, 1, 1e12},
		{1e6, 1e6, 1e6, 1 << 40, 1 << 41, unitsMax>>fractionBits + 1}, // saturates
	} {
		st, err := NewLinear(c.base, c.perRequest, c.perRow)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if got := st.Ns(c.requests, c.rows, 0); got != c.want {
			t.Errorf("%+v: got %d ns", c, got)
		}
	}
}

func TestLinearRefuses(t *testing.T) {
	for _, c := range []struct {
		base, perRequest, perRow float64
		field                    string
	}{
		{-1, 0, 0, "base"},
		{1, -0.1, 0, "per_request"},
		{1, 0, math.NaN(), "per_row"},
		{math.Inf(1), 0, 0, "base"},
		{1, 1e7, 0, "per_request"},
		{0, 0, 0, "base"},
		{1e-7, 1e-7, 1e-7, "base"},
	} {
		st, err := NewLinear(c.base, c.perRequest, c.perRow)
		var field *FieldError
		if !errors.As(err, &field) || field.Field != c.field || st != nil {
			t.Errorf("%+v: got %v, %v", c, st, err)
		}
	}
}

func TestBrokenStepsPanic(t *testing.T) {
	linear, err := NewLinear(1, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	table := load(t, Names()[0]).Compile()
	for _, st := range []StepTime{linear, table} {
		for _, step := range [][3]int{{0, 0, 0}, {2, 1, 0}, {1, 1, -1}} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%T: step %v did not panic", st, step)
					}
				}()
				st.Ns(step[0], step[1], step[2])
			}()
		}
	}
}

// Golden step times of the shipped profiles, in ms. They are the origin's sums to
// two decimals, so the tolerance is the rounding of these and of the table.
func TestShippedGolden(t *testing.T) {
	contexts := []int{600, 4096, 8192}
	for _, c := range []struct {
		name  string
		tolMs float64
		ms    [][]float64 // contexts x requests 1, 2, 4, ... 64
	}{
		{"a100-80gb/sglang-0.5.10/qwen3-0.6b-tp1", 0.011, [][]float64{
			{2.43, 2.59, 2.81, 3.41, 4.06, 4.92, 6.78},
			{2.76, 3.40, 4.25, 7.35, 11.88, 16.47, 26.08},
			{3.29, 4.19, 5.73, 11.90, 20.91, 30.27, 49.29}}},
		{"a100-80gb/vllm-0.14/qwen3-0.6b-tp1", 0.011, [][]float64{
			{2.18, 2.57, 2.64, 2.77, 3.34, 4.05, 5.32},
			{2.47, 3.11, 3.81, 4.86, 7.20, 13.54, 20.92},
			{2.77, 3.75, 4.85, 7.10, 11.49, 24.56, 42.26}}},
		{"a100-80gb/sglang-0.5.10/qwen3-32b-tp2", 0.011, [][]float64{
			{25.38, 24.94, 25.05, 26.13, 27.75, 30.76, 32.04},
			{25.74, 25.80, 26.99, 29.46, 36.77, 48.47, 58.49},
			{26.41, 26.94, 28.74, 32.82, 47.61, 69.40, 89.84}}},
		// 25.06 replaces the origin's outlier 28.76, and 81.76 was measured with other
		// query heads: see the profile's notes.
		{"a100-80gb/vllm-0.14/qwen3-32b-tp2", 0.011, [][]float64{
			{25.71, 25.85, 25.06, 25.02, 26.69, 28.36, 31.37},
			{26.32, 26.51, 26.42, 27.64, 31.51, 37.27, 53.12},
			{26.64, 27.37, 27.84, 30.14, 36.72, 47.24, 81.76}}},
	} {
		st := load(t, c.name).Compile()
		for i, line := range c.ms {
			for j, want := range line {
				requests := 1 << j
				got := float64(st.Ns(requests, requests, requests*contexts[i])) / 1e6
				if math.Abs(got-want) > c.tolMs {
					t.Errorf("%s: %d requests x %d tokens take %.3f ms, want %.2f",
						c.name, requests, contexts[i], got, want)
				}
			}
		}
	}
}

// Prompts and extends, pinned to the nanosecond so that no change of the pricing
// goes unseen. A cold prompt of 2,048 tokens is 302 ms on 32B TP2: 6,800 token/s,
// 68 % of the tensor cores' peak.
func TestShippedRowsPinned(t *testing.T) {
	for _, c := range []struct {
		name                    string
		requests, rows, context int
		want                    int64
	}{
		{"a100-80gb/sglang-0.5.10/qwen3-0.6b-tp1", 1, 1, 600, 2_424_578},
		{"a100-80gb/sglang-0.5.10/qwen3-0.6b-tp1", 1, 2048, 2048, 16_118_054},
		{"a100-80gb/sglang-0.5.10/qwen3-32b-tp2", 1, 10, 2000, 26_181_521},
		{"a100-80gb/sglang-0.5.10/qwen3-32b-tp2", 1, 2048, 2048, 302_120_276},
		{"a100-80gb/sglang-0.5.10/qwen3-32b-tp2", 8, 2055, 16384, 304_725_757},
		{"a100-80gb/vllm-0.14/qwen3-32b-tp2", 4, 40, 8000, 26_636_185},
		{"a100-80gb/vllm-0.14/qwen3-0.6b-tp1", 16, 8192, 40000, 61_481_946},
	} {
		if got := load(t, c.name).Compile().Ns(c.requests, c.rows, c.context); got != c.want {
			t.Errorf("%s: (%d, %d, %d) takes %d ns, want %d", c.name, c.requests, c.rows, c.context, got, c.want)
		}
	}
}

func TestNsDoesNotAllocate(t *testing.T) {
	st := load(t, "a100-80gb/sglang-0.5.10/qwen3-32b-tp2").Compile()
	for _, step := range [][3]int{{8, 8, 9000}, {8, 300, 9000}, {keptMost + 9, keptMost + 9, 1 << 24}} {
		if n := testing.AllocsPerRun(100, func() { st.Ns(step[0], step[1], step[2]) }); n != 0 {
			t.Errorf("step %v: %v allocations", step, n)
		}
	}
}

var sink int64

// BenchmarkNs compares the kinds of step in one run: decode is called once per
// simulated step and should stay under 10 ns.
func BenchmarkNs(b *testing.B) {
	table := load(b, "a100-80gb/sglang-0.5.10/qwen3-32b-tp2").Compile()
	linear, err := NewLinear(32, 0.1, 0)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		st   StepTime
		more int
		mask int
	}{
		{"linear", linear, 0, 15}, {"decode", table, 0, 15}, {"decode-300", table, 0, 255},
		{"extend", table, 30, 15}, {"prompt", table, 2048, 15},
	} {
		b.Run(c.name, func(b *testing.B) {
			for i := range b.N {
				requests := 1 + i&c.mask
				sink += c.st.Ns(requests, requests+c.more, requests*(300+i&4095))
			}
		})
	}
}

func TestSaturation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Int64Range(0, unitsMax).Draw(t, "a")
		b := rapid.Int64Range(0, unitsMax).Draw(t, "b")
		c := rapid.Int64Range(1, unitsMax).Draw(t, "c")
		exact := float64(a) * float64(b)
		near := func(what string, got int64, want float64) {
			want = min(want, unitsMax)
			if got < 0 || math.Abs(float64(got)-want) > 1+want*1e-14 {
				t.Fatalf("%s: got %d, want %g", what, got, want)
			}
		}
		near("times", timesSaturating(a, b), exact)
		near("scale", scale(a, b, c), exact/float64(c))
		near("rise", rise(a, b), exact/(1<<slopeBits))
		near("add", addSaturating(a, b), float64(a)+float64(b))
	})
}
