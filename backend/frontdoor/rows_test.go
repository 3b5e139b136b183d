package frontdoor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Rows 1 to 25 are threads of vLLM and SGLang about clients who got nothing, too
// much or the wrong thing; X1 to X16 are mistakes of clients, S1 to S14 rules of
// streams, R1 to R8 the same pains with routing. Where each is held:
//
//	1 to 5, 10, 11, 12, 20  here, and with models in serving/rows_test.go
//	6, 18, 21 to 24         here
//	7, 8, 9                 X7 and X6 in errors_test.go
//	12, 13, 24, 25          with real models in cmd/tokenrouter/serve_test.go
//	14, 15                  S10, 16 S11, 17 S4 and S5, 19 S6 in stream_test.go
//	X14, X15                errors_test.go, and under load in serving/rows_test.go
//	R1 to R8                serving/routing_test.go; R1, R2, R6 in serve_test.go too

func TestRow1And5ClientsThatGo(t *testing.T) {
	s := open(t, Options{})
	for name, body := range map[string]string{
		"streamed":         order{Say: "abcdef", Hold: 2}.body(chatPath, `"stream":true`),
		"whole":            order{Say: "abcdef", Hold: 2}.body(chatPath, ""),
		"before any token": order{Say: "abcdef", Hold: 1, Chunk: 1}.body(chatPath, `"n":4,"stream":true`),
	} {
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "POST", s.url+chatPath, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		gone := make(chan error)
		go func() {
			resp, err := http.DefaultClient.Do(r)
			if err == nil {
				_, err = resp.Body.Read(make([]byte, 1<<20))
				<-ctx.Done()
				resp.Body.Close()
			}
			gone <- err
		}()
		within(t, 5*time.Second, name+" is open", func() bool { return s.stage.Stats()[0].Running > 0 })
		leave()
		<-gone
		s.settled()
		within(t, 2*time.Second, "gauges are back", func() bool {
			return s.metric(`vllm:num_requests_running{model_name="routed",engine="0"}`) == 0 && s.metric(`vllm:num_requests_waiting{model_name="routed",engine="0"}`) == 0
		})
	}
	if got := s.metric(`vllm:request_success_total{model_name="routed",engine="0",finished_reason="abort"}`); got != 6 {
		t.Errorf("%g aborts counted, want 6", got)
	}
	if got := s.metric(`sglang:num_aborted_requests_total{model_name="routed",engine_type="unified",tp_rank="0",pp_rank="0"}`); got != 6 {
		t.Errorf("%g aborts counted, want 6", got)
	}
}

// metric reads one series of /metrics.
func (s *site) metric(series string) float64 {
	s.t.Helper()
	for line := range strings.SplitSeq(s.get("/metrics").body, "\n") {
		if text, ok := strings.CutPrefix(line, series+" "); ok {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return x
		}
	}
	s.t.Fatalf("no series %s", series)
	return 0
}

func TestRow6TheSameIDTwice(t *testing.T) {
	s := open(t, Options{})
	for _, c := range []struct{ path, more, header string }{
		{textPath, `"request_id":"a"`, ""}, {chatPath, `"rid":"a"`, ""}, {generatePath, `"rid":"a"`, ""}, {textPath, ``, "a"},
	} {
		var header []string
		if c.header != "" {
			header = []string{"X-Request-Id", c.header}
		}
		first := make(chan reply)
		go func() { first <- s.post(c.path, order{Say: "abc", Hold: 1}.body(c.path, c.more), header...) }()
		within(t, 5*time.Second, "the first is open", func() bool { return s.stage.Stats()[0].Running == 1 })
		refused(t, s.post(c.path, order{Say: "x"}.body(c.path, c.more), header...), 400, "in flight")
		s.stage.release <- struct{}{} // both of its tokens after the first
		s.stage.release <- struct{}{}
		s.stage.release <- struct{}{}
		if r := <-first; r.status != 200 {
			t.Errorf("the first got %d: %s", r.status, r.body)
		}
		// Then the id is free again.
		if r := s.post(c.path, order{Say: "x"}.body(c.path, c.more), header...); r.status != 200 {
			t.Errorf("%d: %s", r.status, r.body)
		}
	}
	refused(t, s.post(generatePath, `{"text":["a","b"],"rid":["x","x"]}`), 400, "in flight")
	r := s.post(generatePath, `{"text":["a","b"],"rid":["x","y"]}`)
	wants(t, r.body, "y", 1, "meta_info", "id")
}

