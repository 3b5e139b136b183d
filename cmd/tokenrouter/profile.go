package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
	"github.com/tokenrouter/tokenrouter/internal/regular"
	"github.com/tokenrouter/tokenrouter/internal/report"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/internal/steptime/evidence"
)

func newProfile() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Make, show and check step-time profiles",
		Long: `A profile says how long a step of one model takes on one GPU type under one
engine version. The ones that the program carries are listed by
tokenrouter list profiles.`,
		Example: `  tokenrouter profile show a100-80gb/sglang-0.5.10/qwen3-8b-tp1
  tokenrouter profile import steps.csv --gpu a100-80gb --model qwen3-8b --engine sglang --engine-version 0.5.10 --origin "our bench" --licence Apache-2.0
  tokenrouter profile roofline --gpu h200 --config qwen3-8b --tp 2
  tokenrouter profile measure --model random:qwen3-58m --out mine.toml
  tokenrouter profile check`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{fmt.Errorf("profile needs to know what to do\n  fix: use show, import, roofline, measure or check")}
		},
	}
	cmd.AddCommand(newProfileShow(), newProfileImport(), newProfileRoofline(), newProfileMeasure(), newProfileCheck())
	return cmd
}

func newProfileShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME|FILE",
		Short: "Print a profile with its origin and notes",
		Example: `  tokenrouter profile show a100-80gb/sglang-0.5.10/qwen3-8b-tp1
  tokenrouter profile show mine.toml`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return steptime.Names(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := steptime.Find(args[0])
			if err != nil {
				return &usageError{err}
			}
			return steptime.WriteTOML(cmd.OutOrStdout(), p)
		},
	}
}

func newProfileImport() *cobra.Command {
	var meta steptime.Meta
	var out, notes string
	cmd := &cobra.Command{
		Use:   "import FILE.csv",
		Short: "Make a profile of measured step times",
		Long: `import reads measured step times and prints the profile that they make. The
first line of the CSV file names the columns, in any order:

  requests  in the step
  rows      token positions fed in all, at least requests; left out: one a request
  context   tokens of each request; left out: it does not matter
  ms        how long the step took, CPU time included

Every combination of the values has to be there; of a step measured several
times the median counts. Extra rows (rows - requests) have to be the same for
every number of requests. FILE.csv may be - for standard input.`,
		Example: `  tokenrouter profile import steps.csv --gpu a100-80gb --model qwen3-8b --engine sglang --engine-version 0.5.10 --origin "our bench" --licence Apache-2.0 --out mine.toml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needFlags(cmd, "origin", "licence", "engine", "engine-version", "gpu", "model"); err != nil {
				return err
			}
			meta.Name, meta.Notes = args[0], notes
			in := cmd.InOrStdin()
			if args[0] != "-" {
				file, err := regular.Open(args[0])
				if err != nil {
					return &usageError{err}
				}
				defer file.Close()
				in = file
			}
			p, err := steptime.Import(in, meta)
			if err != nil {
				return &usageError{err}
			}
			return writeProfile(cmd.OutOrStdout(), out, p)
		},
	}
	f := cmd.Flags()
	f.StringVar(&meta.Origin, "origin", "", "who measured, and when")
	f.StringVar(&meta.Licence, "licence", "", "of the figures, such as Apache-2.0")
	f.StringVar(&meta.Engine, "engine", "", "what ran the steps, such as sglang")
	f.StringVar(&meta.EngineVersion, "engine-version", "", "its version, such as 0.5.10")
	f.StringVar(&meta.GPU, "gpu", "", "GPU type, such as a100-80gb")
	f.StringVar(&meta.Model, "model", "", "model, such as qwen3-8b")
	f.IntVar(&meta.TP, "tp", 1, "GPUs that share the model")
	f.StringVar(&meta.Variant, "variant", "", "graphs or eager")
	f.StringVar(&notes, "notes", "", "what is measured and what is assumed")
	f.StringVar(&out, "out", "", "file to write instead of standard output")
	return cmd
}

func newProfileRoofline() *cobra.Command {
	var r steptime.Roofline
	var out string
	cmd := &cobra.Command{
		Use:   "roofline",
		Short: "Derive a profile from a model's config.json",
		Long: `roofline prices a model without measured steps: the sum of its kernels, fitted
on measured ones of the A100, and scaled to other GPUs by their data sheets.
What the fit is worth says tokenrouter profile check.`,
		Example: `  tokenrouter profile roofline --gpu h200 --config qwen3-8b --tp 2
  tokenrouter profile roofline --gpu a100-80gb --config models/mine/config.json --variant eager --out mine.toml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needFlags(cmd, "gpu", "config"); err != nil {
				return err
			}
			p, err := r.Profile()
			if err != nil {
				return &usageError{err}
			}
			return writeProfile(cmd.OutOrStdout(), out, p)
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.GPU, "gpu", "", "GPU type: "+strings.Join(steptime.GPUs(), ", "))
	f.StringVar(&r.Config, "config", "", "path of a config.json, or a known model: "+strings.Join(modelconfig.Names(), ", "))
	f.IntVar(&r.TP, "tp", 1, "GPUs that share the model")
	f.StringVar(&r.Engine, "engine", steptime.Engines()[0], "engine version: "+strings.Join(steptime.Engines(), ", "))
	f.StringVar(&r.Variant, "variant", steptime.VariantGraphs, "graphs or eager")
	f.StringVar(&out, "out", "", "file to write instead of standard output")
	return cmd
}

