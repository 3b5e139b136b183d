package model

import (
	"context"
	"hash/fnv"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
)

// Toy is the shape of a tiny model of a family, "qwen3" or "llama", for tests:
// it runs in microseconds and has all that makes its family special. Both have
// the same vocabulary, so requests can be routed between the two. The caller may
// change what it got.
func Toy(family string) *modelconfig.Config {
	c := &modelconfig.Config{Name: "toy-" + family, ModelType: family, Heads: 4, KVHeads: 2, HeadDim: 32, Vocab: 512,
		Dtype: "bfloat16", MaxPositions: 4096, Activation: "silu"}
	switch family {
	case "qwen3": // qk-norm, tied
		c.Architecture, c.Layers, c.Hidden, c.Intermediate = "Qwen3ForCausalLM", 2, 64, 128
		c.TiedEmbeddings, c.RMSNormEps, c.RopeTheta = true, 1e-6, 1e6
	case "llama": // untied; scaled so that frequencies of all three ranges occur
		c.Architecture, c.Layers, c.Hidden, c.Intermediate = "LlamaForCausalLM", 3, 96, 192
		c.RMSNormEps, c.RopeTheta = 1e-5, 500000
		c.Rope = modelconfig.Rope{Type: "llama3", Factor: 8, LowFreq: 1, HighFreq: 4, OriginalPositions: 64}
	default:
		panic("model: no toy of the family " + family)
	}
	return c
}

// headGain is the standard deviation of a random model's logits: enough that
// some tokens are likely and entropies differ from position to position.
const headGain = 3

// residualGain makes what layers add outweigh the embedding in the residual
// stream. With a tied head the model would else repeat its last token for ever.
const residualGain = 3

// Random makes a model of a shape with random weights, for tests, and for
// measuring where no checkpoint is at hand: speed does not depend on the values.
// A weight is a function of the seed, the tensor's name and its index, before it
// is rounded to dtype. A matrix has deviation 1/√in, so that activations keep
// their size; norms are 1. It takes the weights' size in memory and, for a
// billion of them, seconds; when ctx ends before, it returns its error.
func Random(ctx context.Context, config *modelconfig.Config, dtype Dtype, seed uint64) (*Model, error) {
	if dtype.Size() == 0 {
		panic("model: random weights of no dtype")
	}
	c := *config
	c.Dtype = map[Dtype]string{BF16: "bfloat16", F16: "float16", F32: "float32"}[dtype]
	fillDefaults(&c)
	if err := refuseModel(&c); err != nil {
		return nil, err
	}
	m := &Model{Config: &c, Rope: newRope(&c)}
	var parts []part
	for _, slot := range m.slots() {
		n := 1
		for _, d := range slot.shape {
			n *= d
		}
		t := Tensor{Name: slot.name, Dtype: dtype, Shape: slot.shape, path: "random weights"}
		if dtype == F32 {
			t.F32 = make([]float32, n)
		} else {
			t.U16 = make([]uint16, n)
		}
		*slot.to = t
		key, deviation := randomKey(seed, slot.name), deviationOf(slot, c.TiedEmbeddings)
		for from := 0; from < n; from += fillChunk {
			parts = append(parts, part{slot.to, key, deviation, from, min(from+fillChunk, n)})
		}
	}
	if err := fillAll(ctx, parts); err != nil {
		return nil, err
	}
	m.tie()
	return m, nil
}

// deviationOf is 0 for norms, which are 1.
func deviationOf(s slot, tied bool) float64 {
	if len(s.shape) != 2 {
		return 0
	}
	deviation := 1 / math.Sqrt(float64(s.shape[1]))
	switch {
	case s.name == headName, s.name == embedName && tied:
		return headGain * deviation
	case strings.HasSuffix(s.name, "o_proj.weight"), strings.HasSuffix(s.name, "down_proj.weight"):
		return residualGain * deviation
	}
	return deviation
}

const fillChunk = 1 << 18

// part is a range of a tensor's weights to fill.
type part struct {
	tensor    *Tensor
	key       uint64
	deviation float64 // 0: all are 1
	from, to  int
}

func fillAll(ctx context.Context, parts []part) error {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(parts)) {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(parts)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				parts[i].fill()
			}
		})
	}
	wait.Wait()
	return ctx.Err()
}

func (p part) fill() {
	scale := float32(p.deviation / wordDeviation)
	for i := p.from; i < p.to; i++ {
		v := float32(1)
		if p.deviation != 0 {
			v = scale * centred(mix(p.key+uint64(i)*golden))
		}
		switch p.tensor.Dtype {
		case BF16:
			p.tensor.U16[i] = narrowBF16(v)
		case F16:
			p.tensor.U16[i] = narrowHalf(v)
		default:
			p.tensor.F32[i] = v
		}
	}
}

// golden is 2^64 / φ: the step of SplitMix64 (Steele, Lea, Flood 2014), whose
// finaliser mix is.
const golden = 0x9e3779b97f4a7c15

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func randomKey(seed uint64, name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return mix(seed*golden ^ h.Sum64())
}

// centred adds up the four 16-bit words of x, which is near enough to a normal
// distribution, and shifts their mean to 0.
func centred(x uint64) float32 {
	sum := x&0xffff + x>>16&0xffff + x>>32&0xffff + x>>48
	return float32(int(sum) - 2*0xffff)
}

// wordDeviation is that of centred: 2 times that of one uniform word.
const wordDeviation = 2 * 65536 / 3.4641016151377544 // √12

// narrowBF16 rounds to the nearest, ties to even. It is for finite numbers.
func narrowBF16(v float32) uint16 {
	bits := math.Float32bits(v)
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// narrowHalf rounds to the nearest, ties to even; beyond the range of F16 it
// gives an infinity.
func narrowHalf(v float32) uint16 {
	bits := math.Float32bits(v)
	sign, bits := uint16(bits>>16&0x8000), bits&0x7fff_ffff
	switch {
	case bits >= 0x477f_f000: // 65520 is the first that rounds out of range
		return sign | 0x7c00
	case bits < 0x3880_0000: // below 2^-14: a multiple of 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(bits))*(1<<24)))
	}
	bits -= (127 - 15) << 23
	return sign | uint16((bits+0xfff+bits>>13&1)>>13)
}
