package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/internal/regular"
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
				f, err := regular.Open(name)
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
	log := bufio.NewReaderSize(in, 1<<14)
	first, _ := log.Peek(1 << 14) // what cannot be read is told by Replay
	if fix := repacked(first); fix != "" {
		return &usageError{fmt.Errorf("%s: %s", name, fix)}
	}
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
	fmt.Fprintf(out, "%s: %s\n", name, replayed(&rep))
	return nil
}

// repacked says what was done to a log that is one no longer, and how to undo it;
// "" if nothing was.
func repacked(first []byte) string {
	header, _, _ := bytes.Cut(first, []byte("\n"))
	switch {
	case bytes.HasPrefix(first, []byte("\x1f\x8b")):
		return "this is compressed by gzip\n  fix: gzip -dc LOG | tokenrouter replay -"
	case bytes.HasPrefix(first, []byte("{")) && bytes.HasSuffix(header, []byte("\r")):
		return "its lines end in CR LF, those of a log in LF\n  fix: tr -d '\\r' < LOG | tokenrouter replay -"
	}
	return ""
}

// replayed says what a replay has shown, and no more: behind the end of a log
// anything may have happened.
func replayed(r *subserver.Report) string {
	if r.Events == 0 {
		return "no event of " + strings.Join(r.Models, ", ") + ", so nothing to compare"
	}
	far := ""
	if r.Open > 0 {
		far = ", as far as the log goes"
	}
	text := fmt.Sprintf("the same again%s: %s, %s and %s of %s over %v", far,
		plural(int(r.Events), "event"), plural(int(r.Steps), "step"), plural(int(r.Messages), "message"), strings.Join(r.Models, ", "), time.Duration(r.EndNs).Round(time.Millisecond))
	if r.Open > 0 {
		text += "; " + plural(r.Open, "request") + " had not ended"
	}
	return text
}
