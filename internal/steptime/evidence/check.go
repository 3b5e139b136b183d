package evidence

import (
	"fmt"
	"slices"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
)

// Check is one measured or published time beside what we predict.
type Check struct {
	Group  string // what kind of figure
	Name   string // of the step
	Low    float64
	High   float64 // ms; equals Low unless the source gives a range
	Ms     float64 // ours
	Source string
}

// Error is how far the prediction lies from the figure, or from the nearer end
// of its range: 0.1 is 10 % too long.
func (c *Check) Error() float64 {
	switch {
	case c.Ms < c.Low:
		return c.Ms/c.Low - 1
	case c.Ms > c.High:
		return c.Ms/c.High - 1
	}
	return 0
}

// Groups of checks, in the order of [Checks].
const (
	GroupHoldout   = "held out"
	GroupCells     = "held-out cells"
	GroupOpSum     = "sums of kernels"
	GroupVidurA100 = "vidur A100"
	GroupVidurH100 = "vidur H100"
	GroupSteps     = "whole steps"
	GroupOld       = "2023 engine"
	GroupH100      = "H100, derived"
)

// Groups lists the groups, each with what it compares.
func Groups() []struct{ Name, Meaning string } {
	return []struct{ Name, Meaning string }{
		{GroupHoldout, "Qwen3 decode steps of 2, 8, 32 requests or 1024 tokens, predicted by a fit without any of them"},
		{GroupCells, "the same at every context of the tables that ship"},
		{GroupOpSum, "all Qwen3 decode steps as sums of measured kernels, predicted by the kernels that ship"},
		{GroupVidurA100, "linear parts of a decode step of 8 models, timed by vidur on A100s, which no fit has seen"},
		{GroupVidurH100, "the same on H100s; the two constants of a GEMM there are fitted on these"},
		{GroupSteps, "whole decode steps published for A100s; the CPU part of vllm-mid-2025 is fitted on the first and third of its five rows"},
		{GroupOld, "Llama-2-70B with an engine of 2023 without CUDA graphs; its two CPU constants are fitted on the TP4 steps of one request, A100 and H100"},
		{GroupH100, "whole decode steps published for H100s, kernels derived; CPU time as fitted on A100s (vllm-mid-2025), without any 7 of the 16 are missed"},
	}
}

// Checks compares everything. The result depends on nothing but the program.
func Checks() ([]Check, error) {
	all, err := opSums()
	if err != nil {
		return nil, err
	}
	cells, err := heldCells()
	if err != nil {
		return nil, err
	}
	linear, err := vidur()
	if err != nil {
		return nil, err
	}
	published, err := published()
	return slices.Concat(all, cells, linear, published), err
}

// opSums are the first two groups.
func opSums() ([]Check, error) {
	t := readTable("opsum")
	var held, full []Check
	fits := map[string]*steptime.Kernels{}
	for row := range t.rows {
		engine := t.text(row, "engine")
		config, err := modelconfig.Known(t.text(row, "model"))
		if err != nil {
			return nil, err
		}
		requests, context := t.count(row, "requests"), t.count(row, "context_tokens")
		tp := t.count(row, "tp")
		sum := steptime.Parts{Layers: config.Layers, Elementwise: elementwiseUs}
		sum.GEMM, _ = t.number(row, "gemm_us_per_layer")
		sum.Attention, _ = t.number(row, "attention_us_per_layer")
		sum.AllReduce, _ = t.number(row, "allreduce_us_per_layer")
		sum.LMHead, _ = t.number(row, "lm_head_us")
		check := Check{
			Name:   fmt.Sprintf("%s %s tp%d, %d x %d", engine, config.Name, tp, requests, context),
			Low:    sum.Ms(),
			High:   sum.Ms(),
			Source: "ai-dynamo/aiconfigurator a100_sxm, kernels summed",
		}
		shipped, err := steptime.KernelsOf("a100-80gb", engine)
		if err != nil {
			return nil, err
		}
		if full, err = appendDecode(full, GroupOpSum, check, shipped, config, tp, requests, context); err != nil {
			return nil, err
		}
		if !slices.Contains(HeldOut.Requests, requests) && !slices.Contains(HeldOut.ContextTokens, context) {
			continue
		}
		if fits[engine] == nil {
			fits[engine] = Fit(engine, HeldOut)
		}
		if held, err = appendDecode(held, GroupHoldout, check, fits[engine], config, tp, requests, context); err != nil {
			return nil, err
		}
	}
	return append(held, full...), nil
}

func appendDecode(checks []Check, group string, c Check, k *steptime.Kernels, config *modelconfig.Config, tp, requests, context int) ([]Check, error) {
	parts, err := k.DecodeParts(config, tp, requests, context)
	if err != nil {
		return nil, err
	}
	c.Group, c.Ms = group, parts.Ms()
	return append(checks, c), nil
}

