package evidence

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// What the fits and profiles reach, group by group, and every figure that they
// miss by more than a tenth. A change of any constant shows here.
var pinned = []struct {
	group       string
	n           int
	mean, worst float64 // error, absolute and signed
	misses      []string
}{
	{GroupHoldout, 252, 0.019, 0.081, nil},
	{GroupCells, 448, 0.021, 0.080, nil},
	{GroupOpSum, 435, 0.018, -0.100, nil},
	{GroupVidurA100, 232, 0.036, 0.136, []string{
		"Llama-2-7b-hf tp2, 2 rows +11.1 %",
		"Meta-Llama-3-8B tp8, 1 rows +13.6 %",
		"Qwen-72B tp8, 64 rows -11.2 %",
	}},
	{GroupVidurH100, 168, 0.036, 0.165, []string{
		"CodeLlama-34b-Instruct-hf tp4, 24 rows -10.3 %",
		"Llama-2-70b-hf tp8, 32 rows -10.2 %",
		"Llama-2-7b-hf tp8, 1 rows +16.5 %",
		"Qwen-72B tp8, 24 rows -11.5 %",
		"phi-2 tp1, 64 rows -11.6 %",
	}},
	{GroupSteps, 9, 0.045, -0.095, nil},
	// That engine's CPU time grew with the requests, which launch_ms and serial_ms
	// cannot say, and its own all-reduces were slower.
	{GroupOld, 24, 0.125, -0.435, []string{
		"a100-80gb/vllm-2023/llama-2-70b-tp2-eager, 4 x 512 -11.8 %",
		"a100-80gb/vllm-2023/llama-2-70b-tp2-eager, 8 x 512 -12.9 %",
		"a100-80gb/vllm-2023/llama-2-70b-tp2-eager, 16 x 512 -17.1 %",
		"a100-80gb/vllm-2023/llama-2-70b-tp2-eager, 32 x 512 -22.3 %",
		"a100-80gb/vllm-2023/llama-2-70b-tp2-eager, 64 x 512 -12.6 %",
		"a100-80gb/vllm-2023/llama-2-70b-tp4-eager, 32 x 512 -14.8 %",
		"a100-80gb/vllm-2023/llama-2-70b-tp4-eager, 64 x 512 -38.9 %",
		"a100-80gb/vllm-2023/llama-2-70b-tp8-eager, 16 x 512 -11.6 %",
		"a100-80gb/vllm-2023/llama-2-70b-tp8-eager, 32 x 512 -15.9 %",
		"a100-80gb/vllm-2023/llama-2-70b-tp8-eager, 64 x 512 -37.8 %",
		"h100/vllm-2023/llama-2-70b-tp4-eager, 32 x 512 -19.8 %",
		"h100/vllm-2023/llama-2-70b-tp4-eager, 64 x 512 -43.5 %",
	}},
	{GroupH100, 16, 0.051, -0.168, []string{
		"h100/vllm-mid-2025/qwen3-8b-tp1, 64 x 1000 -16.8 %",
		"h100/vllm-mid-2025/qwen3-14b-tp1, 64 x 1000 -11.9 %",
		"h100/vllm-mid-2025/qwen3-32b-tp2, 64 x 1000 -11.5 %",
	}},
}

// tolerance is what a figure may be missed by before it counts as a miss.
const tolerance = 0.1

func TestPinned(t *testing.T) {
	all, err := Checks()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, want := range pinned {
		n, sum, worst := 0, 0.0, 0.0
		var misses []string
		for _, c := range all {
			if c.Group != want.group {
				continue
			}
			n++
			miss := c.Error()
			sum += math.Abs(miss)
			if math.Abs(miss) > math.Abs(worst) {
				worst = miss
			}
			if math.Abs(miss) > tolerance {
				misses = append(misses, fmt.Sprintf("%s %+.1f %%", c.Name, 100*miss))
			}
		}
		seen += n
		mean := sum / float64(max(n, 1))
		if n != want.n || math.Abs(mean-want.mean) > 0.0006 || math.Abs(worst-want.worst) > 0.0006 {
			t.Errorf("%s: %d figures, mean error %.3f, worst %+.3f; want %d, %.3f, %+.3f",
				want.group, n, mean, worst, want.n, want.mean, want.worst)
		}
		if !slices.Equal(misses, want.misses) {
			t.Errorf("%s misses %q\nwant %q", want.group, misses, want.misses)
		}
	}
	if seen != len(all) || len(pinned) != len(Groups()) {
		t.Errorf("%d of %d figures belong to the %d groups pinned, of %d", seen, len(all), len(pinned), len(Groups()))
	}
}

// The held-out fit must not see what it is judged by.
func TestHoldoutSeesNothing(t *testing.T) {
	table := readTable("attention")
	first, contexts := table.axis("c")
	for _, engine := range []string{"sglang-0.5.10", "vllm-0.14"} {
		allowed := map[[2]int][]float64{}
		for row := range table.rows {
			requests := table.count(row, "batch")
			if table.text(row, "engine") != engine || table.text(row, "phase") != "decode" || slices.Contains([]int{2, 8, 32}, requests) {
				continue
			}
			for i, context := range contexts {
				if us, ok := table.cell(row, first+i); ok {
					at := [2]int{requests * table.count(row, "kv_heads"), context}
					allowed[at] = append(allowed[at], us)
				}
			}
		}
		held := Fit(engine, HeldOut).Decode
		if slices.Contains(held.ContextTokens, 1024) {
			t.Errorf("%s: the fit has contexts %v", engine, held.ContextTokens)
		}
		for i, streams := range held.Streams {
			for j, context := range held.ContextTokens {
				seen := allowed[[2]int{streams, context}]
				if len(seen) > 0 && !slices.Contains(seen, held.Us[i][j]) {
					t.Errorf("%s: %v us at %d streams x %d tokens were not among %v", engine, held.Us[i][j], streams, context, seen)
				}
			}
		}
	}
	gemmTimes("vllm-0.14", func(rows, _, _ int, _ float64) {
		if slices.Contains(HeldOut.Requests, rows) {
			t.Fatalf("a GEMM of %d rows is in the data", rows)
		}
	})
}

func TestErrorOfRange(t *testing.T) {
	for _, c := range []struct{ low, high, ms, want float64 }{
		{4, 5, 4.5, 0}, {4, 5, 2, -0.5}, {4, 5, 10, 1}, {4, 4, 4, 0}, {4, 4, 5, 0.25},
	} {
		check := Check{Low: c.low, High: c.high, Ms: c.ms}
		if got := check.Error(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A fit of exact data gives its law back, whatever a tenth of it was spoilt by.
func TestFitLine(t *testing.T) {
	var x, y []float64
	for i := range 50 {
		x = append(x, float64(100+37*i))
		y = append(y, 5+0.25*x[i])
		if i%10 == 3 {
			y[i] *= 3
		}
	}
	if offset, slope := fitLine(x, y); math.Abs(offset-5) > 0.01 || math.Abs(slope-0.25) > 1e-4 {
		t.Errorf("offset %v, slope %v", offset, slope)
	}
}

func TestKeep(t *testing.T) {
	for _, c := range []struct{ x, want float64 }{{0, 0}, {1.23456, 1.23}, {123456, 123000}, {-0.00123456, -0.00123}} {
		if got := keep(c.x, 3); got != c.want {
			t.Errorf("%v: %v", c.x, got)
		}
	}
}
