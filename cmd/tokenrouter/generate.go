package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/backend/tokenizer"
	"github.com/tokenrouter/tokenrouter/experiments/engines"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// The pair that generate runs when none is named.
const (
	toySmall = "toy:qwen3"
	toyLarge = "toy:llama"
)

// generateOptions are the flags of generate.
type generateOptions struct {
	small, large     string
	algorithm        string
	threshold, share float64
	threads          int
	chat             bool
	system           string
	maxTokens        int
	seed             uint64
	stop             []string
	ignoreEOS        bool
	sampling         backend.Sampling
	mark, json       bool
}

func newGenerate() *cobra.Command {
	var o generateOptions
	cmd := &cobra.Command{
		Use:   "generate [PROMPT|-]",
		Short: "Write a text with a routed pair of models",
		Long: `generate runs a prompt through two models that take turns at writing the answer,
on this machine, and prints it as it comes: on a terminal in colours, by the
model that wrote each token. The routing algorithm reads the small model's
signals. With --small alone that model writes everything.

Without models it runs two toys with made-up weights: they write nonsense, and
need no download. PROMPT may be - for standard input.`,
		Example: `  tokenrouter generate "Once upon a time"
  tokenrouter generate --small models/qwen3-0.6b --large models/qwen3-4b --chat "Why is the sky blue?"
  tokenrouter generate --algorithm rstitch --threshold 0.3 --temperature 0.7 --seed 7 --mark
  tokenrouter generate --small toy:qwen3 --max-tokens 20 --json hello`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := promptText(cmd.InOrStdin(), args)
			if err != nil {
				return err
			}
			return o.run(cmd, text)
		},
	}
	o.flags(cmd)
	return cmd
}

func (o *generateOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.small, "small", "", "the model where the text begins: "+modelFlag)
	f.StringVar(&o.large, "large", "", "the model that writes the tokens that are routed; the same")
	f.StringVar(&o.algorithm, "algorithm", "confidence", "who decides: confidence, rstitch, me, fusion, matrix, never")
	f.Float64Var(&o.threshold, "threshold", 0.5, "confidence, rstitch: of the signal")
	f.Float64Var(&o.share, "share", 0.2, "matrix: of the small model's tokens that go to the large one")
	f.IntVar(&o.threads, "threads", 0, "cores for each model (default: all, shared out)")
	f.BoolVar(&o.chat, "chat", false, "put the prompt into the model's chat template")
	f.StringVar(&o.system, "system", "", "chat: `text` of a system message before it")
	f.IntVar(&o.maxTokens, "max-tokens", 128, "tokens to write at most")
	f.Uint64Var(&o.seed, "seed", 1, "of every draw")
	f.StringArrayVar(&o.stop, "stop", nil, "`text` that ends the answer; may be repeated")
	f.BoolVar(&o.ignoreEOS, "ignore-eos", false, "write on where the model would end")
	f.Float64Var(&o.sampling.Temperature, "temperature", 0, "0 is greedy (default: what the model's makers suggest)")
	f.IntVar(&o.sampling.TopK, "top-k", 0, "draw from so many most probable tokens; 0: all")
	f.Float64Var(&o.sampling.TopP, "top-p", 1, "draw from the fewest tokens that reach this probability")
	f.Float64Var(&o.sampling.MinP, "min-p", 0, "draw from tokens of at least this share of the largest probability")
	f.Float64Var(&o.sampling.RepetitionPenalty, "repetition-penalty", 1, "above 1: avoid tokens that prompt or answer hold")
	f.Float64Var(&o.sampling.PresencePenalty, "presence-penalty", 0, "above 0: avoid tokens that the answer holds")
	f.Float64Var(&o.sampling.FrequencyPenalty, "frequency-penalty", 0, "the same, the more often it holds them")
	f.IntVar(&o.sampling.MinTokens, "min-tokens", 0, "tokens to write at least")
	f.BoolVar(&o.mark, "mark", false, "mark what the large model wrote by ⟪ and ⟫")
	f.BoolVar(&o.json, "json", false, "print one JSON object for each token")
	completeModels(cmd, "small", "large")
	complete(cmd, "algorithm", "confidence", "rstitch", "me", "fusion", "matrix", "never")
}

// promptText is the prompt: an argument, standard input, or a beginning that
// everybody knows.
func promptText(in io.Reader, args []string) (string, error) {
	switch {
	case len(args) == 0:
		return "Once upon a time", nil
	case args[0] != "-":
		return args[0], nil
	}
	const most = 64 << 20
	text, err := io.ReadAll(io.LimitReader(in, most))
	if err != nil {
		return "", fmt.Errorf("read the prompt: %w", err)
	}
	return strings.TrimSuffix(string(text), "\n"), nil // which echo and editors add
}

