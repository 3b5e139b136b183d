package loadtest

import (
	"bytes"
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

// parse reads one event. Where a key comes twice both count.
func (c *chunk) parse(data []byte) error {
	*c = chunk{ids: -1, prompt: -1, output: -1}
	s := scanner{data: data}
	failed := false
	ok := s.object(func(key []byte) bool {
		switch string(key) {
		case "choices":
			return s.null() || s.array(func() bool { return c.choice(&s) })
		case "usage":
			return s.null() || c.usage(&s)
		case "text": // of /generate
			return c.shows(&s)
		case "meta_info":
			return s.null() || c.meta(&s)
		case "error":
			if s.null() {
				return true
			}
			failed = true
			return s.skip()
		case "object":
			raw, ok := s.text()
			failed = failed || string(raw) == "error"
			return ok
		}
		return s.skip()
	})
	if !ok || !s.end() {
		return failuref(KindJunk, "at byte %d of %s", s.at, data)
	}
	if failed {
		if c.err = messageIn(data); c.err == "" {
			c.err = cut(string(data))
		}
	}
	return nil
}

// shows reads text.
func (c *chunk) shows(s *scanner) bool {
	if s.null() {
		return true
	}
	raw, ok := s.text()
	c.text = c.text || len(raw) > 0
	return ok
}

func (c *chunk) choice(s *scanner) bool {
	c.choices = true
	return s.object(func(key []byte) bool {
		switch string(key) {
		case "text":
			return c.shows(s)
		case "delta":
			return s.null() || s.object(func(key []byte) bool {
				switch string(key) {
				case "content", "reasoning_content", "reasoning":
					return c.shows(s)
				}
				return s.skip()
			})
		case "finish_reason":
			return c.finish(s)
		case "token_ids":
			return s.null() || c.tokenIDs(s)
		}
		return s.skip()
	})
}

func (c *chunk) finish(s *scanner) bool {
	if s.null() {
		return true
	}
	c.finished = true
	return s.skip()
}

func (c *chunk) tokenIDs(s *scanner) bool {
	c.ids = max(c.ids, 0)
	return s.array(func() bool {
		c.ids++
		n, ok := s.count()
		return ok && n >= 0
	})
}

func (c *chunk) usage(s *scanner) bool {
	return s.object(func(key []byte) bool { return c.counts(s, key) })
}

// counts reads a member of a usage.
func (c *chunk) counts(s *scanner, key []byte) (ok bool) {
	switch string(key) {
	case "prompt_tokens":
		c.prompt, ok = s.count()
	case "completion_tokens":
		c.output, ok = s.count()
	default:
		ok = s.skip()
	}
	return ok
}

// meta reads what /generate tells beside the text.
func (c *chunk) meta(s *scanner) bool {
	c.choices = true
	return s.object(func(key []byte) bool {
		if string(key) == "finish_reason" {
			return c.finish(s)
		}
		return c.counts(s, key)
	})
}

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
	t := counter{answer: a, source: ByChunks, most: asked + overrun}
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
	most   int // tokens that a server may write
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
	if n > 0 && a.tokens+n <= t.most {
		a.Wrote(at, n, 0)
		n = 0
	}
	return t.overrun(n)
}

// overrun refuses n more tokens.
func (t *counter) overrun(n int) error {
	if n <= 0 {
		return nil
	}
	return failuref(KindOverrun, "%d tokens where %d were asked for", t.answer.tokens+n, t.most-overrun)
}

// end settles the number of tokens.
func (t *counter) end() error {
	if t.source == ByChunks && t.usage > 0 {
		if t.usage > t.most {
			return t.overrun(t.usage - t.answer.tokens)
		}
		t.source = ByFinalUsage
		t.answer.correct(t.usage)
	}
	t.answer.Source = t.source
	t.answer.Disagrees = t.source == ByTokenIDs && t.usage > 0 && t.usage != t.answer.tokens
	return nil
}
