package steptime

import (
	"math"
	"testing"
)

// Decode steps of Qwen3 on A100s as sums of kernels that AIConfigurator measured
// (Apache-2.0), contexts of 600 tokens, in ms to one decimal, for 1, 2, 4, ... 64
// requests: the tables must hold them and the rooflines predict them.
var opSums600 = []struct {
	engine, model string
	tp            int
	ms            [7]float64
}{
	{"sglang-0.5.10", "qwen3-0.6b", 1, [7]float64{2.4, 2.6, 2.8, 3.4, 4.1, 4.9, 6.8}},
	{"vllm-0.14", "qwen3-0.6b", 1, [7]float64{2.2, 2.6, 2.6, 2.8, 3.3, 4.0, 5.3}},
	{"sglang-0.5.10", "qwen3-1.7b", 1, [7]float64{4.2, 4.0, 4.1, 4.7, 5.6, 6.4, 8.3}},
	{"vllm-0.14", "qwen3-1.7b", 1, [7]float64{3.8, 3.9, 4.0, 4.2, 4.8, 5.6, 6.9}},
	{"sglang-0.5.10", "qwen3-4b", 1, [7]float64{7.4, 7.6, 8.0, 8.7, 9.6, 11.0, 13.2}},
	{"vllm-0.14", "qwen3-4b", 1, [7]float64{7.3, 7.7, 7.9, 8.0, 8.8, 9.7, 11.5}},
	{"sglang-0.5.10", "qwen3-8b", 1, [7]float64{11.8, 12.2, 12.4, 13.1, 14.3, 15.5, 18.1}},
	{"vllm-0.14", "qwen3-8b", 1, [7]float64{11.8, 11.5, 11.6, 12.1, 12.9, 14.3, 15.8}},
	{"sglang-0.5.10", "qwen3-32b", 1, [7]float64{45.3, 43.8, 46.6, 48.8, 49.8, 51.9, 55.2}},
	{"vllm-0.14", "qwen3-32b", 1, [7]float64{45.9, 45.7, 45.5, 45.5, 48.8, 49.0, 54.1}},
	{"sglang-0.5.10", "qwen3-32b", 2, [7]float64{25.4, 24.9, 25.1, 26.1, 27.7, 30.8, 32.0}},
	{"vllm-0.14", "qwen3-32b", 2, [7]float64{25.7, 25.8, 28.8, 25.0, 26.7, 28.4, 31.4}},
	{"sglang-0.5.10", "qwen3-32b", 4, [7]float64{15.3, 15.4, 15.5, 15.5, 16.4, 18.7, 20.5}},
	{"vllm-0.14", "qwen3-32b", 4, [7]float64{14.8, 15.4, 15.5, 15.7, 16.1, 17.0, 18.8}},
	{"sglang-0.5.10", "qwen3-8b", 2, [7]float64{7.3, 7.5, 7.6, 7.8, 8.6, 9.6, 11.0}},
}

// The profile's notes tell why it replaces this one.
const outlierMs = 28.8

func TestOpSums600(t *testing.T) {
	for _, c := range opSums600 {
		r := Roofline{GPU: "a100-80gb", Config: c.model, TP: c.tp, Engine: c.engine}
		predicted := roofline(t, r)
		held := load(t, predicted.Name).Compile()
		priced := predicted.Compile()
		for i, want := range c.ms {
			if want == outlierMs {
				continue
			}
			requests := 1 << i
			ms := func(st StepTime) float64 { return float64(st.Ns(requests, requests, requests*600)) / 1e6 }
			if got := ms(held); math.Abs(got-want) > 0.055 {
				t.Errorf("%s: %d requests take %.3f ms, want %.1f", predicted.Name, requests, got, want)
			}
			if got := ms(priced); math.Abs(got/want-1) > 0.1 {
				t.Errorf("%s: %d requests are priced at %.2f ms, want %.1f within 10 %%", predicted.Name, requests, got, want)
			}
		}
	}
}
