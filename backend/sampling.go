package backend

import (
	"fmt"
	"math"
)

// Sampling says how a token is chosen from logits. The zero value is greedy, and
// a field that is 0 was not given. The order is fixed: logit bias, forbidden
// ends (MinTokens), penalties, temperature, top-k, top-p, min-p, draw. Package
// sampling does it.
type Sampling struct {
	Temperature float64 // 0 is greedy: the largest logit, ties to the lower token
	TopK        int     // keep that many most probable tokens; 0 or -1 keeps all
	TopP        float64 // keep the fewest most probable tokens that reach this share of what top-k left; 0 or 1 keeps all
	MinP        float64 // drop tokens less probable than this share of the most probable one's

	RepetitionPenalty float64 // over prompt and output, divides positive logits; 0 or 1 is off
	PresencePenalty   float64 // over output, once a token
	FrequencyPenalty  float64 // over output, for each occurrence

	LogitBias []TokenBias // added to logits, one after the other
	MinTokens int         // output tokens before which none of Ends may be sampled if anything else can be
	Ends      []Token     // ids that end the request: EOS and stop ids
}

// TokenBias adds Bias to the logit of Token.
type TokenBias struct {
	Token Token
	Bias  float64
}

// Greedy reports whether the largest logit is taken.
func (s *Sampling) Greedy() bool { return s == nil || s.Temperature < greedyBelow }

// greedyBelow is where dividing by the temperature stops making sense; vLLM and
// SGLang draw the line at about the same place.
const greedyBelow = 1e-6

// ReadsHistory reports whether choosing a token looks at the earlier ones.
func (s *Sampling) ReadsHistory() bool {
	return s != nil && (s.PresencePenalty != 0 || s.FrequencyPenalty != 0 ||
		s.RepetitionPenalty != 0 && s.RepetitionPenalty != 1)
}

// A SamplingError names the field that is out of range, as clients write it.
type SamplingError struct {
	Field   string
	Problem string
}

func (e *SamplingError) Error() string { return e.Field + " " + e.Problem }

// Validate checks the ranges that vLLM and SGLang check, for a vocabulary of
// that many tokens; NaN is in no range. The error is a *SamplingError. A client
// that wrote top_p or repetition_penalty as 0, which means "not given" here, has
// to be refused where its words are read.
func (s *Sampling) Validate(vocab int) error {
	inRange := func(field string, x, low, high float64, want string) error {
		if x >= low && x <= high {
			return nil
		}
		return &SamplingError{field, fmt.Sprintf("is %g, want %s", x, want)}
	}
	for _, err := range []error{
		inRange("temperature", s.Temperature, 0, math.MaxFloat64, "a finite number of at least 0"),
		inRange("top_k", float64(s.TopK), -1, math.MaxInt32, "at least 1, or 0 or -1 for all"),
		inRange("top_p", s.TopP, 0, 1, "more than 0 and at most 1"),
		inRange("min_p", s.MinP, 0, 1, "0 to 1"),
		inRange("repetition_penalty", s.RepetitionPenalty, 0, 2, "more than 0 and at most 2"),
		inRange("presence_penalty", s.PresencePenalty, -2, 2, "-2 to 2"),
		inRange("frequency_penalty", s.FrequencyPenalty, -2, 2, "-2 to 2"),
		inRange("min_tokens", float64(s.MinTokens), 0, math.MaxInt32, "at least 0"),
	} {
		if err != nil {
			return err
		}
	}
	for _, b := range s.LogitBias {
		if b.Token < 0 || int(b.Token) >= vocab {
			return &SamplingError{"logit_bias", fmt.Sprintf("names token %d, which is not in the vocabulary of %d", b.Token, vocab)}
		}
		if math.IsNaN(b.Bias) || math.IsInf(b.Bias, 0) {
			return &SamplingError{"logit_bias", fmt.Sprintf("of token %d is not a finite number", b.Token)}
		}
	}
	for _, e := range s.Ends {
		if e < 0 || int(e) >= vocab {
			return &SamplingError{"stop_token_ids", fmt.Sprintf("names token %d, which is not in the vocabulary of %d", e, vocab)}
		}
	}
	return nil
}
