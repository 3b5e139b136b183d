package algorithms

import "strings"

// Need is a set of signals that a routing algorithm reads.
type Need uint32

const (
	NeedEntropy     Need = 1 << iota // normalised entropy of the whole vocabulary
	NeedMaxProb                      // largest probability
	NeedTopK                         // most probable tokens
	NeedDeferLogit                   // Co-LLM's logit of the defer token
	NeedRouterScore                  // output of a trained router, after the sigmoid
)

var needNames = []string{"entropy", "max_prob", "top_k", "defer_logit", "router_score"}

func (n Need) String() string {
	var names []string
	for i, name := range needNames {
		if n&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, "+")
}

// Signals are figures of one forward at one position, computed in float32 or
// better from raw logits: before temperature, penalties and truncation.
// Only those that the algorithm declared by Needs are set.
type Signals struct {
	Entropy     float64     // −Σ p ln p / ln V, in [0, 1]
	MaxProb     float64     // in (0, 1]
	DeferLogit  float64     // any real
	RouterScore float64     // in (0, 1)
	TopK        []TokenProb // most probable first
}

// TokenProb is a token and its probability.
type TokenProb struct {
	Token Token
	Prob  float64
}
