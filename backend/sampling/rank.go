package sampling

import (
	"math"
	"slices"

	"github.com/tokenrouter/tokenrouter/backend"
)

// rank orders tokens by how probable they are, in one number: the larger logit
// ranks higher, of equal ones the lower token.
type rank uint64

// signBit is the sign of a float32 as bits.
const signBit = 1 << 31

// rankOf packs the logit into the upper half, as an integer of the same order,
// and the token's complement into the lower.
func rankOf(logit float32, token int) rank {
	bits := math.Float32bits(logit + 0) // −0 + 0 is +0: the two are equal logits
	if bits&signBit != 0 {
		bits = ^bits
	} else {
		bits |= signBit
	}
	return rank(bits)<<32 | rank(^uint32(token))
}

func (r rank) token() backend.Token { return backend.Token(^uint32(r)) }

func (r rank) logit() float32 {
	bits := uint32(r >> 32)
	if bits&signBit != 0 {
		return math.Float32frombits(bits &^ signBit)
	}
	return math.Float32frombits(^bits)
}

// top returns the k most probable tokens, the first of them first, or fewer if
// not so many have a logit above −Inf. The slice is c.ranks.
func (c *Chooser) top(logits []float32, k int) []rank {
	k = min(max(k, 0), len(logits))
	h := slices.Grow(c.ranks[:0], k)
	i := 0
	for ; i < len(logits) && len(h) < k; i++ {
		if !math.IsInf(float64(logits[i]), -1) {
			h = append(h, rankOf(logits[i], i))
		}
	}
	if len(h) == k && k > 0 && i < len(logits) {
		scan(h, logits, i)
	}
	slices.Sort(h)
	slices.Reverse(h)
	c.ranks = h
	return h
}

// scan keeps the largest of h and of the logits from a token on. It holds h as
// a heap whose root is the smallest, so that most logits cost one comparison.
func scan(h []rank, logits []float32, from int) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		sink(h, i)
	}
	lowest := h[0].logit()
	for i := from; i < len(logits); i++ {
		if logits[i] > lowest { // an equal one has the higher token
			h[0] = rankOf(logits[i], i)
			sink(h, 0)
			lowest = h[0].logit()
		}
	}
}

// sink moves h[i] down to where neither child is smaller.
func sink(h []rank, i int) {
	r := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if r <= h[child] {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = r
}
