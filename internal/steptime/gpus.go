package steptime

import (
	"fmt"
	"strings"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
	"github.com/tokenrouter/tokenrouter/internal/nearest"
)

// gpuFigures are peaks as NVIDIA's data sheets give them, dense, 16-bit numbers.
type gpuFigures struct {
	name       string
	tbPerS     float64 // memory
	memoryGiB  float64
	tflops     float64
	nvlinkGBs  float64
	gemmOffset float64 // us; 0 = as fitted on the A100
	gemmShare  float64 // of the peak memory bandwidth that a GEMM reaches; 0 = as fitted on the A100
	// launchShare is what a launch costs the CPU of such a host against an A100's.
	launchShare float64
}

// The GEMM of an H100 is vidur's: 3.9 us + bytes at 2.95 TB/s, 88 % of the peak,
// fitted on 168 medians of microsoft/vidur (MIT). The H200 is an H100 with faster
// memory, taken to reach the same share of it. The CPU of an H100's host launches
// in 0.65 of the time: the engine without CUDA graphs of splitwise-sim (MIT) takes
// 29.5 ms for a step of Llama-2-70B at TP4 there, 44.6 ms on A100s.
var gpus = []gpuFigures{
	{name: fittedGPU, tbPerS: 2.039, memoryGiB: 80, tflops: 312, nvlinkGBs: 600, launchShare: 1},
	{name: "h100", tbPerS: 3.35, memoryGiB: 80, tflops: 989.5, nvlinkGBs: 900, gemmOffset: 3.9, gemmShare: 0.88, launchShare: 0.65},
	{name: "h200", tbPerS: 4.8, memoryGiB: 141, tflops: 989.5, nvlinkGBs: 900, gemmOffset: 3.9, gemmShare: 0.88, launchShare: 0.65},
}

// fittedGPU is the one whose kernels were measured.
const fittedGPU = "a100-80gb"

// Variants of an engine: with the launches of a step recorded in a CUDA graph, or
// issued kernel by kernel.
const (
	VariantGraphs = "graphs"
	VariantEager  = "eager"
)

// engine is what an engine version adds to its kernels. Each CPU figure says what
// it rests on.
type engine struct {
	name, version string
	kernels       *Kernels // on fittedGPU
	graphs        *CPU     // nil = it had no CUDA graphs
	graphsNote    string
	eagerUs       float64 // CPU time of one launch
	eagerSerialMs float64
	eagerNote     string
}

var engines = []engine{
	{
		name: "sglang", version: "0.5.10", kernels: &a100SGLang0510, graphs: &CPU{},
		graphsNote: `No CPU time with CUDA graphs: launch_ms and serial_ms are 0. The overlapped scheduler of SGLang leaves no serial part
that published steps show: R1-Distill-32B, QwQ-32B, Qwen2-72B and Llama-2-70B at concurrency 4 on A100s (27.5, 26.6,
32.3, 29.7 ms) lie on both sides of the sum of kernels and within 10 % of it.`,
		eagerUs: 41.4,
		eagerNote: `CPU time without CUDA graphs: launch_ms is 41.4 us a kernel, the CPU-bound floor of AIConfigurator's eager all-reduces of
SGLang 0.5.10 at every size up to 2 MB. That every kernel of a layer costs the CPU as much is assumed.`,
	},
	{
		name: "vllm", version: "0.14", kernels: &a100VLLM014, graphs: &CPU{},
		graphsNote: `No CPU time: launch_ms and serial_ms are 0 = not modelled. No whole step of this version on this GPU is published; a
mid-2025 vLLM took 4.2 ms for Qwen3-0.6B and 4.6-4.8 ms for Qwen3-1.7B at one request. The profiles vllm-mid-2025 have
that CPU time, launch_ms 3.25 and serial_ms 0.95, which also brings the H100 steps of ML.ENERGY (vLLM, February 2026)
within 10 % up to 32 requests: copy it here for times with an engine around the kernels.`,
		eagerUs: 44.4,
		eagerNote: `CPU time without CUDA graphs: launch_ms is 44.4 us a kernel, the CPU-bound floor of AIConfigurator's eager all-reduces of
vLLM 0.14 at every size up to 2 MB. That every kernel of a layer costs the CPU as much is assumed.`,
	},
	{
		name: "vllm", version: "mid-2025", kernels: &a100VLLM014, graphs: &CPU{LaunchMs: 3.25, SerialMs: 0.95},
		graphsNote: `Kernels are those of vLLM 0.14. CPU time fitted to two published figures (tenstorrent/tt-inference-server#340, A100-80GB,
vLLM of mid-2025, concurrency 1, ms a token): 4.2 for Qwen3-0.6B and 4.6-4.8 for Qwen3-1.7B.`,
		eagerUs: 44.4, eagerSerialMs: 0.95,
		eagerNote: `Kernels are those of vLLM 0.14. CPU time without CUDA graphs: launch_ms is 44.4 us a kernel (vLLM 0.14's eager all-reduce),
serial_ms as with graphs.`,
	},
	{
		name: "vllm", version: "2023", kernels: &a100VLLM014,
		eagerUs: 44.4, eagerSerialMs: 1.8,
		eagerNote: `An engine of 2023 without CUDA graphs; its kernels are taken to be those of vLLM 0.14. CPU time: 44.4 us a kernel launched
(vLLM 0.14's eager all-reduce) + 1.8 ms, so that Llama-2-70B at TP4 takes the 44.6 ms that splitwise-sim
(Mutinifni/splitwise-sim, MIT) gives for A100s at one request.`,
	},
}

