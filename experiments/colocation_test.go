package experiments

import (
	"math"
	"strings"
	"testing"
)

// sharing is two models on one GPU, or with gpus of large on two.
const sharing = `question = "q"
systems = ["async"]
[[models]]
name = "small"
profile = "a100-80gb/sglang-0.5.10/qwen3-4b-tp1"
gpus = [0]
[[models]]
name = "large"
profile = "a100-80gb/sglang-0.5.10/qwen3-8b-tp1"
gpus = [0]
[routing]
matrix = [[0.7, 0.3], [1.0, 0.0]]
[workload]
duration_s = 60
warmup_s = 10
`

// A derived factor is what both ask for of the bandwidth of a GPU that has
// 2.039 TB/s. A step reads no more than there is, so each asks for less than 1.
func TestDerivedColocation(t *testing.T) {
	pairs := load(t, sharing).Points[0].Spec.Sharing()
	if len(pairs) != 1 || pairs[0].Given || pairs[0].GPU != 0 {
		t.Fatalf("got %+v, want one derived pair", pairs)
	}
	spec := load(t, sharing).Points[0].Spec
	sum := 0.0
	for i := range spec.Models {
		time, err := spec.Models[i].StepTime()
		if err != nil {
			t.Fatal(err)
		}
		share := float64(spec.Models[i].Prices.WeightBytes) / (float64(time.Ns(1, 1, 1124)) * 1e-9) / 2.039e12
		if share < .5 || share > 1 {
			t.Errorf("%s asks for %.2f of the bandwidth", spec.Models[i].Name, share)
		}
		sum += share
	}
	if p := pairs[0]; math.Abs(p.Demand-sum) > 1e-9 || p.Factor != max(1, p.Demand) {
		t.Errorf("got %+v, want the demand %v", p, sum)
	}
}

func TestSharingSays(t *testing.T) {
	roofline := "models.%s.roofline.gpu=h200\nmodels.%s.roofline.config=qwen3-0.6b"
	small := strings.Split(strings.ReplaceAll(roofline, "%s", "small"), "\n")
	large := strings.Split(strings.ReplaceAll(roofline, "%s", "large"), "\n")
	for _, test := range []struct {
		name string
		set  []string
		slow bool
		want string // in the sentence; "" for none
	}{
		{"derived", nil, true, "small and large share GPU 0: to read their weights they ask for 1."},
		{"given", []string{"colocation.factor=1.5"}, true, "steps are taken to stretch by 1.5 (colocation.factor)."},
		{"none", []string{"colocation.factor=1"}, false, "share GPU 0: no slow-down is assumed (colocation.factor)."},
		{"unknown", []string{"models.large.step_ms.base=30"}, false, "is not known, so no slow-down is assumed."},
		{"apart", []string{"models.large.gpus=[1]"}, false, ""},
		{"room", append(append([]string{"models.small.roofline.variant=eager", "models.large.roofline.variant=eager"}, small...), large...), false,
			" of its bandwidth together, so no slow-down is assumed (derived)."},
		{"sizes", []string{"sweep.models.small.profile=['a100-80gb/sglang-0.5.10/qwen3-4b-tp1', 'a100-80gb/sglang-0.5.10/qwen3-8b-tp1']"}, true,
			", by what they ask for of its bandwidth"},
		{"mixed", []string{"sweep.colocation.factor=[0, 1.5]"}, true, "to 1.5, as colocation.factor says or, where it is 0, by what"},
		{"swept", []string{"sweep.colocation.factor=[1, 2]"}, false, "stretch by 1 to 2, as colocation.factor says."},
	} {
		plan := load(t, sharing, test.set...)
		text := strings.Join(plan.SharingTexts(), "\n")
		if (text == "") != (test.want == "") || !strings.Contains(text, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, text, test.want)
		}
		s, err := newSetup(plan.Cells[0])
		if err != nil {
			t.Fatal(err)
		}
		if m := s.interference(); (m != nil) != test.slow {
			t.Errorf("%s: interference %v, want any: %t", test.name, m, test.slow)
		}
	}
}
