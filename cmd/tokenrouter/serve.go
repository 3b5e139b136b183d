package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tokenrouter/tokenrouter/backend/frontdoor"
	"github.com/tokenrouter/tokenrouter/experiments"
)

// What a process does when one of the models is lost.
const (
	lostExit = "exit"
	lostStay = "stay"
)

// serveOptions are the flags of serve, and the keys of its file.
type serveOptions struct {
	host   string
	port   int
	apiKey string
	name   []string

	pairOptions
	on          string
	profiles    []string
	context     int
	kvTokens    int
	maxRunning  int
	chunkTokens int
	queueLimit  int
	b           []int
	rule        string
	maxDelayMs  float64
	maxLogprobs int
	seed        uint64
	drainS      float64
	log         string
	processes   []string
	own         string
	onLost      string
}

func newServe() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve [FILE.toml]",
		Short: "Serve a routed pair of models to clients of OpenAI, vLLM and SGLang",
		Long: `serve answers HTTP as vLLM and SGLang do: /v1/chat/completions, /v1/completions,
/generate, streams, /metrics. The routed pair has a name of its own, the first in
/v1/models; each model alone can be asked for by its name.

The address itself, in a browser, shows the models at work, and which of them
writes each token of an answer.

Without models it runs two toys with made-up weights: they write nonsense, and
need no download. With --on paced no model runs at all: steps take as long as a
profile says, to try the speed of GPUs that are not there. Their tokens are made
up from the seed: sampling settings change nothing but that equal prompts have
equal answers at temperature 0.

FILE.toml may hold what flags say, as name = value; flags go before it. With
--processes each model has a process of its own, started by the same command but
for --own and --port: clients ask the one of the small model.`,
		Example: `  tokenrouter serve
  curl localhost:30000/v1/chat/completions -H 'Content-Type: application/json' -d '{"messages":[{"role":"user","content":"hi"}]}'
  tokenrouter serve --small models/qwen3-0.6b --large models/qwen3-4b --threshold 0.6
  tokenrouter serve --on paced --b 1,8
  tokenrouter serve --processes host1:7000,host2:7000 --own host1:7000`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if err := readFlags(cmd, args[0]); err != nil {
					return err
				}
			}
			return o.run(cmd)
		},
	}
	o.flags(cmd)
	return cmd
}

func (o *serveOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.host, "host", "127.0.0.1", "address to listen at; 0.0.0.0 for all")
	f.IntVar(&o.port, "port", 30000, "port to listen at; 0 takes a free one")
	f.StringVar(&o.apiKey, "api-key", "", "`key` that clients must show, but for health checks, /version and /metrics; the page asks for it")
	f.StringSliceVar(&o.name, "served-model-name", []string{"tokenrouter"}, "names of the routed pair")
	o.pairOptions.flags(cmd)
	f.Lookup("threshold").Usage += "; requests may bring their own"
	f.StringVar(&o.on, "on", experiments.OnCPU, "cpu, or paced: no model, only its times")
	f.StringSliceVar(&o.profiles, "profiles", []string{"a100-80gb/sglang-0.5.10/qwen3-0.6b-tp1", "a100-80gb/sglang-0.5.10/qwen3-32b-tp2"}, "paced: step times of the two; none for steps that take no time")
	f.IntVar(&o.context, "context", 0, "tokens of a prompt and its answer (default: what the models were made for, at most 8192)")
	f.IntVar(&o.kvTokens, "kv-tokens", 0, "tokens of KV memory of each model (default: for all that may run, within an eighth of the memory)")
	f.IntVar(&o.maxRunning, "max-running", 64, "requests in a step of a model")
	f.IntVar(&o.chunkTokens, "chunk-tokens", 512, "tokens of prompts in a step")
	f.IntVar(&o.queueLimit, "queue-limit", 1024, "requests that may wait; more are refused")
	f.IntSliceVar(&o.b, "b", nil, "B of each model: ready requests for which its steps wait (default: 1)")
	f.StringVar(&o.rule, "rule", "delayed", "when steps start: delayed, eager, alternate, lockstep")
	f.Float64Var(&o.maxDelayMs, "max-delay-ms", 100, "delayed: a request that is ready waits no longer than that")
	f.IntVar(&o.maxLogprobs, "max-logprobs", 20, "most probable tokens that clients may ask for; -1: any number")
	f.Uint64Var(&o.seed, "seed", 0, "of requests that bring none")
	f.Float64Var(&o.drainS, "drain-s", 60, "time for open requests to end after SIGTERM, in seconds")
	f.StringVar(&o.log, "log", "", logFlag)
	f.StringSliceVar(&o.processes, "processes", nil, "host:port of each model's process, for models in several processes")
	f.StringVar(&o.own, "own", "", "which of the processes this one is")
	f.StringVar(&o.onLost, "on-lost", lostExit, "when a model or its process is lost: exit, once open requests have ended, with code 1; or stay, for what needs it not: it does not come back before all are started again")
	complete(cmd, "on-lost", lostExit, lostStay)
	complete(cmd, "on", experiments.OnCPU, experiments.OnPaced)
	complete(cmd, "rule", "delayed", "eager", "alternate", "lockstep")
}

