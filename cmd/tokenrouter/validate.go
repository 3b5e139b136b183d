package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/experiments/profiling"
	"github.com/tokenrouter/tokenrouter/internal/report"
)

// validateOptions are the flags of validate.
type validateOptions struct {
	on         string
	within     float64
	overheadUs float64
	remeasure  bool
	budgetS    float64
	save       string
	logs       string
	json       bool
	set        []string
	given      bool // step times of a comparison on cpu were given, not measured
}

// By default a measurement may be off by so many percent. Engines that keep a
// profile's times leave only the runtime to err; on a machine of one's own the
// profile errs too, and so does whatever else runs there.
const (
	withinPaced = 3.0
	withinCPU   = 10.0
)

func newValidate() *cobra.Command {
	var o validateOptions
	cmd := &cobra.Command{
		Use:   "validate [FILE|NAME]",
		Short: "Set prediction, simulation and measurement side by side",
		Long: `validate predicts, simulates and measures every cell of an experiment and
prints what came out side by side, with a verdict. Measurements take place on
the real runtime: paced, with engines that take as long as the experiment's
profiles say, or cpu, with models that run on this machine. On cpu it first
measures how long the models' steps take, and by how much two of them slow each
other down, unless the experiment says so.

Nothing else should run meanwhile. Without a name it takes the experiment
"validate". It exits with 1 if a measurement is off by more than is allowed.`,
		Example: `  tokenrouter validate
  tokenrouter validate --set workload.concurrency=16
  tokenrouter validate cpu-pair --on cpu --save profiles
  tokenrouter validate my.toml --within 5 --json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeExperiment,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "validate"
			if len(args) > 0 {
				name = args[0]
			}
			return o.run(cmd, name)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.on, "on", "", "where to measure: paced or cpu (default: where the experiment says, else paced)")
	f.Float64Var(&o.within, "within", 0, fmt.Sprintf("`percent` of throughput by which a measurement may be off (default %g on paced, %g on cpu)", withinPaced, withinCPU))
	f.Float64Var(&o.overheadUs, "max-overhead-us", 0, "p50 of the time between two steps that is allowed, in `microseconds`; 0: any")
	f.BoolVar(&o.remeasure, "remeasure", false, "cpu: measure the models' steps though the experiment says how long they take")
	f.Float64Var(&o.budgetS, "measure-s", 8, "cpu: `seconds` to measure the steps of each model")
	f.StringVar(&o.save, "save", "", "cpu: `folder` for the profiles that were measured")
	f.StringVar(&o.logs, "log", "", logsFlag)
	f.BoolVar(&o.json, "json", false, "print one JSON object for each cell")
	addSet(cmd, &o.set)
	complete(cmd, "on", experiments.OnPaced, experiments.OnCPU)
	return cmd
}

func (o *validateOptions) run(cmd *cobra.Command, name string) error {
	for _, flag := range []struct {
		name  string
		value float64
	}{{"within", o.within}, {"max-overhead-us", o.overheadUs}, {"measure-s", o.budgetS}} {
		if !(flag.value >= 0) || math.IsInf(flag.value, 0) {
			return &usageError{fmt.Errorf("--%s must be at least 0, got %g", flag.name, flag.value)}
		}
	}
	if o.within == 0 && cmd.Flags().Changed("within") {
		return &usageError{errors.New("--within 0 would take chance for an error: no measurement is exact\n  fix: give a percentage above 0, or leave it out")}
	}
	if err := wantValues(cmd.Flags(), "on", "save", "log"); err != nil {
		return &usageError{err}
	}
	places, err := o.places(name)
	if err != nil {
		return err
	}
	if err := onCPUOnly(cmd.Flags(), places); err != nil {
		return err
	}
	var all []experiments.Comparison
	for _, place := range places {
		compared, err := o.validate(cmd, name, place, len(places) > 1)
		if err != nil {
			return err
		}
		all = append(all, compared...)
	}
	return verdict(all, o.given)
}

// onCPUOnly refuses flags about the models' steps where none is measured.
func onCPUOnly(f *pflag.FlagSet, places []string) error {
	if slices.Contains(places, experiments.OnCPU) {
		return nil
	}
	for _, name := range []string{"remeasure", "measure-s", "save"} {
		if f.Changed(name) {
			return &usageError{fmt.Errorf("--%s has no meaning on %s, where steps take as long as the experiment says\n  fix: add --on cpu, or leave it out", name, strings.Join(places, ", "))}
		}
	}
	return nil
}

// places is where to measure.
func (o *validateOptions) places(name string) ([]string, error) {
	if o.on != "" {
		if !experiments.IsReal(o.on) {
			return nil, &usageError{fmt.Errorf("--on must be %s or %s, got %q", experiments.OnPaced, experiments.OnCPU, o.on)}
		}
		return []string{o.on}, nil
	}
	plan, err := loadPlan(name, o.set)
	if err != nil {
		return nil, err
	}
	places := slices.DeleteFunc(slices.Clone(plan.On), func(on string) bool { return !experiments.IsReal(on) })
	if len(places) == 0 {
		places = []string{experiments.OnPaced}
	}
	return places, nil
}

// validate evaluates the experiment's cells on one place, and on the two that
// take no time.
//
// Where the experiment is measured on paced too, its step times are those of
// GPUs, so on cpu they are measured.
func (o *validateOptions) validate(cmd *cobra.Command, name, place string, alsoPaced bool) ([]experiments.Comparison, error) {
	set := append(o.set[:len(o.set):len(o.set)], "on="+strings.Join([]string{experiments.OnChain, experiments.OnSim, place}, ","))
	plan, err := loadPlan(name, set)
	if err != nil {
		return nil, err
	}
	set = append(set, plan.Window()...)
	if plan, err = loadPlan(name, set); err != nil {
		return nil, err
	}
	runs, s := plan.MeasuredRuns()
	warnMeasuring(cmd, runs, s)
	if place == experiments.OnCPU && (o.remeasure || alsoPaced || !plan.Timed()) {
		if plan, err = o.calibrated(cmd, plan, name, set); err != nil {
			return nil, err
		}
	} else if place == experiments.OnCPU {
		if o.save != "" {
			return nil, &usageError{errors.New("--save: the experiment says how long the models' steps take, so there is nothing new to save\n  fix: add --remeasure, or leave --save out")}
		}
		o.given = true
	}
	evaluate, err := evaluateWithLogs(o.logs, plan)
	if err != nil {
		return nil, err
	}
	bar := newProgress(cmd.ErrOrStderr())
	results, err := experiments.Run(cmd.Context(), plan, experiments.Options{
		Evaluate: evaluate, Version: version(), Progress: bar.update,
	})
	bar.stop()
	if err != nil {
		return nil, err
	}
	for _, w := range results.Warnings() {
		cmd.PrintErrln("warning: " + w)
	}
	compared := experiments.Compare(results, o.tolerance(place))
	if err := fillLong(cmd, compared, plan.Long()); err != nil {
		return nil, err
	}
	if o.json {
		return compared, comparisonsJSON(cmd.OutOrStdout(), plan, compared)
	}
	table := comparisonTable(plan, place, compared)
	if err := printTable(cmd.OutOrStdout(), &table); err != nil {
		return nil, err
	}
	for _, c := range compared {
		if c.Why != "" {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s: %s%s\n", strings.TrimSuffix(c.System+" "+sweptText(plan, &c), " "), c.Verdict, c.Why, slowSteps(plan, &c))
		}
	}
	return compared, nil
}

func (o *validateOptions) tolerance(place string) experiments.Tolerance {
	t := experiments.Tolerance{Rel: o.within / 100, OverheadUs: o.overheadUs}
	if o.within == 0 {
		t.Rel = withinPaced / 100
		if place == experiments.OnCPU {
			t.Rel = withinCPU / 100
		}
	}
	return t
}

// fillLong simulates the cells for a long window too. It tells what the chain
// and the simulator disagree on from what a short window leaves to chance.
func fillLong(cmd *cobra.Command, compared []experiments.Comparison, plan *experiments.Plan) error {
	if plan == nil {
		return nil
	}
	long, err := experiments.Run(cmd.Context(), plan, experiments.Options{Evaluate: experiments.Evaluate, Version: version()})
	if err != nil {
		return err
	}
	experiments.FillLong(compared, long)
	return nil
}

// calibrated measures the plan's models and returns the plan with what was found.
func (o *validateOptions) calibrated(cmd *cobra.Command, plan *experiments.Plan, name string, set []string) (*experiments.Plan, error) {
	dir := o.save
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "tokenrouter-validate-*"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir) // a plan reads its files when it is loaded
	} else if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	bar := newProgress(cmd.ErrOrStderr())
	measured, err := experiments.Calibrate(cmd.Context(), plan, experiments.CalibrateOptions{
		Budget: seconds(o.budgetS), Version: version(), Progress: bar.update,
	})
	bar.stop()
	if err != nil {
		return nil, interruptedOr(cmd, err)
	}
	var files []string
	for _, c := range measured {
		file := filepath.Join(dir, c.Model+".toml")
		if err := replaceProfile(file, c.Profile); err != nil {
			return nil, err
		}
		files = append(files, file)
		cmd.PrintErrln("measured " + c.Model + ": " + missLine(c.Misses) + stretchText(c.Stretch))
	}
	return loadPlan(name, append(set, experiments.Sets(measured, files)...))
}

// missLine says what a measured profile is worth.
func missLine(misses []profiling.Miss) string {
	if len(misses) == 0 {
		return "no step was held out"
	}
	worst, mean := profiling.Worst(misses)
	return fmt.Sprintf("on %d kinds of step that were held out the profile errs by %.1f %% on average, at worst by %+.1f %% (%v)",
		len(misses), 100*mean, 100*worst.Error(), worst.Point)
}

func stretchText(factor float64) string {
	if factor == 0 {
		return ""
	}
	return fmt.Sprintf("; beside the other model its steps take %.2f times as long", factor)
}

// verdict is the error that the comparisons come to. given says that step times
// on cpu are those of the experiment.
func verdict(all []experiments.Comparison, given bool) error {
	differ, measured := 0, 0
	for _, c := range all {
		if c.Verdict != experiments.Unmeasured {
			measured++
		}
		if c.Verdict == experiments.Differs {
			differ++
		}
	}
	switch {
	case measured == 0:
		why := "there is no cell"
		if len(all) > 0 {
			why = all[0].Why
		}
		return &usageError{errors.New("nothing could be compared: " + why)}
	case differ > 0:
		fix := "make sure that nothing else runs; raise measure.duration_s, measure.warmup_s or --within"
		if given {
			fix = "the step times are those that the experiment gives, not of this machine today: --remeasure measures them; else " + fix
		}
		return fmt.Errorf("%d of %d measurements are off\n  fix: %s", differ, measured, fix)
	}
	return nil
}

func comparisonTable(plan *experiments.Plan, place string, all []experiments.Comparison) report.Table {
	models := plan.ModelNames()
	t := report.Table{Title: "Throughput in token/s: predicted, simulated, measured on " + place}
	add := func(name, unit string, number bool) {
		t.Columns = append(t.Columns, report.Column{Name: name, Unit: unit, Number: number, Key: len(t.Columns) == 0})
	}
	for _, path := range plan.Swept {
		add(strings.TrimPrefix(path, "models."), "", true)
	}
	add("system", "", false)
	add("chain", "", true)
	add("long sim", "", true)
	add("sim", "", true)
	add(place, "", true)
	add(place+" / sim", "", true)
	for _, m := range models {
		add("batch "+m, "", false)
	}
	add("per user", "", false)
	add("between steps p50", "µs", true)
	add("p99", "µs", true)
	add("verdict", "", false)
	for i, c := range all {
		row := sweptTexts(plan, &c)
		row = append(row, c.System, figureText(c.Chain), figureText(c.LongSim), noisyText(c.Sim, c.SimRelSE), figureText(c.Measured), percentOf(c.Measured, c.Sim))
		for m := range models {
			row = append(row, pairText(c.SimBatch[m], c.Batch[m]))
		}
		row = append(row, pairText(c.SimPerUser, c.PerUser), figureText(c.OverheadP50Us), figureText(c.OverheadP99Us), string(c.Verdict))
		if c.Verdict == experiments.Differs {
			t.Emphasis = append(t.Emphasis, i)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Note = windowNote(plan) + "Batch and speed of a user: simulated / measured. Between steps: from the end of the last step that a step had to wait for to its start."
	return t
}

// windowNote says why a simulation of a few seconds is not what the chain
// predicts.
func windowNote(plan *experiments.Plan) string {
	if plan.Window() == nil {
		return ""
	}
	return fmt.Sprintf("sim plays the requests of the measurement for the same %g s, in which it strays from the chain by chance "+
		"(±: two standard errors; against the chain a measurement may stray by its own two as well). "+
		"long sim has time for chance to average out: compare it with the chain.\n", plan.Points[0].Spec.Measure.DurationS)
}

// noisyText writes a figure with two standard errors of it.
func noisyText(x, relSE float64) string {
	if math.IsNaN(x) || math.IsNaN(relSE) {
		return figureText(x)
	}
	return figureText(x) + " ± " + fmt.Sprintf("%.2g", 2*relSE*x)
}

// slowSteps tells a machine that was slow from a runtime that was: steps whose
// batches are those that were simulated, and which took longer.
func slowSteps(plan *experiments.Plan, c *experiments.Comparison) string {
	text := ""
	for m, name := range plan.ModelNames() {
		if c.StepMs[m]/c.SimStepMs[m] > 1.05 {
			text += fmt.Sprintf("; steps of %s took %.4g ms, simulated %.4g", name, c.StepMs[m], c.SimStepMs[m])
		}
	}
	return text
}

func pairText(simulated, measured float64) string {
	if math.IsNaN(measured) {
		return "–"
	}
	return fmt.Sprintf("%.3g / %.3g", simulated, measured)
}

func percentOf(x, of float64) string {
	if math.IsNaN(x / of) {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*x/of)
}

// comparisonsJSON writes one object a comparison; what was not found is null.
func comparisonsJSON(w io.Writer, plan *experiments.Plan, all []experiments.Comparison) error {
	lines := json.NewEncoder(w)
	for _, c := range all {
		swept := map[string]json.RawMessage{}
		for _, s := range c.Point.Swept {
			swept[s.Path] = s.JSON()
		}
		simBatch, batch := map[string]*float64{}, map[string]*float64{}
		simStep, step := map[string]*float64{}, map[string]*float64{}
		b, inForce := map[string]json.RawMessage{}, map[string]*float64{}
		for m, name := range plan.ModelNames() {
			simBatch[name], batch[name] = number(c.SimBatch[m]), number(c.Batch[m])
			simStep[name], step[name] = number(c.SimStepMs[m]), number(c.StepMs[m])
			inForce[name] = number(c.B[m])
			if experiments.UsesB(c.System) {
				b[name] = experiments.Setting{Value: c.Settled[m]}.JSON()
			}
		}
		err := lines.Encode(struct {
			Experiment string                     `json:"experiment"`
			Swept      map[string]json.RawMessage `json:"swept"`
			System     string                     `json:"system"`
			On         string                     `json:"on"`
			Chain      *float64                   `json:"chain_tok_per_s"`
			Sim        *float64                   `json:"sim_tok_per_s"`
			Measured   *float64                   `json:"measured_tok_per_s"`
			OfSim      *float64                   `json:"measured_of_sim"`
			OfChain    *float64                   `json:"measured_of_chain"`
			B          map[string]json.RawMessage `json:"b,omitempty"` // that tokenrouter was told, or that was found for it
			InForce    map[string]*float64        `json:"b_in_force"`
			SimBatch   map[string]*float64        `json:"sim_mean_batch"`
			Batch      map[string]*float64        `json:"measured_mean_batch"`
			SimStep    map[string]*float64        `json:"sim_mean_step_ms"`
			Step       map[string]*float64        `json:"measured_mean_step_ms"`
			LongSim    *float64                   `json:"long_sim_tok_per_s"`
			SimRelSE   *float64                   `json:"sim_rel_se"`
			SimUser    *float64                   `json:"sim_per_user_tok_per_s"`
			User       *float64                   `json:"measured_per_user_tok_per_s"`
			P50        *float64                   `json:"overhead_p50_us"`
			P99        *float64                   `json:"overhead_p99_us"`
			Verdict    experiments.Verdict        `json:"verdict"`
			Why        string                     `json:"why,omitempty"`
		}{
			plan.Name, swept, c.System, c.Place, number(c.Chain), number(c.Sim), number(c.Measured),
			number(c.Measured / c.Sim), number(c.Measured / c.Chain), b, inForce, simBatch, batch, simStep, step,
			number(c.LongSim), number(c.SimRelSE), number(c.SimPerUser), number(c.PerUser), number(c.OverheadP50Us), number(c.OverheadP99Us), c.Verdict, c.Why,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
