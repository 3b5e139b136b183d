package frontdoor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestHealthTellsTheTruth(t *testing.T) {
	s := closed(t, Options{})
	s.listen(time.Second)
	refused(t, s.get("/health"), 503, "starting")
	refused(t, s.post(chatPath, `{}`), 503, "starting")
	refused(t, s.get("/model_info"), 503, "starting")
	s.door.Open(onStage(s.stage))
	s.healthy()
	if r := s.get("/health_generate"); r.status != 200 {
		t.Errorf("%d: %s", r.status, r.body)
	}
	s.stage.mu.Lock()
	s.stage.lost = errors.New("model small: out of memory")
	s.stage.mu.Unlock()
	refused(t, s.get("/health"), 503, "out of memory")
	refused(t, s.get("/health_generate"), 503, "out of memory")
}

func TestInfo(t *testing.T) {
	s := open(t, Options{})
	wants(t, s.get("/get_model_info").body, "true", "is_generation")
	wants(t, s.get("/model_info").body, "[Toy]", "architectures")
	wants(t, s.get("/server_info").body, "2000", "max_total_num_tokens")
	wants(t, s.get("/get_server_info").body, "org/large", "internal_states", 1, "name")
	wants(t, s.get("/server_info").body, "0", "internal_states", 0, "last_gen_throughput")
	wants(t, s.get("/version").body, "test", "version")
	wants(t, s.get("/load").body, "0", "server_load")
	wants(t, s.get("/get_load").body, "[map[dp_rank:0 num_reqs:0 num_tokens:0 num_waiting_reqs:0]]")
	wants(t, s.get("/status").body, "true", "healthy")
	wants(t, s.get("/status").body, "small", "models", 0, "name")
	if r := s.get("/flush_cache"); r.status != 200 || !strings.HasPrefix(r.body, "Cache flushed") {
		t.Errorf("%d: %s", r.status, r.body)
	}
	if r := s.post("/flush_cache", ""); r.status != 200 || s.stage.flushed != 2 {
		t.Errorf("%d: %s", r.status, r.body)
	}
}

func TestFlushWhileRequestsRun(t *testing.T) {
	s := open(t, Options{})
	s.startStream(order{Say: "abc", Hold: 1}.body(chatPath, `"stream":true`))
	wants(t, s.get("/get_load").body, "[map[dp_rank:0 num_reqs:1 num_tokens:10 num_waiting_reqs:0]]")
	wants(t, s.get("/load").body, "1", "server_load")
	refused(t, s.get("/flush_cache"), 400, "open")
	refused(t, s.get("/flush_cache?timeout=soon"), 400, "timeout")
	done := make(chan reply)
	go func() { done <- s.get("/flush_cache?timeout=30") }()
	close(s.stage.release)
	if r := <-done; r.status != 200 {
		t.Errorf("%d: %s", r.status, r.body)
	}
}

func TestTokenize(t *testing.T) {
	s := open(t, Options{})
	for _, path := range []string{"/tokenize", "/v1/tokenize"} {
		r := s.post(path, `{"prompt":"hé","return_token_strs":true}`)
		wants(t, r.body, "[104 195 169]", "tokens")
		wants(t, r.body, "3", "count")
		wants(t, r.body, fmt.Sprint(stageContext), "max_model_len")
		wants(t, r.body, "h", "token_strs", 0)
	}
	r := s.post("/tokenize", `{"prompt":["a","bc"]}`)
	wants(t, r.body, "[[97] [98 99]]", "tokens")
	wants(t, r.body, "[1 2]", "count")
	r = s.post("/tokenize", `{"messages":[{"role":"User","content":"a"}],"add_generation_prompt":false}`)
	wants(t, r.body, "[257 117 115 101 114 10 97 258 10]", "tokens")
	refused(t, s.post("/tokenize", `{}`), 400, "prompt")
	refused(t, s.post("/tokenize", `{"prompt":"a","messages":[]}`), 400, "prompt")
	r = s.post("/detokenize", `{"tokens":[104,195,169,258]}`)
	wants(t, r.body, "hé", "prompt")
	wants(t, r.body, "hé", "text")
	r = s.post("/v1/detokenize", `{"tokens":[104,258],"skip_special_tokens":false}`)
	wants(t, r.body, "h<|im_end|>", "text")
	refused(t, s.post("/detokenize", `{"tokens":[-1]}`), 400, "vocab")
	refused(t, s.post("/detokenize", `{}`), 400, "tokens")
}

func TestStatusAsEvents(t *testing.T) {
	s := open(t, Options{})
	go func() { // the second event comes after a while
		time.Sleep(20 * time.Millisecond)
		s.stop()
	}()
	events := eventsOf(t, s.get("/status?stream=1"))
	wants(t, events[0], "0", "total", "tokens")
	if events[len(events)-1] != "[DONE]" {
		t.Errorf("%q", events)
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	s := open(t, Options{})
	for _, path := range []string{"/nothing", "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/chat/completions/", "/favicon.ico", "/v1/models/", "/v1/models/none", "/%00"} {
		refused(t, s.do("GET", path, ""), 404, "")
	}
	refused(t, s.get(textPath), 405, "POST")
	refused(t, s.do("DELETE", "/health", ""), 405, "GET")
	if r := s.get("/v1/models/none"); value(t, r.body, "error", "code") != "model_not_found" {
		t.Errorf("%s", r.body)
	}
}

func TestKey(t *testing.T) {
	s := open(t, Options{APIKey: "secret"})
	for _, header := range []string{"", "Bearer wrong", "secret", "Basic secret"} {
		refused(t, s.post(textPath, `{"prompt":"hi"}`, "Authorization", header), 401, "Unauthorized")
	}
	for _, scheme := range []string{"Bearer", "bearer", "BEARER"} {
		if r := s.post(textPath, `{"prompt":"hi"}`, "Authorization", scheme+" secret"); r.status != 200 {
			t.Errorf("%s: %d: %s", scheme, r.status, r.body)
		}
	}
	for _, path := range []string{"/health", "/metrics", "/ping"} {
		if r := s.get(path); r.status != 200 {
			t.Errorf("%s: %d", path, r.status)
		}
	}
}
