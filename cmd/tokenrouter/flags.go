package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/experiments/engines"
)

// inOwnOrder lists flags in help as they were made: one explains the next.
func inOwnOrder(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	for _, verb := range cmd.Commands() {
		inOwnOrder(verb)
	}
}

// plainFlagError says what a value should have been, where a flag's error names
// the function that could not read it.
func plainFlagError(err error) error {
	var value *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &value) || !errors.As(err, &number) {
		return err
	}
	want := "a number"
	switch {
	case errors.Is(number, strconv.ErrRange):
		want = "a number nearer to 0"
	case number.Func == "ParseBool":
		want = "true or false"
	case number.Func == "ParseUint":
		want = "a whole number of at least 0"
	case strings.HasSuffix(value.GetFlag().Value.Type(), "Slice"):
		want = "whole numbers with commas between"
	case number.Func == "ParseInt" || number.Func == "Atoi":
		want = "a whole number"
	}
	return fmt.Errorf("--%s must be %s, got %q", value.GetFlag().Name, want, value.GetValue())
}

// wantValues refuses flags that were given with nothing in them, as a shell does
// with a variable that is not set.
func wantValues(f *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if text := f.Lookup(name).Value.String(); f.Changed(name) && (text == "" || text == "[]") {
			return fmt.Errorf("--%s is empty\n  fix: give it a value, or leave it out", name)
		}
	}
	return nil
}

// needFlags refuses a command line without these flags.
func needFlags(cmd *cobra.Command, names ...string) error {
	var missing []string
	for _, name := range names {
		if cmd.Flag(name).Value.String() == "" {
			missing = append(missing, "--"+name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &usageError{fmt.Errorf("%s needs %s\n  fix: see %s --help", cmd.Name(), strings.Join(missing, ", "), cmd.CommandPath())}
}

func addSet(cmd *cobra.Command, set *[]string) {
	cmd.Flags().StringArrayVar(set, "set", nil, "`path=value` to put over the file's, value as in TOML; may be repeated")
}

// modelFlag says what models the flags of verbs take.
const modelFlag = "`folder` with config.json and *.safetensors; random:NAME for made-up weights of a known shape; toy:qwen3 or toy:llama"

// complete offers the values of a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic("tokenrouter: " + err.Error())
	}
}

// completeModels offers models that need no folder, and folders.
func completeModels(cmd *cobra.Command, flags ...string) {
	for _, flag := range flags {
		err := cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return engines.Names(), cobra.ShellCompDirectiveDefault
		})
		if err != nil {
			panic("tokenrouter: " + err.Error())
		}
	}
}

// completeExperiment offers the experiments that the program carries, and files.
func completeExperiment(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return experiments.Names(), cobra.ShellCompDirectiveDefault
}

// seconds is a time that a flag gives. More than a Duration holds is a century.
func seconds(s float64) time.Duration {
	const century = 100 * 365 * 24 * 3600
	return time.Duration(min(s, century) * float64(time.Second))
}
