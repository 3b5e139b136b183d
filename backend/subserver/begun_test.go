package subserver

import (
	"io"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// chunks reads a stream to its end.
func chunks(t *testing.T, s *Stream) (list []Chunk) {
	t.Helper()
	for {
		c, err := s.Next(t.Context())
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
}

// How long a request waited, and how long its prompt took, are two things.
func TestChunksTellWhenWorkBegan(t *testing.T) {
	p := small()
	p.maxRunning = 1
	p.with(t, nil, func(t *testing.T, sys *System) {
		var streams []*Stream
		for id := range 2 {
			r := long(scheduler.RequestID(id+1), 5)
			r.Routing.Alone = true
			streams = append(streams, submit(t, sys, r))
		}
		first, second := chunks(t, streams[0]), chunks(t, streams[1])
		// A step of the first model takes 10 ms and 1 ms a row: the prompt has 3.
		prefill, all := 13*time.Millisecond, (13+4*11)*time.Millisecond
		for i, c := range []struct {
			list  []Chunk
			begun time.Duration
		}{{first, 0}, {second, all}} {
			for _, chunk := range c.list {
				if chunk.BegunNs != c.begun.Nanoseconds() || chunk.Retracted != 0 {
					t.Errorf("request %d: begun after %d ns, want %d: %+v", i, chunk.BegunNs, c.begun, chunk)
				}
			}
			if got := c.list[0].AtNs - c.begun.Nanoseconds(); got != prefill.Nanoseconds() {
				t.Errorf("request %d: its prompt took %d ns, want %d", i, got, prefill)
			}
		}
	})
}

// Who loses its KV is told so, as often as it does.
func TestChunksTellOfLostKV(t *testing.T) {
	p := small()
	p.kvTokens = 24 // of two requests that grow to 15 tokens each
	p.with(t, nil, func(t *testing.T, sys *System) {
		var streams []*Stream
		for id := range 2 {
			r := long(scheduler.RequestID(id+1), 12)
			r.Routing.Alone = true
			streams = append(streams, submit(t, sys, r))
		}
		first, second := chunks(t, streams[0]), chunks(t, streams[1])
		told := first[len(first)-1].Retracted + second[len(second)-1].Retracted
		if n := sys.Stats()[0].Retracted; n == 0 || int64(told) != n {
			t.Errorf("clients are told of %d times, %d were counted", told, n)
		}
	})
}
