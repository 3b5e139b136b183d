package sampling

import (
	"slices"

	"github.com/tokenrouter/tokenrouter/backend"
)

// scale turns logits into weights: probabilities times a constant.
type scale struct {
	largest float64 // largest logit, whose weight is 1
	inverse float64 // of the temperature
}

func (s scale) exponent(logit float32) float64 {
	return float64((float64(logit) - s.largest) * s.inverse)
}

func (s scale) weight(logit float32) float64 { return exp(s.exponent(logit)) }

// weighed is a token and its weight.
type weighed struct {
	token  backend.Token
	weight float64
}

// keepsAll reports whether no filter drops anything.
func keepsAll(s *backend.Sampling, vocab int) bool {
	return !limits(s, vocab) && !trims(s) && s.MinP == 0
}

func limits(s *backend.Sampling, vocab int) bool { return s.TopK > 0 && s.TopK < vocab }
func trims(s *backend.Sampling) bool             { return s.TopP > 0 && s.TopP < 1 }

// filter leaves in c.kept, ascending by token, what top-k, then top-p among
// those, then min-p keep. All of them keep the head of the list that is sorted
// from the most probable token down, ties to the lower token, so min-p needs no
// sum, and cutting the list short costs nothing but its tail.
func (c *Chooser) filter(logits []float32, scale scale, s *backend.Sampling) {
	if limits(s, len(logits)) {
		c.take(c.top(logits, s.TopK), scale)
		mass := 0.0
		for _, k := range c.kept {
			mass += k.weight
		}
		c.cut(s, mass)
	} else {
		mass := 0.0
		if trims(s) {
			mass = c.weigh(logits, scale)
		}
		// Few tokens are enough in most cases; if not, many more are tried.
		for n := 64; ; n *= 16 {
			ranks := c.top(logits, n)
			c.take(ranks, scale)
			if c.cut(s, mass) || len(ranks) < n {
				break
			}
		}
	}
	slices.SortFunc(c.kept, func(a, b weighed) int { return int(a.token) - int(b.token) })
}

// take weighs the ranked tokens.
func (c *Chooser) take(ranks []rank, scale scale) {
	c.kept = c.kept[:0]
	for _, r := range ranks {
		c.kept = append(c.kept, weighed{r.token(), scale.weight(r.logit())})
	}
}

// cut shortens c.kept by top-p of that mass and by min-p, and reports whether
// something ended the list: a longer one would have been cut at the same place.
func (c *Chooser) cut(s *backend.Sampling, mass float64) bool {
	reach := s.TopP * mass
	sum := 0.0
	for i, k := range c.kept {
		if i > 0 && (k.weight < s.MinP || k.weight == 0) {
			c.kept = c.kept[:i]
			return true
		}
		sum += k.weight
		if trims(s) && sum >= reach {
			c.kept = c.kept[:i+1]
			return true
		}
	}
	return false
}

// draw inverts the cumulative weights, in the order of the list.
func draw(kept []weighed, u float64) backend.Token {
	sum := 0.0
	for _, k := range kept {
		sum += k.weight
	}
	reach := u * sum
	sum = 0
	for _, k := range kept {
		if sum += k.weight; reach < sum {
			return k.token
		}
	}
	return kept[len(kept)-1].token // u·sum rounded up to sum
}

// blockTokens is how many weights are summed at a time, so that a draw from the
// whole vocabulary finds its place without keeping them.
const blockTokens = 512

// weigh returns the weight of all tokens and leaves that of each block of them
// in c.sums.
func (c *Chooser) weigh(logits []float32, scale scale) float64 {
	c.sums = c.sums[:0]
	total := 0.0
	var weights [blockTokens]float64
	for block := range slices.Chunk(logits, blockTokens) {
		for i, x := range block {
			weights[i] = scale.exponent(x)
		}
		exps(weights[:len(block)])
		sum := 0.0
		for _, w := range weights[:len(block)] {
			sum += w
		}
		c.sums = append(c.sums, sum)
		total += sum
	}
	return total
}

// drawAll draws from the whole vocabulary, in the order of tokens.
func (c *Chooser) drawAll(logits []float32, scale scale, u float64) backend.Token {
	reach := u * c.weigh(logits, scale)
	from, sum := 0, 0.0 // a block that holds weight, and what the tokens before it weigh
	before := 0.0
	for block, weight := range c.sums {
		if weight > 0 {
			from, sum = block*blockTokens, before
		}
		if before += weight; reach < before {
			break
		}
	}
	last := from
	for i, x := range logits[from:min(from+blockTokens, len(logits))] {
		if w := scale.weight(x); w > 0 {
			last = from + i
			if sum += w; reach < sum {
				break
			}
		}
	}
	return backend.Token(last) // the last that weighs anything if rounding led beyond it
}
