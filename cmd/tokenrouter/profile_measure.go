package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/experiments/engines"
	"github.com/tokenrouter/tokenrouter/experiments/profiling"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
)

// measureOptions are the flags of profile measure.
type measureOptions struct {
	model, beside            string
	threads, blockTokens     int
	requests, rows, contexts []int
	repeats                  int
	budgetS                  float64
	origin, licence, machine string
	out                      string
}

func newProfileMeasure() *cobra.Command {
	var o measureOptions
	cmd := &cobra.Command{
		Use:   "measure",
		Short: "Time the steps of a model on this machine",
		Long: `measure runs steps of a model on this machine, from one request to many, with
short and long contexts, and with the many rows of extends and prefill chunks,
and prints the profile that they make. The grid is gone through again and again
in a new order, and medians count, so that a disturbance hurts little; nothing
else should run all the same. Steps in between are held out and tell how far the
profile can be trusted.

With --beside a second model runs too, alone and side by side with the first, in
turns: by how much steps take longer then is what an experiment file calls
that model's colocation_factor.`,
		Example: `  tokenrouter profile measure --model models/qwen3-0.6b --out small.toml
  tokenrouter profile measure --model random:qwen3-58m --beside random:qwen3-230m
  tokenrouter profile measure --model toy:qwen3 --requests 1,2,4 --rows 1,8,64 --context 64,512`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needFlags(cmd, "model"); err != nil {
				return err
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.model, "model", "", modelFlag)
	f.StringVar(&o.beside, "beside", "", "a second model, to measure by how much the two slow each other down")
	f.IntVar(&o.threads, "threads", 1, "cores that share a step")
	f.IntVar(&o.blockTokens, "block-tokens", 16, "tokens of a KV block")
	f.IntSliceVar(&o.requests, "requests", nil, "requests in a step, from 1 (default 1 to 16)")
	f.IntSliceVar(&o.rows, "rows", nil, "rows that one request feeds at once, from 1 (default 1 to 64)")
	f.IntSliceVar(&o.contexts, "context", nil, "`tokens` of context of each request (default 128, 512, 1280)")
	f.IntVar(&o.repeats, "repeats", 9, "times that the grid is gone through")
	f.Float64Var(&o.budgetS, "measure-s", 60, "`seconds` after which no further repeat begins")
	f.StringVar(&o.origin, "origin", "", "who measured, and when (default: this machine)")
	f.StringVar(&o.licence, "licence", "yours", "of the figures")
	f.StringVar(&o.machine, "machine", "cpu", "what the profile calls the machine, as its gpu")
	f.StringVar(&o.out, "out", "", "file to write instead of standard output")
	completeModels(cmd, "model", "beside")
	return cmd
}

// defaultContexts reach from chats to beyond the mean context of an experiment
// that says nothing of lengths, 1124 tokens; not much beyond, since the pool
// holds the longest for every request at once.
var defaultContexts = []int{128, 512, 1280}

// grid is what the flags ask for.
func (o *measureOptions) grid() profiling.Grid {
	const requests, rows, context = 16, 64, 512
	g := profiling.DefaultGrid(requests, rows, context)
	g.Contexts = slices.Clone(defaultContexts)
	g.Repeats, g.Budget = o.repeats, seconds(o.budgetS)
	for _, axis := range []struct {
		given []int
		into  *[]int
	}{{o.requests, &g.Requests}, {o.rows, &g.Rows}, {o.contexts, &g.Contexts}} {
		if axis.given != nil {
			*axis.into = axis.given
		}
	}
	return g
}

func (o *measureOptions) run(cmd *cobra.Command) error {
	g := o.grid()
	switch err := g.Check(); {
	case err != nil:
		return &usageError{fmt.Errorf("--%w", err)}
	case !(o.budgetS >= 0):
		return &usageError{fmt.Errorf("--measure-s must be at least 0, got %g", o.budgetS)}
	}
	if err := o.checkFlags(&g); err != nil {
		return err
	}
	engine, err := o.open(cmd, o.model, &g)
	if err != nil {
		return err
	}
	defer engine.Close()
	bar := newProgress(cmd.ErrOrStderr())
	times, err := profiling.Measure(cmd.Context(), engine, g, bar.update)
	bar.stop()
	if err != nil {
		return interruptedOr(cmd, err)
	}
	meta := experiments.CPUMeta(version(), engines.ShortName(o.model))
	meta.Licence, meta.Machine = o.licence, o.machine
	if o.origin != "" {
		meta.Origin = o.origin
	}
	if o.beside != "" {
		if meta.Notes, err = o.joint(cmd, engine, &g); err != nil {
			return interruptedOr(cmd, err)
		}
	}
	p, err := times.Profile(meta)
	if err != nil {
		return err
	}
	cmd.PrintErrf("a step of one request reads %.3g GB of weights at %.3g GB/s\n", float64(times.Info.WeightBytes)/1e9, times.GBPerS())
	cmd.PrintErrln(missLine(times.Misses(p)))
	if err := writeProfile(cmd.OutOrStdout(), o.out, p); err != nil {
		// What took so long to measure is not lost.
		return errors.Join(err, steptime.WriteTOML(cmd.OutOrStdout(), p))
	}
	return nil
}

// checkFlags looks at everything that would show only after minutes.
func (o *measureOptions) checkFlags(g *profiling.Grid) error {
	const blockTokensMost = 4096 // as models.*.block_tokens
	for _, f := range []struct {
		flag        string
		value, most int
	}{{"repeats", o.repeats, math.MaxInt}, {"threads", o.threads, math.MaxInt}, {"block-tokens", o.blockTokens, blockTokensMost}} {
		switch {
		case f.value < 1:
			return &usageError{fmt.Errorf("--%s must be at least 1, got %d", f.flag, f.value)}
		case f.value > f.most:
			return &usageError{fmt.Errorf("--%s must be at most %d, got %d", f.flag, f.most, f.value)}
		}
	}
	for _, f := range []struct{ flag, value, what string }{
		{"machine", o.machine, "what the profile calls the machine"}, {"licence", o.licence, "the licence of the figures"},
	} {
		if f.value == "" {
			return &usageError{fmt.Errorf("--%s is empty; give %s, or leave it out", f.flag, f.what)}
		}
	}
	if cores := runtime.NumCPU(); o.threads > cores {
		return &usageError{fmt.Errorf("--threads is %d, and this machine has %d cores: threads that share one measure each other", o.threads, cores)}
	}
	if err := checkNew(o.out); err != nil {
		return err
	}
	tokens := g.Blocks(o.blockTokens) * o.blockTokens
	needs := []engines.Need{{Name: o.model, KVTokens: tokens}}
	if o.beside != "" {
		needs = append(needs, engines.Need{Name: o.beside, KVTokens: tokens})
	}
	for i, flag := range []string{"model", "beside"}[:len(needs)] {
		if err := engines.Fits(needs[:i+1]...); err != nil {
			return &usageError{fmt.Errorf("--%s: %w", flag, err)}
		}
		c, err := engines.Config(needs[i].Name)
		if err != nil {
			return &usageError{fmt.Errorf("--%s: %w", flag, err)}
		}
		if longest := slices.Max(g.Contexts); c.MaxPositions > 0 && longest > c.MaxPositions {
			return &usageError{fmt.Errorf("--context goes up to %d, and %s was made for %d tokens", longest, needs[i].Name, c.MaxPositions)}
		}
	}
	return nil
}

// checkNew says why a file cannot be written: it is there already, or its folder
// is not, or takes no files.
func checkNew(path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Lstat(path); err == nil {
		return &usageError{fmt.Errorf("--out: %s is there already\n  fix: choose another --out, or remove it", path)}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return &usageError{fmt.Errorf("--out: %w\n  fix: name a file in a folder that is there and takes files", err)}
	}
	return errors.Join(f.Close(), os.Remove(path))
}

// open makes an engine with as much KV as the grid takes.
func (o *measureOptions) open(cmd *cobra.Command, name string, g *profiling.Grid) (backend.Engine, error) {
	w, err := engines.Open(cmd.Context(), name)
	if err != nil {
		return nil, &usageError{err}
	}
	if text := w.Crowded(); text != "" {
		cmd.PrintErrln("warning: " + text)
	}
	e, err := w.CPU(engines.Options{Threads: o.threads, BlockTokens: o.blockTokens, KVTokens: g.Blocks(o.blockTokens) * o.blockTokens})
	if err != nil {
		return nil, &usageError{err}
	}
	return e, nil
}

// joint runs the model beside the other one and says what came out, for people
// and for the notes of the profile.
func (o *measureOptions) joint(cmd *cobra.Command, engine backend.Engine, g *profiling.Grid) (string, error) {
	other, err := o.open(cmd, o.beside, g)
	if err != nil {
		return "", err
	}
	defer other.Close()
	const rounds, longest = 7, 500 * time.Millisecond
	turn := min(longest, seconds(o.budgetS)/(4*rounds))
	half := g.Requests[len(g.Requests)/2]
	at := profiling.Point{Requests: half, Rows: half, Context: g.Contexts[len(g.Contexts)/2]}
	own, others, err := profiling.Joint(cmd.Context(), profiling.Part{Engine: engine, Step: at}, profiling.Part{Engine: other, Step: at}, rounds, turn)
	if err != nil {
		return "", err
	}
	text := func(model string, s profiling.Stretch) string {
		return fmt.Sprintf("%s: colocation_factor = %.3f (%.3f to %.3f in %d rounds; %.4g ms a step alone, %.4g beside, %v)",
			engines.ShortName(model), s.Factor, s.Low, s.High, rounds, s.AloneMs, s.BesideMs, at)
	}
	cmd.PrintErrln(text(o.model, own))
	cmd.PrintErrln(text(o.beside, others))
	return "Measured beside " + engines.ShortName(o.beside) + " on the same machine, its steps take " + fmt.Sprintf("%.3f", own.Factor) + " times as long.", nil
}
