package subserver

import (
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// leaver cancels a request as its home shows tokens for the nth time: the client's
// word comes before these tokens do.
type leaver struct {
	nth    int
	stream atomic.Pointer[Stream]
}

func (*leaver) Stepped(int, int64, int64, *scheduler.Batch, int) {}
func (*leaver) Event(int, *scheduler.Event)                      {}
func (l *leaver) Messages(_ int, _ int64, out []scheduler.Message) {
	for i := range out {
		if out[i].Kind != scheduler.Emit {
			continue
		}
		if l.nth--; l.nth == 0 {
			l.stream.Load().Cancel()
		}
	}
}

// Once a client that has left is told so, nothing follows, though steps that were
// in flight go on and tokens were on their way.
func TestNothingFollowsACancel(t *testing.T) {
	for nth := range 20 {
		l := &leaver{nth: nth + 1}
		small().with(t, func(c *Config) { c.Observer = l }, func(t *testing.T, sys *System) {
			s := submit(t, sys, long(1, 20))
			l.stream.Store(s)
			tokens := 0
			var err error
			for err == nil {
				var c Chunk
				c, err = s.Next(t.Context())
				tokens += len(c.Tokens)
			}
			time.Sleep(time.Second)
			if c, again := s.Next(t.Context()); !errors.Is(err, ErrCanceled) || again != err || tokens != nth {
				t.Fatalf("%d tokens, want %d, and %v; then %+v, %v", tokens, nth, err, c, again)
			}
			wantEmpty(t, sys)
		})
	}
}

// What a stop string ends is ended everywhere at once, not when its tokens are
// used up; and nothing follows.
func TestNothingIsWrittenBehindAStopString(t *testing.T) {
	for home := range 2 {
		small().with(t, func(c *Config) { c.NewDetokenizer = newFakeDetok }, func(t *testing.T, sys *System) {
			r := long(1, 1_000_000) // they would take hours
			r.Home, r.Stop = home, []string{"ab", "ca"}
			s := submit(t, sys, r)
			var err error
			for err == nil {
				_, err = s.Next(t.Context())
			}
			time.Sleep(time.Second)
			if why, _ := s.Reason(); err != io.EOF || why != scheduler.ReasonStop || s.StoppedBy() == "" {
				t.Errorf("ended by %v, %q, %v", why, s.StoppedBy(), err)
			}
			if c, again := s.Next(t.Context()); again != io.EOF {
				t.Errorf("then %+v, %v", c, again)
			}
			wantEmpty(t, sys)
		})
	}
}
