package evidence

import (
	"math"
	"slices"
	"strconv"

	"github.com/tokenrouter/tokenrouter/internal/steptime"
)

// Held says what a fit may not see.
type Held struct {
	Requests      []int // numbers of requests of decode attention
	ContextTokens []int
}

// Nothing is held out of the constants that ship.
var Nothing = Held{}

// HeldOut is what the holdout check leaves out. GEMMs of 2, 8 and 32 rows are not in
// the data at all.
var HeldOut = Held{Requests: []int{2, 8, 32}, ContextTokens: []int{1024}}

const (
	// Weights outside this range are either in the cache or few: the fit is for
	// reading weights from memory.
	weightBytesLeast = 2e6
	weightBytesMost  = 1.5e9
	// Products smaller than this do not fill the GPU's multiprocessors.
	outputsLeast = 1024
	weightsLeast = 1 << 21
	// streamsMost is 256 requests of a model with 8 KV heads.
	streamsMost = 2048
)

// memoryRows are the measured numbers of rows at which a GEMM reads its weights
// for longer than it computes.
var memoryRows = []int{1, 4, 16, 64}

// Fit fits the A100's kernels of "sglang-0.5.10" or "vllm-0.14".
func Fit(engine string, held Held) *steptime.Kernels {
	k := &steptime.Kernels{
		GEMM:   fitGEMM(engine),
		Decode: fitDecode(engine, held),
		Prompt: fitPrompt(),
		// An assumption: nothing public times these kernels alone.
		ElementwiseUs: 15,
		// vidur's GEMMs on the A100 reach 1.58 TB/s.
		ElementwiseBytesPerUs: 1.58e6,
	}
	t := readTable("allreduce")
	first, sizes := t.axis("b")
	for row := range t.rows {
		if t.text(row, "engine") != engine || t.text(row, "variant") != "graph" {
			continue
		}
		a := steptime.AllReduce{GPUs: t.count(row, "gpus")}
		for i, bytes := range sizes {
			if us, ok := t.cell(row, first+i); ok {
				a.Bytes, a.Us = append(a.Bytes, bytes), append(a.Us, us)
			}
		}
		k.AllReduces = append(k.AllReduces, a)
	}
	return k
}

// gemmTimes calls each with every product of an engine.
func gemmTimes(engine string, each func(rows, outputs, inputs int, us float64)) {
	t := readTable("gemm")
	first, rows := t.axis("m")
	for row := range t.rows {
		if t.text(row, "engine") != engine {
			continue
		}
		for i, m := range rows {
			if us, ok := t.cell(row, first+i); ok {
				each(m, t.count(row, "n"), t.count(row, "k"), us)
			}
		}
	}
}

func fitGEMM(engine string) steptime.GEMM {
	var bytes, times []float64
	rates := make([][]float64, 3)
	g := steptime.GEMM{Rows: []int{256, 1024, 4096}}
	gemmTimes(engine, func(rows, outputs, inputs int, us float64) {
		weights := float64(outputs) * float64(inputs)
		moved := 2 * (weights + float64(rows)*float64(outputs+inputs))
		if slices.Contains(memoryRows, rows) && moved >= weightBytesLeast && moved <= weightBytesMost {
			bytes, times = append(bytes, moved), append(times, us)
		}
		if i := slices.Index(g.Rows, rows); i >= 0 && weights >= weightsLeast && min(outputs, inputs) >= outputsLeast {
			rates[i] = append(rates[i], 2*float64(rows)*weights/us)
		}
	})
	offset, perByte := fitLine(bytes, times)
	g.OffsetUs, g.BytesPerUs = keep(offset, 3), keep(1/perByte, 4)
	for _, rate := range rates {
		slices.Sort(rate)
		g.FlopsPerUs = append(g.FlopsPerUs, keep(rate[len(rate)/2], 4))
	}
	return g
}

// fitLine is y = offset + slope x with the least sum of relative errors, by least
// squares whose weights are taken from the errors before.
func fitLine(x, y []float64) (offset, slope float64) {
	weight := make([]float64, len(x))
	for i := range x {
		weight[i] = 1 / (y[i] * y[i])
	}
	for range 30 {
		var w, wx, wy, wxx, wxy float64
		for i := range x {
			w += weight[i]
			wx += weight[i] * x[i]
			wy += weight[i] * y[i]
			wxx += weight[i] * x[i] * x[i]
			wxy += weight[i] * x[i] * y[i]
		}
		slope = (w*wxy - wx*wy) / (w*wxx - wx*wx)
		offset = (wy - slope*wx) / w
		for i := range x {
			relative := math.Abs(offset+slope*x[i]-y[i]) / y[i]
			weight[i] = 1 / (y[i] * y[i] * max(relative, 1e-3))
		}
	}
	return offset, slope
}

// keep rounds to significant digits: more would claim what no fit knows, and the
// last bits of a float differ between processors.
func keep(x float64, digits int) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil {
		panic("evidence: a float has no decimal form")
	}
	return rounded
}

// fitDecode takes, at every number of streams and context, the lower median over
// the head shapes that come to as many streams: their times agree within a few
// percent, save for single outliers of the source, which are high. Contexts that
// were not measured go on along the last stretch.
func fitDecode(engine string, held Held) steptime.Attention {
	t := readTable("attention")
	first, contexts := t.axis("c")
	at := map[[2]int][]float64{}
	var a steptime.Attention
	for row := range t.rows {
		requests := t.count(row, "batch")
		streams := requests * t.count(row, "kv_heads")
		if t.text(row, "engine") != engine || t.text(row, "phase") != "decode" ||
			streams > streamsMost || slices.Contains(held.Requests, requests) {
			continue
		}
		if !slices.Contains(a.Streams, streams) {
			a.Streams = append(a.Streams, streams)
		}
		for i, context := range contexts {
			if us, ok := t.cell(row, first+i); ok {
				at[[2]int{streams, context}] = append(at[[2]int{streams, context}], us)
			}
		}
	}
	slices.Sort(a.Streams)
	for _, context := range contexts {
		if !slices.Contains(held.ContextTokens, context) {
			a.ContextTokens = append(a.ContextTokens, context)
		}
	}
	for _, streams := range a.Streams {
		var line []float64
		for i, context := range a.ContextTokens {
			times := at[[2]int{streams, context}]
			if len(times) == 0 {
				line = append(line, keep(onward(a.ContextTokens, line, i), 4))
				continue
			}
			slices.Sort(times)
			line = append(line, times[(len(times)-1)/2])
		}
		a.Us = append(a.Us, line)
	}
	return a
}

// onward is the value at xs[i] on the line through the two points before it.
func onward(xs []int, ys []float64, i int) float64 {
	if i < 2 {
		panic("evidence: an attention line has fewer than two measured contexts")
	}
	slope := (ys[i-1] - ys[i-2]) / float64(xs[i-1]-xs[i-2])
	return ys[i-1] + max(slope, 0)*float64(xs[i]-xs[i-1])
}

// fitPrompt is linear in query heads at prompts of 8192 tokens. Only SGLang's
// prompt kernels were measured; both engines call the same library.
func fitPrompt() steptime.PromptAttention {
	t := readTable("attention")
	var heads, times []float64
	for row := range t.rows {
		us, ok := t.number(row, "c8192_us")
		if t.text(row, "phase") == "prefill" && t.count(row, "batch") == 1 && ok {
			heads, times = append(heads, float64(t.count(row, "q_heads"))), append(times, us)
		}
	}
	offset, perHead := fitLine(heads, times)
	return steptime.PromptAttention{OffsetUs: keep(offset, 3), PerHeadUs: keep(perHead, 4)}
}