func TestRow18TextAndEndAreTwoEvents(t *testing.T) {
	s := open(t, Options{})
	events := eventsOf(t, s.post(chatPath, order{Say: "abcdef"}.body(chatPath, `"stream":true,"max_tokens":3`)))
	choices, _ := toldBy(t, events, chatChunk) // which wants the end without text
	if got := choices[0]; got.text != "abc" || got.finish != "length" {
		t.Errorf("got %+v", got)
	}
}

func TestRow20ChunksOfSeveralTokens(t *testing.T) {
	s := open(t, Options{})
	o := order{Say: "abcdefgh", Chunk: 3}
	r := s.post(chatPath, o.body(chatPath, `"logprobs":true,"top_logprobs":2,"return_token_ids":true,"custom_params":{"return_writers":true}`))
	content := value(t, r.body, "choices", 0, "logprobs", "content").([]any)
	if len(content) != len(o.Say)+1 {
		t.Fatalf("%d log probabilities", len(content))
	}
	for i := range o.Say {
		wants(t, r.body, o.Say[i:i+1], "choices", 0, "logprobs", "content", i, "token")
		wants(t, r.body, fmt.Sprint(-float64(o.Say[i])/64), "choices", 0, "logprobs", "content", i, "logprob")
		wants(t, r.body, o.Say[i:i+1], "choices", 0, "logprobs", "content", i, "top_logprobs", 0, "token")
		wants(t, r.body, string(o.Say[i]+1), "choices", 0, "logprobs", "content", i, "top_logprobs", 1, "token")
		wants(t, r.body, []string{"small", "org/large"}[i/3%2], "choices", 0, "writers", i)
	}
	r = s.post(textPath, o.body(textPath, `"logprobs":1`))
	for i := range o.Say {
		wants(t, r.body, fmt.Sprint(i), "choices", 0, "logprobs", "text_offset", i)
		wants(t, r.body, o.Say[i:i+1], "choices", 0, "logprobs", "tokens", i)
		wants(t, r.body, fmt.Sprint(-float64(o.Say[i])/64), "choices", 0, "logprobs", "top_logprobs", i, o.Say[i:i+1])
	}
	r = s.post(generatePath, o.body(generatePath, `"return_logprob":true,"top_logprobs_num":1,"return_text_in_logprobs":true`))
	for i := range o.Say {
		wants(t, r.body, fmt.Sprintf("[%v %d %c]", -float64(o.Say[i])/64, o.Say[i], o.Say[i]), "meta_info", "output_token_logprobs", i)
	}
}

func TestRow21TokensThatReadAlike(t *testing.T) {
	s := open(t, Options{})
	o := order{Tokens: []Token{0xe4, 0xb8, 0x96}}
	r := s.post(textPath, o.body(textPath, `"logprobs":5,"max_tokens":3`))
	for i, want := range []string{`bytes:\xe4`, `bytes:\xb8`, `bytes:\x96`} {
		wants(t, r.body, want, "choices", 0, "logprobs", "tokens", i)
		if top := value(t, r.body, "choices", 0, "logprobs", "top_logprobs", i).(map[string]any); len(top) != 5 {
			t.Errorf("%d of 5 are told of: %v", len(top), top)
		}
	}
	r = s.post(chatPath, o.body(chatPath, `"logprobs":true,"max_tokens":3`))
	wants(t, r.body, "[228]", "choices", 0, "logprobs", "content", 0, "bytes")
	wants(t, r.body, "世", "choices", 0, "message", "content")
}

func TestRow22LogprobsThatAreNoNumbers(t *testing.T) {
	s := open(t, Options{})
	r := s.post(chatPath, order{Say: "z"}.body(chatPath, `"logprobs":true,"top_logprobs":1`))
	wants(t, r.body, "-9999", "choices", 0, "logprobs", "content", 0, "logprob")
	r = s.post(textPath, order{Say: "z"}.body(textPath, `"logprobs":1`))
	wants(t, r.body, "-9999", "choices", 0, "logprobs", "token_logprobs", 0)
	r = s.post(generatePath, order{Say: "z"}.body(generatePath, `"return_logprob":true`))
	wants(t, r.body, "[-9999 122 <nil>]", "meta_info", "output_token_logprobs", 0)
}

