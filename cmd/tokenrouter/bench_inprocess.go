package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"
)

// inProcess is a server of this very process: the verb serve, as it would run by
// itself, at a free port of its own.
type inProcess struct {
	url  string
	stop context.CancelFunc
	done chan error
}

// startInProcess runs serve with these flags until close.
func startInProcess(cmd *cobra.Command, flags string) (*inProcess, error) {
	args := append([]string{"serve", "--host", "127.0.0.1", "--port", "0"}, strings.Fields(flags)...)
	started := false
	root := newRoot(&started)
	root.SetArgs(args)
	said := &announcement{rest: cmd.ErrOrStderr(), url: make(chan string, 1)}
	root.SetOut(io.Discard)
	root.SetErr(said)
	ctx, stop := context.WithCancel(cmd.Context())
	s := &inProcess{stop: stop, done: make(chan error, 1)}
	go func() { s.done <- root.ExecuteContext(ctx) }()
	select {
	case s.url = <-said.url:
		return s, nil
	case err := <-s.done:
		stop()
		switch {
		case cmd.Context().Err() != nil:
			return nil, errInterrupted
		case err == nil:
			return nil, errors.New("--in-process: serve ended before it served")
		case !started:
			return nil, &usageError{fmt.Errorf("--in-process: %w\n  fix: see tokenrouter serve --help", err)}
		}
		return nil, fmt.Errorf("--in-process: %w", err)
	}
}

// close lets the server end as it does when it is told to.
func (s *inProcess) close() error {
	s.stop()
	if err := <-s.done; err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("--in-process: %w", err)
	}
	return nil
}

// announcement finds the address in what serve says once it serves, and lets all
// else through.
type announcement struct {
	mu   sync.Mutex
	rest io.Writer
	text []byte // of the line at hand
	url  chan string
}

var servingAt = regexp.MustCompile(`^serving .* at (http://\S+)`)

func (a *announcement) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text = append(a.text, p...)
	for {
		end := bytes.IndexByte(a.text, '\n')
		if end < 0 {
			return len(p), nil
		}
		line := a.text[:end+1]
		if found := servingAt.FindSubmatch(line); found != nil {
			select {
			case a.url <- string(found[1]):
			default:
			}
		} else if _, err := a.rest.Write(line); err != nil {
			return 0, err
		}
		a.text = a.text[end+1:]
	}
}
