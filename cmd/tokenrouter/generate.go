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

// generateOptions are the flags of generate.
type generateOptions struct {
	pairOptions
	chat       bool
	system     string
	maxTokens  int
	seed       uint64
	stop       []string
	ignoreEOS  bool
	sampling   backend.Sampling
	mark, json bool
	log        string
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
			if err := o.check(cmd.Flags()); err != nil {
				return &usageError{err}
			}
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
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the prompt: %w", err)
	case len(text) > most:
		return "", &usageError{fmt.Errorf("the prompt has more than %d bytes, beyond the context of any model", most)}
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
func (o *generateOptions) open(ctx context.Context) (*pair, error) {
	p := &pair{}
	var needs []engines.Need
	for _, m := range o.models() {
		needs = append(needs, engines.Need{Name: m.name})
		if err := engines.Fits(needs...); err != nil { // before the first of them takes any
			return nil, &usageError{fmt.Errorf("--%s: %w", m.role, err)}
		}
	}
	for _, m := range o.models() {
		w, err := engines.Open(ctx, m.name)
		if err != nil {
			p.close()
			return nil, &usageError{fmt.Errorf("--%s: %w", m.role, err)}
		}
		p.names, p.weights = append(p.names, m.role), append(p.weights, w)
	}
	var err error
	if p.tok, err = p.weights[0].Tokenizer(); err != nil {
		err = fmt.Errorf("--small: %w", err)
	} else if len(p.weights) == 2 {
		err = engines.SameTokens(p.weights[0], p.weights[1])
	}
	if err != nil {
		p.close()
		return nil, &usageError{err}
	}
	return p, nil
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
	log, err := createLog(o.log)
	if err != nil {
		return err
	}
	return errors.Join(o.generate(cmd, text, log), log.close())
}

// generate writes the text, and closes what it opens.
func (o *generateOptions) generate(cmd *cobra.Command, text string, log *eventLog) error {
	p, err := o.open(cmd.Context())
	if err != nil {
		return err
	}
	defer p.close()
	for _, w := range p.weights {
		if text := w.Crowded(); text != "" {
			cmd.PrintErrln("warning: " + text)
		}
	}
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
	log.of(&config)
	system, err := subserver.Start(config)
	if err != nil {
		return &usageError{err}
	}
	request := &subserver.Request{Prompt: prompt, MaxTokens: o.maxTokens, Seed: o.seed, Sampling: o.sampling, Stop: o.stop, Logprobs: -1}
	if !o.ignoreEOS {
		request.EOS = p.tok.EOS()
	}
	err = o.write(cmd, p, system, request, watch)
	closing := system.Close() // it ends the log
	if log == nil {
		closing = nil // what it says ends no text that is not over
	}
	return errors.Join(err, closing)
}

// config lays out the system: one request, so every threshold is 1.
func (o *generateOptions) config(cmd *cobra.Command, p *pair, prompt int, watch subserver.Observer) (c subserver.Config, err error) {
	c.Algorithm, c.Params, err = o.routing()
	if err != nil {
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
			return c, &usageError{err}
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
			if why, ended := stream.Reason(); ended && why == scheduler.ReasonLength {
				o.fullContext(cmd, len(r.Prompt), written)
			}
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

// fullContext says so if the text ended before its length, since the models take
// no more.
func (o *generateOptions) fullContext(cmd *cobra.Command, prompt int, written []int) {
	total := 0
	for _, n := range written {
		total += n
	}
	if total < o.maxTokens {
		cmd.PrintErrf("warning: the text ends here because the context is full: %d tokens of prompt and %d of text\n", prompt, total)
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
	text := fmt.Sprintf("%d tokens in %.2f s, %.1f token/s, the first after %.2f s", total, took.Seconds(),
		float64(total)/math.Max(took.Seconds(), 1e-9), first.Seconds())
	for i, n := range written {
		text += fmt.Sprintf("; %s (%s) wrote %.0f %%", p.names[i], engines.ShortName(p.weights[i].Name), 100*float64(n)/math.Max(float64(total), 1))
	}
	if len(p.names) > 1 {
		text += fmt.Sprintf("; %d visits to the large model", visits)
	}
	cmd.PrintErrln(strings.TrimSpace(text))
	for _, w := range p.weights {
		if !engines.IsFolder(w.Name) {
			cmd.PrintErrln(madeUpNote)
			return
		}
	}
}

// madeUpNote is for those who wonder at the text.
const madeUpNote = "the text makes no sense because weights are made up (toy:… and random:…)\n" +
	"  fix: fetch a model, as with: hf download Qwen/Qwen3-0.6B --local-dir models/qwen3-0.6b\n" +
	"       and then: tokenrouter generate --small models/qwen3-0.6b --chat \"Why is the sky blue?\""
