package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/asktest"
	"github.com/tokenrouter/tokenrouter/internal/loadtest"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// outputs keeps what a dispatcher wrote.
type outputs struct {
	loadtest.Target
	mu     sync.Mutex
	tokens map[int][]algorithms.Token
}

func (o *outputs) Ask(ctx context.Context, r *workload.Request, a *loadtest.Answer) error {
	err := o.Target.Ask(ctx, r, a)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tokens[r.Index] = a.Output
	return err
}

// An outside dispatcher between the two models of a served pair writes the very
// tokens that the pair writes by itself.
func TestBenchRoutesAsServe(t *testing.T) {
	serve, _, err := newRoot(new(bool)).Find([]string{"serve"})
	if err != nil || serve.Name() != "serve" {
		t.Skip("no verb serve")
	}
	cmd := newBench()
	cmd.SetContext(t.Context())
	var errs strings.Builder
	cmd.SetErr(&errs)
	server, err := startInProcess(cmd, "--threshold 0.5 --kv-tokens 8192")
	if err != nil {
		t.Fatal(err)
	}
	defer server.close()
	const vocab, output, requests = 256, 40, 4
	var servers []*loadtest.Server
	for _, model := range []string{"toy:qwen3", "toy:llama"} {
		servers = append(servers, &loadtest.Server{URL: server.url, Model: model, Vocab: vocab, HTTP: loadtest.NewHTTPClient(8, nil)})
	}
	threshold := 0.5
	a, err := algorithms.New("confidence", algorithms.Params{Models: 2, Large: 1, Threshold: &threshold})
	if err != nil {
		t.Fatal(err)
	}
	d, err := loadtest.NewDispatcher(servers, a, 0)
	if err == nil {
		err = d.Probe(t.Context(), time.Minute)
	}
	if err != nil {
		t.Fatal(err)
	}
	mix := workload.Single(workload.Lengths{Prompt: workload.Fixed(30), Output: workload.Fixed(output)})
	got := &outputs{Target: d, tokens: map[int][]algorithms.Token{}}
	r, err := loadtest.Run(t.Context(), &loadtest.Config{Target: got, Models: 2, Patience: time.Minute,
		Load: workload.Load{Kind: workload.Closed, Users: 2, Limit: requests, Mix: mix, Seed: 1}}, nil)
	if err != nil || r.Good != requests || r.TokenShare[1] == 0 || r.TokenShare[1] == 1 {
		t.Fatalf("%v: %d ended well, share of large tokens %v, %+v", err, r.Good, r.TokenShare, r.Failures)
	}
	for i := range requests {
		q := mix.Request(i, 1)
		if want := served(t, server.url, servers[0].PromptIDs(&q), output); !slices.Equal(got.tokens[i], want) {
			t.Errorf("request %d: the dispatcher wrote %v, the pair %v", i, got.tokens[i], want)
		}
	}
}

// served is what the routed pair answers.
func served(t *testing.T, url string, prompt []algorithms.Token, output int) []algorithms.Token {
	t.Helper()
	body, err := json.Marshal(map[string]any{"prompt": prompt, "max_tokens": output, "ignore_eos": true, "temperature": 0, "return_token_ids": true})
	if err != nil {
		t.Fatal(err)
	}
	status, text, err := asktest.Post(t.Context(), url+"/v1/completions", string(body))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Choices []struct {
			TokenIDs []algorithms.Token `json:"token_ids"`
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Choices) != 1 {
		t.Fatalf("%v: %d %s", err, status, text)
	}
	return answer.Choices[0].TokenIDs
}
