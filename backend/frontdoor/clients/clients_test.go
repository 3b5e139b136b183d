// Package clients holds a running server to what the usual clients make of it.
// It is a module of its own, so that nobody who builds the program needs them:
//
//	tokenrouter serve &
//	TOKENROUTER_URL=http://127.0.0.1:30000 go test .
package clients

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	other "github.com/sashabaranov/go-openai"
)

// url is that of the server.
func url(t *testing.T) string {
	u := os.Getenv("TOKENROUTER_URL")
	if u == "" {
		t.Skip("TOKENROUTER_URL is not set: there is no server to ask")
	}
	return strings.TrimSuffix(u, "/")
}

func official(t *testing.T) openai.Client {
	return openai.NewClient(option.WithBaseURL(url(t)+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
}

// ask is a chat whose answer is always the same.
func ask(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:               model,
		Messages:            []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Tell me a story, 世界!")},
		MaxCompletionTokens: openai.Int(24),
		Temperature:         openai.Float(0.7),
		Seed:                openai.Int(3),
		Logprobs:            openai.Bool(true),
		TopLogprobs:         openai.Int(2),
	}
}

func TestOfficialModels(t *testing.T) {
	c := official(t)
	page, err := c.Models.List(t.Context())
	if err != nil || len(page.Data) < 2 {
		t.Fatalf("%v: %v", err, page)
	}
	m, err := c.Models.Get(t.Context(), page.Data[0].ID)
	if err != nil || m.ID != page.Data[0].ID {
		t.Errorf("%v: %v", err, m)
	}
	var wrong *openai.Error
	if _, err = c.Models.Get(t.Context(), "no/such"); !errors.As(err, &wrong) || wrong.StatusCode != 404 || wrong.Code != "model_not_found" {
		t.Errorf("got %v", err)
	}
}

func TestOfficialStreamIsWhole(t *testing.T) {
	c := official(t)
	page, err := c.Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range page.Data {
		whole, err := c.Chat.Completions.New(t.Context(), ask(m.ID))
		if err != nil {
			t.Fatal(err)
		}
		params := ask(m.ID)
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		stream := c.Chat.Completions.NewStreaming(t.Context(), params)
		var all openai.ChatCompletionAccumulator
		for stream.Next() {
			if chunk := stream.Current(); !all.AddChunk(chunk) {
				t.Errorf("a chunk that does not fit: %s", chunk.RawJSON())
			}
		}
		if err := stream.Err(); err != nil || len(all.Choices) != 1 {
			t.Fatalf("%v: %+v", err, all)
		}
		got, want := all.Choices[0], whole.Choices[0]
		if got.Message.Content != want.Message.Content || got.FinishReason != want.FinishReason || got.Message.Role != "assistant" || want.Message.Content == "" {
			t.Errorf("streamed %q, %s; whole %q, %s", got.Message.Content, got.FinishReason, want.Message.Content, want.FinishReason)
		}
		n := whole.Usage.CompletionTokens
		if all.Usage.CompletionTokens != n || n == 0 || int(n) != len(want.Logprobs.Content) || int(n) != len(got.Logprobs.Content) {
			t.Errorf("%d and %d tokens are billed, %d and %d have log probabilities", n, all.Usage.CompletionTokens, len(want.Logprobs.Content), len(got.Logprobs.Content))
		}
	}
}

func TestOfficialCompletions(t *testing.T) {
	c := official(t)
	params := openai.CompletionNewParams{Model: openai.CompletionNewParamsModel(first(t, c)), MaxTokens: openai.Int(8), Seed: openai.Int(1), N: openai.Int(2),
		Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"one", "two"}}}
	whole, err := c.Completions.New(t.Context(), params)
	if err != nil || len(whole.Choices) != 4 {
		t.Fatalf("%v: %+v", err, whole)
	}
	texts := make([]string, 4)
	stream := c.Completions.NewStreaming(t.Context(), params)
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			texts[choice.Index] += choice.Text
		}
	}
	if stream.Err() != nil {
		t.Fatal(stream.Err())
	}
	for i, choice := range whole.Choices {
		if choice.Text != texts[i] {
			t.Errorf("choice %d: whole %q, streamed %q", i, choice.Text, texts[i])
		}
	}
}

