package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/experiments/engines"
	"github.com/tokenrouter/tokenrouter/experiments/output"
)

// runOptions are the flags of run.
type runOptions struct {
	on      []string
	out     string
	workers int
	json    bool
	dryRun  bool
	events  int64
	logs    string
	set     []string
}

func newRun() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run FILE|NAME",
		Short: "Run an experiment",
		Long: `run evaluates every cell of an experiment, prints what came out and writes one
folder: results.csv (a row for each cell, intervals over seeds), results.jsonl
(a line for each run, with all settings), plots, report.html, a timeline for
ui.perfetto.dev, and run.log.

A run that was interrupted goes on where it stopped when the same command is
given again. When the experiment file has changed in between, the cells that
this changes are run again and no others.`,
		Example: `  tokenrouter run quickstart
  tokenrouter run b-sweep --on dtmc --set workload.concurrency=32
  tokenrouter run my.toml --set 'sweep.models.large.B=[1, 4]' --out results/mine
  tokenrouter run schedules --json
  tokenrouter run quickstart --events 100000
  tokenrouter run my.toml --dry-run`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeExperiment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args[0])
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.on, "on", nil, "where to run instead: "+strings.Join(experiments.Places, ", "))
	f.StringVar(&o.out, "out", "", "folder for results (default results/NAME)")
	f.IntVar(&o.workers, "workers", 0, "cells at once (default: one for each CPU)")
	f.BoolVar(&o.json, "json", false, "print one JSON object for each cell and seed instead of tables")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the resolved experiment and run nothing")
	f.Int64Var(&o.events, "events", 0, "also write the first `N` events of one simulated cell, the timeline's, to events.jsonl")
	f.StringVar(&o.logs, "log", "", logsFlag)
	addSet(cmd, &o.set)
	complete(cmd, "on", experiments.Places...)
	return cmd
}

func (o *runOptions) run(cmd *cobra.Command, name string) error {
	if err := wantValues(cmd.Flags(), "on", "out", "log"); err != nil {
		return &usageError{err}
	}
	if o.workers < 1 && cmd.Flags().Changed("workers") {
		return &usageError{fmt.Errorf("--workers must be at least 1, got %d", o.workers)}
	}
	if o.events < 0 {
		return &usageError{fmt.Errorf("--events must be at least 0, got %d", o.events)}
	}
	set := o.set
	if len(o.on) > 0 {
		set = append(set[:len(set):len(set)], "on="+strings.Join(o.on, ","))
	}
	plan, err := loadPlan(name, set)
	if err != nil {
		return o.named(err)
	}
	if o.dryRun {
		return printPlan(cmd.OutOrStdout(), plan)
	}
	if o.out == "" {
		o.out = filepath.Join("results", plan.Name)
	}
	evaluate, err := evaluateWithLogs(o.logs, plan)
	if err != nil {
		return err
	}
	start := time.Now()
	bar := newProgress(cmd.ErrOrStderr())
	results, err := experiments.Run(cmd.Context(), plan, experiments.Options{
		Evaluate:  evaluate,
		Workers:   o.workers,
		Out:       o.out,
		Version:   version(),
		Build:     build(),
		Progress:  bar.update,
		Measuring: func(runs int, s float64) { warnMeasuring(cmd, runs, s) },
	})
	bar.stop()
	if err != nil {
		return err
	}
	if !o.json && !slices.ContainsFunc(results.Records, shows) {
		return failures(results, o.out) // a table and a report of nothing would hide the reason
	}
	if _, err := output.Write(results, o.out, o.command(name)); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := o.writeEvents(cmd, results); err != nil {
		return err
	}
	if err := o.print(cmd.OutOrStdout(), results); err != nil {
		return err
	}
	for _, w := range results.Warnings() {
		cmd.PrintErrln("warning: " + w)
	}
	if o.logs != "" && results.Reused > 0 {
		cmd.PrintErrln("warning: runs that were taken over have left no event log in " + o.logs + "; with another --out they are run again")
	}
	cmd.PrintErrf("%d runs in %.1f s, %d taken over; wrote %s\n", results.Ran, time.Since(start).Seconds(), results.Reused, filepath.Join(o.out, output.ReportHTML))
	return failures(results, o.out)
}

// shows reports whether a cell has figures.
func shows(r experiments.Record) bool { return r.Status == experiments.StatusOK }

