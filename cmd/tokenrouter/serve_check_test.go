package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/experiments"
)

// What cannot work is refused before anything is opened, by the name of the
// flag, and not by a stack trace.
func TestServeChecksItsNumbers(t *testing.T) {
	for _, args := range []string{
		"--threads=-1", "--threads=100000", "--context=-1", "--context=1", "--context=9223372036854775807",
		"--kv-tokens=-5", "--kv-tokens=10", "--kv-tokens=1000000000000", "--kv-tokens=9223372036854775807",
		"--max-running=0", "--max-running=-1", "--chunk-tokens=0", "--chunk-tokens=-5", "--queue-limit=-1", "--max-logprobs=-2",
		"--max-delay-ms=-1", "--max-delay-ms=NaN", "--max-delay-ms=+Inf", "--drain-s=-1", "--drain-s=NaN",
		"--b=0,4", "--b=1,-1", "--served-model-name=a,b,a", "--served-model-name=a,",
		"--profiles=none", "--share=0.3", "--own=a:1",
	} {
		cmd := newServe()
		cmd.SetArgs([]string{"--port=0", args})
		cmd.SetErr(io.Discard)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		err := cmd.ExecuteContext(t.Context())
		flag, _, _ := strings.Cut(args, "=")
		if _, ok := err.(*usageError); !ok || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v, want a usage error that names the flag", args, err)
		}
	}
}

// An engine that cannot be made leaves nothing to close but its error.
func TestServeTellsWhyThereIsNoEngine(t *testing.T) {
	o := serveOptions{pairOptions: pairOptions{small: "toy:qwen3", algorithm: "never", threads: -1}, on: experiments.OnCPU, rule: "eager", maxRunning: 1, chunkTokens: 8, queueLimit: 1}
	cmd := newServe()
	cmd.SetErr(io.Discard)
	if _, err := o.open(t.Context(), cmd); err == nil {
		t.Error("an engine of -1 threads was made")
	}
}

func TestDrainTime(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		least   time.Duration
	}{{0, 0}, {0.5, 500 * time.Millisecond}, {60, time.Minute}, {1e300, time.Hour}, {math.Inf(1), time.Hour}} {
		o := serveOptions{drainS: c.seconds}
		if got := o.drain(); got < c.least || c.seconds < 100 && got != c.least {
			t.Errorf("%s s: %v", fmt.Sprint(c.seconds), got)
		}
	}
}

// A name of the pair that is a model's own would hide that model.
func TestServeRefusesNamesThatAreTaken(t *testing.T) {
	for _, c := range []struct {
		args  []string
		taken bool
	}{
		{[]string{"--served-model-name", "pair,toy:qwen3"}, true},
		{[]string{"--served-model-name", "toy:llama"}, true},
		{[]string{"--small", "toy:qwen3", "--served-model-name", "toy:qwen3", "--algorithm", "never"}, false},
	} {
		cmd := newServe()
		var said strings.Builder
		cmd.SetErr(&said)
		cmd.SetArgs(append([]string{"--port=0"}, c.args...))
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := cmd.ExecuteContext(ctx)
		cancel()
		if _, refused := err.(*usageError); refused != c.taken || refused && !strings.Contains(err.Error(), "--served-model-name toy:") {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}

func TestServeSaysWhereAsItWasAsked(t *testing.T) {
	all := &net.TCPAddr{IP: net.IPv6unspecified, Port: 30000}
	for host, want := range map[string]string{"0.0.0.0": "0.0.0.0:30000", "localhost": "localhost:30000", "::1": "[::1]:30000", "": "[::]:30000"} {
		o := serveOptions{host: host}
		if got := o.where(all); got != want {
			t.Errorf("--host %q: %s, want %s", host, got, want)
		}
	}
}

// Processes whose cores would disagree refuse each other, and tell in what.
func TestServeComparesSettings(t *testing.T) {
	for _, args := range [][]string{{"--kv-tokens", "16000"}, {"--seed", "7"}} {
		a, b := freeAddress(t), freeAddress(t)
		one := launch(t, "--processes", a+","+b, "--own", a)
		other := launch(t, append([]string{"--processes", a + "," + b, "--own", b}, args...)...)
		for _, s := range []*server{one, other} {
			code, flag := s.end(syscall.Signal(0)), strings.TrimPrefix(args[0], "--")
			if said := s.said.String(); code != exitUsage || !strings.Contains(said, "settings: "+flag+" ") || strings.Contains(said, "subserver: subserver") || strings.Contains(said, "rule") {
				t.Errorf("%v: exit code %d: %s", args, code, said)
			}
		}
	}
}

// What the KV memory cannot hold to its end is refused before it begins, and
// both /v1/models and the start say how much that is.
func TestServeShortensTheContextToItsMemory(t *testing.T) {
	s := serve(t, "--on", "paced", "--profiles", "none,none", "--kv-tokens", "607")
	if _, text := s.get("/v1/models"); !strings.Contains(text, `"max_model_len":592`) {
		t.Errorf("/v1/models says %s", text)
	}
	status, text, err := s.try(t.Context(), "/v1/completions", `{"prompt":"hello","max_tokens":1500}`)
	if err != nil || status != 400 || !strings.Contains(text, "592 tokens") {
		t.Errorf("%d %v: %s", status, err, text)
	}
	if got := s.complete(`"prompt":"hello","max_tokens":587,"ignore_eos":true`); got.Finish != "length" || len(got.IDs) != 587 {
		t.Errorf("a text of exactly the context ends by %q after %d tokens", got.Finish, len(got.IDs))
	}
	s.end(syscall.SIGTERM)
	if said := s.said.String(); !strings.Contains(said, "at most 592 tokens, not 4096") {
		t.Errorf("it said: %s", said)
	}
}

// A context that is no multiple of a block is not shortened without need.
func TestServeKeepsAnOddContext(t *testing.T) {
	s := serve(t, "--on", "paced", "--profiles", "none,none", "--context", "1001", "--max-running", "1")
	if _, text := s.get("/v1/models"); !strings.Contains(text, `"max_model_len":1001`) {
		t.Errorf("/v1/models says %s", text)
	}
}
