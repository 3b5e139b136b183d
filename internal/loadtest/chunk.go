package loadtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/tokenrouter/tokenrouter/internal/sse"
)

// chunk is what the reader of a stream looks at.
type chunk struct {
	text     bool // some is visible
	choices  bool // it has any
	ids      int  // token ids; -1: none are told
	finished bool
	prompt   int // usage; -1: not told
	output   int // usage, cumulative; -1: not told
	err      string
}

type wireChunk struct {
	Choices []struct {
		Text     string
		TokenIDs []int32 `json:"token_ids"`
		Delta    struct {
			Content          string
			ReasoningContent string `json:"reasoning_content"`
			Reasoning        string
		}
		FinishReason *string `json:"finish_reason"`
	}
	Usage *wireUsage
	Error json.RawMessage

	Object, Message string // of a flat error

	Text *string // of /generate
	Meta *struct {
		wireUsage
		FinishReason json.RawMessage `json:"finish_reason"`
	} `json:"meta_info"`
}

type wireUsage struct {
	Prompt int `json:"prompt_tokens"`
	Output int `json:"completion_tokens"`
}

// parse reads one event.
func (c *chunk) parse(data []byte) error {
	*c = chunk{ids: -1, prompt: -1, output: -1}
	var w wireChunk
	if err := json.Unmarshal(data, &w); err != nil {
		return failuref(KindJunk, "%v in %s", err, data)
	}
	if !null(w.Error) || w.Object == "error" {
		c.err = messageIn(data)
		if c.err == "" {
			c.err = cut(string(data))
		}
		return nil
	}
	if w.Usage != nil {
		c.prompt, c.output = w.Usage.Prompt, w.Usage.Output
	}
	for i := range w.Choices {
		choice := &w.Choices[i]
		c.choices = true
		d := &choice.Delta
		c.text = c.text || choice.Text != "" || d.Content != "" || d.ReasoningContent != "" || d.Reasoning != ""
		c.finished = c.finished || choice.FinishReason != nil
		if choice.TokenIDs != nil {
			c.ids = max(c.ids, 0) + len(choice.TokenIDs)
		}
	}
	if w.Meta != nil {
		c.choices, c.text = true, w.Text != nil && *w.Text != ""
		c.prompt, c.output, c.finished = w.Meta.Prompt, w.Meta.Output, !null(w.Meta.FinishReason)
	}
	return nil
}

func null(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// stamped notes when bytes were read: all that one read brought came then,
// however long it takes to go through them.
type stamped struct {
	r  io.Reader
	at time.Time
}

func (s *stamped) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.at = time.Now()
	return n, err
}

// maxEventBytes bounds an event: /generate repeats all text in each.
const maxEventBytes = 4 << 20

var done = []byte("[DONE]")

// read reads a stream to its end.
func (c *Client) read(body io.Reader, a *Answer, asked int) error {
	in := &stamped{r: body}
	events := sse.NewReader(in, maxEventBytes)
	t := counter{answer: a, source: ByChunks}
	for {
		data, err := events.Next()
		if errors.Is(err, io.EOF) && a.Finished {
			return t.end() // [DONE] is missing, and nothing else
		}
		if err != nil {
			return streamFailure(err, a)
		}
		if bytes.Equal(data, done) {
			if err := t.end(); err != nil {
				return err
			}
			drain(body, a)
			return nil
		}
		if err := t.take(data, in.at); err != nil {
			return err
		}
		if a.tokens > asked+overrun {
			return failuref(KindOverrun, "%d tokens where %d were asked for", a.tokens, asked)
		}
	}
}

// overrun is how many tokens beyond those asked for a server may write: some
// count the one that ends a text, some do not.
const overrun = 8

func streamFailure(err error, a *Answer) error {
	switch {
	case errors.Is(err, sse.ErrTooLong):
		return failuref(KindJunk, "%v", err)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return failuref(KindCut, "the stream ended after %d tokens", a.tokens)
	}
	return err
}

// drainPatience is how long the end of a stream may take after its last event.
const drainPatience = time.Second

// drain reads what follows the last event, nothing as a rule, so that the
// connection can be used again.
func drain(body io.Reader, a *Answer) {
	a.silence.Reset(drainPatience)
	_, _ = io.CopyN(io.Discard, body, 1024) // the answer is whole, whatever comes of it
}

// counter counts the tokens of one stream.
type counter struct {
	chunk  chunk
	answer *Answer
	source Source
	usage  int // the last that was told
}

// take counts what an event brings.
func (t *counter) take(data []byte, at time.Time) error {
	c, a := &t.chunk, t.answer
	if err := c.parse(data); err != nil {
		return err
	}
	if c.err != "" {
		return failuref(KindError, "%s", c.err)
	}
	if c.prompt > 0 {
		a.PromptTokens = c.prompt
	}
	a.Finished = a.Finished || c.finished
	n := 0
	switch {
	case c.ids >= 0:
		t.source, n = ByTokenIDs, c.ids
	case t.source == ByTokenIDs: // text that was held back
	case c.output > 0 && c.choices && (t.source == ByRunningUsage || !c.finished): // at the end all tell it
		t.source, n = ByRunningUsage, c.output-a.tokens
	case c.text:
		n = 1
	}
	if c.output >= 0 {
		t.usage = c.output
	}
	if n > 0 {
		a.Wrote(at, n, 0)
	}
	return nil
}

// end settles the number of tokens.
func (t *counter) end() error {
	if t.source == ByChunks && t.usage > 0 {
		t.source = ByFinalUsage
		t.answer.correct(t.usage)
	}
	t.answer.Source = t.source
	t.answer.Disagrees = t.source == ByTokenIDs && t.usage > 0 && t.usage != t.answer.tokens
	return nil
}
