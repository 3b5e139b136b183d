package frontdoor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/backend/tokenizer"
)

// Rows 1 to 25 are threads of vLLM and SGLang about clients who got nothing, too
// much or the wrong thing: each test sends what failed there. X1 to X16 are
// mistakes of clients (errors_test.go), S1 to S14 rules of streams (stream_test.go),
// R1 to R8 the same pains with routing, and 1.6 is what has to happen when a client
// goes. What needs models that run is in package serving; 12, 13, 22, 24 and 25
// with real ones are in cmd/tokenrouter.

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

// What the door counts of clients that go; serving looks at what they leave behind.
func TestDisconnectIsCounted(t *testing.T) {
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

func TestRow06TheSameIDTwice(t *testing.T) {
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
	t.Run("two ids of one text", func(t *testing.T) {
		s := openHouse(t, func(h *House) { h.Tokenizer = twins(t) })
		r := s.post(textPath, order{Tokens: []Token{'q', stageEOS}, Twin: twinOfQ}.body(textPath, `"logprobs":3`))
		for key, want := range map[string]float64{"q": 'q', fmt.Sprintf("token_id:%d", twinOfQ): float64(twinOfQ), "s": 's'} { // order: each is a case of its own.
			wants(t, r.body, fmt.Sprint(-want/64), "choices", 0, "logprobs", "top_logprobs", 0, key)
		}
	})
	t.Run("tokens without text", func(t *testing.T) {
		o := order{Tokens: []Token{256, 'x', 257, stageEOS}} // special ones are not shown
		for _, path := range []string{chatPath, textPath} {
			choices, _ := toldBy(t, eventsOf(t, s.post(path, o.body(path, `"stream":true,"logprobs":`+map[string]string{chatPath: "true", textPath: "0"}[path]))), map[string]string{chatPath: chatChunk, textPath: textCompletion}[path])
			if got := choices[0]; got.tops != len(o.Tokens) || got.text != "x" {
				t.Errorf("%s: %d log probabilities for %d tokens, and the text %q", path, got.tops, len(o.Tokens), got.text)
			}
		}
	})
}

// twinOfQ is a second token of the text q, which no order has.
const twinOfQ = Token(257)

// twins is a tokenizer of bytes in which q has two ids, as there are in those of
// real models.
func twins(t *testing.T) *tokenizer.Tokenizer {
	vocab := map[string]int{}
	for b, further := 0, 0; b < 256; b++ {
		r := rune(b) // which stands for a byte in files of this kind if it can be seen
		if b <= ' ' || b >= 0x7f && b <= 0xa0 || b == 0xad {
			r, further = rune(256+further), further+1
		}
		vocab[string(r)] = b
	}
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	added := []map[string]any{{"id": 256, "content": "<|end|>", "special": true}, {"id": twinOfQ, "content": "q", "special": false}}
	file, err := json.Marshal(map[string]any{"version": "1.0", "added_tokens": added, "pre_tokenizer": byteLevel, "decoder": byteLevel,
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tok
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
	for _, name := range []string{"gpt-4o", "Routed", "routed ", "elsewhere", "small/", "org"} {
		for path, body := range map[string]string{textPath: hi, chatPath: user, generatePath: `"text":"hi"`} { // order: each is a case of its own.
			refused(t, s.post(path, `{`+body+`,"model":"`+name+`"}`), 404, "The model `"+name+"` does not exist")
		}
	}
	// No name is the first one.
	wants(t, s.post(textPath, `{`+hi+`,"model":""}`).body, "routed", "model")
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
