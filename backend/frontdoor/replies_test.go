package frontdoor

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every reply names its request: by the client's own word, or by a new one.
func TestEveryReplyNamesItsRequest(t *testing.T) {
	s := open(t, Options{APIKey: "secret"})
	const key = "Bearer secret"
	replies := map[string]func(header ...string) reply{
		"answer": func(h ...string) reply { return s.post(textPath, order{Say: "x"}.body(textPath, ""), h...) },
		"stream": func(h ...string) reply {
			return s.post(textPath, order{Say: "x"}.body(textPath, `"stream":true`), h...)
		},
		"not JSON":    func(h ...string) reply { return s.post(chatPath, `{`, h...) },
		"wrong":       func(h ...string) reply { return s.post(chatPath, `{"messages":[]}`, h...) },
		"wrong key":   func(h ...string) reply { return s.post(textPath, `{}`, append(h, "Authorization", "Bearer x")...) },
		"nothing":     func(h ...string) reply { return s.do("GET", "/nothing", "", h...) },
		"no such way": func(h ...string) reply { return s.do("DELETE", "/health", "", h...) },
		"list":        func(h ...string) reply { return s.do("GET", "/v1/models", "", h...) },
	}
	seen := map[string]string{}
	for name, ask := range replies { // order: each is a case of its own.
		if id := ask("Authorization", key, idHeader, "mine "+name).header.Get(idHeader); id != "mine "+name {
			t.Errorf("%s: the id is %q", name, id)
		}
		id := ask("Authorization", key).header.Get(idHeader)
		if other, twice := seen[id]; twice || len(id) < 16 {
			t.Errorf("%s: the new id is %q, as of %q", name, id, other)
		}
		seen[id] = name
	}
	// The id of a body is known once the body is read, even if much else is wrong.
	if id := s.post(textPath, `{"prompt":5,"request_id":"mine"}`, "Authorization", key).header.Get(idHeader); id != "mine" {
		t.Errorf("the body's id is %q", id)
	}
	long := strings.Repeat("x", idMax+1)
	if r := s.post(textPath, `{"prompt":"hi"}`, "Authorization", key, idHeader, long); r.status != 400 || len(r.header.Get(idHeader)) > idMax {
		t.Errorf("%d, with the id %q", r.status, r.header.Get(idHeader))
	}
}

// Who aborts has the id that the answer shows.
func TestAbortsByTheIDOfTheAnswer(t *testing.T) {
	s := open(t, Options{})
	for _, c := range []struct{ path, more, id string }{
		{textPath, `"request_id":"x"`, "cmpl-x"}, {chatPath, `"request_id":"x"`, "chatcmpl-x"}, {generatePath, `"rid":"x"`, "x"},
	} {
		done := make(chan reply)
		go func() { done <- s.post(c.path, order{Say: "abc", Hold: 2}.body(c.path, c.more)) }()
		within(t, 5*time.Second, "it is open", func() bool { return s.stage.Stats()[0].Running == 1 })
		for _, other := range []string{"cmpl-", "cmpl-chatcmpl-x", "chat-x", "generate-x"} {
			s.post("/abort_request", `{"rid":"`+other+`"}`)
		}
		if n := s.stage.Stats()[0].Running; n != 1 {
			t.Fatalf("%s: an id of nobody has ended it", c.path)
		}
		s.post("/abort_request", `{"rid":"`+c.id+`"}`)
		if r := <-done; !strings.Contains(r.body, `"abort"`) {
			t.Errorf("%s: %d: %s", c.path, r.status, r.body)
		}
		s.settled()
	}
	// Of a list each answer has its own.
	done := make(chan reply)
	held := order{Say: "abc", Hold: 2}.prompt()
	go func() { done <- s.post(generatePath, `{"text":[`+held+`,`+held+`],"rid":"list"}`) }()
	within(t, 5*time.Second, "both are open", func() bool { return s.stage.Stats()[0].Running == 2 })
	s.post("/abort_request", `{"rid":"list-1"}`)
	wants(t, (<-done).body, "abort", 1, "meta_info", "finish_reason", "type")
}

