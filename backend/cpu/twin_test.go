package cpu

import (
	"math"
	"testing"

	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/model"
)

// twin is the engine's slow twin: the forward of one sequence in float64, from
// the first token on, as plainly as it can be written. It shares nothing with
// the engine but the model. It returns the logits after each token.
func twin(m *model.Model, tokens []backend.Token) [][]float64 {
	c := m.Config
	var stream [][]float64 // [position][hidden]
	for _, t := range tokens {
		stream = append(stream, wide(&m.Embed)[int(t)*c.Hidden:(int(t)+1)*c.Hidden])
	}
	for i := range m.Layers {
		l := &m.Layers[i]
		attended := twinAttention(m, l, normed(stream, &l.AttnNorm, c.RMSNormEps))
		stream = sum(stream, through(&l.O, attended))
		in := normed(stream, &l.MLPNorm, c.RMSNormEps)
		gate, up := through(&l.Gate, in), through(&l.Up, in)
		for p := range gate {
			for j, g := range gate[p] {
				gate[p][j] = g / (1 + math.Exp(-g)) * up[p][j]
			}
		}
		stream = sum(stream, through(&l.Down, gate))
	}
	return through(&m.Head, normed(stream, &m.Norm, c.RMSNormEps))
}

func twinAttention(m *model.Model, l *model.Layer, in [][]float64) [][]float64 {
	c := m.Config
	q, k, v := through(&l.Q, in), through(&l.K, in), through(&l.V, in)
	head := func(x []float64, h int) []float64 { return x[h*c.HeadDim : (h+1)*c.HeadDim] }
	for p := range in {
		for h := range c.Heads {
			twinRotate(m, head(q[p], h), &l.QNorm, p)
		}
		for h := range c.KVHeads {
			twinRotate(m, head(k[p], h), &l.KNorm, p)
		}
	}
	out := make([][]float64, len(in))
	for p := range in {
		out[p] = make([]float64, c.Heads*c.HeadDim)
		for h := range c.Heads {
			kv := h / (c.Heads / c.KVHeads)
			total := 0.0
			for past := range p + 1 {
				score := 0.0
				for i, x := range head(q[p], h) {
					score += x * head(k[past], kv)[i]
				}
				weight := math.Exp(score / math.Sqrt(float64(c.HeadDim)))
				total += weight
				for i, x := range head(v[past], kv) {
					head(out[p], h)[i] += weight * x
				}
			}
			for i := range c.HeadDim {
				head(out[p], h)[i] /= total
			}
		}
	}
	return out
}

// twinRotate norms a head in place, if there is a norm, and turns it.
func twinRotate(m *model.Model, x []float64, norm *model.Tensor, position int) {
	if !norm.Empty() {
		copy(x, normed([][]float64{x}, norm, m.Config.RMSNormEps)[0])
	}
	half := len(x) / 2
	for i := range half {
		// The product is in float32 by the checkpoints' convention.
		sin, cos := math.Sincos(float64(float32(position) * m.Rope.InverseFrequencies[i]))
		x[i], x[half+i] = x[i]*cos-x[half+i]*sin, x[half+i]*cos+x[i]*sin
	}
}

func wide(t *model.Tensor) []float64 {
	narrow := make([]float32, t.Len())
	t.Floats(narrow, 0)
	w := make([]float64, t.Len())
	for i, x := range narrow {
		w[i] = float64(x)
	}
	return w
}

// through is x·Wᵀ, row by row.
func through(t *model.Tensor, x [][]float64) [][]float64 {
	w, k := wide(t), t.Cols()
	y := make([][]float64, len(x))
	for r := range x {
		y[r] = make([]float64, t.Rows())
		for j := range y[r] {
			for i, a := range x[r] {
				y[r][j] += a * w[j*k+i]
			}
		}
	}
	return y
}

func normed(x [][]float64, t *model.Tensor, eps float64) [][]float64 {
	w := wide(t)
	y := make([][]float64, len(x))
	for r := range x {
		squares := 0.0
		for _, a := range x[r] {
			squares += a * a
		}
		scale := 1 / math.Sqrt(squares/float64(len(w))+eps)
		for i, a := range x[r] {
			y[r] = append(y[r], a*scale*w[i])
		}
	}
	return y
}

func sum(x, y [][]float64) [][]float64 {
	z := make([][]float64, len(x))
	for r := range x {
		for i := range x[r] {
			z[r] = append(z[r], x[r][i]+y[r][i])
		}
	}
	return z
}

// apart is the largest difference over the largest magnitude.
func apart(got []float32, want []float64) float64 {
	most, scale := 0.0, 0.0
	for i, w := range want {
		most = math.Max(most, math.Abs(float64(got[i])-w)) // NaN stays
		scale = math.Max(scale, math.Abs(w))
	}
	return most / scale
}

// TestAgreesWithTwin prefills and decodes, and holds the logits against the
// twin's at each position that samples.
func TestAgreesWithTwin(t *testing.T) {
	for _, c := range toys {
		t.Run(c.name, func(t *testing.T) {
			m := c.model(t)
			e := newEngine(t, m, Options{Threads: 2, Blocks: 8, BlockTokens: 5, MaxRows: 9})
			tokens := drawTokens(1, 25, m.Config.Vocab)
			want := twin(m, tokens)
			s := backend.Sequence{Blocks: []int32{7, 0, 3, 1, 5}, Samples: true}
			for _, end := range []int{11, 12, 13, 20, 25} { // prefill, decode, extend
				s.Start, s.Tokens = s.Position(), tokens[s.Position():end]
				forward(t, e, s)
				if off := apart(e.logits[:e.vocab], want[end-1]); !(off < 1e-5) {
					t.Errorf("logits of position %d are %.2g apart", end, off)
				}
			}
		})
	}
}

// TestAgreesWithTwinFarOut goes to a context of a hundred blocks, where the
// rotary embedding has turned many times and each lane of the softmax has summed
// many scores.
func TestAgreesWithTwinFarOut(t *testing.T) {
	c := toys[0]
	config := model.Toy(c.family)
	config.Layers, config.Vocab = 1, 32
	m, err := model.Random(t.Context(), config, model.F32, 4)
	if err != nil {
		t.Fatal(err)
	}
	const length = 700
	e := newEngine(t, m, Options{Threads: 2, Blocks: 100, BlockTokens: 7})
	tokens := drawTokens(7, length, config.Vocab)
	want := twin(m, tokens)
	s := backend.Sequence{Tokens: tokens, Samples: true}
	for b := range e.Info().Blocks {
		s.Blocks = append(s.Blocks, int32(b*37%e.Info().Blocks))
	}
	forward(t, e, s)
	if off := apart(e.logits[:e.vocab], want[length-1]); !(off < 1e-5) {
		t.Errorf("logits are %.2g apart", off)
	}
}
