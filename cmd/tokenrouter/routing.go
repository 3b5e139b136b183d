package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// The pair that runs when no model is named.
const (
	toySmall = "toy:qwen3"
	toyLarge = "toy:llama"
)

// untrained are the algorithms, ours and yours, that need no trained network, which
// no engine here has, and no more settings than there are flags.
var untrained = slices.DeleteFunc(algorithms.Names(), func(name string) bool {
	return slices.Contains([]string{"citer", "r2r", "collm", "bursty", "script"}, name)
})

// pairOptions are the flags of the verbs that run a routed pair of models, or one
// model alone.
type pairOptions struct {
	small, large     string
	algorithm        string
	threshold, share float64
	thresholdGiven   bool
	threads          int
}

func (o *pairOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.small, "small", "", "the model where texts begin: "+modelFlag)
	f.StringVar(&o.large, "large", "", "the model that writes the tokens that are routed; what --small takes")
	f.StringVar(&o.algorithm, "algorithm", "confidence", "who decides: "+strings.Join(untrained, ", "))
	f.Float64Var(&o.threshold, "threshold", 0.5, "confidence, rstitch: of the signal")
	f.Float64Var(&o.share, "share", 0.2, "matrix: of the small model's tokens that go to the large one")
	f.IntVar(&o.threads, "threads", 0, "cores for each model (default: all, shared out)")
	completeModels(cmd, "small", "large")
	complete(cmd, "algorithm", untrained...)
}

// check refuses what cannot be meant, before any model is read, and names the
// toys where no model is named.
func (o *pairOptions) check(f *pflag.FlagSet) error {
	if err := wantValues(f, "small", "large"); err != nil {
		return err
	}
	o.thresholdGiven = f.Changed("threshold")
	switch {
	case o.small == "" && o.large == "":
		o.small, o.large = toySmall, toyLarge
	case o.small == "":
		return errors.New("--large needs --small, where texts begin")
	}
	return o.checkRouting(f)
}

// checkRouting refuses algorithms that flags cannot make, and flags that nothing
// would read.
func (o *pairOptions) checkRouting(f *pflag.FlagSet) error {
	const never = "never"
	if o.large == "" {
		for _, name := range []string{"algorithm", "threshold", "share"} {
			if f.Changed(name) && (name != "algorithm" || o.algorithm != never) {
				return fmt.Errorf("--%s routes between two models, and there is one\n  fix: add --large", name)
			}
		}
	}
	switch {
	case !slices.Contains(untrained, o.algorithm):
		why := ""
		if slices.Contains(algorithms.Names(), o.algorithm) {
			why = ", which needs a trained network or more than flags say"
		}
		return fmt.Errorf("--algorithm is %q%s; use one of %s", o.algorithm, why, strings.Join(untrained, ", "))
	case f.Changed("share") && o.algorithm != "matrix":
		return fmt.Errorf("--share is for --algorithm matrix, and it is %s", o.algorithm)
	case f.Changed("threshold") && slices.Contains([]string{"matrix", "me", "fusion", never}, o.algorithm):
		return fmt.Errorf("--threshold has no meaning for --algorithm %s, which compares no signal with one", o.algorithm)
	}
	return nil
}

// pairModel is a model as flags name it.
type pairModel struct {
	role string // small or large, which is also its flag
	name string
}

// models lists the one or two that were asked for, the small one first.
func (o *pairOptions) models() []pairModel {
	all := []pairModel{{"small", o.small}}
	if o.large != "" {
		all = append(all, pairModel{"large", o.large})
	}
	return all
}

// routing makes the algorithm, and says what it was made from.
func (o *pairOptions) routing() (algorithms.Algorithm, algorithms.Params, error) {
	if o.large == "" {
		return algorithms.Never{}, algorithms.Params{Models: 1}, nil
	}
	params := algorithms.Params{Models: 2, Small: 0, Large: 1}
	switch o.algorithm {
	case "matrix":
		if !(o.share >= 0 && o.share <= 1) {
			return nil, params, &usageError{fmt.Errorf("--share must be between 0 and 1, got %g", o.share)}
		}
		params.Matrix = [][]float64{{1 - o.share, o.share}, {1, 0}}
	case "me", "fusion":
		params.Weights = []float64{0.5, 0.5}
	case "confidence":
		params.Threshold = &o.threshold
	default:
		if o.thresholdGiven {
			params.Threshold = &o.threshold
		}
	}
	a, err := algorithms.New(o.algorithm, params)
	var field *algorithms.FieldError
	switch {
	case errors.As(err, &field) && field.Field == "threshold":
		return nil, params, &usageError{fmt.Errorf("--threshold %s", field.Problem)}
	case err != nil:
		return nil, params, &usageError{fmt.Errorf("--algorithm %s: %w", o.algorithm, err)}
	}
	return a, params, algorithms.Check(a, params.Models, params.Small, 1)
}
