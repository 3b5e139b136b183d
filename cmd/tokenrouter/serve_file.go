package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tokenrouter/tokenrouter/internal/nearest"
	"github.com/tokenrouter/tokenrouter/internal/regular"
)

// readFlags sets the flags that a file names and the command line does not.
func readFlags(cmd *cobra.Command, file string) error {
	text, err := regular.ReadFile(file)
	if err != nil {
		return &usageError{err}
	}
	var keys map[string]any
	meta, err := toml.Decode(string(text), &keys)
	if err != nil {
		var wrong toml.ParseError
		if errors.As(err, &wrong) {
			return &usageError{fmt.Errorf("%s:%d: %s", file, wrong.Position.Line, wrong.Message)}
		}
		return &usageError{fmt.Errorf("%s: %w", file, err)}
	}
	for _, key := range meta.Keys() {
		if err := setFlag(cmd.Flags(), key.String(), keys); err != nil {
			return &usageError{fmt.Errorf("%s:%d: %w", file, keyLine(string(text), key[0]), err)}
		}
	}
	return nil
}

// setFlag sets a flag to what a file says, unless the command line does.
func setFlag(flags *pflag.FlagSet, name string, keys map[string]any) error {
	f := flags.Lookup(name)
	if f == nil || name == "help" {
		return fmt.Errorf("there is no setting %s\n  fix: %s", name, likelySetting(flags, name))
	}
	if f.Changed {
		return nil
	}
	list, ok := keys[name].([]any)
	if ok && !strings.HasSuffix(f.Value.Type(), "Slice") {
		return fmt.Errorf("%s is one value, not a list", name)
	}
	if !ok {
		list = []any{keys[name]}
	}
	if len(list) == 0 {
		return fmt.Errorf("%s is an empty list\n  fix: give it a value, or leave it out", name)
	}
	for _, value := range list { // a list's first value takes the place of the default
		if err := flags.Set(name, fmt.Sprint(value)); err != nil {
			return plainFlagError(err)
		}
	}
	return nil
}

// likelySetting says what a name that is none may have meant.
func likelySetting(flags *pflag.FlagSet, name string) string {
	var known []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			known = append(known, f.Name)
		}
	})
	if near := nearest.Names(name, known); len(near) > 0 {
		return "did you mean " + strings.Join(near, ", ") + "?"
	}
	return "see tokenrouter serve --help"
}

// keyLine is the line of a text of TOML on which a key of its top level stands,
// or a table of that name; the last line if it stands nowhere, as a name in
// escapes does. The decoder tells no lines.
func keyLine(text, name string) int {
	n := 0
	for line := range strings.Lines(text) {
		n++
		rest, ok := strings.CutPrefix(strings.TrimLeft(line, " \t[\"'"), name)
		if ok && strings.IndexAny(strings.TrimLeft(rest, " \t\"'"), "=.]") == 0 {
			break
		}
	}
	return n
}
