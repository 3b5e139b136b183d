package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/frontdoor"
	"github.com/tokenrouter/tokenrouter/backend/paced"
	"github.com/tokenrouter/tokenrouter/backend/serving"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/backend/tokenizer"
	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/experiments/engines"
	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// site is all that serve has open.
type site struct {
	house   *frontdoor.House
	service *serving.Service
	models  []servedModel
	log     *eventLog
}

// servedModel is one of its models.
type servedModel struct {
	name    string // as it was asked for
	shown   string // to clients
	here    bool   // in this process
	config  *modelconfig.Config
	weights *engines.Weights // nil if paced, or elsewhere
	engine  backend.Engine
	kv      int               // tokens
	time    steptime.StepTime // of its steps; nil if only running it can tell
}

const serveBlockTokens = 16

func (s *site) close() error {
	var errs []error
	if s.service != nil {
		errs = append(errs, s.service.Close())
	}
	errs = append(errs, s.log.close())
	for _, m := range s.models {
		if m.engine != nil {
			errs = append(errs, m.engine.Close())
		}
		if m.weights != nil {
			m.weights.Close() // nothing is written to them
		}
	}
	return errors.Join(errs...)
}

// open loads the models of this process and starts the system.
func (o *serveOptions) open(ctx context.Context, cmd *cobra.Command) (s *site, err error) {
	s = &site{}
	defer func() {
		if err != nil {
			s.close() // err says more
		}
	}()
	if s.log, err = createLog(o.log); err != nil {
		return s, err
	}
	for _, m := range o.models() {
		c, err := engines.Config(m.name)
		if err != nil {
			return s, &usageError{fmt.Errorf("--%s: %w", m.role, err)}
		}
		s.models = append(s.models, servedModel{name: m.name, shown: engines.ShortName(m.name), config: c, here: true})
	}
	o.nameByProfile(s)
	if n := len(s.models); n == 2 && s.models[0].shown == s.models[1].shown {
		s.models[0].shown, s.models[1].shown = s.models[0].shown+"-small", s.models[1].shown+"-large"
	}
	if err := errors.Join(o.checkNames(s), o.place(s)); err != nil {
		return s, &usageError{err}
	}
	o.fitContext(cmd, s)
	config, err := o.system(cmd, s)
	if err != nil {
		return s, err
	}
	s.log.of(&config)
	if err := o.engines(ctx, s); err != nil {
		return s, err
	}
	if ctx.Err() != nil {
		return s, ctx.Err()
	}
	for i := range s.models {
		m := &s.models[i]
		config.Models = append(config.Models, subserver.Model{Name: m.shown, Engine: m.engine, MaxRunning: o.maxRunning,
			ChunkTokens: max(o.chunkTokens, o.maxRunning+1), KVTokens: m.kv, BlockTokens: serveBlockTokens, MaxContext: o.context})
	}
	if err := s.start(ctx, config); err != nil {
		return s, err
	}
	if s.house, err = o.house(s); err != nil {
		return s, err
	}
	if f := newForecast(&config, 0, o.times(s), s.service); f != nil {
		s.house.Predict = f.predict
	}
	return s, nil
}

// nameByProfile calls models of which only the times are there by these, where
// nobody said what they are.
func (o *serveOptions) nameByProfile(s *site) {
	if o.on != experiments.OnPaced || o.small != toySmall || o.large != toyLarge {
		return
	}
	for i := range s.models {
		if i < len(o.profiles) && o.profiles[i] != "" && o.profiles[i] != "none" {
			s.models[i].shown = strings.TrimSuffix(path.Base(o.profiles[i]), ".toml")
		}
	}
}

// start starts the system. That takes until the other processes are there, and
// whoever asks this one to end meanwhile need not wait for them.
func (s *site) start(ctx context.Context, config subserver.Config) error {
	type outcome struct {
		service *serving.Service
		err     error
	}
	done := make(chan outcome, 1)
	go func() {
		service, err := serving.Start(config, 0)
		done <- outcome{service, err}
	}()
	select {
	case o := <-done:
		if s.service = o.service; o.err != nil {
			return &usageError{o.err}
		}
		return nil
	case <-ctx.Done():
		s.models = nil // what starts after all still uses their engines, until the process ends
		return ctx.Err()
	}
}

