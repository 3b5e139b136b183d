package workload

import (
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// Users number their requests in turn, and a request is a function of its
// number, however it is asked for.
func TestLoadNumbers(t *testing.T) {
	l := Load{Kind: Closed, Seed: 7, Users: 3, Limit: 8, Mix: Single(Lengths{Prompt: Uniform(5, 50), Output: Uniform(2, 20)})}
	seen := map[int]bool{}
	for user := range 3 {
		for turn := 0; ; turn++ {
			n, ok := l.Next(user, turn)
			if !ok {
				break
			}
			if seen[n] || n < 1 || n > 8 {
				t.Errorf("user %d, turn %d: number %d", user, turn, n)
			}
			seen[n] = true
			r := l.Request(n)
			if want := l.Mix.Request(n-1, 7); r != want {
				t.Errorf("request %d is %+v, want %+v", n, r, want)
			}
			if got := l.MaxTokens(&r); got != 20 {
				t.Errorf("max tokens %d, want that of the class", got)
			}
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d requests, want 8", len(seen))
	}
}

func TestLoadSteady(t *testing.T) {
	l := Load{Kind: Steady, Seed: 1, Users: 2, Prompt: 30, Mix: Single(Lengths{Prompt: Fixed(10), Output: Fixed(10)})}
	r := l.Request(2)
	if r.Prompt != 30 || r.Output != Endless || l.MaxTokens(&r) != Endless {
		t.Errorf("request %+v", r)
	}
}

func TestLoadOpen(t *testing.T) {
	arrivals := Arrivals{Process: Poisson, RatePerS: 2}
	l := Load{Kind: Open, Seed: 3, Limit: 5, Arrivals: &arrivals, Mix: Single(Lengths{Prompt: Uniform(5, 50), Output: Uniform(2, 20)})}
	n := 0
	for s := l.Stream(); ; n++ {
		r, ok := s.Next()
		if !ok {
			break
		}
		again := l.Request(r.Index + 1)
		again.ArrivalNs = r.ArrivalNs
		if r != again || l.MaxTokens(&r) != r.Output {
			t.Errorf("the stream gives %+v, its number %+v", r, again)
		}
	}
	if n != 5 {
		t.Errorf("%d requests, want 5", n)
	}
}

func TestQueryModelShares(t *testing.T) {
	counts := make([]int, 2)
	for seed := range uint64(10000) {
		counts[QueryModel(algorithms.Bits(seed, 0, 1), []float64{0.6, 0.4})]++
	}
	if counts[1] < 3800 || counts[1] > 4200 {
		t.Errorf("%v of 10000, want about 4000 at the second", counts)
	}
}
