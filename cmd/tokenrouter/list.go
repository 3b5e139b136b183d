package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/report"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
)

// listed are what list knows.
var listed = []string{"experiments", "systems", "algorithms", "profiles", "keys"}

func newList() *cobra.Command {
	return &cobra.Command{
		Use:   "list [experiments|systems|algorithms|profiles|keys]",
		Short: "List experiments, systems, algorithms, profiles and keys",
		Long: `list names what the program carries: experiments to run, the systems that they
compare, routing algorithms and step-time profiles. Keys, which are those of an
experiment file with their defaults, are listed when asked for.`,
		Example: `  tokenrouter list
  tokenrouter list profiles
  tokenrouter list keys`,
		ValidArgs: listed,
		Args: cobra.MatchAll(cobra.MaximumNArgs(1), func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && !slices.Contains(listed, args[0]) {
				return fmt.Errorf("there is no list of %q; there are those of %s", args[0], strings.Join(listed, ", "))
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			tables := map[string]func() (report.Table, error){
				"experiments": experimentTable,
				"systems":     systemTable,
				"algorithms":  func() (report.Table, error) { return names("Algorithm", algorithms.Names()), nil },
				"profiles":    profileTable,
				"keys":        keyTable,
			}
			shown := []string{"experiments", "systems", "algorithms", "profiles"}
			if len(args) == 1 {
				shown = args
			}
			for i, name := range shown {
				if i > 0 {
					cmd.Println()
				}
				t, err := tables[name]()
				if err != nil {
					return err
				}
				if err := printTable(cmd.OutOrStdout(), &t); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func names(head string, names []string) report.Table {
	t := report.Table{Columns: []report.Column{{Name: head, Key: true}}}
	for _, name := range names {
		t.Rows = append(t.Rows, []string{name})
	}
	return t
}

func experimentTable() (report.Table, error) {
	t := report.Table{Columns: []report.Column{{Name: "Experiment", Key: true}, {Name: "Question"}}}
	for _, name := range experiments.Names() {
		plan, err := loadPlan(name, nil)
		if err != nil {
			return t, err
		}
		t.Rows = append(t.Rows, []string{name, plan.Question})
	}
	return t, nil
}

func systemTable() (report.Table, error) {
	t := report.Table{Columns: []report.Column{{Name: "System", Key: true}, {Name: "What it does"}}}
	for _, s := range experiments.Systems {
		t.Rows = append(t.Rows, []string{s.Name, s.About})
	}
	t.Rows = append(t.Rows, []string{"single:NAME", "model NAME alone, no routing"})
	return t, nil
}

func profileTable() (report.Table, error) {
	t := report.Table{Columns: []report.Column{{Name: "Profile", Key: true}, {Name: "Origin"}}}
	for _, name := range steptime.Names() {
		p, err := steptime.Load(name)
		if err != nil {
			return t, err
		}
		t.Rows = append(t.Rows, []string{name, p.Origin})
	}
	return t, nil
}

func keyTable() (report.Table, error) {
	t := report.Table{Columns: []report.Column{{Name: "Key", Key: true}, {Name: "Value"}, {Name: "Default"}, {Name: "Meaning"}}}
	for _, k := range experiments.Keys() {
		t.Rows = append(t.Rows, []string{k.Path, k.Value, k.Default, k.Meaning})
	}
	return t, nil
}
