package steptime

import (
	"fmt"
	"math"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
)

// Kernels are the times of the kernels of one engine version on one GPU type, in
// microseconds, fitted so that they cover shapes that nobody measured. The tool
// gen fits those of the A100; see kernels_a100.go.
type Kernels struct {
	GEMM       GEMM
	Decode     Attention
	Prompt     PromptAttention
	AllReduces []AllReduce // by number of GPUs
	// Elementwise kernels of a layer (norms, rotary embedding, activation, residual
	// adds) take ElementwiseUs, or longer where their bytes do.
	ElementwiseUs         float64
	ElementwiseBytesPerUs float64
}

// GEMM is a 16-bit matrix product: max(OffsetUs + bytes / BytesPerUs, operations
// / FlopsPerUs), the latter from computeFrom rows on.
type GEMM struct {
	OffsetUs   float64
	BytesPerUs float64
	Rows       []int // rising
	FlopsPerUs []float64
}

// Attention is the decode attention of one layer. It depends on the number of KV
// streams (requests x KV heads on this GPU) and on the context of each, not on
// the query heads that share a stream: kernels are bound by reading the KV.
type Attention struct {
	Streams       []int       // rising; of head dimension headDimFitted
	ContextTokens []int       // rising
	Us            [][]float64 // streams x contexts
}

// PromptAttention is the attention of one layer over a prompt of promptTokens
// tokens: OffsetUs + PerHeadUs x query heads on this GPU.
type PromptAttention struct{ OffsetUs, PerHeadUs float64 }

// AllReduce is the sum over GPUs of one message each, by bytes of the message.
type AllReduce struct {
	GPUs  int
	Bytes []int // rising
	Us    []float64
}

const (
	headDimFitted = 128  // of all attention kernels measured
	promptTokens  = 8192 // of PromptAttention
	// Between 64 and 256 rows no GEMM was measured. At 128 one takes the larger of
	// its time at 64 rows and half of that at 256.
	weightBoundRows = 64
	computeFrom     = 256
	bytesPerNumber  = 2
)

// Parts is one step, kernel by kernel, in microseconds.
type Parts struct {
	Layers                                  int
	GEMM, Attention, AllReduce, Elementwise float64 // of one layer
	LMHead                                  float64 // output projection
}

// Ms is the GPU time of the step.
func (p *Parts) Ms() float64 {
	return (float64(p.Layers)*(p.GEMM+p.Attention+p.AllReduce+p.Elementwise) + p.LMHead) / 1e3
}

// split is the share of one GPU in a model.
type split struct {
	qHeads, kvHeads, intermediate, vocab int
}

// splitModel divides a model over tp GPUs as tensor parallelism does.
func splitModel(c *modelconfig.Config, tp int) (split, error) {
	kvFits := c.KVHeads%max(tp, 1) == 0 || tp%c.KVHeads == 0
	if tp < 1 || c.Heads%tp != 0 || c.Intermediate%tp != 0 || !kvFits {
		return split{}, fmt.Errorf("does not divide %s: %d query heads, %d KV heads, %d wide MLP",
			c.Name, c.Heads, c.KVHeads, c.Intermediate)
	}
	// Fewer KV heads than GPUs are repeated, a vocabulary is padded.
	return split{c.Heads / tp, max(c.KVHeads/tp, 1), c.Intermediate / tp, (c.Vocab + tp - 1) / tp}, nil
}

// DecodeParts is a step of one row per request, each with contextTokens of context.
func (k *Kernels) DecodeParts(c *modelconfig.Config, tp, requests, contextTokens int) (Parts, error) {
	s, err := splitModel(c, tp)
	if err != nil {
		return Parts{}, err
	}
	p := k.rowParts(c, s, tp, requests)
	streams := float64(requests*s.kvHeads) * float64(c.HeadDim) / headDimFitted
	p.Attention = k.Decode.us(streams, float64(contextTokens))
	p.LMHead = k.GEMM.Us(requests, s.vocab, c.Hidden)
	return p, nil
}