// warnMeasuring says what a run in real time asks of people.
func warnMeasuring(cmd *cobra.Command, measured int, s float64) {
	if measured == 0 {
		return
	}
	cmd.PrintErrf("%d runs are measured, one after the other%s: let nothing else run meanwhile\n", measured, lasting(s))
	const quiet = 0.5
	if busy := engines.Busy(); busy > quiet {
		cmd.PrintErrf("warning: other programs kept %.1f of %d cores busy over the last minute; figures will suffer\n", busy, runtime.NumCPU())
	}
}

// lasting says how long runs of a known length take; nothing of others.
func lasting(s float64) string {
	if s == 0 {
		return ""
	}
	return fmt.Sprintf(", %v in all", seconds(s).Round(time.Second))
}

// writeEvents writes what --events asks for.
func (o *runOptions) writeEvents(cmd *cobra.Command, results *experiments.Results) error {
	if o.events == 0 {
		return nil
	}
	said, err := output.WriteEvents(results, o.out, o.events)
	switch {
	case errors.Is(err, output.ErrNoSimulation):
		return &usageError{fmt.Errorf("--events: %w\n  fix: add --on sim", err)}
	case err != nil:
		return err
	}
	cmd.PrintErrf("wrote %s: %s\n", filepath.Join(o.out, output.EventsJSONL), said)
	return nil
}

// named tells errors about --on by that name: it is carried out as a --set.
func (o *runOptions) named(err error) error {
	var all experiments.SpecErrors
	if len(o.on) > 0 && errors.As(err, &all) {
		for _, e := range all {
			if e.Line == 0 && (e.Path == "on" || strings.HasPrefix(e.Path, "on[")) {
				e.File, e.Path = "--on", ""
			}
		}
	}
	return err
}

// command is how to repeat the run.
func (o *runOptions) command(name string) string {
	parts := []string{"tokenrouter", "run", quote(name)}
	if len(o.on) > 0 {
		parts = append(parts, "--on", strings.Join(o.on, ","))
	}
	for _, s := range o.set {
		parts = append(parts, "--set", quote(s))
	}
	return strings.Join(parts, " ")
}

// quote protects a word from the shell.
func quote(s string) string {
	if strings.ContainsAny(s, " \t\n\"'`$&|;<>()[]{}*?!~#\\") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

func (o *runOptions) print(out io.Writer, results *experiments.Results) error {
	if o.json {
		w := bufio.NewWriter(out)
		for i := range results.Records {
			w.Write(results.JSON(i))
			w.WriteByte('\n')
		}
		return w.Flush()
	}
	answers, table := output.Summary(results)
	for _, a := range answers {
		fmt.Fprintln(out, a)
	}
	if table == nil {
		return nil
	}
	if len(answers) > 0 {
		fmt.Fprintln(out)
	}
	return printTable(out, table)
}

func failures(results *experiments.Results, out string) error {
	if reason := results.NothingApplies(); reason != "" {
		return &usageError{fmt.Errorf("nothing that was asked can be shown: %s", reason)}
	}
	n := results.Failures()
	if n == 0 {
		return nil
	}
	for _, r := range results.Records {
		if r.Status == experiments.StatusError {
			return fmt.Errorf("%d of %d cells failed, the first with: %s\n  fix: see %s; the same command tries them again",
				n, len(results.Records), r.Reason, filepath.Join(out, experiments.RunLog))
		}
	}
	return nil
}

// printPlan shows what a run would do: every setting, with defaults marked.
func printPlan(out io.Writer, p *experiments.Plan) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "question = %q\non = %s\nsystems = %s\nseeds = %v\n", p.Question, experiments.TOML(p.On), experiments.TOML(p.Systems), experiments.TOML(p.Seeds))
	fmt.Fprintf(w, "# %d cells, %d runs (cells that must give equal results share one)\n", len(p.Cells), p.Runs())
	if measured, s := p.MeasuredRuns(); measured > 0 {
		fmt.Fprintf(w, "# %d of them measured, one after the other%s\n", measured, lasting(s))
	}
	fmt.Fprintln(w)
	for _, s := range p.Points[0].Settings {
		comment := ""
		if s.Default {
			comment = "  # default"
		}
		if values := p.SweptValues(s.Path); values != nil {
			fmt.Fprintf(w, "%s = %s  # swept, the last key fastest\n", s.Path, experiments.TOML(values))
			continue
		}
		if len(p.Values(s.Path)) > 1 {
			comment += ", by what is swept"
		}
		fmt.Fprintf(w, "%s = %s%s\n", s.Path, p.ValueText(s.Path), comment)
	}
	return w.Flush()
}
