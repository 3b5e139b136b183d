package experiments

import (
	"fmt"
	"slices"

	"github.com/tokenrouter/tokenrouter/experiments/internal/locate"
)

// size is how many GPUs a model with these step times takes: a profile and a
// roofline are of a model that is split over so many. Step times that are
// written down (p is nil) do not say; 1 is what they stand for.
func (p *Prices) size() int {
	if p == nil {
		return 1
	}
	return p.Profile.TP
}

// giveGPUs gives each model that names no GPUs as many as it takes, of its own:
// the first that nobody names and no model before it was given.
func giveGPUs(s settings, models []string, prices []*Prices) {
	taken := map[int]bool{}
	for _, m := range models {
		for _, gpu := range get[[]int](s, "models."+m+".gpus") {
			taken[gpu] = true
		}
	}
	next := 0
	for i, m := range models {
		at := "models." + m + ".gpus"
		if _, given := s[at]; given {
			continue
		}
		var own []int
		for ; len(own) < prices[i].size(); next++ {
			if !taken[next] {
				own = append(own, next)
			}
		}
		s[at] = own
	}
}

// gpusFrom lists n GPUs from the first on.
func gpusFrom(first, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = first + i
	}
	return out
}

// checkGPUs refuses GPUs that stand twice, and a number of them other than that
// for which the step times hold: costs would be those of another system.
func checkGPUs(s settings, model string, p *Prices, fail failFunc) {
	at := "models." + model + ".gpus"
	gpus := get[[]int](s, at)
	for i, gpu := range gpus {
		if slices.Contains(gpus[:i], gpu) {
			fail(locate.Index(at, i), "", "GPU %d is given twice", gpu)
			return
		}
	}
	if p == nil || len(gpus) == p.size() {
		return
	}
	holds, other := "profile "+p.Profile.Name+" holds", "another profile"
	if rooflineOf(s, model) != nil {
		holds, other = "its roofline holds", "another roofline.tp"
	}
	fail(at, fmt.Sprintf("%s, or leave gpus out, or choose %s", tomlText(gpusFrom(gpus[0], p.size())), other),
		"names %s, and %s for a model split over %s (tp = %d)", gpuCount(len(gpus)), holds, gpuCount(p.size()), p.size())
}

func gpuCount(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}