func TestRow23NamesOfModels(t *testing.T) {
	s := open(t, Options{})
	for name, model := range map[string]int{"routed": Routed, "alias/routed": Routed, "small": 0, "org/large": 1} {
		r := s.post(textPath, order{Say: "x"}.body(textPath, `"model":"`+name+`"`))
		wants(t, r.body, name, "model")
		s.stage.mu.Lock()
		if got := s.stage.asked[len(s.stage.asked)-1].Model; got != model {
			t.Errorf("%s went to %d, want %d", name, got, model)
		}
		s.stage.mu.Unlock()
		wants(t, s.get("/v1/models/"+name).body, name, "id")
	}
	list := s.get("/v1/models").body
	for i, want := range []string{"routed", "alias/routed", "small", "org/large"} {
		wants(t, list, want, "data", i, "id")
	}
}

// The stage does not draw, but seeds and settings must get there.
func TestRow24SeedsAndSettingsArrive(t *testing.T) {
	s := open(t, Options{})
	last := func(body, path string) *Request {
		t.Helper()
		if r := s.post(path, body); r.status != 200 {
			t.Fatalf("%d: %s", r.status, r.body)
		}
		s.stage.mu.Lock()
		defer s.stage.mu.Unlock()
		return s.stage.asked[len(s.stage.asked)-1]
	}
	const settings = `"temperature":0.5,"top_p":0.9,"top_k":7,"min_p":0.1,"frequency_penalty":1,"presence_penalty":-1,"repetition_penalty":1.1,` +
		`"logit_bias":{"65":-100,"7":2},"stop":["x","y"],"stop_token_ids":[65],"ignore_eos":true`
	check := func(r *Request) {
		t.Helper()
		p := r.Sampling
		if r.Seed != 7 || p.Temperature != .5 || p.TopP != .9 || p.TopK != 7 || p.MinP != .1 || p.FrequencyPenalty != 1 || p.PresencePenalty != -1 || p.RepetitionPenalty != 1.1 {
			t.Errorf("got %+v", r)
		}
		if fmt.Sprint(p.LogitBias) != "[{65 -100} {7 2}]" || fmt.Sprint(r.Stop) != "[x y]" || fmt.Sprint(r.Ends) != "[65]" || p.MinTokens != 2 || r.MaxTokens != 9 {
			t.Errorf("got %+v", r)
		}
	}
	o := order{Say: "abcdefghijklmn"}
	check(last(o.body(textPath, settings+`,"seed":7,"max_tokens":9,"min_tokens":2`), textPath))
	check(last(o.body(chatPath, settings+`,"seed":7,"max_tokens":5,"max_completion_tokens":9,"min_tokens":2`), chatPath))
	check(last(o.body(generatePath, `"sampling_params":{`+settings+`,"sampling_seed":7,"max_new_tokens":9,"min_new_tokens":2}`), generatePath))
	// What nobody says.
	for path, longest := range map[string]int{textPath: 16, generatePath: 128} {
		r := last(o.body(path, ""), path)
		if p := r.Sampling; p.Temperature != 1 || p.TopP != 1 || p.TopK != -1 || p.RepetitionPenalty != 1 || r.MaxTokens != longest || r.Logprobs != -1 || fmt.Sprint(r.Ends) != "[258]" || r.Threshold != nil {
			t.Errorf("%s: %+v", path, r)
		}
	}
	if r := last(o.body(chatPath, `"temperature":null,"max_tokens":null,"stop":null,"seed":null,"logit_bias":null,"unknown":{"x":[1]}`), chatPath); r.MaxTokens != stageContext-len(r.Prompt) {
		t.Errorf("a chat may have %d tokens, want the rest of the context", r.MaxTokens)
	}
	// Requests without a seed differ, and so do several answers to one.
	a, b := last(o.body(textPath, ""), textPath).Seed, last(o.body(textPath, ""), textPath).Seed
	if a == b {
		t.Error("two requests without a seed have the same")
	}
	last(o.body(textPath, `"n":3,"seed":5`), textPath)
	if n := len(s.stage.seeds); fmt.Sprint(s.stage.seeds[n-3:]) != "[5 6 7]" {
		t.Errorf("seeds %v", s.stage.seeds[n-3:])
	}
}

func TestKnobsOfRouting(t *testing.T) {
	s := open(t, Options{})
	for _, c := range []struct{ path, more, want string }{
		{textPath, `"custom_params":{"threshold":0.25}`, "0.25 -1"},
		{chatPath, `"vllm_xargs":{"threshold":0.25}`, "0.25 -1"},
		{generatePath, `"sampling_params":{"custom_params":{"threshold":0.25}}`, "0.25 -1"},
		{chatPath, `"custom_params":{"model":"org/large"}`, "none 1"},
		{chatPath, `"custom_params":null`, "none -1"},
	} {
		if r := s.post(c.path, order{Say: "x"}.body(c.path, c.more)); r.status != 200 {
			t.Fatalf("%d: %s", r.status, r.body)
		}
		r := s.stage.asked[len(s.stage.asked)-1]
		got := "none"
		if r.Threshold != nil {
			got = fmt.Sprint(*r.Threshold)
		}
		if got += fmt.Sprint(" ", r.Model); got != c.want {
			t.Errorf("%s: got %s, want %s", c.more, got, c.want)
		}
	}
}

