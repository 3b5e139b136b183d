package main

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tokenrouter/tokenrouter/backend"
)

func (o *generateOptions) flags(cmd *cobra.Command) {
	o.pairOptions.flags(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.chat, "chat", false, "put the prompt into the model's chat template")
	f.StringVar(&o.system, "system", "", "chat: `text` of a system message before it")
	f.IntVar(&o.maxTokens, "max-tokens", 128, "tokens to write at most")
	f.Uint64Var(&o.seed, "seed", 1, "of every draw")
	f.StringArrayVar(&o.stop, "stop", nil, "`text` that ends the answer; may be repeated")
	f.BoolVar(&o.ignoreEOS, "ignore-eos", false, "write on where the model would end")
	f.Float64Var(&o.sampling.Temperature, "temperature", 0, "0 is greedy (default: what the model's makers suggest)")
	f.IntVar(&o.sampling.TopK, "top-k", 0, "draw from so many most probable tokens; 0 or -1: all")
	f.Float64Var(&o.sampling.TopP, "top-p", 1, "draw from the fewest tokens that reach this probability")
	f.Float64Var(&o.sampling.MinP, "min-p", 0, "draw from tokens of at least this share of the largest probability")
	f.Float64Var(&o.sampling.RepetitionPenalty, "repetition-penalty", 1, "above 1: avoid tokens that prompt or answer hold")
	f.Float64Var(&o.sampling.PresencePenalty, "presence-penalty", 0, "above 0: avoid tokens that the answer holds")
	f.Float64Var(&o.sampling.FrequencyPenalty, "frequency-penalty", 0, "above 0: avoid tokens, the more often the answer holds them")
	f.IntVar(&o.sampling.MinTokens, "min-tokens", 0, "tokens to write at least")
	f.BoolVar(&o.mark, "mark", false, "mark what the large model wrote by ⟪ and ⟫")
	f.BoolVar(&o.json, "json", false, "print one JSON object for each token")
	f.StringVar(&o.log, "log", "", logFlag)
}

// check refuses what cannot be meant, before any model is read.
func (o *generateOptions) check(f *pflag.FlagSet) error {
	if err := wantValues(f, "stop", "log"); err != nil {
		return err
	}
	switch {
	case o.maxTokens < 1 || o.maxTokens > mostContext:
		return fmt.Errorf("--max-tokens must be 1 to %d, got %d", mostContext, o.maxTokens)
	case o.threads < 0:
		return fmt.Errorf("--threads must be at least 0, got %d", o.threads)
	case o.sampling.MinTokens > o.maxTokens:
		return fmt.Errorf("--min-tokens is %d, more than --max-tokens, which is %d", o.sampling.MinTokens, o.maxTokens)
	case f.Changed("system") && !o.chat:
		return errors.New("--system is part of a chat template\n  fix: add --chat")
	}
	var wrong *backend.SamplingError
	if err := o.sampling.Validate(math.MaxInt32); errors.As(err, &wrong) {
		return fmt.Errorf("--%s %s", strings.ReplaceAll(wrong.Field, "_", "-"), wrong.Problem)
	}
	// To Sampling 0 means "not given", to whoever writes it something else.
	for _, flag := range []struct {
		name  string
		value float64
	}{{"top-p", o.sampling.TopP}, {"repetition-penalty", o.sampling.RepetitionPenalty}} {
		if flag.value == 0 {
			return fmt.Errorf("--%s must be more than 0; 1 changes nothing", flag.name)
		}
	}
	return o.pairOptions.check(f)
}
