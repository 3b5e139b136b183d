package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenrouter/tokenrouter/backend/subserver"
)

func newReplay() *cobra.Command {
	return &cobra.Command{
		Use:   "replay LOG",
		Short: "Run the scheduler again over the event log of a real run",
		Long: `replay makes the cores that an event log describes, makes the same calls again
and compares every message and every batch with what the log says. It needs no
engine, no GPU and no time to pass. The first difference is printed with its
line, and the exit code is then 1. LOG may be - for standard input.

serve, generate, run and validate write event logs with --log.`,
		Example: `  tokenrouter generate --log events.log && tokenrouter replay events.log`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := cmd.InOrStdin()
			name := "standard input"
			if args[0] != "-" {
				name = args[0]
				f, err := os.Open(name)
				if err != nil {
					return &usageError{err}
				}
				defer f.Close()
				in = f
			}
			return replay(cmd.OutOrStdout(), in, name)
		},
	}
}

// howToLog is where logs come from.
const howToLog = "fix: have a real run write one: tokenrouter serve or generate --log FILE, or run or validate --log FOLDER on paced or cpu"

func replay(out io.Writer, in io.Reader, name string) error {
	log := bufio.NewReaderSize(in, 1<<12)
	first, _ := log.Peek(64) // what cannot be read is told by Replay
	rep, err := subserver.Replay(log)
	var bad *subserver.LogError
	var diff *subserver.Difference
	switch {
	case errors.As(err, &bad) && bytes.HasPrefix(first, []byte(`{"time_ns":`)):
		return &usageError{fmt.Errorf("%s: these are events of a simulation, as run --events writes them; they are no event log of a real run\n  %s", name, howToLog)}
	case errors.As(err, &bad) && bad.Line == 1:
		return &usageError{fmt.Errorf("%s:%d: %s\n  %s", name, bad.Line, bad.Problem, howToLog)}
	case errors.As(err, &bad):
		return &usageError{fmt.Errorf("%s:%d: %s", name, bad.Line, bad.Problem)}
	case errors.As(err, &diff):
		return fmt.Errorf("%s: %w", name, diff)
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(out, "%s: the same again: %d events, %d steps and %d messages of %s over %v\n", name,
		rep.Events, rep.Steps, rep.Messages, strings.Join(rep.Models, ", "), time.Duration(rep.EndNs).Round(time.Millisecond))
	return nil
}