func TestListsOfPrompts(t *testing.T) {
	s := open(t, Options{})
	a, b := order{Say: "first"}.prompt(), order{Say: "second"}.prompt()
	r := s.post(textPath, `{"prompt":[`+a+`,`+b+`],"n":2}`)
	for i, want := range []string{"first", "first", "second", "second"} {
		wants(t, r.body, want, "choices", i, "text")
		wants(t, r.body, strconv.Itoa(i), "choices", i, "index")
	}
	var texts [2]string
	json.Unmarshal([]byte(a), &texts[0])
	json.Unmarshal([]byte(b), &texts[1])
	wants(t, r.body, strconv.Itoa(len(texts[0])+len(texts[1])), "usage", "prompt_tokens")
	wants(t, r.body, strconv.Itoa(2*len("first")+2*len("second")+4), "usage", "completion_tokens")
	r = s.post(textPath, `{"prompt":[104,105],"return_token_ids":true}`)
	wants(t, r.body, "[104 105]", "choices", 0, "prompt_token_ids")
	r = s.post(textPath, `{"prompt":[[104],[105,106]],"return_token_ids":true}`)
	wants(t, r.body, "[105 106]", "choices", 1, "prompt_token_ids")
}

func TestListsOfSamplingParams(t *testing.T) {
	s := open(t, Options{})
	a, b := order{Say: "first"}.prompt(), order{Say: "second"}.prompt()
	r := s.post(generatePath, `{"text":[`+a+`,`+b+`],"sampling_params":[{"max_new_tokens":3,"sampling_seed":4},{"stop":"on","sampling_seed":9}]}`)
	wants(t, r.body, "fir", 0, "text")
	wants(t, r.body, "sec", 1, "text")
	wants(t, r.body, "on", 1, "meta_info", "finish_reason", "matched")
	if got := fmt.Sprint(s.stage.seeds); got != "[4 9]" {
		t.Errorf("seeds %s", got)
	}
	for more, says := range map[string]string{`[{}]`: "2 prompts", `[{"n":1},{"n":2}]`: "n", `[{},3]`: "list", `[{},{"top_p":3}]`: "sampling_params[1].top_p", `3`: "sampling_params"} {
		refused(t, s.post(generatePath, `{"text":["a","b"],"sampling_params":`+more+`}`), 400, says)
	}
}

func TestAborts(t *testing.T) {
	s := open(t, Options{})
	for _, body := range []string{`{"rid":"one"}`, `{"abort_all":true}`} {
		done := make(chan reply)
		go func() { done <- s.post(generatePath, order{Say: "abc", Hold: 2}.body(generatePath, `"rid":"one"`)) }()
		within(t, 5*time.Second, "it is open", func() bool { return s.stage.Stats()[0].Running == 1 })
		if r := s.post("/abort_request", `{"rid":"another"}`); r.status != 200 {
			t.Errorf("%d", r.status)
		}
		s.post("/abort_request", body)
		r := <-done
		wants(t, r.body, "abort", "meta_info", "finish_reason", "type")
		s.settled()
	}
	// Of several answers those that have not ended end so, each once.
	stream := s.startStream(order{Say: "abc", Hold: 1}.body(chatPath, `"stream":true,"n":3,"rid":"two"`))
	s.post("/abort_request", `{"rid":"two"}`)
	rest, err := io.ReadAll(stream)
	if n := strings.Count(string(rest), `"finish_reason":"abort"`); err != nil || n != 3 || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("%d ends, %v: %s", n, err, rest)
	}
	s.settled()
}

// Two requests on one connection, the second long after the first: no deadline
// of the first may be left.
func TestConnectionsServeAgain(t *testing.T) {
	s := open(t, Options{WriteWait: 50 * time.Millisecond, BodyWait: 50 * time.Millisecond})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for range 3 {
		body := order{Say: "abc"}.body(chatPath, "")
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(body), body)
		resp, err := http.ReadResponse(reader, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v %v", resp, err)
		}
		resp.Write(new(strings.Builder)) // reads it to the end
		time.Sleep(100 * time.Millisecond)
	}
}
