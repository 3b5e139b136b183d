package steptime

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
)

func roofline(t testing.TB, r Roofline) *Profile {
	t.Helper()
	p, err := r.Profile()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return p
}

// Step times of rooflines in ns, pinned so that no change of a constant goes
// unseen.
func TestRooflinePinned(t *testing.T) {
	for _, c := range []struct {
		r                       Roofline
		requests, rows, context int
		want                    int64
	}{
		{Roofline{GPU: "a100-80gb", Config: "qwen3-8b"}, 1, 1, 600, 12_267_469},
		{Roofline{GPU: "a100-80gb", Config: "qwen3-32b", TP: 2}, 8, 8, 8192, 26_847_000},
		{Roofline{GPU: "a100-80gb", Config: "qwen3-32b", TP: 2}, 1, 2048, 2048, 310_386_198},
		{Roofline{GPU: "a100-80gb", Config: "qwen3-32b", TP: 2, Engine: "vllm-0.14"}, 64, 64, 65536, 33_024_000},
		{Roofline{GPU: "a100-80gb", Config: "qwen3-8b", Variant: VariantEager}, 1, 1, 600, 18_009_000},
		{Roofline{GPU: "a100-80gb", Config: "qwen3-8b", Engine: "vllm-mid-2025"}, 1, 1, 600, 13_046_391},
		{Roofline{GPU: "h100", Config: "qwen3-32b", TP: 2}, 8, 8, 8192, 15_358_000},
		{Roofline{GPU: "h200", Config: "qwen3-32b", TP: 2}, 8, 8, 8192, 11_799_000},
		{Roofline{GPU: "h200", Config: "llama-2-70b", TP: 8}, 256, 256, 262144, 20_222_000},
	} {
		p := roofline(t, c.r)
		if got := p.Compile().Ns(c.requests, c.rows, c.context); got != c.want {
			t.Errorf("%s: (%d, %d, %d) takes %d ns, want %d", p.Name, c.requests, c.rows, c.context, got, c.want)
		}
	}
}

// A faster GPU, and more of them, are never slower; a launch-bound step is.
func TestRooflineOrders(t *testing.T) {
	for _, config := range []string{"qwen3-0.6b", "qwen3-32b", "llama-2-7b"} {
		for _, engine := range []string{"sglang-0.5.10", "vllm-0.14"} {
			at := func(gpu string, tp int, variant string) int64 {
				return roofline(t, Roofline{gpu, config, tp, engine, variant}).Compile().Ns(4, 4, 4000)
			}
			if a, h, hh := at("a100-80gb", 1, ""), at("h100", 1, ""), at("h200", 1, ""); !(a > h && h > hh) {
				t.Errorf("%s: A100 %d, H100 %d, H200 %d ns", config, a, h, hh)
			}
			if one, two := at("a100-80gb", 1, ""), at("a100-80gb", 2, ""); one <= two {
				t.Errorf("%s: TP1 %d, TP2 %d ns", config, one, two)
			}
			if graphs, eager := at("h200", 4, VariantGraphs), at("h200", 4, VariantEager); graphs >= eager {
				t.Errorf("%s: graphs %d, eager %d ns", config, graphs, eager)
			}
		}
	}
}

func TestRooflineOfFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	text := `{"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
"num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936, "torch_dtype": "bfloat16"}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	known := roofline(t, Roofline{GPU: "h200", Config: "qwen3-8b", TP: 2}).Compile()
	own := roofline(t, Roofline{GPU: "h200", Config: path, TP: 2}).Compile()
	if a, b := known.Ns(3, 40, 900), own.Ns(3, 40, 900); a != b {
		t.Errorf("%d ns by name, %d ns by file", a, b)
	}
}

func TestRooflineRefuses(t *testing.T) {
	dir := t.TempDir()
	wide := filepath.Join(dir, "config.json")
	text := `{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
"intermediate_size": 128, "vocab_size": 512, "torch_dtype": "float32"}`
	if err := os.WriteFile(wide, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		r           Roofline
		field, want string
	}{
		{Roofline{GPU: "a100", Config: "qwen3-8b"}, "gpu", `roofline.gpu is "a100"; did you mean a100-80gb`},
		{Roofline{GPU: "tpu", Config: "qwen3-8b"}, "gpu", `is "tpu"; did you mean a100-80gb or h100 or h200?`},
		{Roofline{GPU: "h100", Config: "qwen3-9b"}, "config", "did you mean qwen3-4b or qwen3-8b"},
		{Roofline{GPU: "h100", Config: "no/such/config.json"}, "config", "no such file"},
		{Roofline{GPU: "h100", Config: wide}, "config", "torch_dtype is float32"},
		{Roofline{GPU: "h100", Config: "qwen3-8b", TP: 3}, "tp", "is 3 and does not divide qwen3-8b: 32 query heads"},
		{Roofline{GPU: "h100", Config: "qwen3-8b", TP: -1}, "tp", "is -1"},
		{Roofline{GPU: "h100", Config: "qwen3-8b", Engine: "sglang"}, "engine", "did you mean sglang-0.5.10"},
		{Roofline{GPU: "h100", Config: "qwen3-8b", Variant: "fast"}, "variant", `is "fast"; use "graphs" or "eager"`},
		{Roofline{GPU: "h100", Config: "qwen3-8b", Engine: "vllm-2023"}, "variant", "had no CUDA graphs"},
	} {
		_, err := c.r.Profile()
		var wrong *RooflineError
		if !errors.As(err, &wrong) || wrong.Field != c.field || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v\nwant %q", c.r, err, c.want)
		}
	}
}

// Head dimensions are read: a shape derived from the hidden size would be priced
// otherwise.
func TestHeadDimCounts(t *testing.T) {
	p := roofline(t, Roofline{GPU: "a100-80gb", Config: "qwen3-32b", TP: 2})
	if !strings.Contains(p.Notes, "32\nquery and 4 KV heads of 128") {
		t.Errorf("notes: %s", p.Notes)
	}
}

func TestRangedCounts(t *testing.T) {
	st, ok := roofline(t, Roofline{GPU: "h100", Config: "qwen3-8b"}).Compile().(Ranged)
	if !ok {
		t.Fatal("a compiled profile does not know its range")
	}
	for _, c := range []struct {
		requests, rows, context int
		want                    bool
	}{{1, 1, 0, true}, {256, 256, 256 * 16384, true}, {257, 257, 0, false}, {1, 4097, 0, false}, {2, 2, 2*16384 + 1, false}} {
		if got := st.InRange(c.requests, c.rows, c.context); got != c.want {
			t.Errorf("(%d, %d, %d): in range %v", c.requests, c.rows, c.context, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { st.InRange(8, 8, 9000); st.Ns(8, 8, 9000) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Any shape that is read is refused with a reason, or priced by a valid profile
// in which more layers take longer.
func TestRooflineOfAnyShape(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		kv := rapid.IntRange(1, 64).Draw(t, "kv")
		shape := map[string]any{
			"model_type": "llama", "torch_dtype": "float16",
			"num_key_value_heads": kv, "num_attention_heads": kv * rapid.IntRange(1, 16).Draw(t, "group"),
			"head_dim": rapid.IntRange(1, 512).Draw(t, "head dim"), "hidden_size": rapid.IntRange(1, 1<<17).Draw(t, "hidden"),
			"intermediate_size": rapid.IntRange(1, 1<<18).Draw(t, "intermediate"), "vocab_size": rapid.IntRange(1, 1<<20).Draw(t, "vocab"),
		}
		r := Roofline{
			GPU: rapid.SampledFrom(GPUs()).Draw(t, "gpu"), Config: filepath.Join(dir, "config.json"), TP: rapid.IntRange(1, 16).Draw(t, "tp"),
			Engine: rapid.SampledFrom(Engines()).Draw(t, "engine"), Variant: VariantEager,
		}
		layers := rapid.IntRange(1, 400).Draw(t, "layers")
		var before int64
		for _, shape["num_hidden_layers"] = range []int{layers, layers + 1} {
			text, err := json.Marshal(shape)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(r.Config, text, 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := r.Profile()
			var wrong *RooflineError
			if err != nil && !errors.As(err, &wrong) {
				t.Fatalf("refused without a field: %v", err)
			}
			if err != nil {
				return
			}
			took := p.Compile().Ns(7, 60, 9000)
			if took <= before {
				t.Fatalf("%d ns with a layer more, %d before", took, before)
			}
			before = took
		}
	})
}

// One step added up by hand: Qwen3-8B reads 193 M weights a layer in four GEMMs.
func TestDecodePartsByHand(t *testing.T) {
	config, err := modelconfig.Known("qwen3-8b")
	if err != nil {
		t.Fatal(err)
	}
	k := Kernels{
		GEMM:          GEMM{OffsetUs: 5, BytesPerUs: 1.5e6, Rows: []int{256}, FlopsPerUs: []float64{2e8}},
		Decode:        Attention{Streams: []int{8, 16}, ContextTokens: []int{0, 1000}, Us: [][]float64{{10, 20}, {10, 30}}},
		Prompt:        PromptAttention{OffsetUs: 100, PerHeadUs: 10},
		AllReduces:    []AllReduce{{GPUs: 2, Bytes: []int{8192, 16384}, Us: []float64{5, 7}}},
		ElementwiseUs: 15, ElementwiseBytesPerUs: 1.5e6,
	}
	one, err := k.DecodeParts(config, 1, 1, 500)
	if err != nil {
		t.Fatal(err)
	}
	weights := 6144*4096 + 4096*4096 + 24576*4096 + 4096*12288
	activations := 6144 + 4096 + 4096 + 4096 + 24576 + 4096 + 4096 + 12288
	want := Parts{
		Layers: 36, GEMM: 4*5 + 2*float64(weights+activations)/1.5e6, Attention: 15, Elementwise: 15,
		LMHead: 5 + 2*float64(151936*4096+151936+4096)/1.5e6,
	}
	if diff := cmp.Diff(want, one, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Errorf("TP1 (- want, + got):\n%s", diff)
	}
	// 3 requests of 4 KV heads are 12 streams, half-way between the two lines.
	two, err := k.DecodeParts(config, 2, 3, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if two.Attention != 25 || two.AllReduce != 2*7+2*2*float64(3*8192-16384)/8192 {
		t.Errorf("TP2: %+v", two)
	}
	// Arithmetic counts from 128 rows on: 2 x 256 x weights operations.
	if got, want := k.GEMM.Us(256, 6144, 4096), 2*256*6144*4096/2e8; got != want {
		t.Errorf("256 rows take %v us, want %v", got, want)
	}
	s, err := splitModel(config, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := k.Prompt.nsPerRowToken(config, s), 260e3*36/(8192*8192/2.0); got != want {
		t.Errorf("prompt attention %v ns a pair, want %v", got, want)
	}
}
