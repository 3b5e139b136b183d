package algorithms

import "math"

// Purpose separates draws that share a seed and a position. The values are
// part of what a seed means: changing one changes every recorded run.
type Purpose uint64

const (
	PurposeSample  Purpose = iota + 1 // an engine samples a token
	PurposeModel                      // which model writes the next token
	PurposeFuse                       // which token of a fused distribution
	PurposeGap                        // how long a stay lasts
	PurposeDest                       // where a stay ends
	PurposeRefresh                    // whether a bursty source draws its state anew
	PurposeState                      // which state it draws
)

// For narrows p to one model, for draws at positions where two models may stand.
func (p Purpose) For(model int) Purpose { return p | Purpose(model+1)<<8 }

// Forever is the number of kept decisions of a stay that never ends. It is
// longer than any request and can be added to a position without overflow.
const Forever = math.MaxInt32

// golden is 2^64 over the golden ratio, made odd: splitmix64's increment.
const golden = 0x9e3779b97f4a7c15

// mix64 is the output function of splitmix64 (Steele, Lea and Flood, 2014,
// variant 13 of Stafford's mixers): a bijection of 64 bits in which every input
// bit changes each output bit with a chance near 1/2.
func mix64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Bits returns 64 bits that depend on nothing but the three keys: they are
// absorbed in turn, each by h = mix64((h XOR key) + golden), from h = 0.
func Bits(seed uint64, position int, purpose Purpose) uint64 {
	h := mix64(seed + golden)
	h = mix64((h ^ uint64(position)) + golden)
	return mix64((h ^ uint64(purpose)) + golden)
}

// Draw returns a uniform number in [0, 1): the top 53 of Bits.
func Draw(seed uint64, position int, purpose Purpose) float64 {
	return float64(Bits(seed, position, purpose)>>11) * 0x1p-53
}

// geometric turns a uniform u into the number of decisions that stay before
// the first that leaves, where each stays with probability stay.
func geometric(u, stay float64) int {
	switch {
	case stay <= 0:
		return 0
	case stay >= 1:
		return Forever
	}
	// P(n ≥ k) = stay^k, and 1−u is as uniform as u and never 0.
	n := math.Log1p(-u) / math.Log(stay)
	return int(min(n, Forever))
}

// pick returns the index that u selects by cumulative weight, in list order,
// among all but skip (-1 skips none). The weights need not sum to 1. At least
// one must be positive.
func pick(u float64, weights []float64, skip int) int {
	total := 0.0
	for i, w := range weights {
		if i != skip {
			total += w
		}
	}
	u *= total
	last, sum := -1, 0.0
	for i, w := range weights {
		if i == skip || w <= 0 {
			continue
		}
		last = i
		if sum += w; u < sum {
			break
		}
	}
	if last < 0 {
		panic("algorithms: pick among weights that are all 0")
	}
	return last
}