// rowParts is what depends on the number of rows alone, without attention and
// output projection.
func (k *Kernels) rowParts(c *modelconfig.Config, s split, tp, rows int) Parts {
	p := Parts{Layers: c.Layers}
	for _, g := range gemms(c, s) {
		p.GEMM += k.GEMM.Us(rows, g[0], g[1])
	}
	p.AllReduce = 2 * k.allReduceUs(tp, rows*c.Hidden*bytesPerNumber)
	p.Elementwise = max(k.ElementwiseUs, float64(rows*elementwiseBytes(c, s))/k.ElementwiseBytesPerUs)
	return p
}

// gemms are the outputs and inputs of the four matrix products of a layer.
func gemms(c *modelconfig.Config, s split) [4][2]int {
	return [4][2]int{
		{(s.qHeads + 2*s.kvHeads) * c.HeadDim, c.Hidden},
		{c.Hidden, s.qHeads * c.HeadDim},
		{2 * s.intermediate, c.Hidden},
		{c.Hidden, s.intermediate},
	}
}

// elementwiseBytes is what the elementwise kernels of a layer move for one row:
// two norms with their residuals, norms and rotation of q and k, the activation.
func elementwiseBytes(c *modelconfig.Config, s split) int {
	return bytesPerNumber * (8*c.Hidden + 4*(s.qHeads+s.kvHeads)*c.HeadDim + 3*s.intermediate)
}

// Us is the time of rows x inputs by inputs x outputs.
func (g *GEMM) Us(rows, outputs, inputs int) float64 {
	weights, r := float64(outputs)*float64(inputs), float64(rows)
	bytes := bytesPerNumber * (weights + r*float64(outputs+inputs))
	memory := g.OffsetUs + bytes/g.BytesPerUs
	flops := 2 * r * weights
	switch {
	case rows <= weightBoundRows:
		return memory
	case rows < computeFrom:
		return max(memory, flops/g.FlopsPerUs[0])
	}
	return max(memory, flops/interpolate(g.Rows, g.FlopsPerUs, min(r, float64(g.Rows[len(g.Rows)-1]))))
}

func (a *Attention) us(streams, contextTokens float64) float64 {
	column := make([]float64, len(a.Streams))
	for i, line := range a.Us {
		column[i] = interpolate(a.ContextTokens, line, contextTokens)
	}
	return interpolate(a.Streams, column, streams)
}

// nsPerRowToken is the attention of rows beyond one per request, over all layers.
func (p PromptAttention) nsPerRowToken(c *modelconfig.Config, s split) float64 {
	us := p.OffsetUs + p.PerHeadUs*float64(s.qHeads)*float64(c.HeadDim)/headDimFitted
	return us * 1e3 * float64(c.Layers) / (promptTokens * promptTokens / 2)
}

// allReduceUs is 0 for one GPU. More GPUs than were measured are taken as the
// most that were.
func (k *Kernels) allReduceUs(gpus, bytes int) float64 {
	if gpus == 1 {
		return 0
	}
	at := 0
	for i := range k.AllReduces {
		if k.AllReduces[i].GPUs <= gpus {
			at = i
		}
	}
	return interpolate(k.AllReduces[at].Bytes, k.AllReduces[at].Us, float64(bytes))
}

// interpolate is linear through the points, flat before the first and along the
// last stretch after the last, or flat if that falls.
func interpolate(xs []int, ys []float64, x float64) float64 {
	last := len(xs) - 1
	if last == 0 || x <= float64(xs[0]) {
		return ys[0]
	}
	i := 1
	for i < last && x > float64(xs[i]) {
		i++
	}
	x0, x1 := float64(xs[i-1]), float64(xs[i])
	slope := (ys[i] - ys[i-1]) / (x1 - x0)
	if x > x1 {
		return ys[last] + max(slope, 0)*(x-x1)
	}
	return ys[i-1] + slope*(x-x0)
}

// roundMs keeps a microsecond's thousandth out of files: 0.001 ms.
func roundMs(ms float64) float64 { return math.Round(ms*1e3) / 1e3 }