// writeProfile writes to the file, if one is named, and then all or nothing.
func writeProfile(stdout io.Writer, path string, p *steptime.Profile) error {
	if path == "" {
		return steptime.WriteTOML(stdout, p)
	}
	var text bytes.Buffer
	if err := steptime.WriteTOML(&text, p); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return &usageError{fmt.Errorf("%s is there already\n  fix: choose another --out, or remove it", path)}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text.Bytes())
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path)) // half a profile is worse than none
	}
	return nil
}

// replaceProfile writes a profile over whatever the file holds.
func replaceProfile(path string, p *steptime.Profile) error {
	var text bytes.Buffer
	if err := steptime.WriteTOML(&text, p); err != nil {
		return err
	}
	return experiments.ReplaceFile(path, text.Bytes())
}

func newProfileCheck() *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Compare predicted step times with measured and published ones",
		Long: `check compares step times with every measured or published figure that the
program carries, and names all that it misses by more than 10 %.`,
		Example: `  tokenrouter profile check
  tokenrouter profile check --all
  tokenrouter profile check --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks, err := evidence.Checks()
			if err != nil {
				return err
			}
			if asJSON {
				return checksJSON(cmd.OutOrStdout(), checks)
			}
			groups, figures := checkTables(checks, all)
			if err := printTable(cmd.OutOrStdout(), &groups); err != nil {
				return err
			}
			cmd.Println()
			return printTable(cmd.OutOrStdout(), &figures)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also list what is within 10 %")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each figure")
	return cmd
}

// checkMiss is how far off a figure may be before it is named.
const checkMiss = 0.1

func checkTables(checks []evidence.Check, all bool) (groups, figures report.Table) {
	groups = report.Table{Columns: []report.Column{
		{Name: "Figures", Key: true}, {Name: "Count"}, {Name: "Mean error"}, {Name: "Worst"}, {Name: "Over 10 %"}, {Name: "What"}}}
	figures = report.Table{Title: "Over 10 %", Columns: []report.Column{
		{Name: "Figures", Key: true}, {Name: "Step: requests x context"}, {Name: "Figure ms"}, {Name: "Ours ms"}, {Name: "Error"}}}
	if all {
		figures.Title = "All"
	}
	for _, g := range evidence.Groups() {
		count, misses, sum, worst := 0, 0, 0.0, 0.0
		for _, c := range checks {
			if c.Group != g.Name {
				continue
			}
			off := c.Error()
			count++
			sum += math.Abs(off)
			if math.Abs(off) > math.Abs(worst) {
				worst = off
			}
			missed := math.Abs(off) > checkMiss
			if missed {
				misses++
			}
			if missed || all {
				figure := fmt.Sprintf("%.2f", c.Low)
				if c.High != c.Low {
					figure += fmt.Sprintf("-%.2f", c.High)
				}
				figures.Rows = append(figures.Rows, []string{g.Name, c.Name, figure, fmt.Sprintf("%.2f", c.Ms), fmt.Sprintf("%+.1f %%", 100*off)})
			}
		}
		groups.Rows = append(groups.Rows, []string{g.Name, fmt.Sprint(count), fmt.Sprintf("%.1f %%", 100*sum/float64(max(count, 1))),
			fmt.Sprintf("%+.1f %%", 100*worst), fmt.Sprint(misses), g.Meaning})
	}
	return groups, figures
}

func checksJSON(w io.Writer, checks []evidence.Check) error {
	lines := json.NewEncoder(w)
	for _, c := range checks {
		err := lines.Encode(struct {
			Group  string  `json:"group"`
			Name   string  `json:"name"`
			LowMs  float64 `json:"low_ms"`
			HighMs float64 `json:"high_ms"`
			OursMs float64 `json:"ours_ms"`
			Error  float64 `json:"error"`
			Source string  `json:"source"`
		}{c.Group, c.Name, c.Low, c.High, c.Ms, c.Error(), c.Source})
		if err != nil {
			return err
		}
	}
	return nil
}