// A body in a coding that nobody undoes is not a body in JSON.
func TestContentEncoding(t *testing.T) {
	s := open(t, Options{})
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Write([]byte(`{"prompt":"hi"}`))
	w.Close()
	for coding, body := range map[string]string{"gzip": packed.String(), "deflate": `{"prompt":"hi"}`, "identity, br": `{"prompt":"hi"}`} { // order: each is a case of its own.
		refused(t, s.post(textPath, body, "Content-Encoding", coding), 415, "Content-Encoding is \""+coding)
	}
	if r := s.post(textPath, `{"prompt":"hi"}`, "Content-Encoding", "Identity"); r.status != 200 {
		t.Errorf("%d: %s", r.status, r.body)
	}
}

// What the header tells of a body is answered before the body is there, since
// some clients send none before they are told to.
func TestHeadersAreAnsweredAtOnce(t *testing.T) {
	s := open(t, Options{BodyWait: time.Hour})
	refused(t, s.begin(t, textPath, 99999999999999, "").finish(""), 413, "33554432 bytes")
	for header, status := range map[string]int{"Content-Type: text/plain": 400, "Content-Type: application/json\r\nContent-Encoding: gzip": 415} { // order: each is a case of its own.
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: 10\r\n\r\n", textPath, header)
		b := begun{t, conn}
		refused(t, b.finish(""), status, "Content-")
	}
}

// Tools that join log probabilities with tokens ask for ids in place of texts,
// which may look alike.
func TestTokensAsIDs(t *testing.T) {
	s := open(t, Options{})
	say := order{Say: "aé"}
	r := s.post(textPath, say.body(textPath, `"logprobs":1,"return_tokens_as_token_ids":true`))
	wants(t, r.body, "[token_id:97 token_id:195 token_id:169 token_id:258]", "choices", 0, "logprobs", "tokens")
	wants(t, r.body, "map[token_id:97:-1.515625]", "choices", 0, "logprobs", "top_logprobs", 0)
	wants(t, r.body, "aé", "choices", 0, "text")
	r = s.post(chatPath, say.body(chatPath, `"logprobs":true,"top_logprobs":2,"return_tokens_as_token_ids":true`))
	wants(t, r.body, "token_id:195", "choices", 0, "logprobs", "content", 1, "token")
	wants(t, r.body, "[195]", "choices", 0, "logprobs", "content", 1, "bytes")
	wants(t, r.body, "token_id:98", "choices", 0, "logprobs", "content", 0, "top_logprobs", 1, "token")
	r = s.post(textPath, say.body(textPath, `"logprobs":1,"return_tokens_as_token_ids":false`))
	wants(t, r.body, "a", "choices", 0, "logprobs", "tokens", 0)
	refused(t, s.post(textPath, `{"prompt":"a","return_tokens_as_token_ids":"yes"}`), 400, "return_tokens_as_token_ids")
}

// Where nothing is drawn equal prompts have equal answers. Routing and made-up
// engines draw from the seed: so that is the same too, unless a client says more.
func TestGreedyRequestsRepeat(t *testing.T) {
	s := open(t, Options{})
	for _, c := range []struct{ say, more string }{{"x", `,"n":2`}, {"y", ``}, {"x", ``}, {"x", `,"seed":7`}} {
		s.post(textPath, order{Say: c.say}.body(textPath, `"temperature":0`+c.more))
	}
	x, y := s.stage.seeds[0], s.stage.seeds[2]
	if want := []uint64{x, x, y, x, 7}; x == y || !slices.Equal(s.stage.seeds, want) {
		t.Errorf("the seeds are %v, want those of the prompts, %v", s.stage.seeds, want)
	}
}
