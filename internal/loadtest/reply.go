package loadtest

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// wireReply is the answer to a request for one token: of Completions, or of
// /generate.
type wireReply struct {
	Choices []struct {
		TokenIDs []algorithms.Token `json:"token_ids"`
		Logprobs *struct {
			Tokens []string
			Sums   []*float64           `json:"token_logprobs"`
			Top    []map[string]float64 `json:"top_logprobs"`
		}
	}
	Output []algorithms.Token `json:"output_ids"`
	Meta   struct {
		Logprobs [][]any   `json:"output_token_logprobs"`
		Top      [][][]any `json:"output_top_logprobs"`
	} `json:"meta_info"`
	Error json.RawMessage
}

// parse reads the token, and its server's largest probability if that was asked
// for.
func (s *single) parse(text []byte) (reply, error) {
	var w wireReply
	if err := json.Unmarshal(text, &w); err != nil {
		return reply{}, failuref(KindJunk, "%v in %s", err, text)
	}
	if !null(w.Error) {
		return reply{}, failuref(KindError, "%s", messageIn(text))
	}
	token, largest := w.completion()
	if s.API == Generate {
		token, largest = w.generated()
	}
	switch {
	case token < 0:
		return reply{}, &Failure{KindToken, cut(string(text))}
	case !s.wantsProb:
		return reply{token: token}, nil
	case math.IsInf(largest, -1):
		return reply{}, failuref(KindToken, "no log probabilities in %s", text)
	}
	return reply{token: token, maxProb: min(math.Exp(largest), 1)}, nil
}

// tokenName is how vLLM writes a token if asked for ids in log probabilities.
const tokenName = "token_id:"

// completion is the token of the first choice, below 0 if it is not told, and
// the largest log probability.
func (w *wireReply) completion() (token algorithms.Token, largest float64) {
	token, largest = -1, math.Inf(-1)
	if len(w.Choices) == 0 {
		return token, largest
	}
	c := &w.Choices[0]
	if len(c.TokenIDs) == 1 {
		token = c.TokenIDs[0]
	}
	l := c.Logprobs
	if l == nil {
		return token, largest
	}
	if len(l.Tokens) == 1 && token < 0 {
		if id, ok := strings.CutPrefix(l.Tokens[0], tokenName); ok {
			if n, err := strconv.ParseInt(id, 10, 32); err == nil {
				token = algorithms.Token(n)
			}
		}
	}
	for _, p := range l.Sums {
		if p != nil {
			largest = max(largest, *p)
		}
	}
	for _, top := range l.Top {
		for _, p := range top {
			largest = max(largest, p)
		}
	}
	return token, largest
}

// generated is the same of /generate, whose log probabilities are arrays of the
// figure, the id and the text.
func (w *wireReply) generated() (token algorithms.Token, largest float64) {
	token, largest = -1, math.Inf(-1)
	if len(w.Output) == 1 {
		token = w.Output[0]
	}
	entries := w.Meta.Logprobs
	for _, top := range w.Meta.Top {
		entries = append(entries, top...)
	}
	for _, e := range entries {
		if len(e) > 0 {
			if p, ok := e[0].(float64); ok {
				largest = max(largest, p)
			}
		}
	}
	return token, largest
}

func null(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
