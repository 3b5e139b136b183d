package frontdoor

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/tokenrouter/tokenrouter/backend"
)

// lowest stands for log probabilities that JSON cannot write, as in vLLM.
const lowest = -9999.0

func finite(x float64) float64 {
	if math.IsNaN(x) || x < lowest {
		return lowest
	}
	return x
}

type chatLogprobs struct {
	Content []chatLogprob `json:"content"`
}

type chatLogprob struct {
	tokenLogprob
	Top []tokenLogprob `json:"top_logprobs"`
}

// tokenLogprob tells of a token. Where it is a part of a character, Bytes has
// the truth.
type tokenLogprob struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

func (c *choice) tokenLogprob(t Token, logprob float64) tokenLogprob {
	bytes := c.ask.house.Tokenizer.TokenBytes(t)
	o := tokenLogprob{c.ask.house.Tokenizer.TokenText(t), finite(logprob), make([]int, len(bytes))}
	if c.ask.asIDs {
		o.Token = idName(t)
	}
	for i, b := range bytes {
		o.Bytes[i] = int(b)
	}
	return o
}

func (c *choice) chatLogprobs(top []backend.Result) *chatLogprobs {
	l := &chatLogprobs{Content: []chatLogprob{}}
	for i := range top {
		one := chatLogprob{c.tokenLogprob(top[i].Token, top[i].Logprob), []tokenLogprob{}}
		for _, t := range top[i].Top {
			one.Top = append(one.Top, c.tokenLogprob(t.Token, t.Logprob))
		}
		l.Content = append(l.Content, one)
	}
	return l
}

type textLogprobs struct {
	TextOffset    []int                `json:"text_offset"`
	TokenLogprobs []float64            `json:"token_logprobs"`
	Tokens        []string             `json:"tokens"`
	TopLogprobs   []map[string]float64 `json:"top_logprobs"`
}

// textLogprobs tells of the next tokens of a choice; it is called once for each.
func (c *choice) textLogprobs(top []backend.Result) *textLogprobs {
	l := &textLogprobs{TextOffset: []int{}, TokenLogprobs: []float64{}, Tokens: []string{}, TopLogprobs: []map[string]float64{}}
	for i := range top {
		res := &top[i]
		name := c.tokenName(res.Token)
		l.TextOffset = append(l.TextOffset, c.offset)
		l.TokenLogprobs = append(l.TokenLogprobs, finite(res.Logprob))
		l.Tokens = append(l.Tokens, name)
		// As in vLLM the token itself is among them, whatever its rank.
		names := map[string]float64{name: finite(res.Logprob)}
		for _, t := range res.Top {
			if t.Token == res.Token {
				continue
			}
			key := c.tokenName(t.Token)
			if _, taken := names[key]; taken {
				key = idName(t.Token)
			}
			names[key] = finite(t.Logprob)
		}
		l.TopLogprobs = append(l.TopLogprobs, names)
		c.offset += utf8.RuneCountInString(c.ask.house.Tokenizer.TokenText(res.Token))
	}
	return l
}

// idName is how vLLM writes a token that is told of by its id.
func idName(t Token) string { return fmt.Sprintf("token_id:%d", t) }

// tokenName is a token's text where it is one; parts of characters would look
// all alike, so they are written as OpenAI does.
func (c *choice) tokenName(t Token) string {
	if c.ask.asIDs {
		return idName(t)
	}
	bytes := c.ask.house.Tokenizer.TokenBytes(t)
	if utf8.Valid(bytes) {
		return string(bytes)
	}
	name := "bytes:"
	for _, b := range bytes {
		name += fmt.Sprintf(`\x%02x`, b)
	}
	return name
}
