package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/loadtest"
)

// benchOptions are the flags of bench that are no keys of an experiment.
type benchOptions struct {
	baseURL     string
	inProcess   string
	within      bool // inProcess was given, be it empty
	standard    []string
	models      []string
	api         string
	keyEnv      string
	temperature float64
	vocab       int
	text, plain bool
	timeoutS    float64
	json        bool
	out         string
	set         []string
}

func newBench() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench --base-url URL [FILE|NAME]",
		Short: "Measure a running server: TTFT, TPOT, ITL, E2E, goodput",
		Long: `bench sends requests to a server that speaks OpenAI's or SGLang's protocol (vLLM,
SGLang, tokenrouter serve) and prints what its clients see. The load is described
as in experiments, by flags or by an experiment file, of which the workload is
taken; figures have the same definitions, so that they can be compared with
simulated ones.

Prompts are made-up token ids where the server takes them, so that lengths are
exact, else common words, measured first so that lengths are right on average.
Answers have a set length (ignore_eos, min_tokens). What the server takes is
found out by a few short requests before the run, and said.

--in-process FLAGS measures tokenrouter serve with these flags, started here and
asked over a loopback socket.

--std-serving SMALL LARGE drives two servers as the published baseline does: a
dispatcher outside of them sends a new request with max_tokens = 1 for every
token, to the server that the routing names. It needs token ids in the answers:
vLLM does, and SGLang with --api generate.

Interrupt it when you like: the figures so far are printed. The exit code is 1 if
more requests failed than ended well.`,
		Example: `  tokenrouter bench --base-url http://127.0.0.1:8000 --concurrency 16 --requests 200
  tokenrouter bench --base-url http://127.0.0.1:8000 --workload poisson --rate-per-s 4 --lengths aime-low --ttft-ms 500 --tpot-ms 50
  tokenrouter bench --base-url http://127.0.0.1:30000 --api generate --set 'sweep.workload.concurrency=[1, 4, 16]' --out results/sglang
  tokenrouter bench --in-process '--on paced --b 1,8' --concurrency 16
  tokenrouter bench --std-serving http://127.0.0.1:8000 http://127.0.0.1:8001 --matrix '[[0.95, 0.05], [1, 0]]'`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeExperiment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.baseURL, "base-url", "", "`URL` of the server, with or without /v1")
	f.StringVar(&o.inProcess, "in-process", "", "no URL: serve in this process, with these `flags` of tokenrouter serve, which may be ''")
	f.StringSliceVar(&o.standard, "std-serving", nil, "`URLs` of a small and a large server to route tokens between; the second may follow as an argument")
	f.StringSliceVar(&o.models, "model", nil, "`name` to ask for; std-serving: one for each server (default: the first that the server lists)")
	f.StringVar(&o.api, "api", loadtest.Completions.String(), "protocol: completions, chat or generate (SGLang's own)")
	f.StringVar(&o.keyEnv, "api-key-env", "", "`variable` of the environment that holds the bearer token")
	f.Float64Var(&o.temperature, "temperature", 0, "of sampling")
	f.IntVar(&o.vocab, "vocab", loadtest.DefaultVocab, "made-up token ids stay below this")
	f.BoolVar(&o.text, "text", false, "prompts of words even where ids are taken")
	f.BoolVar(&o.plain, "plain", false, "send nothing beyond OpenAI's own protocol: answers may be shorter")
	f.Float64Var(&o.timeoutS, "timeout-s", 60, "a request fails if no token comes for so long")
	f.BoolVar(&o.json, "json", false, "print one JSON object for each run instead of tables")
	f.StringVar(&o.out, "out", "", "folder for results.csv and results.jsonl")
	addBenchKeys(f)
	addSet(cmd, &o.set)
	return cmd
}

