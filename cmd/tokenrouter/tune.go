package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenrouter/tokenrouter/dtmc"
	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/report"
)

// tuneOptions are the flags of tune.
type tuneOptions struct {
	search  string
	perUser float64
	tpotMs  float64
	table   bool
	json    bool
	set     []string
}

func newTune() *cobra.Command {
	var o tuneOptions
	cmd := &cobra.Command{
		Use:   "tune FILE|NAME",
		Short: "Find the best thresholds B by the Markov chain",
		Long: `tune asks the Markov chain for the thresholds with the highest throughput, and
prints what they give, the curve around them and whether B matters at all. The
experiment's own B and a sweep of it are not read; any other sweep is tuned
point by point. With a limit it says how many users keep it, and with which B;
the exit code is 1 where not even one does.`,
		Example: `  tokenrouter tune quickstart
  tokenrouter tune quickstart --set workload.concurrency=16 --search all
  tokenrouter tune quickstart --table
  tokenrouter tune my.toml --max-tpot-ms 25 --json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeExperiment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.search, "search", "peers", "thresholds to vary: peers (all but home's) or all")
	f.Float64Var(&o.perUser, "min-per-user-tok-per-s", 0, "speed that every user must get; 0: any")
	f.Float64Var(&o.tpotMs, "max-tpot-ms", 0, "mean time per token that is allowed; 0: any")
	f.BoolVar(&o.table, "table", false, "also find the best B for every number of live requests")
	f.BoolVar(&o.json, "json", false, "print one JSON object for each point")
	addSet(cmd, &o.set)
	complete(cmd, "search", "peers", "all")
	return cmd
}

func (o *tuneOptions) run(cmd *cobra.Command, name string) error {
	options := dtmc.TuneOptions{MinPerUserTokPerS: o.perUser, MaxMeanTPOTMs: o.tpotMs}
	options.Table = o.table || o.isLimited()
	switch o.search {
	case "peers":
		options.Search = dtmc.SearchPeers
	case "all":
		options.Search = dtmc.SearchAll
	default:
		return &usageError{fmt.Errorf("--search must be peers or all, got %q", o.search)}
	}
	for _, limit := range []struct {
		flag  string
		value float64
	}{{"min-per-user-tok-per-s", o.perUser}, {"max-tpot-ms", o.tpotMs}} {
		if !(limit.value >= 0) {
			return &usageError{fmt.Errorf("--%s must be at least 0, got %g", limit.flag, limit.value)}
		}
	}
	plan, err := loadPlan(name, append(o.set[:len(o.set):len(o.set)], "systems="+experiments.SystemTokenRouter))
	if err != nil {
		return err
	}
	return o.tune(cmd, plan, options)
}

func (o *tuneOptions) tune(cmd *cobra.Command, plan *experiments.Plan, options dtmc.TuneOptions) error {
	unkept, points := 0, experiments.WithoutB(plan)
	for i, point := range points {
		t, err := tunePoint(cmd.Context(), point, options)
		var cannot dtmc.NotApplicable
		if errors.As(err, &cannot) {
			return &usageError{fmt.Errorf("%sthe chain cannot be asked: %s", pointTitle(point), cannot.Reason)}
		}
		if errors.Is(err, context.Canceled) {
			return errInterrupted
		}
		if err != nil {
			return fmt.Errorf("%stune: %w", pointTitle(point), err)
		}
		if o.isLimited() && t.MostUsers == 0 {
			unkept++
		}
		if o.json {
			err = printTuningJSON(cmd.OutOrStdout(), point, t)
		} else {
			if i > 0 {
				fmt.Fprintln(cmd.OutOrStdout())
			}
			err = o.print(cmd.OutOrStdout(), point, t)
		}
		if err != nil {
			return err
		}
	}
	if !o.json {
		printSharing(cmd.OutOrStdout(), plan)
	}
	if unkept > 0 {
		return fmt.Errorf("no B keeps %s, at %d of %d points\n  fix: allow more, or take models with shorter steps", o.limit(), unkept, len(points))
	}
	return nil
}

func (o *tuneOptions) isLimited() bool { return o.perUser > 0 || o.tpotMs > 0 }

// limit writes what a system must keep.
func (o *tuneOptions) limit() string {
	var parts []string
	if o.tpotMs > 0 {
		parts = append(parts, fmt.Sprintf("at most %g ms a token", o.tpotMs))
	}
	if o.perUser > 0 {
		parts = append(parts, fmt.Sprintf("at least %g token/s a user", o.perUser))
	}
	return strings.Join(parts, " and ")
}

// printSharing says what the answers take models on one GPU to cost each other.
func printSharing(out io.Writer, plan *experiments.Plan) {
	texts := plan.SharingTexts()
	if len(texts) == 0 {
		return
	}
	fmt.Fprintln(out, "\n"+strings.Join(texts, "\n"))
	if len(plan.FullSpeed()) > 0 {
		fmt.Fprintf(out, "--set colocation.factor=%g shows what a slow-down would change.\n", experiments.SlowFactor)
	}
}

// tunePoint returns as soon as ctx ends; the search then goes on unheard until
// the program exits.
func tunePoint(ctx context.Context, p *experiments.Point, options dtmc.TuneOptions) (*dtmc.Tuning, error) {
	type answer struct {
		tuning *dtmc.Tuning
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		t, err := experiments.Tune(p, options)
		done <- answer{t, err}
	}()
	select {
	case a := <-done:
		return a.tuning, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pointTitle names a point of a sweep; it is empty where nothing is swept.
func pointTitle(p *experiments.Point) string {
	var parts []string
	for _, s := range p.Swept {
		parts = append(parts, s.Path+" = "+s.Text())
	}
	if parts == nil {
		return ""
	}
	return strings.Join(parts, ", ") + ": "
}

func (o *tuneOptions) print(out io.Writer, p *experiments.Point, t *dtmc.Tuning) error {
	models := p.Spec.Models
	switch {
	case !o.isLimited() || t.Best.KeepsLimits:
		fmt.Fprintf(out, "%sbest B: %s, %.1f token/s\n%s\n", pointTitle(p), vector(models, t.Best.B), t.Best.ThroughputTokPerS, t.Verdict)
	case t.MostUsers == 0:
		first := t.Table[0]
		fmt.Fprintf(out, "%sno B keeps %s: not even one user does, who gets %.2f ms a token, %.2f token/s\n",
			pointTitle(p), o.limit(), first.MeanTPOTMs, first.PerUserTokPerS)
		return nil
	default:
		fmt.Fprintf(out, "%sno B keeps %s for %s\nwithout the limit %s\n", pointTitle(p), o.limit(), users(t.Best.Users), t.Verdict)
	}
	if len(t.Prediction.Added) > 0 {
		fmt.Fprintf(out, "taken into account: %s\n", strings.Join(t.Prediction.Added, "; "))
	}
	if o.isLimited() {
		fmt.Fprintln(out, o.fitting(models, t))
	}
	if o.table {
		return errors.Join(printCurves(out, p, t), printOverLive(out, models, t))
	}
	return printCurves(out, p, t)
}

// fitting says how many users keep the limits, and with which thresholds.
func (o *tuneOptions) fitting(models []experiments.Model, t *dtmc.Tuning) string {
	x := t.Table[t.MostUsers-1]
	verb := "fit"
	if x.Users == 1 {
		verb = "fits"
	}
	text := fmt.Sprintf("%s: %s %s, with B %s: %.2f ms a token, %.2f token/s a user, %.1f token/s in all",
		o.limit(), users(x.Users), verb, vector(models, x.B), x.MeanTPOTMs, x.PerUserTokPerS, x.ThroughputTokPerS)
	if t.MostUsers == len(t.Table) {
		text += "; more were not tried: raise workload.concurrency"
	}
	return text
}

func users(n int) string {
	if n == 1 {
		return "1 user"
	}
	return fmt.Sprintf("%d users", n)
}

// printOverLive shows the best thresholds by live requests, and as the lines
// that an experiment file takes.
func printOverLive(out io.Writer, models []experiments.Model, t *dtmc.Tuning) error {
	table := report.Table{Columns: []report.Column{{Name: "Live", Number: true, Key: true}}}
	for m := range models {
		table.Columns = append(table.Columns, report.Column{Name: "B " + models[m].Name, Number: true})
	}
	table.Columns = append(table.Columns, report.Column{Name: "Throughput", Unit: "token/s", Number: true},
		report.Column{Name: "Per user", Unit: "token/s", Number: true}, report.Column{Name: "TPOT", Unit: "ms", Number: true})
	for _, x := range t.Table {
		row := []string{fmt.Sprint(x.Users)}
		for m := range models {
			row = append(row, fmt.Sprint(x.B[m]))
		}
		table.Rows = append(table.Rows, append(row, fmt.Sprintf("%.1f", x.ThroughputTokPerS),
			fmt.Sprintf("%.2f", x.PerUserTokPerS), fmt.Sprintf("%.2f", x.MeanTPOTMs)))
	}
	if err := printTable(out, &table); err != nil {
		return err
	}
	fmt.Fprintln(out, "# by live requests, each line for its model's [[models]] table:")
	for m := range models {
		b := make(experiments.Threshold, len(t.Thresholds))
		for live := range b {
			b[live] = t.Thresholds[live][m]
		}
		fmt.Fprintf(out, "B = %s # %s\n", experiments.Setting{Value: b}.Text(), models[m].Name)
	}
	return nil
}

func printCurves(out io.Writer, p *experiments.Point, t *dtmc.Tuning) error {
	models := p.Spec.Models
	for m := range models {
		around := t.Around(m)
		if len(around) < 2 {
			continue
		}
		curve := report.Table{Columns: []report.Column{
			{Name: "B " + models[m].Name, Number: true, Key: true},
			{Name: "Throughput", Unit: "token/s", Number: true},
			{Name: "Of best", Unit: "%", Number: true},
			{Name: "Per user", Unit: "token/s", Number: true},
		}}
		for i, x := range around {
			curve.Rows = append(curve.Rows, []string{
				fmt.Sprint(x.B[m]),
				fmt.Sprintf("%.1f", x.ThroughputTokPerS),
				fmt.Sprintf("%.1f", 100*x.ThroughputTokPerS/t.Best.ThroughputTokPerS),
				fmt.Sprintf("%.2f", x.ThroughputTokPerS/float64(p.Spec.Workload.Concurrency)),
			})
			if x.B[m] == t.Best.B[m] {
				curve.Emphasis = append(curve.Emphasis, i)
			}
		}
		if err := printTable(out, &curve); err != nil {
			return err
		}
	}
	return nil
}

func vector(models []experiments.Model, b []int) string {
	parts := make([]string, len(models))
	for i := range models {
		parts[i] = fmt.Sprintf("%s = %d", models[i].Name, b[i])
	}
	return strings.Join(parts, ", ")
}

// tuningJSON is one line of tune --json. Maps are by model.
type tuningJSON struct {
	Swept map[string]json.RawMessage `json:"swept"`
	Best  map[string]int             `json:"best_b"`
	Users int                        `json:"users"`
	figuresJSON
	Gain      float64          `json:"gain_over_b1"`
	WorstLoss float64          `json:"worst_loss"`
	Matters   bool             `json:"matters"`
	Verdict   string           `json:"verdict"`
	Search    string           `json:"search"`
	QuantumMs float64          `json:"quantum_ms"`
	Added     []string         `json:"added,omitempty"`      // to the steady system of matrix and steps
	MostUsers *int             `json:"most_users,omitempty"` // that keep the limits
	MostB     map[string]int   `json:"most_users_b,omitempty"`
	OverLive  []map[string]int `json:"best_b_by_live,omitempty"`
	ByLive    []pointJSON      `json:"by_live,omitempty"` // with the figures
	Curve     []pointJSON      `json:"curve"`             // of all thresholds that were tried
}

type figuresJSON struct {
	ThroughputTokPerS float64 `json:"throughput_tok_per_s"`
	PerUserTokPerS    float64 `json:"per_user_tok_per_s"`
	MeanTPOTMs        float64 `json:"mean_tpot_ms"`
	KeepsLimits       bool    `json:"keeps_limits"`
}

type pointJSON struct {
	Users int            `json:"users"`
	B     map[string]int `json:"b"`
	figuresJSON
}

func figuresOf(x *dtmc.Point) figuresJSON {
	return figuresJSON{x.ThroughputTokPerS, x.PerUserTokPerS, x.MeanTPOTMs, x.KeepsLimits}
}

func printTuningJSON(out io.Writer, p *experiments.Point, t *dtmc.Tuning) error {
	byName := func(b []int) map[string]int {
		m := map[string]int{}
		for i := range p.Spec.Models {
			m[p.Spec.Models[i].Name] = b[i]
		}
		return m
	}
	point := func(x *dtmc.Point) pointJSON { return pointJSON{x.Users, byName(x.B), figuresOf(x)} }
	line := tuningJSON{
		Swept: map[string]json.RawMessage{}, Best: byName(t.Best.B), Users: t.Best.Users, figuresJSON: figuresOf(&t.Best),
		Gain: t.Gain, WorstLoss: t.WorstLoss, Matters: t.Matters, Verdict: t.Verdict,
		Search: t.Method, QuantumMs: float64(t.Prediction.QuantumNs) / 1e6, Added: t.Prediction.Added,
	}
	if math.IsNaN(line.Gain) || math.IsInf(line.Gain, 0) {
		line.Gain = 0
	}
	if t.Table != nil {
		line.MostUsers = &t.MostUsers
		if t.MostUsers > 0 {
			line.MostB = byName(t.Table[t.MostUsers-1].B)
		}
	}
	for i := range t.Table {
		line.OverLive = append(line.OverLive, byName(t.Table[i].B))
		line.ByLive = append(line.ByLive, point(&t.Table[i]))
	}
	for _, s := range p.Swept {
		line.Swept[s.Path] = s.JSON()
	}
	for i := range t.Points {
		line.Curve = append(line.Curve, point(&t.Points[i]))
	}
	return json.NewEncoder(out).Encode(line)
}
