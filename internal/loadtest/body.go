package loadtest

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// body is the request as the server reads it.
func (c *Client) body(r *workload.Request) []byte {
	dst := make([]byte, 0, 512+7*r.Prompt)
	if c.API == Generate {
		return c.generateBody(dst, r)
	}
	dst = appendString(append(dst, `{"model":`...), c.Model)
	switch {
	case c.API == Chat:
		dst = c.appendWords(append(dst, `,"messages":[{"role":"user","content":"`...), r)
		dst = append(dst, `"}]`...)
	case c.Text:
		dst = append(c.appendWords(append(dst, `,"prompt":"`...), r), '"')
	default:
		dst = append(dst, `,"prompt":[`...)
		dst = append(appendIDs(dst, c.PromptIDs(r)), ']')
	}
	dst = strconv.AppendInt(append(dst, `,"max_tokens":`...), int64(r.Output), 10)
	dst = appendTemperature(dst, c.Temperature)
	dst = append(dst, `,"stream":true,"stream_options":{"include_usage":true`...)
	if c.Plain {
		return append(dst, `}}`...)
	}
	if !c.TokenIDs {
		dst = append(dst, `,"continuous_usage_stats":true`...)
	}
	dst = append(dst, `},"return_token_ids":true,"ignore_eos":true`...)
	dst = strconv.AppendInt(append(dst, `,"min_tokens":`...), int64(r.Output), 10)
	dst = strconv.AppendUint(append(dst, `,"seed":`...), r.Seed>>1, 10)
	return append(dst, '}')
}

func (c *Client) generateBody(dst []byte, r *workload.Request) []byte {
	if c.Text {
		dst = append(c.appendWords(append(dst, `{"text":"`...), r), '"')
	} else {
		dst = append(appendIDs(append(dst, `{"input_ids":[`...), c.PromptIDs(r)), ']')
	}
	dst = strconv.AppendInt(append(dst, `,"sampling_params":{"max_new_tokens":`...), int64(r.Output), 10)
	dst = appendTemperature(dst, c.Temperature)
	if !c.Plain {
		dst = strconv.AppendInt(append(dst, `,"ignore_eos":true,"min_new_tokens":`...), int64(r.Output), 10)
	}
	return append(dst, `},"stream":true}`...)
}

// appendString writes a string as JSON has it, which is not how Go quotes all.
func appendString(dst []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic("loadtest: a string is no JSON: " + err.Error())
	}
	return append(dst, text...)
}

func appendTemperature(dst []byte, t float64) []byte {
	return strconv.AppendFloat(append(dst, `,"temperature":`...), t, 'g', -1, 64)
}

// lowestID is above the special tokens and single bytes with which many
// vocabularies begin.
const lowestID = 1000

// PromptIDs makes up the ids of a prompt within the vocabulary.
func (s *Server) PromptIDs(r *workload.Request) []algorithms.Token {
	ids := r.AppendPrompt(nil)
	low := algorithms.Token(min(lowestID, s.Vocab/2))
	for i, id := range ids {
		ids[i] = low + id%(algorithms.Token(s.Vocab)-low)
	}
	return ids
}

func appendIDs(dst []byte, ids []algorithms.Token) []byte {
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	return dst
}

// words are short and common, so that most vocabularies have each as one token.
var words = [...]string{
	"time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school", "state", "family",
	"student", "group", "country", "problem", "hand", "part", "place", "case", "week", "company", "system", "program",
	"question", "work", "number", "night", "point", "home", "water", "room", "mother", "area", "money", "story", "fact",
	"month", "lot", "right", "study", "book", "eye", "job", "word", "business", "issue", "side", "kind", "head", "house",
	"service", "friend", "father", "power", "hour", "game", "line", "end", "member", "law", "car",
}

// appendWords writes a prompt of about the tokens that the request asks for.
// Shared prefixes are shared.
func (c *Client) appendWords(dst []byte, r *workload.Request) []byte {
	per := c.TokensPer
	if per == 0 {
		per = 1
	}
	n := max(int(math.Round((float64(r.Prompt)-c.TokensMore)/per)), 1)
	longer := *r
	longer.Prompt, longer.Shared = n, min(int(float64(r.Shared)/per), n-1)
	for i, id := range longer.AppendPrompt(nil) {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, words[int(id)%len(words)]...)
	}
	return dst
}
