// Command tokenrouter predicts, simulates, measures and compares ways to
// schedule token-level routing between language models, and runs them.
//
// Results go to standard output, everything else to standard error. It exits
// with 0 when all went well, 2 when what was asked for is wrong, 130 when it
// was interrupted and 1 when anything else failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/experiments/engines"
)

// Exit codes.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 128 + int(syscall.SIGINT)
)

func main() { os.Exit(program(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// program runs one command line and returns its exit code.
func program(args []string, in io.Reader, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first interrupt asks to stop; a second one, in default handling
	// again, ends the program at once.
	context.AfterFunc(ctx, stop)

	started := false
	root := newRoot(&started)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	refuseUnknown(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	return explain(errs, err, started, cmd.CommandPath())
}

// explain prints an error and returns the exit code for it. What cobra finds
// wrong before a verb has started is about the command line of that verb.
func explain(errs io.Writer, err error, started bool, verb string) int {
	var spec experiments.SpecErrors
	var stopped *experiments.Interrupted
	var wrong *usageError
	var occupied *experiments.OccupiedError
	var full *engines.MemoryError
	var busy *experiments.BusyError
	switch {
	case errors.As(err, &spec):
		// Bare, so that editors find the line.
		fmt.Fprintln(errs, spec)
		return exitUsage
	case errors.As(err, &stopped):
		fmt.Fprintln(errs, "tokenrouter:", err)
		return exitInterrupted
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		fmt.Fprintln(errs, "tokenrouter:", errInterrupted)
		return exitInterrupted
	case errors.As(err, &wrong), errors.As(err, &occupied), errors.As(err, &full), errors.As(err, &busy):
		fmt.Fprintln(errs, "tokenrouter:", err)
		return exitUsage
	case !started:
		fmt.Fprintf(errs, "tokenrouter: %v\n  fix: see %s --help\n", err, verb)
		return exitUsage
	}
	fmt.Fprintln(errs, "tokenrouter:", err)
	return exitFailed
}

var errInterrupted = errors.New("interrupted")

// interruptedOr tells an interrupt from what went wrong.
func interruptedOr(cmd *cobra.Command, err error) error {
	if errors.Is(err, context.Canceled) && cmd.Context().Err() != nil {
		return errInterrupted
	}
	return err
}

// usageError is about what was asked for, not about how it went.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func newRoot(started *bool) *cobra.Command {
	root := &cobra.Command{
		Use:   "tokenrouter",
		Short: "Predict, simulate, measure and compare schedulers for token-level LLM routing",
		Long: `tokenrouter answers questions about serving several language models that take
turns at writing one text: which requests to batch, how long to wait for more,
what a hand-off costs. The same scheduler is predicted by a Markov chain, played
by a simulator and run with real engines.

Results go to standard output, all else to standard error. The exit code is 0 if
all went well, 2 if what was asked for is wrong, 130 after an interrupt and 1 if
anything else failed.`,
		Example: `  tokenrouter list
  tokenrouter run quickstart
  tokenrouter tune quickstart --set workload.concurrency=16
  tokenrouter validate
  tokenrouter generate "Once upon a time"
  tokenrouter doctor`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			*started = true
		},
	}
	root.AddCommand(newRun(), newTune(), newValidate(), newGenerate(), newServe(), newDoctor(), newReplay(), newBench(), newList(), newProfile(), newVersion())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return plainFlagError(err) })
	inOwnOrder(root)
	return root
}

// refuseUnknown makes cobra's own verbs refuse what they do not know, where they
// would print help and call it a success.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, verb := range root.Commands() {
		switch verb.Name() {
		case "completion": // which takes no arguments, if it can be run
			verb.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case "help":
			verb.Run = nil
			verb.RunE = func(_ *cobra.Command, args []string) error {
				about, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 {
					return &usageError{fmt.Errorf("there is no verb %q\n  fix: see tokenrouter --help", strings.Join(args, " "))}
				}
				about.InitDefaultHelpFlag()
				return about.Help()
			}
		}
	}
}

// loadPlan reads and checks the experiment that a verb was given.
func loadPlan(name string, set []string) (*experiments.Plan, error) {
	file, src, err := experiments.Source(name)
	if err != nil {
		return nil, &usageError{err}
	}
	return experiments.Load(file, src, set...)
}