// check looks at what no other part does.
func (o *serveOptions) check(f *pflag.FlagSet) error {
	if err := wantValues(f, "log"); err != nil {
		return err
	}
	if err := o.pairOptions.check(f); err != nil {
		return err
	}
	switch {
	case f.Changed("profiles") && o.on == experiments.OnCPU:
		return errors.New("--profiles has no meaning on cpu, where steps take as long as they take\n  fix: add --on paced, or leave it out")
	case o.on != experiments.OnCPU && o.on != experiments.OnPaced:
		return fmt.Errorf("--on must be cpu or paced, got %q", o.on)
	case o.port < 0 || o.port > 65535:
		return fmt.Errorf("--port must be 0 to 65535, got %d", o.port)
	case len(o.name) == 0 || slices.Contains(o.name, ""):
		return errors.New("--served-model-name must have a name")
	case repeated(o.name) != "":
		return fmt.Errorf("--served-model-name has %s twice", repeated(o.name))
	case o.onLost != lostExit && o.onLost != lostStay:
		return fmt.Errorf("--on-lost must be exit or stay, got %q", o.onLost)
	case f.Changed("own") && len(o.processes) == 0:
		return errors.New("--own needs --processes: the addresses of all")
	case len(o.processes) > 0 && o.own == "":
		return errors.New("--processes needs --own: which of them this one is")
	}
	return o.checkNumbers()
}

func (o *serveOptions) run(cmd *cobra.Command) error {
	if err := o.check(cmd.Flags()); err != nil {
		return &usageError{err}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(o.host, strconv.Itoa(o.port)))
	if err != nil {
		return &usageError{err}
	}
	door := frontdoor.New(frontdoor.Options{APIKey: o.apiKey})
	// Clients may ask for health while models are read.
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- door.Serve(ctx, listener, o.drain()) }()
	site, err := o.open(ctx, cmd)
	if err != nil {
		stop()
		<-served
		if cmd.Context().Err() != nil {
			return nil // asked to end while it started
		}
		return err
	}
	door.Open(site.house)
	cmd.PrintErrf("serving %s at http://%s\n", o.what(site), o.where(listener.Addr()))
	go o.tellOfLoss(ctx, cmd, site.service, stop)
	end := o.watchEnd(ctx, cmd, door, site.service)
	err = <-served
	stop()
	end()
	lost := site.service.Err()
	err = errors.Join(err, site.close())
	if lost != nil && o.onLost == lostExit && cmd.Context().Err() == nil {
		return errors.Join(fmt.Errorf("ended, to be started again: %w", lost), err)
	}
	return err
}

// where is the address as it was asked for: a listener at all addresses calls
// itself [::], which no browser takes everywhere.
func (o *serveOptions) where(listens net.Addr) string {
	tcp, ok := listens.(*net.TCPAddr)
	if !ok || o.host == "" {
		return listens.String()
	}
	return net.JoinHostPort(o.host, strconv.Itoa(tcp.Port))
}

// what lists the names that clients may ask for.
func (o *serveOptions) what(s *site) string {
	text := ""
	for _, name := range s.house.Served() {
		if text != "" {
			text += ", "
		}
		text += name
	}
	return text + " (process " + strconv.Itoa(os.Getpid()) + ")"
}
