package subserver

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Stream is what a client holds of its request. Chunks wait in it until they
// are fetched, so a slow client delays nobody; MaxTokens bounds them.
type Stream struct {
	id     scheduler.RequestID
	cancel func()
	gone   atomic.Bool // Cancel was called
	detach func() bool // from the context of Submit

	mu     sync.Mutex
	chunks []Chunk
	next   int // of chunks
	ended  bool
	reason scheduler.Reason
	err    error
	stop   string
	cached int
	wake   chan struct{}
}

func newStream(id scheduler.RequestID, cancel func()) *Stream {
	return &Stream{id: id, cancel: cancel, wake: make(chan struct{}, 1)}
}

// ID is the request's id in the whole system.
func (s *Stream) ID() scheduler.RequestID { return s.id }

// Next waits for the next chunk. After the last it returns io.EOF if the
// request ran to its end, an *EndError if it was refused or broken off. If ctx
// ends first, its error comes back and the request goes on. One goroutine at a
// time may call it.
func (s *Stream) Next(ctx context.Context) (Chunk, error) {
	for {
		c, ok, err := s.poll()
		if ok {
			return c, err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return Chunk{}, ctx.Err()
		}
	}
}

func (s *Stream) poll() (c Chunk, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next < len(s.chunks) {
		c = s.chunks[s.next]
		s.chunks[s.next] = Chunk{}
		s.next++
		if s.next == len(s.chunks) {
			s.chunks, s.next = s.chunks[:0], 0
		}
		return c, true, nil
	}
	if !s.ended {
		return Chunk{}, false, nil
	}
	if s.err != nil {
		return Chunk{}, true, s.err
	}
	return Chunk{}, true, io.EOF
}

// Reason says why the request ended, and whether it has.
func (s *Stream) Reason() (why scheduler.Reason, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason, s.ended
}

// Err is what Next returns after the last chunk, nil in place of io.EOF and
// before the end.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// StoppedBy is the stop string that ended the request, "" if none did.
func (s *Stream) StoppedBy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop
}

// Cached counts the tokens of the prompt whose KV the home had when the first of
// the request's steps began there; 0 until the first chunk.
func (s *Stream) Cached() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cached
}

// Cancel tells that the client has gone: the request leaves every model, and
// Next returns ErrCanceled. It may be called at any time, more than once.
func (s *Stream) Cancel() {
	s.gone.Store(true)
	s.cancel()
}

func (s *Stream) push(c Chunk) {
	s.mu.Lock()
	s.cached = max(s.cached, c.Cached)
	s.chunks = append(s.chunks, c)
	s.mu.Unlock()
	s.ring()
}

func (s *Stream) end(why scheduler.Reason, stop string, err error) {
	s.mu.Lock()
	if s.ended {
		panic("subserver: a request ended twice")
	}
	s.ended, s.reason, s.stop, s.err = true, why, stop, err
	s.mu.Unlock()
	if s.detach != nil {
		s.detach()
	}
	s.ring()
}

func (s *Stream) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