func first(t *testing.T, c openai.Client) string {
	page, err := c.Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return page.Data[0].ID
}

func TestOfficialErrors(t *testing.T) {
	c := official(t)
	params := ask(first(t, c))
	params.TopP = openai.Float(2)
	_, err := c.Chat.Completions.New(t.Context(), params)
	var wrong *openai.Error
	if !errors.As(err, &wrong) || wrong.StatusCode != 400 || !strings.Contains(wrong.Message, "top_p") || wrong.Param != "top_p" {
		t.Errorf("got %v", err)
	}
	params = ask("gpt-5")
	stream := c.Chat.Completions.NewStreaming(t.Context(), params)
	if stream.Next() || !errors.As(stream.Err(), &wrong) || wrong.StatusCode != 404 || !strings.Contains(wrong.Message, "gpt-5") {
		t.Errorf("got %v", stream.Err())
	}
}

// A client that leaves is no trouble to the next one.
func TestOfficialLeaves(t *testing.T) {
	c := official(t)
	params := ask(first(t, c))
	params.MaxCompletionTokens = openai.Int(500)
	for range 3 {
		ctx, leave := context.WithCancel(t.Context())
		stream := c.Chat.Completions.NewStreaming(ctx, params)
		if !stream.Next() {
			t.Fatal(stream.Err())
		}
		leave()
		stream.Close()
	}
	if _, err := c.Chat.Completions.New(t.Context(), ask(first(t, c))); err != nil {
		t.Error(err)
	}
}

func TestOther(t *testing.T) {
	config := other.DefaultConfig("none")
	config.BaseURL = url(t) + "/v1"
	c := other.NewClientWithConfig(config)
	models, err := c.ListModels(t.Context())
	if err != nil || len(models.Models) < 2 {
		t.Fatalf("%v: %v", err, models)
	}
	seed := 3
	r := other.ChatCompletionRequest{Model: models.Models[0].ID, MaxTokens: 24, Seed: &seed, N: 2, LogProbs: true, TopLogProbs: 1,
		Messages: []other.ChatCompletionMessage{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "hello"}}}
	whole, err := c.CreateChatCompletion(t.Context(), r)
	if err != nil || len(whole.Choices) != 2 {
		t.Fatalf("%v: %+v", err, whole)
	}
	r.StreamOptions = &other.StreamOptions{IncludeUsage: true}
	stream, err := c.CreateChatCompletionStream(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	texts, finish, tokens := make([]string, 2), make([]other.FinishReason, 2), 0
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, choice := range chunk.Choices {
			texts[choice.Index] += choice.Delta.Content
			if choice.FinishReason != "" {
				finish[choice.Index] = choice.FinishReason
			}
		}
		if chunk.Usage != nil {
			tokens = chunk.Usage.CompletionTokens
		}
	}
	for i, choice := range whole.Choices {
		if texts[i] != choice.Message.Content || finish[i] != choice.FinishReason {
			t.Errorf("choice %d: streamed %q, %s; whole %q, %s", i, texts[i], finish[i], choice.Message.Content, choice.FinishReason)
		}
	}
	if tokens != whole.Usage.CompletionTokens {
		t.Errorf("%d tokens streamed, %d whole", tokens, whole.Usage.CompletionTokens)
	}
	r.Temperature, r.StreamOptions = -1, nil
	var wrong *other.APIError
	if _, err := c.CreateChatCompletion(t.Context(), r); !errors.As(err, &wrong) || wrong.HTTPStatusCode != 400 || !strings.Contains(wrong.Message, "temperature") {
		t.Errorf("got %v", err)
	}
}

// The library that Prometheus reads with reads our metrics.
func TestMetrics(t *testing.T) {
	resp, err := http.Get(url(t) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for name := range families {
		names = append(names, name)
	}
	for _, want := range []string{"vllm:e2e_request_latency_seconds", "sglang:time_to_first_token_seconds", "vllm:request_success_total"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s", want)
		}
	}
}
