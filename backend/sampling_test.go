package backend_test

import (
	"errors"
	"math"
	"testing"

	"github.com/tokenrouter/tokenrouter/backend"
)

func TestValidate(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	bias := func(token backend.Token, by float64) backend.Sampling {
		return backend.Sampling{LogitBias: []backend.TokenBias{{Token: token, Bias: by}}}
	}
	for _, c := range []struct {
		field    string // "" if all is well
		sampling backend.Sampling
	}{
		{"", backend.Sampling{}},
		{"", backend.Sampling{Temperature: 100, TopK: -1, TopP: 1, MinP: 1, RepetitionPenalty: 2, PresencePenalty: -2, FrequencyPenalty: 2, MinTokens: 5}},
		{"", backend.Sampling{Temperature: 1e-9, TopP: 1e-9, RepetitionPenalty: 1e-9, TopK: 1 << 20}},
		{"", backend.Sampling{Ends: []backend.Token{0, 99}}},
		{"", bias(99, -1e308)},
		{"temperature", backend.Sampling{Temperature: -0.1}},
		{"temperature", backend.Sampling{Temperature: nan}},
		{"temperature", backend.Sampling{Temperature: inf}},
		{"top_k", backend.Sampling{TopK: -2}},
		{"top_p", backend.Sampling{TopP: 1.01}},
		{"top_p", backend.Sampling{TopP: -0.1}},
		{"top_p", backend.Sampling{TopP: nan}},
		{"min_p", backend.Sampling{MinP: 1.01}},
		{"min_p", backend.Sampling{MinP: nan}},
		{"repetition_penalty", backend.Sampling{RepetitionPenalty: -1}},
		{"repetition_penalty", backend.Sampling{RepetitionPenalty: 2.01}},
		{"repetition_penalty", backend.Sampling{RepetitionPenalty: nan}},
		{"presence_penalty", backend.Sampling{PresencePenalty: 2.01}},
		{"presence_penalty", backend.Sampling{PresencePenalty: nan}},
		{"frequency_penalty", backend.Sampling{FrequencyPenalty: -2.01}},
		{"frequency_penalty", backend.Sampling{FrequencyPenalty: nan}},
		{"min_tokens", backend.Sampling{MinTokens: -1}},
		{"logit_bias", bias(100, 1)},
		{"logit_bias", bias(-1, 1)},
		{"logit_bias", bias(1, nan)},
		{"logit_bias", bias(1, -inf)},
		{"stop_token_ids", backend.Sampling{Ends: []backend.Token{1, 100}}},
		{"stop_token_ids", backend.Sampling{Ends: []backend.Token{-1}}},
	} {
		err := c.sampling.Validate(100)
		var refused *backend.SamplingError
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%+v: %v", c.sampling, err)
		case c.field != "" && (!errors.As(err, &refused) || refused.Field != c.field):
			t.Errorf("%+v: error %v, want one of %s", c.sampling, err, c.field)
		}
	}
}

func TestReadsHistory(t *testing.T) {
	for _, c := range []struct {
		sampling *backend.Sampling
		want     bool
	}{
		{nil, false},
		{&backend.Sampling{}, false},
		{&backend.Sampling{RepetitionPenalty: 1, MinTokens: 3}, false},
		{&backend.Sampling{RepetitionPenalty: 0.9}, true},
		{&backend.Sampling{PresencePenalty: -0.1}, true},
		{&backend.Sampling{FrequencyPenalty: 0.1}, true},
	} {
		if got := c.sampling.ReadsHistory(); got != c.want {
			t.Errorf("%+v: %v", c.sampling, got)
		}
	}
}
