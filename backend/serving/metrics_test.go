package serving

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// A request waits for its place, then its prompt is read, then it is written:
// each is told for itself, and together they are no longer than the whole.
func TestTimesAreToldApart(t *testing.T) {
	s := plan{maxRunning: 1, hold: make(chan struct{})}.open(t)
	var users sync.WaitGroup
	for seed := range 2 {
		users.Go(func() { s.ask(asks(seed, `"model":"small"`)) })
	}
	s.until("one runs and one waits", func() bool { st := s.service.Stats()[0]; return st.Running == 1 && st.Waiting == 1 })
	const least = 30 * time.Millisecond
	time.Sleep(least)
	close(s.plan.hold)
	users.Wait()
	queue, prefill := s.metric("vllm:request_queue_time_seconds_sum"), s.metric("vllm:request_prefill_time_seconds_sum")
	if queue < least.Seconds() || prefill < least.Seconds() {
		t.Errorf("%g s of waiting and %g s of prompts are told, want at least %v each", queue, prefill, least)
	}
	decode, inference := s.metric("vllm:request_decode_time_seconds_sum"), s.metric("vllm:request_inference_time_seconds_sum")
	const rounding = 1e-9
	if d := prefill + decode - inference; d > rounding || d < -rounding {
		t.Errorf("prompts took %g s and answers %g s, together %g", prefill, decode, inference)
	}
	if all := s.metric("vllm:e2e_request_latency_seconds_sum"); queue+inference > all {
		t.Errorf("parts of %g s and %g s are longer than the whole, %g s", queue, inference, all)
	}
	if stages := s.metric("sglang:per_stage_req_latency_seconds_sum"); stages > s.metric("sglang:e2e_request_latency_seconds_sum") || stages < queue+inference {
		t.Errorf("the stages took %g s", stages)
	}
	if n := s.metric("vllm:request_queue_time_seconds_count"); n != 2 {
		t.Errorf("%g waits are counted, want 2", n)
	}
}

// Two requests that together outgrow the memory: one loses its KV, and waits until
// the other has ended or gone.
func TestLostKVIsToldOf(t *testing.T) {
	s := plan{kvTokens: 128, delay: [2]time.Duration{ms, ms}, texts: []string{strings.Repeat("0123456789", 10), strings.Repeat("abcdefghij", 10)}}.open(t)
	var users sync.WaitGroup
	for seed := range 2 { // of two texts: the same one would be read once
		users.Go(func() { s.ask(asks(seed, `"model":"small"`)) })
	}
	s.until("one has lost its KV", func() bool { return s.metric("sglang:num_retracted_reqs") > 0 })
	users.Wait()
	s.idle()
	if told, n := s.metric("sglang:num_retractions_sum"), s.service.Stats()[0].Retired; told != float64(n) {
		t.Errorf("clients lost their KV %g times, the model counts %d", told, n)
	}
	s.leave(asks(0, `"n":2,"model":"small"`), func() bool { return s.service.Stats()[0].LostKV > 0 })
	s.idle()
}

// Steps are told apart by whether they feed prompts.
func TestStepsAreToldApart(t *testing.T) {
	s := plan{}.open(t)
	r := s.ask(asks(0, `"model":"small"`))
	s.idle()
	st := s.service.Stats()[0]
	if st.Steps != int64(len(r.ids)) || st.Decodes != st.Steps-1 {
		t.Errorf("%d steps for %d tokens, %d of them fed one row: want all but the first", st.Steps, len(r.ids), st.Decodes)
	}
	if st.KVBlock != blockTokens {
		t.Errorf("blocks of %d tokens, want %d", st.KVBlock, blockTokens)
	}
}

// The routed name's figures are what its clients are told, whatever the engines do
// for it: they read a request again after each visit to the other model. Those of
// the models are what their engines did, for everybody.
func TestPrefixesOfTheRoutedName(t *testing.T) {
	s := plan{threshold: 0.5}.open(t)
	long := `"prompt":"` + strings.Repeat("as long as some blocks, ", 4)
	asked, cached := 0, 0
	for i := range 6 {
		more := `"stream":` + fmt.Sprint(i%2 == 0) + streamOptions(i%2 == 0) + `,"n":` + fmt.Sprint(1+i/2)
		r := s.ask(strings.Replace(asks(i, more), `"prompt":"`, long, 1))
		asked, cached = asked+r.prompt, cached+r.cached
	}
	s.ask(strings.Replace(asks(0, `"model":"small"`), `"prompt":"`, long, 1))
	s.idle()
	const routed = `model_name="routed"`
	for family, want := range map[string]int{"vllm:prefix_cache_queries_total": asked, "vllm:prefix_cache_hits_total": cached, "sglang:cached_tokens_total": cached, "vllm:request_prompt_tokens_sum": asked} {
		if got := s.labelled(family, routed); got != float64(want) || want == 0 {
			t.Errorf("%s is %g, clients were told %d", family, got, want)
		}
	}
	if all, st := s.metric("vllm:prefix_cache_queries_total"), s.service.Stats(); all-float64(asked) != float64(st[0].Entered+st[1].Entered) || st[1].Entered == 0 {
		t.Errorf("the models were asked for %g tokens, and count %d and %d", all-float64(asked), st[0].Entered, st[1].Entered)
	}
}
