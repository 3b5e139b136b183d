package cpu

import (
	"math"

	"github.com/tokenrouter/tokenrouter/backend/cpu/kernel"
	"github.com/tokenrouter/tokenrouter/backend/model"
)

// shape is the geometry of a model.
type shape struct {
	layers, hidden, intermediate, vocab int
	heads, kvHeads, headDim             int
	epsilon                             float64 // of the RMS norms
	attentionScale                      float32 // 1 / √headDim
}

func shapeOf(m *model.Model) shape {
	c := m.Config
	return shape{
		layers: c.Layers, hidden: c.Hidden, intermediate: c.Intermediate, vocab: c.Vocab,
		heads: c.Heads, kvHeads: c.KVHeads, headDim: c.HeadDim,
		epsilon:        c.RMSNormEps,
		attentionScale: float32(1 / math.Sqrt(float64(c.HeadDim))),
	}
}

// group is how many query heads read one KV head.
func (s *shape) group() int { return s.heads / s.kvHeads }

// tileRows is how many rows a tile of attention has at most.
func (s *shape) tileRows() int { return max(1, tileQueries/s.group()) }

// norms are a layer's norm weights, widened: they are small.
type norms struct {
	attention, mlp []float32 // [hidden]
	query, key     []float32 // [headDim]; nil in models without
}

func normsOf(l *model.Layer) norms {
	return norms{attention: widened(&l.AttnNorm), mlp: widened(&l.MLPNorm), query: widened(&l.QNorm), key: widened(&l.KNorm)}
}

// widened is nil for an empty tensor.
func widened(t *model.Tensor) []float32 {
	if t.Empty() {
		return nil
	}
	f := make([]float32, t.Len())
	t.Floats(f, 0)
	return f
}

// columns are the outputs low to high-1 of one of a phase's matrices.
type columns struct{ matrix, low, high int }

// multiply computes columns of y = x·wᵀ for a number of rows: w is [n, k], x is
// [rows, k], y is [rows, n].
func multiply(y, x []float32, w *model.Tensor, rows int, c columns) {
	n, k := w.Rows(), w.Cols()
	switch w.Dtype {
	case model.BF16:
		kernel.MatMulBF16(y, x, w.U16, rows, k, n, c.low, c.high)
	case model.F16:
		kernel.MatMulF16(y, x, w.U16, rows, k, n, c.low, c.high)
	default:
		kernel.MatMulF32(y, x, w.F32, rows, k, n, c.low, c.high)
	}
}

// cuts are the items of the phases that multiply.
type cuts struct{ qkv, output, gateUp, down, head []columns }

// newCuts assumes that the layers are of one shape, which package model checks.
func newCuts(m *model.Model, threads int) cuts {
	l := &m.Layers[0]
	return cuts{
		qkv:    cut(threads, &l.Q, &l.K, &l.V),
		output: cut(threads, &l.O),
		gateUp: cut(threads, &l.Gate), // and the same columns of Up
		down:   cut(threads, &l.Down),
		head:   cut(threads, &m.Head),
	}
}

// An item reads cutBytes of weights or so: some 10 µs at the speed of memory,
// many times what it costs to claim it, and short enough that threads end a
// phase nearly together. Its columns are a multiple of cutColumns, which the
// kernels take several at once.
const (
	cutBytes   = 128 << 10
	cutColumns = 12
)

func cut(threads int, matrices ...*model.Tensor) (all []columns) {
	for i, w := range matrices {
		width := max(1, cutBytes/(w.Cols()*w.Dtype.Size())/cutColumns) * cutColumns
		if threads == 1 {
			width = w.Rows()
		}
		for low := 0; low < w.Rows(); low += width {
			all = append(all, columns{i, low, min(low+width, w.Rows())})
		}
	}
	return all
}
