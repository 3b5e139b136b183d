package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// Probed is what a server turned out to take, in words for people.
type Probed struct {
	Prompts string // what prompts are made of
	Counted Source // how tokens will be counted
	Notes   []string
}

const (
	probePrompt = 32
	probeOutput = 2
)

// Probe asks a server a few short questions, which no figure counts, to find
// out what it takes: prompts of ids, answers of a set length, token ids in its
// chunks. It makes the client ask that way. A server that answers none is an
// error: what it said to the plainest question.
func (c *Client) Probe(ctx context.Context, patience time.Duration) (*Probed, error) {
	if c.Model == "" && c.API != Generate {
		var err error
		if c.Model, err = c.FirstModel(ctx); err != nil {
			return nil, fmt.Errorf("no list of models: %w", err)
		}
	}
	p := &Probed{Prompts: "token ids"}
	var a *Answer
	var err error
	for _, way := range c.ways() {
		said := err
		c.Text, c.Plain, c.Vocab = way.text, way.plain, way.vocab
		a, err = c.probe(ctx, probePrompt, patience)
		if !isRefused(err) {
			if err == nil && said != nil {
				p.Notes = append(p.Notes, fmt.Sprintf("asked in a plainer way, since the server said %v", said))
			}
			break
		}
	}
	if err != nil {
		return nil, err
	}
	c.TokenIDs = a.Source == ByTokenIDs
	p.Counted = a.Source
	if c.Plain {
		p.Notes = append(p.Notes, "answers may end before their length: the server takes no ignore_eos")
	}
	if !c.Text {
		return p, nil
	}
	p.Prompts = "words"
	if err := c.calibrate(ctx, patience); err != nil {
		return nil, err
	}
	if c.TokensPer == 0 {
		p.Notes = append(p.Notes, "a word is taken for a token: the server does not tell how long prompts are")
	}
	return p, nil
}

// isRefused reports whether a server found the question itself wrong.
func isRefused(err error) bool {
	return errors.Is(err, &Failure{Kind: "http 400"}) || errors.Is(err, &Failure{Kind: "http 422"})
}

type way struct {
	text, plain bool
	vocab       int
}

// byteVocab is the least that a vocabulary holds: toys have no more.
const byteVocab = 256

// ways lists how to ask, the most exact first. A caller who wants text, or
// nothing beyond OpenAI's protocol, gets no more than that.
func (c *Client) ways() []way {
	var out []way
	for _, w := range []way{{false, false, c.Vocab}, {false, false, min(c.Vocab, byteVocab)}, {true, false, c.Vocab}, {true, true, c.Vocab}} {
		if (w.text || !c.Text && c.API != Chat) && (w.plain || !c.Plain) && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// probe sends one request.
func (c *Client) probe(ctx context.Context, prompt int, patience time.Duration) (*Answer, error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &Answer{start: time.Now(), patience: patience, progress: &Progress{}}
	a.silence = time.AfterFunc(patience, func() { cancel(errSilence) })
	defer a.silence.Stop()
	err := c.Ask(inner, &workload.Request{Seed: uint64(prompt), Prompt: prompt, Output: probeOutput}, a)
	switch {
	case err == nil && a.tokens == 0:
		return nil, &Failure{KindEmpty, "the answer to a short question holds none"}
	case err == nil:
		return a, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, failureOf(err, context.Cause(inner), a.tokens)
}

// calibrate finds out how many tokens a word is, and how many a prompt has
// beyond its words, from two prompts.
func (c *Client) calibrate(ctx context.Context, patience time.Duration) error {
	c.TokensPer, c.TokensMore = 0, 0
	const few, many = 16, 272
	var got [2]int
	for i, n := range []int{few, many} {
		a, err := c.probe(ctx, n, patience)
		if err != nil {
			return err
		}
		got[i] = a.PromptTokens
	}
	per := float64(got[1]-got[0]) / (many - few)
	if got[0] == 0 || per < 0.1 || per > 10 {
		return nil
	}
	c.TokensPer = per
	c.TokensMore = math.Max(float64(got[0])-few*per, 0)
	return nil
}