// split takes the second URL of --std-serving out of the arguments and returns
// the experiment, "" if none is named.
func (o *benchOptions) split(args []string) (name string, err error) {
	for _, arg := range args {
		switch {
		case strings.Contains(arg, "://") && len(o.standard) == 1:
			o.standard = append(o.standard, arg)
		case strings.Contains(arg, "://"):
			return "", fmt.Errorf("%s: a URL follows --base-url or --std-serving", arg)
		case name != "":
			return "", fmt.Errorf("%s and %s: at most one experiment gives the load", name, arg)
		default:
			name = arg
		}
	}
	return name, nil
}

// check looks at the flags that are no keys.
func (o *benchOptions) check() error {
	most := 1
	switch {
	case o.baseURL == "" && len(o.standard) == 0 && !o.within:
		return errors.New("no server to measure\n  fix: add --base-url http://HOST:PORT, --in-process '', or --std-serving URL URL")
	case len(o.standard) > 0:
		if most = 2; len(o.standard) != most {
			return fmt.Errorf("--std-serving needs the URLs of a small and a large server, got %d", len(o.standard))
		}
		if o.api == loadtest.Chat.String() {
			return errors.New("--std-serving goes on from token ids, which a chat does not take: use --api completions or generate")
		}
	}
	switch {
	case len(o.models) > 0 && o.api == loadtest.Generate.String():
		return errors.New("--model has no meaning for --api generate, in which a request names no model: its server has one")
	case len(o.models) > most:
		return fmt.Errorf("--model names %d models, there are at most %d", len(o.models), most)
	case !(o.temperature >= 0) || math.IsInf(o.temperature, 0):
		return fmt.Errorf("--temperature must be at least 0 and finite, got %g", o.temperature)
	case o.vocab < 2 || o.vocab > math.MaxInt32:
		return fmt.Errorf("--vocab must be at least 2 and fit into 31 bits, got %d", o.vocab)
	case !(o.timeoutS > 0 && o.timeoutS <= 1e6):
		return fmt.Errorf("--timeout-s must be more than 0 and at most 1000000, got %g", o.timeoutS)
	case o.keyEnv != "" && os.Getenv(o.keyEnv) == "":
		return fmt.Errorf("--api-key-env: %s is not set", o.keyEnv)
	}
	return nil
}

// servers are those that the flags name.
func (o *benchOptions) servers(streams int) ([]*loadtest.Server, error) {
	api, err := loadtest.ParseAPI(o.api)
	if err != nil {
		return nil, fmt.Errorf("--api: %w", err)
	}
	flag, urls := "--base-url", []string{o.baseURL}
	if len(o.standard) > 0 {
		flag, urls = "--std-serving", o.standard
	}
	client := loadtest.NewHTTPClient(streams, nil)
	var out []*loadtest.Server
	for i, text := range urls {
		base, err := loadtest.ParseURL(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		s := &loadtest.Server{URL: base, API: api, Temperature: o.temperature, Vocab: o.vocab, HTTP: client}
		if i < len(o.models) {
			s.Model = o.models[i]
		}
		if o.keyEnv != "" {
			s.Key = os.Getenv(o.keyEnv)
		}
		out = append(out, s)
	}
	return out, nil
}

// idleStreams is for how many streams connections are kept at least.
const idleStreams = 256

func (o *benchOptions) run(cmd *cobra.Command, args []string) error {
	o.within = cmd.Flags().Changed("in-process")
	name, err := o.split(args)
	if err == nil {
		err = checkRivals(cmd.Flags())
	}
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return &usageError{err}
	}
	plan, err := benchPlan(cmd.Flags(), name, o.set)
	if err != nil {
		return err
	}
	cells := benchCells(plan, len(o.standard) > 0)
	streams := idleStreams
	for _, c := range cells {
		streams = max(streams, c.point.Spec.Workload.Concurrency)
	}
	if o.within {
		server, err := startInProcess(cmd, o.inProcess)
		if err != nil {
			return err
		}
		o.baseURL = server.url
		return errors.Join(o.measure(cmd, plan, cells, streams), server.close())
	}
	return o.measure(cmd, plan, cells, streams)
}

