package model

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
)

func TestRandomRepeats(t *testing.T) {
	first, again := randomToy(t, "qwen3", BF16), randomToy(t, "qwen3", BF16)
	sameWeights(t, again, first)
	other, err := Random(t.Context(), Toy("qwen3"), BF16, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, tensor := range other.Tensors() {
		same := string(tensor.raw()) == string(first.Tensors()[i].raw())
		if norm := len(tensor.Shape) == 1; same != norm {
			t.Errorf("%s: the same with another seed is %v", tensor.Name, same)
		}
	}
}

// The three dtypes round the same numbers.
func TestRandomRounds(t *testing.T) {
	exact := randomToy(t, "llama", F32).Layers[1].Q.F32
	for _, dtype := range []Dtype{BF16, F16} {
		q := randomToy(t, "llama", dtype).Layers[1].Q
		got := make([]float32, q.Len())
		q.Floats(got, 0)
		for i, v := range got {
			if math.Abs(float64(v-exact[i])) > math.Abs(float64(exact[i]))/256 {
				t.Fatalf("%s: weight %d is %v, in F32 %v", dtype, i, v, exact[i])
			}
		}
	}
}

func TestRandomMoments(t *testing.T) {
	m := randomToy(t, "llama", F32)
	for _, c := range []struct {
		tensor    Tensor
		deviation float64
	}{
		{m.Embed, 1 / math.Sqrt(96)}, {m.Head, 3 / math.Sqrt(96)}, {m.Layers[0].Q, 1 / math.Sqrt(96)},
		{m.Layers[2].O, 3 / math.Sqrt(128)}, {m.Layers[2].Down, 3 / math.Sqrt(192)}, {randomToy(t, "qwen3", F32).Embed, 3 / math.Sqrt(64)},
	} {
		sum, squares, n := 0.0, 0.0, float64(c.tensor.Len())
		for _, v := range c.tensor.F32 {
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		mean, deviation := sum/n, math.Sqrt(squares/n)
		// Five standard errors.
		if math.Abs(mean) > 5*c.deviation/math.Sqrt(n) || math.Abs(deviation/c.deviation-1) > 5/math.Sqrt(2*n) {
			t.Errorf("%s: mean %v, deviation %v, want 0 and %v", c.tensor.Name, mean, deviation, c.deviation)
		}
	}
}

func TestRandomRefuses(t *testing.T) {
	c, err := modelconfig.Known("qwen2-1.5b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Random(t.Context(), c, BF16, 1); err == nil || !strings.Contains(err.Error(), "Qwen2ForCausalLM is not supported") {
		t.Errorf("Qwen2: %v", err)
	}
}

// What is known without a file can be made: the shape says how large it is.
func TestSlotsOfKnown(t *testing.T) {
	for _, name := range modelconfig.Names() {
		c, err := modelconfig.Known(name)
		if err != nil {
			t.Fatal(err)
		}
		if refuseModel(c) != nil {
			continue
		}
		m := &Model{Config: c}
		weights := int64(0)
		for _, s := range m.slots() {
			if len(s.shape) == 2 {
				weights += int64(s.shape[0]) * int64(s.shape[1])
			}
		}
		if got := weights * 2; got != c.WeightBytes() {
			t.Errorf("%s: matrices of %d bytes, the config says %d", name, got, c.WeightBytes())
		}
	}
}

// Weights of a model that nobody waits for any more are not made.
func TestRandomEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if m, err := Random(ctx, Toy("qwen3"), BF16, 1); m != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v; want no model and %v", m, err, context.Canceled)
	}
}