// place finds out which models this process has, and how much room they get.
func (o *serveOptions) place(s *site) error {
	if len(o.processes) > 0 && len(o.processes) != len(s.models) {
		return fmt.Errorf("--processes has %d addresses, want %d: one for each model", len(o.processes), len(s.models))
	}
	if len(o.processes) > 0 && !slices.Contains(o.processes, o.own) {
		return fmt.Errorf("--own is %s, which is none of --processes", o.own)
	}
	longest := 8192
	for i := range s.models {
		m := &s.models[i]
		m.here = len(o.processes) == 0 || o.processes[i] == o.own
		longest = min(longest, m.config.MaxPositions)
	}
	if o.context == 0 {
		o.context = longest
	}
	for i := range s.models {
		m := &s.models[i]
		if o.context > m.config.MaxPositions && o.on == experiments.OnCPU {
			return fmt.Errorf("--context is %d, and %s was made for %d tokens", o.context, m.shown, m.config.MaxPositions)
		}
		m.kv = o.kvTokens
		if m.kv == 0 {
			room := int(engines.MemoryBytes() / 8 / engines.KVBytesPerToken(m.config))
			m.kv = max(min(o.maxRunning*o.context, room), o.context+serveBlockTokens-1) // in whole blocks still the context
			if o.on == experiments.OnPaced {
				m.kv = min(max(o.maxRunning*o.context, o.context+serveBlockTokens-1), mostKVTokens)
			}
		}
		m.kv = max(m.kv/serveBlockTokens, 1) * serveBlockTokens
	}
	return nil
}

// fitContext shortens the context to what every model's KV memory holds, and
// says so: a text that cannot end for want of KV is better refused at once than
// broken off when most of it is written.
func (o *serveOptions) fitContext(cmd *cobra.Command, s *site) {
	for i := range s.models {
		if m := &s.models[i]; m.kv < o.context {
			cmd.PrintErrf("a prompt and its answer have at most %d tokens, not %d: that is all that the KV memory of %s holds (--kv-tokens)\n", m.kv, o.context, m.shown)
			o.context = m.kv
		}
	}
}

// system lays out what is not about a single model.
func (o *serveOptions) system(cmd *cobra.Command, s *site) (c subserver.Config, err error) {
	c.Algorithm, c.Params, err = o.routing()
	if err != nil {
		return c, err
	}
	switch o.rule {
	case "eager":
		c.Rule = scheduler.Eager{}
	case "delayed":
		c.Rule = scheduler.Delayed{MaxDelayNs: int64(o.maxDelayMs * 1e6)}
	case "alternate":
		c.Rule = scheduler.Alternate{}
	case "lockstep":
		c.Rule = scheduler.Lockstep{}
	default:
		return c, &usageError{fmt.Errorf("--rule must be delayed, eager, alternate or lockstep, got %q", o.rule)}
	}
	row := o.b
	if len(row) == 0 {
		row = slices.Repeat([]int{1}, len(s.models))
	}
	if len(row) != len(s.models) {
		return c, &usageError{fmt.Errorf("--b has %d values, want %d: one for each model", len(row), len(s.models))}
	}
	c.Thresholds, c.QueueLimit = scheduler.Thresholds{row}, o.queueLimit
	if len(o.processes) == 0 {
		return c, nil
	}
	t := subserver.TCPOptions{Addresses: o.processes, Own: o.own, Missing: func(who string) { cmd.PrintErrln("waiting for " + who) }}
	for i := range s.models {
		t.Models = append(t.Models, s.models[i].shown)
	}
	t.Settings = o.sharedSettings(s, &c, row)
	tcp, err := subserver.NewTCP(t)
	if err != nil {
		return c, &usageError{err}
	}
	c.Transport = tcp
	return c, nil
}

// sharedSettings are a line for each that processes must agree on, so that they
// can tell in which they differ.
func (o *serveOptions) sharedSettings(s *site, c *subserver.Config, b []int) string {
	var kv []int
	for i := range s.models {
		kv = append(kv, s.models[i].kv)
	}
	return fmt.Sprintf("algorithm %s %+v\nrule %s\nb %v\nmax-running %d\ncontext %d\nkv-tokens %v\nseed %d\non %s",
		c.Algorithm.Name(), o.settingsOf(&c.Params), c.Rule, b, o.maxRunning, o.context, kv, o.seed, o.on)
}

// settingsOf are the parts of the algorithm that processes must agree on.
func (o *serveOptions) settingsOf(p *algorithms.Params) []any {
	threshold := -1.0
	if p.Threshold != nil {
		threshold = *p.Threshold
	}
	return []any{threshold, p.Weights, p.Matrix}
}

