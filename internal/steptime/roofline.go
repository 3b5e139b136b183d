package steptime

import (
	"fmt"
	"math"
	"strings"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
)

// Roofline prices a model without a measured table from its shape: the sum of its
// kernels, each the larger of what its bytes and its arithmetic take, plus the
// engine's CPU time. Kernels of the A100 are fitted, of other GPUs derived.
type Roofline struct {
	GPU     string // one of [GPUs]
	Config  string // a name of [modelconfig.Names], or the path of a config.json
	TP      int    // GPUs that share the model; 0 stands for 1
	Engine  string // one of [Engines]; "" stands for the first
	Variant string // VariantGraphs or VariantEager; "" stands for graphs
}

// A RooflineError says which field of a roofline table is wrong, for callers
// that know on which line the field stands.
type RooflineError struct {
	Field   string // "gpu", "config", "tp", "engine" or "variant"
	Problem error
}

func (e *RooflineError) Error() string { return "roofline." + e.Field + " " + e.Problem.Error() }

func (e *RooflineError) Unwrap() error { return e.Problem }

// The grid of a derived table. GEMMs were measured at 1, 4, 16, 64 and 256 rows,
// attention at every point.
var (
	rooflineRequests = []int{1, 2, 4, 8, 16, 32, 64, 128, 256}
	rooflineContexts = []int{64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	rooflineRows     = []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096}
)

// Profile is the price list, marked derived; compile it like any other. An error
// is a *RooflineError.
func (r Roofline) Profile() (*Profile, error) {
	if r.Engine == "" {
		r.Engine = Engines()[0]
	}
	if r.Variant == "" {
		r.Variant = VariantGraphs
	}
	if r.TP == 0 {
		r.TP = 1
	}
	wrong := func(field string, err error) (*Profile, error) { return nil, &RooflineError{field, err} }
	at, err := pick(r.GPU, GPUs())
	if err != nil {
		return wrong("gpu", err)
	}
	gpu := &gpus[at]
	if at, err = pick(r.Engine, Engines()); err != nil {
		return wrong("engine", err)
	}
	e := &engines[at]
	c, err := modelconfig.Find(r.Config)
	if err != nil && strings.HasPrefix(err.Error(), r.Config) {
		return wrong("config", err) // which names the file already
	}
	if err != nil {
		return wrong("config", fmt.Errorf("is %q: %w", r.Config, err))
	}
	if c.BytesPerWeight() != bytesPerNumber {
		return wrong("config", fmt.Errorf("is %q, whose torch_dtype is %s; only 16-bit weights are priced", r.Config, c.Dtype))
	}
	if _, err := splitModel(c, r.TP); err != nil {
		return wrong("tp", fmt.Errorf("is %d and %w", r.TP, err))
	}
	cpu, cpuNote, err := e.cpu(r.Variant, gpu, c, r.TP)
	if err != nil {
		return wrong("variant", err)
	}
	p := derived(e, gpu, c, r.TP)
	p.Variant, p.CPU = r.Variant, cpu
	p.Notes += "\n\n" + cpuNote + "\n"
	p.Name = p.title()
	if found := p.check(); found != nil { // a shape far beyond any model's
		return wrong("config", fmt.Errorf("is %q, whose steps cannot be priced: %w", r.Config, found))
	}
	return p, nil
}

// title is the name that a shipped profile of this content would have.
func (p *Profile) title() string {
	name := fmt.Sprintf("%s/%s-%s/%s-tp%d", p.GPU, p.Engine, p.EngineVersion, p.Model, p.TP)
	if p.Variant == VariantEager {
		name += "-" + VariantEager
	}
	return name
}

// derived is the GPU part of a roofline profile. The model must divide by tp.
func derived(e *engine, gpu *gpuFigures, c *modelconfig.Config, tp int) *Profile {
	s, err := splitModel(c, tp)
	if err != nil {
		panic("steptime: derived: " + err.Error())
	}
	k := e.on(gpu)
	p := &Profile{
		Origin:  "sum of kernels fitted on ai-dynamo/aiconfigurator system data a100_sxm (2026); derived, not measured",
		Licence: "Apache-2.0",
		Engine:  e.name, EngineVersion: e.version, GPU: gpu.name, Model: c.Name, TP: tp,
		Notes: derivedNotes(e, gpu, c, s),
		Valid: Range{[2]int{1, 256}, [2]int{1, 4096}, [2]int{0, 16384}},
		Table: Table{Requests: rooflineRequests, ContextTokens: rooflineContexts},
	}
	var ms [][]float64
	for _, requests := range rooflineRequests {
		var line []float64
		for _, context := range rooflineContexts {
			parts, err := k.DecodeParts(c, tp, requests, context)
			if err != nil {
				panic("steptime: derived: " + err.Error())
			}
			line = append(line, roundMs(parts.Ms()))
		}
		ms = append(ms, line)
	}
	p.Table.Ms = FlatCells(ms)
	p.Rows = &RowPrice{Rows: rooflineRows, AttentionNsPerRowToken: math.Round(k.Prompt.nsPerRowToken(c, s)*1e4) / 1e4}
	most := 0.0
	for _, rows := range rooflineRows {
		parts := k.rowParts(c, s, tp, rows)
		most = max(most, roundMs(parts.Ms()))
		p.Rows.Ms = append(p.Rows.Ms, most)
	}
	return p
}

func derivedNotes(e *engine, gpu *gpuFigures, c *modelconfig.Config, s split) string {
	var b strings.Builder
	fmt.Fprintf(&b, `Derived: the sum of kernels priced one by one from the model's shape, %d layers x (four GEMMs + decode attention with %d
query and %d KV heads of %d + elementwise kernels`, c.Layers, s.qHeads, s.kvHeads, c.HeadDim)
	if s.qHeads != c.Heads {
		b.WriteString(" + two all-reduces in a CUDA graph")
	}
	k := e.kernels
	fmt.Fprintf(&b, `) + the output projection.

Fitted on kernels that the origin measured on an A100-SXM4-80GB: a GEMM takes %.1f us + bytes / %.2f TB/s up to 64 rows and
is bound by arithmetic above; attention goes by requests x KV heads and context. Leaving out 2, 8 and 32 requests and
1024 tokens, the fit gives the origin's Qwen3 steps within 10 %%; linear layers that vidur timed on A100s within 10 %%
save for the exceptions that the command "profile check" names.

Assumed: %.0f us a layer for norms, rotary embedding, activation and residual adds, or their bytes if those take longer;
at 128 rows a GEMM takes the larger of its times at 64 rows and half of that at 256.`, k.GEMM.OffsetUs, k.GEMM.BytesPerUs/1e6, k.ElementwiseUs)
	if gpu.name != fittedGPU {
		fmt.Fprintf(&b, `

Not measured on this GPU: GEMMs take vidur's H100 fit (3.9 us, 88 %% of the memory's peak); what attention takes beyond
its floor shrinks with the peak memory bandwidth (%.2f against 2.039 TB/s), arithmetic with the peak rate (%.1f against
312 TFLOP/s), all-reduces with NVLink (%.0f against 600 GB/s).`, gpu.tbPerS, gpu.tflops, gpu.nvlinkGBs)
	}
	return b.String()
}
