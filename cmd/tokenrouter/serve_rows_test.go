package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Rows 12, 13, 22, 24 and 25 of the protocol's list of pains need models that run:
// what failed elsewhere depends on KV and on kernels. The others are in
// backend/frontdoor and backend/serving.

// routedBy asks for a completion by both models, the same for the same number.
func (s *server) routedBy(i int, sampling string) written {
	s.t.Helper()
	return s.complete(fmt.Sprintf(`"prompt":"shared beginning of all prompts, number %d","max_tokens":48,"ignore_eos":true,"seed":%d,%s`, i, i, sampling))
}

const greedy = `"temperature":0`

// atOnce asks several at once and wants the answers of another time.
func (s *server) atOnce(want []written, sampling string) {
	s.t.Helper()
	var users sync.WaitGroup
	for i := range want {
		users.Go(func() {
			if got := s.routedBy(i, sampling); !alike(got, want[i]) {
				s.t.Errorf("request %d: got %+v, want %+v", i, got, want[i])
			}
		})
	}
	users.Wait()
}

// undisturbed are the answers of a server that has all the memory it may want, one
// after the other; both models have to have a part in them.
func undisturbed(t *testing.T, n int, sampling string) (list []written) {
	t.Helper()
	s := serve(t, "--threshold", "0.2")
	for i := range n {
		list = append(list, s.routedBy(i, sampling))
	}
	s.end(syscall.SIGTERM)
	if small := strings.Count(fmt.Sprint(list), "toy:qwen3"); small == 0 || small == n*48 {
		t.Fatal("nothing was routed: the test shows nothing")
	}
	return list
}

// lostKV checks the answers of a server whose memory is too small for its requests.
func lostKV(t *testing.T, rule string) {
	t.Helper()
	want := undisturbed(t, 8, greedy)
	s := serve(t, "--threshold", "0.2", "--kv-tokens", "320", "--chunk-tokens", "70", "--rule", rule)
	preempted := regexp.MustCompile(`vllm:num_preemptions_total\{.*\} [1-9]`)
	// On a busy machine they may come one after the other, and each has room.
	for range 30 {
		s.atOnce(want, greedy)
		if _, text := s.get("/metrics"); preempted.MatchString(text) {
			return
		}
	}
	t.Error("nobody lost its KV: the test shows nothing")
}

// Steps of the two models take turns.
func TestRow12LostKVIsReadAgain(t *testing.T) { lostKV(t, "alternate") }

// Steps of one overlap those of the other, and all that goes on between.
func TestRow13LostKVWhileStepsOverlap(t *testing.T) { lostKV(t, "eager") }

// Where few tokens may be chosen the others have no chance at all: their logarithms
// are minus infinity, which is no JSON.
func TestRow22LogprobsOfWhatCannotBe(t *testing.T) {
	s := serve(t)
	for _, sampling := range []string{`"top_k":1`, `"top_p":0.3`, `"top_k":1,"temperature":0.1`, `"min_p":1`, `"logit_bias":{"5":-100}`} {
		for path, body := range map[string]string{
			"/v1/completions":      `{"prompt":"hi","logprobs":5,` + sampling + `}`,
			"/v1/chat/completions": `{"messages":[{"role":"user","content":"hi"}],"max_tokens":16,"logprobs":true,"top_logprobs":5,` + sampling + `}`,
			"/generate":            `{"text":"hi","return_logprob":true,"top_logprobs_num":5,"sampling_params":{"max_new_tokens":16,` + sampling + `}}`,
		} { // order: each is a case of its own.
			status, text, err := s.try(t.Context(), path, body)
			if err != nil || status != 200 || !json.Valid([]byte(text)) || !strings.Contains(text, "logprobs") {
				t.Errorf("%s with %s: %d %v: %s", path, sampling, status, err, text)
			}
		}
	}
	if status, _ := s.get("/health"); status != 200 {
		t.Errorf("health is %d", status)
	}
}

// A seed is obeyed, and nothing depends on who else is in the batch.
func TestRow24SeedsAndBatches(t *testing.T) {
	const drawn = `"temperature":1`
	for _, sampling := range []string{greedy, drawn} {
		want := undisturbed(t, 8, sampling)
		s := serve(t, "--threshold", "0.2", "--b", "2,3")
		s.atOnce(want, sampling)
		if again := s.routedBy(3, sampling); !alike(again, want[3]) {
			t.Errorf("request 3, alone again: got %+v, want %+v", again, want[3])
		}
		other := s.complete(`"prompt":"shared beginning of all prompts, number 3","max_tokens":48,"ignore_eos":true,"seed":33,` + sampling)
		if same := alike(other, want[3]); same != (sampling == greedy) {
			t.Errorf("%s: another seed brings the same: %t", sampling, same)
		}
	}
}

// The prefix cache changes nothing: cold, warm, and cold again.
func TestRow25ColdAndWarm(t *testing.T) {
	s := serve(t, "--threshold", "0.2")
	const requests = 20
	cached := func() (n float64) {
		_, text := s.get("/metrics")
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, `vllm:prefix_cache_hits_total{model_name="tokenrouter"`) {
				fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &n)
			}
		}
		return n
	}
	for i := range requests {
		cold, before := s.routedBy(i, greedy), cached()
		warm := s.routedBy(i, greedy)
		if cached() == before {
			t.Error("nothing was found in the cache: the test shows nothing")
		}
		if status, text := s.get("/flush_cache?timeout=5"); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		if again := s.routedBy(i, greedy); !alike(cold, warm) || !alike(cold, again) {
			t.Errorf("request %d: cold %+v, warm %+v, cold again %+v", i, cold, warm, again)
		}
	}
}
