package frontdoor

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tokenrouter/tokenrouter/backend"
)

// choice is one answer to one prompt.
type choice struct {
	ask     *ask
	index   int
	prompt  int
	request Request
	stream  Stream

	tokens    []Token
	writers   []int
	text      strings.Builder
	top       []backend.Result
	offset    int // characters of the tokens' texts so far
	opened    bool
	over      bool
	counted   bool   // by metrics
	cached    int    // tokens of the prompt whose KV was there already
	finish    string // of finish_reason
	stop      any    // text or token that ended it, nil for EOS and length
	first     time.Time
	last      time.Time
	begun     time.Time // when the service began with it; zero: it does not know
	retracted int       // times that it lost its KV
}

// Ends of choices, as clients know them.
const (
	finishStop   = "stop"
	finishLength = "length"
	finishAbort  = "abort"
)

// take adds what came.
func (c *choice) take(ch *Chunk) {
	c.tokens = append(c.tokens, ch.Tokens...)
	for range ch.Tokens {
		c.writers = append(c.writers, ch.Writer)
	}
	c.text.WriteString(ch.Text)
	c.top = append(c.top, ch.Top...)
}

// end notes how the choice ended.
func (c *choice) end(e End) {
	c.over, c.finish, c.cached, c.begun, c.retracted = true, finishStop, e.Cached, e.Begun, e.Retracted
	switch {
	case e.Length:
		c.finish = finishLength
	case e.Stop != "":
		c.stop = e.Stop
	case len(c.tokens) > 0:
		if last := c.tokens[len(c.tokens)-1]; !slices.Contains(c.ask.house.EOS, last) {
			c.stop = last
		}
	}
}

// news is what a choice has to tell.
type news struct {
	choice *choice
	chunk  Chunk
	err    error // at its end: io.EOF if that is a good one
}

// merge reads all streams at once; the function that it returns waits for the
// next word of any that has not ended. It may be called until all have.
func merge(ctx context.Context, choices []*choice) func() news {
	if len(choices) == 1 {
		c := choices[0]
		return func() news {
			chunk, err := c.stream.Next(ctx)
			return news{c, chunk, err}
		}
	}
	all := make(chan news, len(choices))
	for _, c := range choices {
		go func() {
			for {
				chunk, err := c.stream.Next(ctx)
				select {
				case all <- news{c, chunk, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		}()
	}
	return func() news {
		for {
			select {
			case n := <-all:
				if !n.choice.over {
					return n
				}
			case <-ctx.Done(): // of all of them, one after the other
				i := slices.IndexFunc(choices, func(c *choice) bool { return !c.over })
				return news{choices[i], Chunk{}, ctx.Err()}
			}
		}
	}
}

// settle has the choice take in what it was told. An error is that of the ask: it
// does not go on.
func (n *news) settle(ctx context.Context) error {
	if n.err == nil {
		n.choice.take(&n.chunk)
		return nil
	}
	err := reason(ctx, n.err)
	switch {
	case err == io.EOF:
		n.choice.end(n.choice.stream.End())
	case errors.Is(err, errAborted):
		n.choice.over, n.choice.finish = true, finishAbort
	default:
		return err
	}
	return nil
}

// Why a door ends a request that has not ended by itself.
var (
	errAborted  = errors.New("the request was aborted")
	errShutdown = unavailable("the server is shutting down")
)

// reason tells what is behind the end of a stream: that of its context, if that
// was the cause.
func reason(ctx context.Context, err error) error {
	if !errors.Is(err, io.EOF) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