// pair is what writes: one or two models with a tokenizer in common.
type pair struct {
	names   []string
	weights []*engines.Weights
	tok     *tokenizer.Tokenizer
}

func (p *pair) close() {
	for _, w := range p.weights {
		w.Close() // nothing is written to them
	}
}

// open opens the models that the flags name.
func (o *generateOptions) open() (*pair, error) {
	if o.small == "" && o.large == "" {
		o.small, o.large = toySmall, toyLarge
	}
	if o.small == "" {
		return nil, &usageError{errors.New("--large needs --small, where the text begins")}
	}
	p := &pair{}
	for _, m := range []struct{ role, name string }{{"small", o.small}, {"large", o.large}} {
		if m.name == "" {
			continue
		}
		w, err := engines.Open(m.name)
		if err != nil {
			p.close()
			return nil, &usageError{fmt.Errorf("--%s: %w", m.role, err)}
		}
		p.names, p.weights = append(p.names, m.role), append(p.weights, w)
	}
	var err error
	if p.tok, err = p.weights[0].Tokenizer(); err == nil && len(p.weights) == 2 {
		err = engines.SameTokens(p.weights[0], p.weights[1])
	}
	if err != nil {
		p.close()
		return nil, &usageError{err}
	}
	return p, nil
}

// route makes the routing algorithm.
func (o *generateOptions) route(cmd *cobra.Command, models int) (algorithms.Algorithm, error) {
	if models == 1 {
		return algorithms.Never{}, nil
	}
	params := algorithms.Params{Models: models, Small: 0, Large: 1}
	switch o.algorithm {
	case "matrix":
		if !(o.share >= 0 && o.share <= 1) {
			return nil, &usageError{fmt.Errorf("--share must be between 0 and 1, got %g", o.share)}
		}
		params.Matrix = [][]float64{{1 - o.share, o.share}, {1, 0}}
	case "me", "fusion":
		params.Weights = []float64{0.5, 0.5}
	case "confidence":
		params.Threshold = &o.threshold
	default:
		if cmd.Flags().Changed("threshold") {
			params.Threshold = &o.threshold
		}
	}
	a, err := algorithms.New(o.algorithm, params)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--algorithm %s: %w", o.algorithm, err)}
	}
	return a, nil
}

