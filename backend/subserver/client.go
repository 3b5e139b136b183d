package subserver

import (
	"slices"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// clientWord is what the client loop hears, from clients and from the decode
// loop.
type clientWord struct {
	kind    clientKind
	id      scheduler.RequestID
	request *Request // submitted
	stream  *Stream  // submitted
	chunk   Chunk    // wrote; without text
	reason  scheduler.Reason
	cause   error  // of an end that is not the request's own; nil otherwise
	detail  string // beside cause
}

type clientKind uint8

const (
	submitted clientKind = iota // a client asks
	canceled                    // a client has gone
	wrote                       // the core shows tokens
	over                        // the core has ended or refused the request
)

// session is a request whose client this subserver talks to.
type session struct {
	stream *Stream
	teller teller
	shown  int  // tokens that the client has seen, the prompt included
	ended  bool // for the client; the core may not know yet
}

// clientLoop takes requests in and streams tokens out. It does the work that
// depends on text, so that the decode loop never waits for it.
func (s *subserver) clientLoop() {
	defer s.sys.running.Done()
	sessions := map[scheduler.RequestID]*session{}
	var spare []clientWord
	for {
		words, ok := s.clients.take(spare)
		if !ok {
			return
		}
		for i := range words {
			s.hear(sessions, &words[i])
		}
		spare = words
	}
}

func (s *subserver) hear(sessions map[scheduler.RequestID]*session, w *clientWord) {
	if w.kind == submitted {
		sessions[w.id] = s.admit(w)
		if !w.stream.gone.Load() {
			return
		}
		// The client was gone before it came, and that word may have come first.
		w = &clientWord{kind: canceled, id: w.id}
	}
	c, known := sessions[w.id]
	switch {
	case !known && w.kind == canceled: // it was over
	case !known:
		panic("subserver: a core speaks of a request that no client has")
	case w.kind == over:
		delete(sessions, w.id)
		if !c.ended {
			c.finish(w)
		}
		s.sys.door.leave(w.id)
	case c.ended: // what was written meanwhile is not for the client
	case w.kind == canceled:
		c.ended = true
		c.stream.end(scheduler.ReasonAbort, "", &EndError{w.id, scheduler.ReasonAbort, ErrCanceled, ""})
		s.inbox.put(word{event: scheduler.Event{Kind: scheduler.Aborted, Request: w.id}})
	default:
		if c.write(w.chunk) {
			s.inbox.put(word{event: scheduler.Event{Kind: scheduler.Stop, Request: w.id}})
		}
	}
}

func (s *subserver) admit(w *clientWord) *session {
	r := w.request
	s.inbox.put(word{request: r, event: scheduler.Event{Kind: scheduler.Arrived, Request: w.id, Arrival: &scheduler.Arrival{
		ID: w.id, Seed: r.Seed, Prompt: r.Prompt, MaxTokens: r.MaxTokens, EOS: r.EOS}}})
	return s.sys.cfg.newSession(r, w.stream)
}

func (c *Config) newSession(r *Request, stream *Stream) *session {
	detok := r.Detokenizer
	if detok == nil && c.NewDetokenizer != nil {
		detok = c.NewDetokenizer()
	}
	return &session{stream: stream, teller: newTeller(r, detok), shown: len(r.Prompt)}
}

// write shows tokens to the client and reports whether they ended the request.
func (c *session) write(chunk Chunk) (stopped bool) {
	if chunk.Start != c.shown {
		panic("subserver: tokens were lost or shown twice")
	}
	n, text, stop := c.teller.take(chunk.Tokens)
	chunk.Tokens, chunk.Text = chunk.Tokens[:n], text
	if chunk.Top != nil {
		chunk.Top = chunk.Top[:n]
	}
	c.shown += n
	c.stream.push(chunk)
	if stop != "" {
		c.ended = true
		c.stream.end(scheduler.ReasonStop, stop, nil)
	}
	return stop != ""
}

// finish tells the client of the end that the core has told.
func (c *session) finish(w *clientWord) {
	c.ended = true
	if w.cause != nil {
		c.stream.end(w.reason, "", &EndError{w.id, w.reason, w.cause, w.detail})
		return
	}
	text, stop := c.teller.rest()
	if text != "" {
		c.stream.push(Chunk{Start: c.shown, Text: text, AtNs: w.chunk.AtNs, Writer: w.chunk.Writer})
	}
	if stop != "" {
		w.reason = scheduler.ReasonStop
	}
	c.stream.end(w.reason, stop, nil)
}

// checkRequest says what is wrong with a request before anything knows of it.
func (s *System) checkRequest(r *Request) error {
	if err := s.cfg.checkRequest(r); err != nil {
		return err
	}
	if r.Home < 0 || r.Home >= len(s.subs) || s.subs[r.Home] == nil {
		return requestErrorf("Home", "is model %d, which this process does not have", r.Home)
	}
	home := s.subs[r.Home]
	vocab := home.engine.Info().Vocab
	switch {
	case len(r.Prompt) == 0:
		return requestErrorf("Prompt", "is empty, want at least one token")
	case r.MaxTokens < 1:
		return requestErrorf("MaxTokens", "is %d, want at least 1", r.MaxTokens)
	case r.Logprobs > vocab:
		return requestErrorf("Logprobs", "is %d, want at most the %d tokens of the vocabulary", r.Logprobs, vocab)
	case len(r.Prompt)+1 > s.maxContext:
		return &RequestError{"Prompt", "has more tokens than a model's context holds", ErrTooLong}
	}
	for _, list := range []struct {
		field  string
		tokens []algorithms.Token
	}{{"Prompt", r.Prompt}, {"EOS", r.EOS}} {
		for _, t := range list.tokens {
			if t < 0 || int(t) >= vocab {
				return requestErrorf(list.field, "has token %d, which is not in the vocabulary of %d", t, vocab)
			}
		}
	}
	return r.Sampling.Validate(vocab)
}

// checkRequest says what is wrong with a request in itself, whichever models
// read it.
func (c *Config) checkRequest(r *Request) error {
	switch {
	case len(r.Stop) > 0 && c.NewDetokenizer == nil && r.Detokenizer == nil:
		return requestErrorf("Stop", "needs a tokenizer, and this system has none")
	case slices.Contains(r.Stop, ""):
		return requestErrorf("Stop", "has an empty string, want text")
	}
	if _, err := c.route(&r.Routing); err != nil {
		return &RequestError{"Routing", err.Error(), err}
	}
	return nil
}

// ownCopy copies what outlives Submit and fills in what follows from the rest.
func (s *System) ownCopy(r *Request) *Request {
	own := *r
	own.Prompt, own.EOS = slices.Clone(r.Prompt), slices.Clone(r.EOS)
	own.Stop = slices.Clone(r.Stop)
	own.MaxTokens = min(r.MaxTokens, s.maxContext-len(r.Prompt))
	own.Sampling = cloneSampling(&r.Sampling)
	if own.Sampling.Ends == nil {
		own.Sampling.Ends = own.EOS
	}
	if own.counted == 0 {
		own.counted = len(own.Prompt)
	}
	return &own
}

func cloneSampling(s *backend.Sampling) backend.Sampling {
	own := *s
	own.LogitBias, own.Ends = slices.Clone(s.LogitBias), slices.Clone(s.Ends)
	return own
}
