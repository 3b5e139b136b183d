package frontdoor

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// refused checks an error as clients of vLLM and of SGLang read it.
func refused(t *testing.T, r reply, status int, contains string) {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d: %s", r.status, status, cut(r.body, 500))
	}
	if got := r.header.Get("Content-Type"); got != "application/json" {
		t.Fatalf("Content-Type %q: %s", got, r.body)
	}
	wants(t, r.body, "error", "object")
	message := value(t, r.body, "message").(string)
	if value(t, r.body, "error", "message") != message {
		t.Errorf("two messages: %s", r.body)
	}
	if !strings.Contains(message, contains) {
		t.Errorf("the message lacks %q: %s", contains, message)
	}
	if value(t, r.body, "error", "type") != value(t, r.body, "type") || fmt.Sprint(value(t, r.body, "error", "code")) != fmt.Sprint(value(t, r.body, "code")) {
		t.Errorf("the two forms differ: %s", r.body)
	}
	value(t, r.body, "param")
}

// healthy checks that the server has taken no harm.
func (s *site) healthy() {
	s.t.Helper()
	if r := s.get("/health"); r.status != 200 || r.body != "" {
		s.t.Errorf("health: %d %q", r.status, r.body)
	}
}

// mistakes are what clients get wrong, by row.
var mistakes = []struct {
	row, path, body string
	status          int
	contains        string
}{
	{"X01 not JSON", textPath, `hello`, 400, "JSON"},
	{"X01 truncated", textPath, `{"prompt":"hi"`, 400, "JSON"},
	{"X01 empty", textPath, ``, 400, "JSON"},
	{"X01 list", textPath, `[]`, 400, "array"},
	{"X01 string", chatPath, `"x"`, 400, "string"},
	{"X01 number", generatePath, `3`, 400, "number"},
	{"X01 null", textPath, `null`, 400, "null"},
	{"X01 trailing", textPath, `{"prompt":"hi"} x`, 400, "JSON"},
	{"X03 max_tokens text", textPath, `{` + hi + `,"max_tokens":"ten"}`, 400, "max_tokens"},
	{"X03 temperature list", textPath, `{` + hi + `,"temperature":[1]}`, 400, "temperature"},
	{"X03 stream text", chatPath, `{` + user + `,"stream":"yes please"}`, 400, "stream"},
	{"X03 messages text", chatPath, `{"messages":"hi"}`, 400, "messages"},
	{"X03 messages [{}]", chatPath, `{"messages":[{}]}`, 400, "role"},
	{"X03 role number", chatPath, `{"messages":[{"role":123}]}`, 400, "role"},
	{"X03 role unknown", chatPath, `{"messages":[{"role":"robot","content":"x"}]}`, 400, "robot"},
	{"X03 content number", chatPath, `{"messages":[{"role":"user","content":5}]}`, 400, "content"},
	{"X03 message is text", chatPath, `{"messages":["hi"]}`, 400, "messages"},
	{"X03 empty messages", chatPath, `{"messages":[]}`, 400, "messages"},
	{"X03 no messages", chatPath, `{}`, 400, "messages"},
	{"X03 no prompt", textPath, `{}`, 400, "prompt"},
	{"X03 no text", generatePath, `{}`, 400, "text"},
	{"X03 logprobs text", textPath, `{` + hi + `,"logprobs":"5"}`, 400, "logprobs"},
	{"X03 logprobs number in a chat", chatPath, `{` + user + `,"logprobs":5}`, 400, "logprobs"},
	{"X03 max_tokens fraction", textPath, `{` + hi + `,"max_tokens":1.5}`, 400, "max_tokens"},
	{"X03 stop number", textPath, `{` + hi + `,"stop":5}`, 400, "stop"},
	{"X03 empty prompt", textPath, `{"prompt":""}`, 400, "prompt"},
	{"X03 empty list", textPath, `{"prompt":[]}`, 400, "prompt"},
	{"X03 list of an empty list", textPath, `{"prompt":[[]]}`, 400, "prompt"},
	{"X03 mixed list", textPath, `{"prompt":["hi",3]}`, 400, "prompt"},
	{"X03 null in a list", textPath, `{"prompt":[null]}`, 400, "prompt"},
	{"X03 image", chatPath, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}`, 400, "image_url"},
	{"X03 top_logprobs alone", chatPath, `{` + user + `,"top_logprobs":2}`, 400, "logprobs"},
	{"X03 stream_options alone", textPath, `{` + hi + `,"stream_options":{}}`, 400, "stream"},
	{"X03 empty stop", textPath, `{` + hi + `,"stop":""}`, 400, "stop"},
	{"X03 tools", chatPath, `{` + user + `,"tools":[]}`, 400, "tools"},
	{"X03 response_format", chatPath, `{` + user + `,"response_format":{"type":"json_object"}}`, 400, "response_format"},
	{"X03 regex", textPath, `{` + hi + `,"regex":"a+"}`, 400, "regex"},
	{"X03 two openings", chatPath, `{` + user + `,"add_generation_prompt":true,"continue_final_message":true}`, 400, "continue_final_message"},
	{"X04 model", textPath, `{` + hi + `,"model":"x"}`, 404, "The model `x` does not exist"},
	{"X04 model of a chat", chatPath, `{` + user + `,"model":"x"}`, 404, "The model `x` does not exist"},
	{"X04 model elsewhere", textPath, `{` + hi + `,"model":"elsewhere"}`, 404, "does not exist"},
	{"X05 prompt too long", textPath, `{"prompt":"` + strings.Repeat("x", stageContext) + `"}`, 400, "4096 tokens"},
	{"X05 too many ids", textPath, `{"prompt":[` + strings.Repeat("1,", stageContext) + `1]}`, 400, "4096 tokens"},
	{"X05 as many ids", textPath, `{"prompt":[[` + strings.Repeat("1,", stageContext-1) + `1]]}`, 400, "4096 tokens"},
	{"X03 prompt is an object", textPath, `{"prompt":{}}`, 400, "prompt"},
	{"X03 prompt is a number", textPath, `{"prompt":5}`, 400, "prompt"},
	{"X03 prompt of objects", textPath, `{"prompt":[ {} ]}`, 400, "prompt"},
	{"X03 stop of numbers", textPath, `{"prompt":"hi","stop":["a",5]}`, 400, "stop"},
	{"X05 prompt and max_tokens", textPath, `{"prompt":"` + strings.Repeat("x", 4000) + `","max_tokens":97}`, 400, "4097"},
	{"X05 chat", chatPath, `{` + user + `,"max_tokens":4096}`, 400, "4096"},
	{"X05 generate", generatePath, `{"text":"hi","sampling_params":{"max_new_tokens":5000}}`, 400, "max_new_tokens"},
	{"X06 max_tokens -1", textPath, `{` + hi + `,"max_tokens":-1}`, 400, "max_tokens"},
	{"X06 max_tokens 0", textPath, `{` + hi + `,"max_tokens":0}`, 400, "max_tokens"},
	{"X06 max_completion_tokens 0", chatPath, `{` + user + `,"max_completion_tokens":0,"max_tokens":5}`, 400, "max_completion_tokens"},
	{"X06 n 0", textPath, `{` + hi + `,"n":0}`, 400, "n "},
	{"X06 n too many", textPath, `{` + hi + `,"n":1000000}`, 400, "n "},
	{"X06 top_p 0", textPath, `{` + hi + `,"top_p":0}`, 400, "top_p"},
	{"X06 top_p 1.5", textPath, `{` + hi + `,"top_p":1.5}`, 400, "top_p"},
	{"X06 temperature -1", textPath, `{` + hi + `,"temperature":-1}`, 400, "temperature"},
	{"X06 temperature 1e400", textPath, `{` + hi + `,"temperature":1e400}`, 400, "temperature"},
	{"X06 temperature NaN", textPath, `{` + hi + `,"temperature":NaN}`, 400, "temperature"},
	{"X06 frequency_penalty", textPath, `{` + hi + `,"frequency_penalty":3}`, 400, "frequency_penalty"},
	{"X06 presence_penalty", textPath, `{` + hi + `,"presence_penalty":-3}`, 400, "presence_penalty"},
	{"X06 repetition_penalty", textPath, `{` + hi + `,"repetition_penalty":0}`, 400, "repetition_penalty"},
	{"X06 seed 2^64", textPath, `{` + hi + `,"seed":18446744073709551616}`, 400, "seed"},
	{"X06 top_k -5", textPath, `{` + hi + `,"top_k":-5}`, 400, "top_k"},
	{"X06 min_p 2", textPath, `{` + hi + `,"min_p":2}`, 400, "min_p"},
	{"X06 min_tokens", textPath, `{` + hi + `,"min_tokens":20}`, 400, "min_tokens"},
	{"X06 logprobs 21", textPath, `{` + hi + `,"logprobs":21}`, 400, "logprobs"},
	{"X07 prompt [200000]", textPath, `{"prompt":[200000]}`, 400, "vocab"},
	{"X07 prompt [-1]", textPath, `{"prompt":[-1]}`, 400, "vocab"},
	{"X07 prompt [[512]]", textPath, `{"prompt":[[1],[512]]}`, 400, "vocab"},
	{"X07 input_ids", generatePath, `{"input_ids":[512]}`, 400, "vocab"},
	{"X07 logit_bias", textPath, `{` + hi + `,"logit_bias":{"999999":1}}`, 400, "vocab"},
	{"X07 logit_bias key", textPath, `{` + hi + `,"logit_bias":{"x":1}}`, 400, "vocab"},
	{"X07 stop_token_ids", textPath, `{` + hi + `,"stop_token_ids":[999999]}`, 400, "vocab"},
	{"X08 not UTF-8", textPath, "{\"prompt\":\"\xff\xfe\"}", 400, "UTF-8"},
	{"X12 10,000 prompts", textPath, `{"prompt":[` + strings.Repeat(`"a",`, 9999) + `"a"]}`, 400, "prompt"},
	{"X12 10,000 stops", textPath, `{` + hi + `,"stop":[` + strings.Repeat(`"a",`, 9999) + `"a"]}`, 400, "stop"},
	{"X12 nested", textPath, `{"prompt":` + strings.Repeat("[", 100000), 400, "JSON"},
	{"X12 nested and closed", textPath, `{"x":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`, 400, "JSON"},
	{"X12 too many answers", textPath, `{"prompt":[` + strings.Repeat(`"a",`, 100) + `"a"],"n":100}`, 400, "n "},
	{"X14 refused by the scheduler", textPath, order{Refuse: "full"}.body(textPath, ""), 503, "The request queue is full."},
	{"X14 stream refused by the scheduler", chatPath, order{Refuse: "full"}.body(chatPath, `"stream":true`), 503, "The request queue is full."},
	{"S08 too long for the memory", chatPath, order{Refuse: "long"}.body(chatPath, `"stream":true`), 400, "KV"},
	{"knob of a model alone", textPath, `{` + hi + `,"model":"small","custom_params":{"threshold":0.5}}`, 400, "threshold"},
	{"knob of an unknown model", textPath, `{` + hi + `,"vllm_xargs":{"model":"huge"}}`, 400, "huge"},
}

const (
	hi   = `"prompt":"hi"`
	user = `"messages":[{"role":"user","content":"hi"}]`
)

// refuses sends the mistakes of one row.
func refuses(t *testing.T, row string) {
	s := open(t, Options{BodyMax: 1 << 20})
	n := 0
	for _, c := range mistakes {
		name, ok := strings.CutPrefix(c.row, row+" ")
		if !ok {
			continue
		}
		n++
		t.Run(name, func(t *testing.T) {
			refused(t, s.post(c.path, c.body), c.status, c.contains)
			s.healthy()
		})
	}
	if n == 0 {
		t.Fatalf("no mistakes of row %s", row)
	}
}

func TestX01BodiesThatAreNoObject(t *testing.T) { refuses(t, "X01") }
func TestX03WrongTypes(t *testing.T)            { refuses(t, "X03") }
func TestX04UnknownModels(t *testing.T)         { refuses(t, "X04") }
func TestX05LongerThanTheContext(t *testing.T)  { refuses(t, "X05") }
func TestX06NumbersOutOfRange(t *testing.T)     { refuses(t, "X06") }
func TestX07TokensOutsideTheVocab(t *testing.T) { refuses(t, "X07") }
func TestX08NotUTF8(t *testing.T)               { refuses(t, "X08") }
func TestX12TooManyOfThem(t *testing.T)         { refuses(t, "X12") }
func TestKnobsThatCannotBe(t *testing.T)        { refuses(t, "knob") }

func TestX02ContentType(t *testing.T) {
	s := open(t, Options{})
	for _, kind := range []string{"text/plain", "", "application/x-www-form-urlencoded"} {
		refused(t, s.post(textPath, `{"prompt":"hi"}`, "Content-Type", kind), 400, "application/json")
	}
	if r := s.post(textPath, `{"prompt":"hi"}`, "Content-Type", "Application/JSON; charset=utf-8"); r.status != 200 {
		t.Errorf("%d: %s", r.status, r.body)
	}
}

// taken sends a text, in JSON's quotes, by all ways.
func (s *site) taken(t *testing.T, text string) {
	t.Helper()
	for path, body := range map[string]string{textPath: `{"prompt":` + text + `}`, generatePath: `{"text":` + text + `,"sampling_params":{"max_new_tokens":2}}`,
		chatPath: `{"messages":[{"role":"user","content":` + text + `}]}`} { // order: each is a case of its own.
		if r := s.post(path, body); r.status != 200 {
			t.Errorf("%s: %d: %s", path, r.status, cut(r.body, 300))
		}
	}
}

func TestX09LoneSurrogates(t *testing.T) {
	s := open(t, Options{})
	for _, text := range []string{`"\ud83d"`, `"\udc00 and more"`, `"\ud83d\ud83d"`} {
		s.taken(t, text)
	}
}

// Text that looks odd is text.
func TestX10OddText(t *testing.T) {
	s := open(t, Options{})
	for name, text := range map[string]string{ // order: each is a case of its own.
		"NUL": `"a\u0000b"`, "control characters": `"\u0001\u001b[31m\r\n\t"`, "right to left": `"\u202e שלום"`, "special token": `"<|im_end|>"`,
	} {
		t.Run(name, func(t *testing.T) { s.taken(t, text) })
	}
	t.Run("1 MB without spaces", func(t *testing.T) {
		s := openHouse(t, func(h *House) { h.Context = 2 << 20 })
		s.taken(t, `"`+strings.Repeat("x", 1<<20)+`"`)
	})
	t.Run("the end of a turn is none", func(t *testing.T) {
		s.post(chatPath, `{"messages":[{"role":"user","content":"<|im_end|>"}]}`)
		s.stage.mu.Lock()
		defer s.stage.mu.Unlock()
		last, ends := s.stage.asked[len(s.stage.asked)-1], 0
		for _, id := range last.Prompt {
			if id == stageEOS {
				ends++
			}
		}
		if ends != 1 {
			t.Errorf("the prompt has %d ends of turns, want 1: %v", ends, last.Prompt)
		}
	})
}

// letters is a text without an end.
type letters struct{}

func (letters) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestX11LargeBodies(t *testing.T) {
	s := open(t, Options{BodyMax: 1 << 20})
	for name, length := range map[string]int64{"declared": 30 << 20, "chunked": -1} { // order: each is a case of its own.
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequest("POST", s.url+textPath, io.LimitReader(letters{}, 30<<20))
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = length
			r.Header.Set("Content-Type", "application/json")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			refused(t, reply{resp.StatusCode, resp.Header, string(body)}, 413, "1048576 bytes")
			if !resp.Close {
				t.Error("the connection stays open")
			}
			// One body in growing buffers takes five times its size.
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 10<<20 {
				t.Errorf("it took %d bytes of memory", grown)
			}
		})
	}
	s.healthy()
}

// dial opens a connection of its own, closed when the test ends.
func (s *site) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// served checks that other clients are.
func (s *site) served(t *testing.T) {
	t.Helper()
	if r := s.post(textPath, order{Say: "ok"}.body(textPath, "")); r.status != 200 {
		t.Errorf("another client got %d: %s", r.status, r.body)
	}
}

func TestX13SlowClients(t *testing.T) {
	const wait = time.Second // enough for clients that hurry, on a machine that is busy
	s := open(t, Options{BodyWait: wait})
	t.Run("a byte now and then", func(t *testing.T) {
		slow := s.begin(t, textPath, 100, "{")
		go func() {
			for {
				if _, err := io.WriteString(slow.conn, " "); err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		}()
		s.served(t)
		refused(t, slow.finish(""), 408, "did not come")
	})
	t.Run("half-open", func(t *testing.T) { // it says nothing more, not even that it goes
		silent := map[string]net.Conn{"": nil, "POST " + textPath + " HTTP/1.1\r\nHost:": nil}
		for said := range silent { // order: all wait at once.
			silent[said] = s.dial(t)
			io.WriteString(silent[said], said)
		}
		s.served(t)
		for said, c := range silent { // order: each is a case of its own.
			c.SetReadDeadline(time.Now().Add(10 * time.Second))
			if text, err := io.ReadAll(c); err != nil || strings.Contains(string(text), "200 OK") {
				t.Errorf("after %q: %v: %s", said, err, text)
			}
		}
	})
	t.Run("500 idle", func(t *testing.T) {
		var idle []net.Conn
		for range 500 {
			c := s.dial(t)
			io.WriteString(c, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
			if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
			idle = append(idle, c)
		}
		s.served(t)
		time.Sleep(wait + wait/5) // longer than a request may take to come
		for _, c := range idle {
			io.WriteString(c, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
			if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
		}
	})
}

// Who asks and does not read must not hold its request for ever.
func TestX13ClientsThatDoNotRead(t *testing.T) {
	s := open(t, Options{WriteWait: 100 * time.Millisecond})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// Told from the start each time, this is more than sockets hold.
	body := order{Say: strings.Repeat("x", 3000)}.body(generatePath, `"stream":true,"sampling_params":{"max_new_tokens":900}`)
	body = strings.Replace(body, `"max_new_tokens":900`, `"max_new_tokens":900,"ignore_eos":true`, 1)
	body = strings.Replace(body, `"stream":true`, `"stream":true,"return_logprob":true,"top_logprobs_num":20`, 1)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", generatePath, len(body), body)
	within(t, 5*time.Second, "it is there", func() bool {
		s.stage.mu.Lock()
		defer s.stage.mu.Unlock()
		return len(s.stage.asked) > 0
	})
	within(t, 10*time.Second, "it is gone", func() bool { return s.stage.Stats()[0].Running == 0 })
	within(t, 2*time.Second, "the abort is counted", func() bool {
		return s.metric(`vllm:request_success_total{model_name="routed",engine="0",finished_reason="abort"}`) == 1
	})
}

func TestX14RefusedByTheScheduler(t *testing.T) { refuses(t, "X14") }

func TestX14DoorIsFull(t *testing.T) {
	s := open(t, Options{OpenMax: 2})
	held := order{Say: "abc", Hold: 1}.body(textPath, "")
	done := make(chan reply, 2)
	for range 2 {
		go func() { done <- s.post(textPath, held) }()
	}
	within(t, 5*time.Second, "both are open", func() bool { return s.stage.Stats()[0].Running == 2 })
	r := s.post(textPath, held)
	refused(t, r, 503, "The request queue is full.")
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	close(s.stage.release)
	for range 2 {
		if r := <-done; r.status != 200 {
			t.Errorf("%d: %s", r.status, r.body)
		}
	}
	s.settled()
}

func TestX15AfterSIGTERM(t *testing.T) {
	s := open(t, Options{})
	stream := s.startStream(order{Say: "abc", Hold: 1}.body(chatPath, `"stream":true`))
	s.stop()
	within(t, 5*time.Second, "health says so", func() bool { return s.get("/health").status == 503 })
	refused(t, s.post(textPath, `{"prompt":"hi"}`), 503, "shutting down")
	close(s.stage.release)
	body, err := io.ReadAll(stream)
	if err != nil || !strings.HasSuffix(string(body), "data: [DONE]\n\n") || !strings.Contains(string(body), `"finish_reason":"stop"`) {
		t.Errorf("the running stream got %v: %s", err, body)
	}
}

func TestX15StreamsThatTakeTooLong(t *testing.T) {
	s := closed(t, Options{})
	s.door.Open(onStage(s.stage))
	s.listen(50 * time.Millisecond)
	stream := s.startStream(order{Say: "abc", Hold: 1}.body(chatPath, `"stream":true`))
	s.stop()
	body, err := io.ReadAll(stream)
	if err != nil || !strings.HasSuffix(string(body), "data: [DONE]\n\n") || !strings.Contains(string(body), `{"error":{"message":"the server is shutting down"`) {
		t.Errorf("the stream got %v: %s", err, body)
	}
	s.settled()
}

// startStream begins a chat and returns its body after the first event.
func (s *site) startStream(body string) io.Reader {
	s.t.Helper()
	resp, err := http.Post(s.url+chatPath, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	r := bufio.NewReader(resp.Body)
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: {") {
		s.t.Fatalf("the stream begins with %q, %v", line, err)
	}
	return r
}

func TestX16EchoIsCut(t *testing.T) {
	s := open(t, Options{})
	long := strings.Repeat("ä", 100_000)
	for _, body := range []string{
		`{"prompt":"hi","model":"` + long + `"}`,
		`{"prompt":"hi","temperature":"` + long + `"}`,
		`{"prompt":{"` + long + `":1}}`,
		`{"prompt":"hi","logit_bias":{"` + long + `":1}}`,
		`{"prompt":"hi","response_format":{"type":"` + long + `"}}`,
		`{"prompt":"hi","request_id":"` + long + `"}`,
		order{Refuse: "wordy"}.body(textPath, ""),
	} {
		r := s.post(textPath, body)
		most := 1500 // 200 bytes of the client's, said twice, and what is wrong with them
		if strings.Contains(body, "wordy") {
			most = 3 * messageMax
		}
		if r.status < 400 || r.status >= 500 || len(r.body) > most || !utf8.ValidString(r.body) {
			t.Errorf("%d, %d bytes: %s", r.status, len(r.body), cut(r.body, 200))
		}
		if !json.Valid([]byte(r.body)) {
			t.Errorf("no JSON: %s", cut(r.body, 200))
		}
	}
}
