package main

import (
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
line, and the exit code is then 1. LOG may be - for standard input.`,
		Example: `  tokenrouter replay results/served/events.log`,
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

func replay(out io.Writer, in io.Reader, name string) error {
	rep, err := subserver.Replay(in)
	var bad *subserver.LogError
	var diff *subserver.Difference
	switch {
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
