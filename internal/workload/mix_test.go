package workload

import (
	"math"
	"strings"
	"testing"
)

func chatAndCode() *Mix {
	return &Mix{
		Classes: []Class{
			{Name: "chat", Share: 3, Lengths: Lengths{Prompt: Uniform(10, 60), Output: Uniform(1, 9)}},
			{Name: "none", Share: 0, Lengths: Lengths{Prompt: Fixed(1), Output: Fixed(1)}},
			{Name: "code", Share: 1, Lengths: Lengths{Prompt: Fixed(500), Output: Lognormal(80, 1, 1, 400)}},
		},
		Prefix: Prefix{Share: 0.4, Distinct: 5, Tokens: 40},
	}
}

// Shares of classes and prefixes, five standard errors wide.
func TestSharesOfAMix(t *testing.T) {
	m := chatAndCode()
	const n = 100_000
	classes, shared, prefixes := [3]float64{}, 0.0, map[uint64]float64{}
	for i := range n {
		r := m.Request(i, 4)
		classes[r.Class]++
		l := m.Classes[r.Class].Lengths
		if r.Prompt < l.Prompt.Min || r.Prompt > l.Prompt.Max || r.Output < l.Output.Min || r.Output > l.Output.Max || r.Index != i {
			t.Fatalf("request %d is %+v", i, r)
		}
		if r.SharedSeed != 0 {
			shared++
			prefixes[r.SharedSeed]++
			if r.Shared != min(40, r.Prompt-1) {
				t.Fatalf("request %d shares %d of %d tokens", i, r.Shared, r.Prompt)
			}
		}
	}
	near(t, "share of chat", classes[0]/n, 0.75, 5*math.Sqrt(0.75*0.25/n))
	near(t, "share of a class of share 0", classes[1], 0, 0)
	near(t, "share with a prefix", shared/n, 0.4, 5*math.Sqrt(0.4*0.6/n))
	if len(prefixes) != 5 {
		t.Fatalf("%d prefixes, want 5", len(prefixes))
	}
	for seed, count := range prefixes {
		near(t, "share of a prefix", count/shared, 0.2, 5*math.Sqrt(0.2*0.8/shared))
		if seed == 0 {
			t.Error("a prefix has no seed")
		}
	}
}

// A request depends on the seed and its index alone: not on what was drawn
// before, nor on when it arrives.
func TestRequestsAreFunctionsOfSeedAndIndex(t *testing.T) {
	m := chatAndCode()
	slow, fast := Arrivals{Process: Poisson, RatePerS: 1}, Arrivals{Process: Bursty, RatePerS: 50, CV: 2, BurstRequests: 4}
	a, b, again := NewStream(&slow, m, 6, 0), NewStream(&fast, m, 6, 0), NewStream(&slow, m, 6, 0)
	other := NewStream(&slow, m, 7, 0)
	differ := 0
	for i := range 2000 {
		x, _ := a.Next()
		y, _ := b.Next()
		z, _ := again.Next()
		if x != z {
			t.Fatalf("the same stream gives %+v and %+v", x, z)
		}
		if o, _ := other.Next(); o.Prompt != x.Prompt {
			differ++
		}
		x.ArrivalNs, y.ArrivalNs = 0, 0
		if x != y || x != RequestAt(&slow, m, 6, i) {
			t.Fatalf("request %d is %+v, %+v by other arrivals and %+v alone", i, x, y, RequestAt(&slow, m, 6, i))
		}
	}
	if differ == 0 {
		t.Error("the seed does not matter")
	}
}

func TestPairedLengthsStayTogether(t *testing.T) {
	l := Lengths{Prompt: Empirical([]int32{1, 2, 3}), Output: Empirical([]int32{10, 20, 30}), Paired: true}
	m := Single(l)
	seen := map[int]int{}
	for i := range 3000 {
		r := m.Request(i, 2)
		if r.Output != 10*r.Prompt {
			t.Fatalf("a prompt of %d with an output of %d", r.Prompt, r.Output)
		}
		seen[r.Prompt]++
	}
	for prompt, n := range seen {
		near(t, "how often a pair comes", float64(n), 1000, 5*math.Sqrt(1000*2./3))
		_ = prompt
	}
}

func TestRefusedMixes(t *testing.T) {
	ok := Lengths{Prompt: Fixed(1), Output: Fixed(1)}
	for _, c := range []struct {
		mix  Mix
		want string
	}{
		{Mix{}, "workload: a mix needs a class"},
		{Mix{Classes: []Class{{Share: -1, Lengths: ok}}}, "workload: the share of class 0 is -1"},
		{Mix{Classes: []Class{{Lengths: ok}}}, "workload: the shares of all classes are 0"},
		{Mix{Classes: []Class{{Share: 1}}}, "workload: class 0: prompt: lengths from 0 to 0"},
		{Mix{Classes: []Class{{Share: 1, Lengths: ok}}, Prefix: Prefix{Share: 2}}, "workload: the share of prompts"},
		{Mix{Classes: []Class{{Share: 1, Lengths: ok}}, Prefix: Prefix{Share: 1, Tokens: 3}}, "workload: shared prefixes need"},
		{Mix{Classes: []Class{{Share: 1, Lengths: Lengths{Empirical([]int32{1}), Empirical([]int32{1, 2}), true}}}}, "workload: class 0: paired lengths"},
	} {
		if err := c.mix.Validate(false); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %s", c.mix, err, c.want)
		}
	}
	if err := (&Mix{Classes: []Class{{Share: 1}}}).Validate(true); err != nil {
		t.Errorf("a trace gives lengths: %v", err)
	}
}