// heldCells predicts cells of the shipped tables by a fit that has seen none of
// them: the same as the first group, at more contexts.
func heldCells() ([]Check, error) {
	var checks []Check
	for _, r := range Measured() {
		p, err := Profile(r)
		if err != nil {
			return nil, err
		}
		config, err := modelconfig.Known(r.Config)
		if err != nil {
			return nil, err
		}
		table, fit := p.Compile(), Fit(r.Engine, HeldOut)
		for _, requests := range requestsAxis[:7] { // those of the first group
			for _, context := range contextsAxis {
				if !slices.Contains(HeldOut.Requests, requests) && !slices.Contains(HeldOut.ContextTokens, context) {
					continue
				}
				ms := float64(table.Ns(requests, requests, requests*context)) / 1e6
				check := Check{
					Name: fmt.Sprintf("%s, %d x %d", p.Name, requests, context), Low: ms, High: ms,
					Source: "ai-dynamo/aiconfigurator a100_sxm, kernels summed",
				}
				if checks, err = appendDecode(checks, GroupCells, check, fit, config, r.TP, requests, context); err != nil {
					return nil, err
				}
			}
		}
	}
	return checks, nil
}

// vidurShapes are the models of vidur's tables: layers, hidden size, query and KV
// heads, head dimension, width of the MLP and its matrices (3 = gated).
var vidurShapes = []struct {
	name                                               string
	layers, hidden, query, kv, headDim, wide, matrices int
}{
	{"CodeLlama-34b-Instruct-hf", 48, 8192, 64, 8, 128, 22016, 3},
	{"Llama-2-70b-hf", 80, 8192, 64, 8, 128, 28672, 3},
	{"Llama-2-7b-hf", 32, 4096, 32, 32, 128, 11008, 3},
	{"Meta-Llama-3-70B", 80, 8192, 64, 8, 128, 28672, 3},
	{"Meta-Llama-3-8B", 32, 4096, 32, 8, 128, 14336, 3},
	{"Qwen-72B", 80, 8192, 64, 64, 128, 24576, 3},
	{"internlm-20b", 60, 5120, 40, 40, 128, 13824, 3},
	{"phi-2", 32, 2560, 32, 32, 80, 10240, 2},
}

func vidur() ([]Check, error) {
	t := readTable("vidur")
	var checks []Check
	for row := range t.rows {
		name, tp, requests := t.text(row, "model"), t.count(row, "tp"), t.count(row, "requests")
		gpu, group := "a100-80gb", GroupVidurA100
		if t.text(row, "gpu") == "h100" {
			gpu, group = "h100", GroupVidurH100
		}
		k, err := steptime.KernelsOf(gpu, "sglang-0.5.10")
		if err != nil {
			return nil, err
		}
		for _, s := range vidurShapes {
			if s.name != name {
				continue
			}
			us := k.GEMM.Us(requests, (s.query+2*s.kv)/tp*s.headDim, s.hidden) + k.GEMM.Us(requests, s.hidden, s.query/tp*s.headDim) +
				k.GEMM.Us(requests, (s.matrices-1)*s.wide/tp, s.hidden) + k.GEMM.Us(requests, s.hidden, s.wide/tp) + k.ElementwiseUs
			theirs, _ := t.number(row, "us_per_layer")
			ms := float64(s.layers) * theirs / 1e3
			checks = append(checks, Check{
				Group: group, Name: fmt.Sprintf("%s tp%d, %d rows", name, tp, requests),
				Low: ms, High: ms, Ms: float64(s.layers) * us / 1e3,
				Source: "microsoft/vidur @ 7d47513 mlp.csv, medians",
			})
		}
	}
	return checks, nil
}

// published compares whole steps: with a table of measured kernels where there is
// one, else with the roofline.
func published() ([]Check, error) {
	t := readTable("published")
	var checks []Check
	for row := range t.rows {
		r := steptime.Roofline{
			GPU: t.text(row, "gpu"), Config: t.text(row, "model"), TP: t.count(row, "tp"),
			Engine: t.text(row, "engine"), Variant: t.text(row, "variant"),
		}
		p, err := r.Profile()
		if err != nil {
			return nil, err
		}
		if slices.Contains(steptime.Names(), p.Name) {
			if p, err = steptime.Load(p.Name); err != nil {
				return nil, err
			}
		}
		requests := t.count(row, "requests")
		low, _ := t.number(row, "low_ms")
		high, _ := t.number(row, "high_ms")
		ns := p.Compile().Ns(requests, requests, requests*t.count(row, "context_tokens"))
		checks = append(checks, Check{
			Group: t.text(row, "group"),
			Name:  fmt.Sprintf("%s, %d x %d", p.Name, requests, t.count(row, "context_tokens")),
			Low:   low, High: high, Ms: float64(ns) / 1e6, Source: t.text(row, "source"),
		})
	}
	return checks, nil
}