// label is the engine as profile names hold it.
func (e *engine) label() string { return e.name + "-" + e.version }

// GPUs lists the GPU types of [Roofline].
func GPUs() []string {
	var names []string
	for i := range gpus {
		names = append(names, gpus[i].name)
	}
	return names
}

// Engines lists the engine versions of [Roofline], the first one its default.
func Engines() []string {
	var names []string
	for i := range engines {
		names = append(names, engines[i].label())
	}
	return names
}

// pick is the index of a name in a list, or an error that offers the nearest.
func pick(got string, known []string) (int, error) {
	for i, name := range known {
		if name == got {
			return i, nil
		}
	}
	offer := nearest.Names(got, known)
	if len(offer) == 0 {
		offer = known
	}
	return 0, fmt.Errorf("is %q; did you mean %s?", got, strings.Join(offer, " or "))
}

// on is the engine's kernels on a GPU. Fixed parts stay as they are, parts bound
// by memory, arithmetic or links shrink as the data sheets' peaks grow.
func (e *engine) on(gpu *gpuFigures) *Kernels {
	fitted := &gpus[0]
	if gpu.name == fitted.name {
		return e.kernels
	}
	memory, arithmetic := fitted.tbPerS/gpu.tbPerS, fitted.tflops/gpu.tflops
	links := fitted.nvlinkGBs / gpu.nvlinkGBs
	k := *e.kernels
	k.GEMM.OffsetUs = gpu.gemmOffset
	k.GEMM.BytesPerUs = gpu.gemmShare * gpu.tbPerS * 1e6
	k.GEMM.FlopsPerUs = scaled(k.GEMM.FlopsPerUs, 0, 1/arithmetic)
	floor := k.Decode.Us[0][0]
	k.Decode.Us = nil
	for _, line := range e.kernels.Decode.Us {
		k.Decode.Us = append(k.Decode.Us, scaled(line, floor, memory))
	}
	k.Prompt.PerHeadUs *= arithmetic
	k.AllReduces = nil
	for _, a := range e.kernels.AllReduces {
		a.Us = scaled(a.Us, a.Us[0], links)
		k.AllReduces = append(k.AllReduces, a)
	}
	k.ElementwiseBytesPerUs /= memory
	return &k
}

// scaled multiplies what lies above a floor.
func scaled(values []float64, floor, by float64) []float64 {
	out := make([]float64, len(values))
	for i, value := range values {
		out[i] = floor + (value-floor)*by
	}
	return out
}

// kernelsOutside are launched once a step: embedding, last norm, output projection.
const kernelsOutside = 3

// kernelsPerLayer counts launches: two norms with their residual adds, rotation, the
// writing of the KV, attention, four GEMMs and the activation; norms of q and k
// in Qwen3; two all-reduces.
func kernelsPerLayer(c *modelconfig.Config, tp int) int {
	n := 10
	if c.ModelType == "qwen3" {
		n += 2
	}
	if tp > 1 {
		n += 2
	}
	return n
}

// cpu is the engine's CPU time for a variant on a GPU's usual host, and what it
// rests on.
func (e *engine) cpu(variant string, gpu *gpuFigures, c *modelconfig.Config, tp int) (CPU, string, error) {
	switch variant {
	case VariantGraphs:
		if e.graphs == nil {
			return CPU{}, "", fmt.Errorf("is %q, but %s had no CUDA graphs; use %q", variant, e.label(), VariantEager)
		}
		return *e.graphs, e.graphsNote, nil
	case VariantEager:
		launches := kernelsPerLayer(c, tp)*c.Layers + kernelsOutside
		note := e.eagerNote
		if gpu.launchShare != 1 {
			note += fmt.Sprintf(" On this GPU's hosts\na launch takes %.2f of that.", gpu.launchShare)
		}
		return CPU{LaunchMs: roundMs(float64(launches) * e.eagerUs * gpu.launchShare / 1e3), SerialMs: e.eagerSerialMs}, note, nil
	}
	return CPU{}, "", fmt.Errorf("is %q; use %q or %q", variant, VariantGraphs, VariantEager)
}

// KernelsOf are the kernels that [Roofline] sums, of one of [Engines] on one of
// [GPUs].
func KernelsOf(gpuName, engineName string) (*Kernels, error) {
	gpu, err := pick(gpuName, GPUs())
	if err != nil {
		return nil, fmt.Errorf("gpu %w", err)
	}
	e, err := pick(engineName, Engines())
	if err != nil {
		return nil, fmt.Errorf("engine %w", err)
	}
	return engines[e].on(&gpus[gpu]), nil
}