// engines makes those of this process.
func (o *serveOptions) engines(ctx context.Context, s *site) error {
	if o.on == experiments.OnCPU {
		if err := s.fits(); err != nil {
			return &usageError{err}
		}
	}
	here := 0
	for i := range s.models {
		if s.models[i].here {
			here++
		}
	}
	threads := o.threads
	if threads == 0 {
		threads = max(runtime.GOMAXPROCS(0)/here, 1)
	}
	var open []*engines.Weights
	for i := range s.models {
		m := &s.models[i]
		if !m.here {
			continue
		}
		var made backend.Engine
		var err error
		if o.on == experiments.OnPaced {
			made, err = o.pacedEngine(m, i)
		} else if m.weights, err = engines.Open(ctx, m.name); err == nil {
			open = append(open, m.weights)
			made, err = m.weights.CPU(engines.Options{Name: m.shown, Threads: threads, KVTokens: m.kv, BlockTokens: serveBlockTokens})
		}
		if err != nil {
			return &usageError{err}
		}
		m.engine = made // not before: an interface around no engine is not nil
	}
	if len(open) == 2 {
		if err := engines.SameTokens(open[0], open[1]); err != nil {
			return &usageError{err}
		}
	}
	return nil
}

// fits says why the models of this process do not fit into the memory; nil if
// they do.
func (s *site) fits() error {
	var needs []engines.Need
	for i := range s.models {
		if m := &s.models[i]; m.here {
			needs = append(needs, engines.Need{Name: m.name, KVTokens: m.kv})
		}
	}
	return engines.Fits(needs...)
}

// pacedEngine writes made-up words as fast as a profile says.
func (o *serveOptions) pacedEngine(m *servedModel, i int) (backend.Engine, error) {
	options := paced.Options{Model: m.shown, Vocab: m.config.Vocab, MaxContext: o.context, Blocks: m.kv / serveBlockTokens, BlockTokens: serveBlockTokens, Token: madeUpLetter}
	if i < len(o.profiles) && o.profiles[i] != "" && o.profiles[i] != "none" {
		p, err := steptime.Find(o.profiles[i])
		if err != nil {
			return nil, fmt.Errorf("--profiles: %w", err)
		}
		options.Time = p.Compile()
		m.time = options.Time
	}
	return paced.New(options)
}

// times are the step times of the models, as far as they are known beforehand.
func (o *serveOptions) times(s *site) []steptime.StepTime {
	times := make([]steptime.StepTime, len(s.models))
	for i := range s.models {
		if s.models[i].here {
			times[i] = s.models[i].time
		}
	}
	return times
}

// madeUpLetter is the token of a letter, or of a space: those of all models that
// are not there are bytes.
func madeUpLetter(seed uint64, position int) backend.Token {
	const letters = "etaoinshrdlucmfwyp gvbk e t a o"
	return backend.Token(letters[algorithms.Bits(seed, position, purposeLetter)%uint64(len(letters))])
}

const purposeLetter algorithms.Purpose = 0x5e01

// house describes the site to the front door.
func (o *serveOptions) house(s *site) (*frontdoor.House, error) {
	h := &frontdoor.House{Service: s.service, Thresholds: s.service.Thresholds(), Context: o.context, AnswersMax: o.queueLimit + o.maxRunning, MaxLogprobs: o.maxLogprobs, Version: version(), Seed: o.seed}
	for i := range s.models {
		m := &s.models[i]
		model := frontdoor.Model{Name: m.shown, Here: m.here}
		if m.weights != nil {
			model.Defaults = suggestedBy(m.weights)
		}
		h.Models = append(h.Models, model)
		if !m.here || h.Tokenizer != nil {
			continue
		}
		h.Path, h.Kind, h.Class, h.Vocab = m.name, m.config.ModelType, m.config.Architecture, m.config.Vocab
		var err error
		switch {
		case m.weights != nil:
			h.Tokenizer, err = m.weights.Tokenizer()
		case engines.IsFolder(m.name):
			h.Tokenizer, err = tokenizer.Open(m.name)
		default:
			h.Tokenizer = tokenizer.Bytes(m.config.Vocab)
		}
		if err != nil {
			return nil, &usageError{err}
		}
		h.EOS = h.Tokenizer.EOS()
	}
	if s.models[0].here {
		h.Names = o.name
	}
	h.Settings = map[string]any{"host": o.host, "port": o.port, "small": o.small, "large": o.large, "on": o.on, "algorithm": o.algorithm,
		"threshold": o.threshold, "rule": o.rule, "b": o.b, "max_running_requests": o.maxRunning, "max_queued_requests": o.queueLimit,
		"context_length": o.context, "chunked_prefill_size": o.chunkTokens, "started": time.Now().Unix()}
	return h, nil
}

// suggestedBy is how a model's makers suggest to sample.
func suggestedBy(w *engines.Weights) (d frontdoor.Defaults) {
	g := &w.Generation
	if !g.DoSample {
		return d
	}
	given := func(x float64) *float64 {
		if x == 0 {
			return nil
		}
		return &x
	}
	d.Temperature, d.TopP, d.MinP, d.RepetitionPenalty = given(g.Temperature), given(g.TopP), given(g.MinP), given(g.RepetitionPenalty)
	if g.TopK != 0 {
		k := int64(g.TopK)
		d.TopK = &k
	}
	return d
}