// tokens turns the prompt into tokens.
func (o *generateOptions) tokens(tok *tokenizer.Tokenizer, text string) ([]algorithms.Token, error) {
	if !o.chat {
		ids := tok.Encode(text, true)
		if len(ids) == 0 {
			return nil, &usageError{errors.New("the prompt is empty")}
		}
		return ids, nil
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	messages := []message{{"user", text}}
	if o.system != "" {
		messages = append([]message{{"system", o.system}}, messages...)
	}
	raw, err := json.Marshal(messages)
	if err != nil {
		return nil, err
	}
	ids, err := tok.EncodeChat(raw, tokenizer.ChatOptions{AddGenerationPrompt: true})
	if err != nil {
		return nil, &usageError{fmt.Errorf("--chat: %w", err)}
	}
	return ids, nil
}

// suggested takes over what the model's makers suggest, where no flag says more.
func (o *generateOptions) suggested(cmd *cobra.Command, w *engines.Weights) {
	g := &w.Generation
	if !g.DoSample {
		return
	}
	s := &o.sampling
	for _, f := range []struct {
		flag string
		take func()
	}{
		{"temperature", func() { s.Temperature = g.Temperature }},
		{"top-k", func() { s.TopK = g.TopK }},
		{"top-p", func() { s.TopP = g.TopP }},
		{"min-p", func() { s.MinP = g.MinP }},
		{"repetition-penalty", func() { s.RepetitionPenalty = g.RepetitionPenalty }},
	} {
		if !cmd.Flags().Changed(f.flag) {
			f.take()
		}
	}
	if s.Temperature == 0 && !cmd.Flags().Changed("temperature") {
		s.Temperature = 1
	}
}

func (o *generateOptions) run(cmd *cobra.Command, text string) error {
	if o.maxTokens < 1 || o.threads < 0 {
		return &usageError{errors.New("--max-tokens must be at least 1, --threads at least 0")}
	}
	p, err := o.open()
	if err != nil {
		return err
	}
	defer p.close()
	o.suggested(cmd, p.weights[0])
	prompt, err := o.tokens(p.tok, text)
	if err != nil {
		return err
	}
	watch := &handoffs{}
	config, err := o.config(cmd, p, len(prompt), watch)
	if err != nil {
		return err
	}
	defer func() {
		for _, m := range config.Models {
			m.Engine.Close() // the text is written
		}
	}()
	system, err := subserver.Start(config)
	if err != nil {
		return &usageError{err}
	}
	defer system.Close() // what it says ends no text that is not over
	request := &subserver.Request{Prompt: prompt, MaxTokens: o.maxTokens, Seed: o.seed, Sampling: o.sampling, Stop: o.stop, Logprobs: -1}
	if !o.ignoreEOS {
		request.EOS = p.tok.EOS()
	}
	return o.write(cmd, p, system, request, watch)
}

// config lays out the system: one request, so every threshold is 1.
func (o *generateOptions) config(cmd *cobra.Command, p *pair, prompt int, watch subserver.Observer) (c subserver.Config, err error) {
	if c.Algorithm, err = o.route(cmd, len(p.weights)); err != nil {
		return c, err
	}
	tok := p.tok
	c.Rule, c.QueueLimit, c.Observer = scheduler.Eager{}, 1, watch
	c.NewDetokenizer = func() subserver.Detokenizer { return tok.NewDecoder(true) }
	threads := o.threads
	if threads == 0 {
		threads = max(runtime.GOMAXPROCS(0)/len(p.weights), 1)
	}
	const blockTokens, chunkTokens = 16, 512
	row := []int{}
	for i, w := range p.weights {
		kv := min(prompt+o.maxTokens+1, w.Config.MaxPositions)
		kv = (kv + blockTokens - 1) / blockTokens * blockTokens
		if prompt >= w.Config.MaxPositions {
			err = &usageError{fmt.Errorf("the prompt has %d tokens, and %s was made for %d", prompt, p.names[i], w.Config.MaxPositions)}
		}
		var e backend.Engine
		if err == nil {
			e, err = w.CPU(engines.Options{Threads: threads, KVTokens: kv, BlockTokens: blockTokens})
		}
		if err != nil {
			for _, m := range c.Models {
				m.Engine.Close()
			}
			return c, err
		}
		c.Models = append(c.Models, subserver.Model{Name: p.names[i], Engine: e, MaxRunning: 1, ChunkTokens: chunkTokens,
			KVTokens: kv, BlockTokens: blockTokens})
		row = append(row, 1)
	}
	c.Thresholds = scheduler.Thresholds{row}
	return c, nil
}

// handoffs counts visits.
type handoffs struct{ visits atomic.Int64 }

func (*handoffs) Stepped(int, int64, int64, *scheduler.Batch, int) {}
func (*handoffs) Event(int, *scheduler.Event)                      {}
func (h *handoffs) Messages(_ int, _ int64, out []scheduler.Message) {
	for i := range out {
		if out[i].Kind == scheduler.Send {
			h.visits.Add(1)
		}
	}
}

// write prints the answer as it comes, and then what it took.
func (o *generateOptions) write(cmd *cobra.Command, p *pair, system *subserver.System, r *subserver.Request, watch *handoffs) error {
	start := time.Now()
	stream, err := system.Submit(cmd.Context(), r)
	if err != nil {
		return &usageError{err}
	}
	out := newTokens(cmd.OutOrStdout(), o, p)
	var first time.Duration
	written := make([]int, len(p.names))
	for {
		c, err := stream.Next(cmd.Context())
		if err != nil {
			out.end()
			o.account(cmd, p, written, first, time.Since(start), watch.visits.Load())
			return generateError(cmd.Context(), err)
		}
		if first == 0 && len(c.Tokens) > 0 {
			first = time.Since(start)
		}
		written[c.Writer] += len(c.Tokens)
		if err := out.chunk(&c); err != nil {
			return err
		}
	}
}

// generateError tells the end of a text from what broke it off.
func generateError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case ctx.Err() != nil:
		return errInterrupted
	}
	return err
}

// account says on standard error what the text took.
func (o *generateOptions) account(cmd *cobra.Command, p *pair, written []int, first, took time.Duration, visits int64) {
	total := 0
	for _, n := range written {
		total += n
	}
	text := fmt.Sprintf("%d tokens in %.2f s, %.1f tok/s, the first after %.2f s", total, took.Seconds(),
		float64(total)/math.Max(took.Seconds(), 1e-9), first.Seconds())
	for i, n := range written {
		text += fmt.Sprintf("; %s (%s) wrote %.0f %%", p.names[i], engines.ShortName(p.weights[i].Name), 100*float64(n)/math.Max(float64(total), 1))
	}
	if len(p.names) > 1 {
		text += fmt.Sprintf("; %d visits to the large model", visits)
	}
	cmd.PrintErrln(strings.TrimSpace(text))
}