// measure runs all cells.
func (o *benchOptions) measure(cmd *cobra.Command, plan *experiments.Plan, cells []benchCell, streams int) error {
	servers, err := o.servers(streams)
	if err != nil {
		return &usageError{err}
	}
	b := &bench{options: o, cmd: cmd, plan: plan, servers: servers, out: newBenchOutput(o, plan)}
	if err := b.probe(cmd.Context(), &cells[0]); err != nil {
		return err
	}
	for i := range cells {
		if err := b.cell(cmd.Context(), &cells[i]); err != nil {
			return errors.Join(b.out.finish(cmd, servers), err)
		}
	}
	return b.out.finish(cmd, servers)
}

// bench is one call of the verb.
type bench struct {
	options *benchOptions
	cmd     *cobra.Command
	plan    *experiments.Plan
	servers []*loadtest.Server
	client  *loadtest.Client
	out     *benchOutput
}

func (b *bench) patience() time.Duration {
	return seconds(b.options.timeoutS)
}

// probe finds out what the servers take.
func (b *bench) probe(ctx context.Context, first *benchCell) error {
	err := func() error {
		if len(b.options.standard) > 0 {
			d, err := b.dispatcher(first)
			if err != nil {
				return &usageError{err}
			}
			err = d.Probe(ctx, b.patience())
			for _, note := range d.Notes() {
				b.cmd.PrintErrln("warning: " + note)
			}
			return err
		}
		b.client = &loadtest.Client{Server: *b.servers[0], Text: b.options.text, Plain: b.options.plain}
		p, err := b.client.Probe(ctx, b.patience())
		if err != nil {
			return fmt.Errorf("%s: %w", b.client.URL, err)
		}
		b.servers[0].Model = b.client.Model
		b.out.probed(p)
		return nil
	}()
	if ctx.Err() != nil {
		return errInterrupted
	}
	var refused *loadtest.Failure
	if errors.As(err, &refused) {
		return fmt.Errorf("%w\n  fix: see that the server runs and serves that model by --api %s", err, b.options.api)
	}
	return err
}

func (b *bench) dispatcher(c *benchCell) (*loadtest.Dispatcher, error) {
	spec := c.point.Spec
	if len(spec.Models) != len(b.servers) {
		return nil, fmt.Errorf("the experiment has %d models, --std-serving two servers", len(spec.Models))
	}
	a, err := spec.NewAlgorithm()
	if err != nil {
		return nil, err
	}
	return loadtest.NewDispatcher(b.servers, a, spec.Home)
}

// cell runs one load and shows what came of it. The error is that of an
// interrupt, or says that more requests failed than ended well.
func (b *bench) cell(ctx context.Context, c *benchCell) error {
	w := &c.point.Spec.Workload
	cfg := &loadtest.Config{Target: b.client, Load: c.load(), Models: len(b.servers), Patience: b.patience(),
		DurationNs: int64(w.DurationS * 1e9), WarmupNs: int64(w.WarmupS * 1e9)}
	if b.client == nil {
		d, err := b.dispatcher(c)
		if err != nil {
			return &usageError{err}
		}
		if err := d.Probe(ctx, b.patience()); err != nil {
			return err
		}
		cfg.Target = d
	}
	var p loadtest.Progress
	shown := showBench(b.cmd.ErrOrStderr(), &p, cfg)
	r, err := loadtest.Run(ctx, cfg, &p)
	shown()
	if err := b.out.add(b.cmd, c, b.servers, r, err != nil); err != nil {
		return err
	}
	switch {
	case err != nil:
		return errInterrupted
	case r.Ended > 0 && r.Good == 0:
		f := &r.Failures[0]
		return fmt.Errorf("no request ended well, the most frequent failure: %s: %s", f.Kind, f.First)
	case r.Ended-r.Good > r.Good:
		f := &r.Failures[0]
		return fmt.Errorf("%d of %d requests failed, most often: %s: %s", r.Ended-r.Good, r.Ended, f.Kind, f.First)
	}
	return nil
}
