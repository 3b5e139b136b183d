package frontdoor

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// told is what a client makes of the events of one choice.
type told struct {
	text    string
	role    string
	tokens  []Token
	tops    int
	finish  string
	stop    any
	pieces  []string
	prompt  []Token
	writers []string
}

// told joins the events of a completion or a chat, and holds them to the rules.
func toldBy(t testing.TB, events []string, object string) (choices []told, usage []string) {
	t.Helper()
	if n := len(events); n == 0 || events[n-1] != "[DONE]" {
		t.Fatalf("S7: no [DONE] at the end of %q", events)
	}
	var id, created, model string
	for i, e := range events[:len(events)-1] {
		var v struct {
			ID, Object, Model string
			Created           json.Number
			PromptIDs         []Token `json:"prompt_token_ids"`
			Choices           *[]map[string]json.RawMessage
			Usage             json.RawMessage
		}
		if err := json.Unmarshal([]byte(e), &v); err != nil {
			t.Fatalf("%v: %s", err, e)
		}
		if i == 0 {
			id, created, model = v.ID, v.Created.String(), v.Model
		}
		if v.ID != id || v.Created.String() != created || v.Model != model || v.Object != object || strings.Contains(created, ".") {
			t.Errorf("S3: unlike the first event: %s", e)
		}
		if v.Choices == nil {
			t.Fatalf("S4: no choices: %s", e)
		}
		if len(*v.Choices) == 0 {
			usage = append(usage, string(v.Usage))
		} else if len(usage) > 0 {
			t.Errorf("S6: after the usage: %s", e)
		}
		for _, raw := range *v.Choices {
			var index int
			json.Unmarshal(raw["index"], &index)
			for len(choices) <= index {
				choices = append(choices, told{})
			}
			choices[index].prompt = append(choices[index].prompt, v.PromptIDs...)
			choices[index].hear(t, e, raw, object == chatChunk)
		}
	}
	for i := range choices {
		if choices[i].finish == "" {
			t.Errorf("S5: no finish_reason of choice %d in %q", i, events)
		}
	}
	return choices, usage
}

// hear takes in one choice of an event.
func (c *told) hear(t testing.TB, e string, raw map[string]json.RawMessage, chat bool) {
	t.Helper()
	finish, ok := raw["finish_reason"]
	if !ok {
		t.Fatalf("S4: no finish_reason: %s", e)
	}
	if c.finish != "" {
		t.Errorf("S5: after the end of the choice: %s", e)
	}
	var v struct {
		Text     *string
		Delta    *struct{ Role, Content *string }
		TokenIDs []Token  `json:"token_ids"`
		Prompt   []Token  `json:"prompt_token_ids"`
		Writers  []string `json:"writers"`
		Logprobs *struct {
			Content []chatLogprob
			Tokens  []string
		}
	}
	text, _ := json.Marshal(raw)
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v: %s", err, e)
	}
	content := ""
	if chat {
		switch {
		case v.Delta == nil:
			t.Fatalf("no delta: %s", e)
		case c.role == "" && (v.Delta.Role == nil || v.Delta.Content == nil || *v.Delta.Content != ""):
			t.Errorf("S2: the first event of the choice has no role, or text: %s", e)
		case c.role != "" && v.Delta.Role != nil:
			t.Errorf("S2: a second role: %s", e)
		}
		c.role = "assistant"
		if v.Delta.Content != nil {
			content = *v.Delta.Content
		}
	} else if v.Text == nil {
		t.Fatalf("no text: %s", e)
	} else {
		content = *v.Text
	}
	if string(finish) != "null" {
		json.Unmarshal(finish, &c.finish)
		json.Unmarshal(raw["stop_reason"], &c.stop)
		if content != "" || string(raw["stop_reason"]) != string(raw["matched_stop"]) {
			t.Errorf("S5: the end has text, or two reasons: %s", e)
		}
	}
	if v.Logprobs != nil {
		c.tops += len(v.Logprobs.Content) + len(v.Logprobs.Tokens)
	}
	c.text, c.tokens = c.text+content, append(c.tokens, v.TokenIDs...)
	c.prompt, c.writers = append(c.prompt, v.Prompt...), append(c.writers, v.Writers...)
	c.pieces = append(c.pieces, content)
}

func TestStreamS1ToS14(t *testing.T) {
	s := open(t, Options{})
	for _, c := range []struct{ path, object string }{{chatPath, chatChunk}, {textPath, textCompletion}} {
		t.Run(c.path, func(t *testing.T) {
			o := order{Say: "grün 世界 🎉.", Chunk: 3}
			r := s.post(c.path, o.body(c.path, `"stream":true,"stream_options":{"include_usage":true},"n":2,"max_tokens":50,"return_token_ids":true`))
			if r.header.Get("Cache-Control") != "no-cache" || r.header.Get("X-Accel-Buffering") != "no" {
				t.Errorf("S14: %v", r.header)
			}
			choices, usage := toldBy(t, eventsOf(t, r), c.object)
			if len(choices) != 2 {
				t.Fatalf("%d choices", len(choices))
			}
			for _, told := range choices {
				if told.text != o.Say || told.finish != "stop" || told.stop != nil || len(told.tokens) != len(o.Say)+1 || len(told.prompt) == 0 {
					t.Errorf("S10: got %+v", told)
				}
			}
			if len(usage) != 1 {
				t.Fatalf("S6: usage %q", usage)
			}
			wants(t, usage[0], fmt.Sprint(2*(len(o.Say)+1)), "completion_tokens")
		})
	}
}

// Clients put up with comments, CRLF and data without a space, but nobody may
// count on it.
func TestStreamS13IsPlain(t *testing.T) {
	s := open(t, Options{})
	for _, path := range []string{chatPath, textPath, generatePath} {
		r := s.post(path, order{Say: "a\r\nb\n\nc: d", Chunk: 2}.body(path, `"stream":true`))
		if strings.Contains(r.body, "\r") || !strings.HasSuffix(r.body, "\n\n") {
			t.Errorf("%s: %q", path, r.body)
		}
		for event := range strings.SplitSeq(strings.TrimSuffix(r.body, "\n\n"), "\n\n") {
			if data, ok := strings.CutPrefix(event, "data: "); !ok || strings.Contains(data, "\n") {
				t.Errorf("%s: an event is not one line of data: %q", path, event)
			}
		}
	}
}

func TestStreamS6UsageOnlyIfAskedFor(t *testing.T) {
	s := open(t, Options{})
	o := order{Say: "abc"}
	for more, want := range map[string]int{`"stream":true`: 0, `"stream":true,"stream_options":{}`: 0, `"stream":true,"stream_options":{"continuous_usage_stats":true}`: 0,
		`"stream":true,"stream_options":{"include_usage":true}`: 1, `"stream":true,"stream_options":null`: 0} {
		r := s.post(chatPath, o.body(chatPath, more))
		_, usage := toldBy(t, eventsOf(t, r), chatChunk)
		if len(usage) != want {
			t.Errorf("%s: %d events of usage, want %d", more, len(usage), want)
		}
		if n := strings.Count(r.body, `"usage"`); n > want && !strings.Contains(more, "continuous") {
			t.Errorf("%s: usage in other events", more)
		}
	}
}

func TestStreamS8FailureBeforeTheFirstToken(t *testing.T) {
	s := open(t, Options{})
	r := s.post(chatPath, order{Tokens: []Token{}, Refuse: "full"}.body(chatPath, `"stream":true`))
	refused(t, r, 503, "full")
}

func TestStreamS9FailureAfterIt(t *testing.T) {
	s := open(t, Options{})
	for _, path := range []string{chatPath, textPath, generatePath} {
		events := eventsOf(t, s.post(path, order{Say: "abcdef", Fail: 2}.body(path, `"stream":true`)))
		if n := len(events); events[n-1] != "[DONE]" {
			t.Errorf("%s: %q", path, events)
		} else {
			wants(t, events[n-2], "an engine has failed", "error", "message")
			wants(t, events[n-2], "503", "error", "code")
			value(t, events[n-2], "error", "param")
			if strings.Contains(strings.Join(events, ""), `"finish_reason":"`) {
				t.Errorf("%s: a failure that looks like an end: %q", path, events)
			}
		}
		// Who wants no stream gets no half answer.
		refused(t, s.post(path, order{Say: "abcdef", Fail: 2}.body(path, "")), 503, "an engine has failed")
	}
	s.settled()
}

func TestStreamS10HoldsBackHalfCharacters(t *testing.T) {
	s := open(t, Options{})
	for _, say := range []string{"A 世a", "日本語", "👩‍👩‍👧", "é\u0301", "ab", "𝕏"} {
		events := eventsOf(t, s.post(chatPath, order{Say: say}.body(chatPath, `"stream":true`)))
		choices, _ := toldBy(t, events, chatChunk)
		if choices[0].text != say {
			t.Errorf("%q came as %q", say, choices[0].pieces)
		}
		if strings.Contains(strings.Join(events, ""), "\ufffd") || strings.Contains(strings.Join(events, ""), `\ud8`) {
			t.Errorf("%q: half a character in %q", say, events)
		}
	}
	// Only an output that ends within a character shows that it does.
	events := eventsOf(t, s.post(textPath, order{Say: "世"}.body(textPath, `"stream":true,"max_tokens":2`)))
	if choices, _ := toldBy(t, events, textCompletion); choices[0].text != "\ufffd" || choices[0].finish != "length" {
		t.Errorf("got %+v", choices[0])
	}
}

func TestStreamS11HoldsBackStopStrings(t *testing.T) {
	s := open(t, Options{})
	for _, c := range []struct{ say, stop, text, matched string }{
		{"ABCDEFGHIJKL", `"DEFGHIJ"`, "ABC", "DEFGHIJ"},
		{"ABCDEFGH", `"DEFGHIJ"`, "ABCDEFGH", ""},
		{"ABCABCABD", `"ABCABD"`, "ABC", "ABCABD"},
		{"one two", `["three","two"]`, "one ", "two"},
		{"世界", `"界"`, "世", "界"},
	} {
		for _, chunk := range []int{1, 2, 5} {
			events := eventsOf(t, s.post(textPath, order{Say: c.say, Chunk: chunk}.body(textPath, `"stream":true,"stop":`+c.stop)))
			choices, _ := toldBy(t, events, textCompletion)
			if got := choices[0]; got.text != c.text || got.finish != "stop" || c.matched != "" && got.stop != c.matched || c.matched == "" && got.stop != nil {
				t.Errorf("%q with stop %s: got %+v", c.say, c.stop, got)
			}
			for _, piece := range choices[0].pieces {
				if c.matched == "DEFGHIJ" && strings.ContainsAny(piece, "DEFGHIJ") {
					t.Errorf("a part of the stop string came out: %q", choices[0].pieces)
				}
			}
		}
	}
	r := s.post(textPath, order{Say: "one two"}.body(textPath, `"stop":"two","include_stop_str_in_output":true`))
	wants(t, r.body, "one two", "choices", 0, "text")
	r = s.post(textPath, order{Say: "one two"}.body(textPath, `"stop":"two","no_stop_trim":true`))
	wants(t, r.body, "one two", "choices", 0, "text")
}

func TestStreamS12TokensWithoutText(t *testing.T) {
	s := open(t, Options{})
	for _, path := range []string{chatPath, textPath} {
		o := order{Tokens: []Token{0xe4, 0xb8, 0x96, 256, 'x', stageEOS}, Chunk: 1}
		more := `"stream":true,"return_token_ids":true,"logprobs":true`
		object := chatChunk
		if path == textPath {
			more, object = `"stream":true,"return_token_ids":true,"logprobs":0`, textCompletion
		}
		events := eventsOf(t, s.post(path, o.body(path, more)))
		choices, _ := toldBy(t, events, object)
		if got := choices[0]; got.text != "世x" || fmt.Sprint(got.tokens) != fmt.Sprint(o.Tokens) || got.tops != len(o.Tokens) {
			t.Errorf("%s: got %+v", path, got)
		}
	}
}

// Whatever is written, streams and whole answers say the same.
func TestStreamedIsWhole(t *testing.T) {
	s := open(t, Options{})
	alphabet := []string{"a", "b", "世", "🎉", "é", " ", "\n", "\"", "\\", "<", "\u2028", "\x00"}
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(alphabet), 1, 20).Draw(t, "text"), "")
	})
	rapid.Check(t, func(r *rapid.T) {
		o := order{Say: text.Draw(r, "say"), Chunk: rapid.IntRange(1, 7).Draw(r, "chunk")}
		if rapid.Bool().Draw(r, "raw") {
			o.Tokens = rapid.SliceOfN(rapid.Map(rapid.IntRange(0, stageVocab-1), func(i int) Token { return Token(i) }), 1, 20).Draw(r, "tokens")
		}
		stops := rapid.SliceOfN(text, 0, 3).Draw(r, "stops")
		s.sameStreamed(t, o, stops, rapid.IntRange(1, 3).Draw(r, "n"), rapid.IntRange(1, 40).Draw(r, "max"))
		if t.Failed() {
			r.FailNow()
		}
	})
}

// sameStreamed asks for the same as a whole and as a stream.
func (s *site) sameStreamed(t testing.TB, o order, stops []string, n, most int) {
	t.Helper()
	quoted, _ := json.Marshal(stops)
	more := fmt.Sprintf(`"n":%d,"max_tokens":%d,"stop":%s,"return_token_ids":true`, n, most, quoted)
	for _, c := range []struct{ path, object, key string }{{chatPath, chatChunk, "message"}, {textPath, textCompletion, "text"}} {
		whole := s.post(c.path, o.body(c.path, more))
		choices, usage := toldBy(t, eventsOf(t, s.post(c.path, o.body(c.path, more+`,"stream":true,"stream_options":{"include_usage":true}`))), c.object)
		total := 0
		for i, told := range choices {
			got := value(t, whole.body, "choices", i, c.key)
			if m, ok := got.(map[string]any); ok {
				got = m["content"]
			}
			if got != told.text || !utf8.ValidString(told.text) {
				t.Errorf("%s: whole %q, streamed %q", c.path, got, told.pieces)
			}
			wants(t, whole.body, fmt.Sprint(told.tokens), "choices", i, "token_ids")
			wants(t, whole.body, told.finish, "choices", i, "finish_reason")
			wants(t, whole.body, fmt.Sprint(told.stop), "choices", i, "stop_reason")
			total += len(told.tokens)
		}
		wants(t, whole.body, fmt.Sprint(total), "usage", "completion_tokens")
		wants(t, usage[0], fmt.Sprint(total), "completion_tokens")
		wants(t, usage[0], fmt.Sprint(value(t, whole.body, "usage", "total_tokens")), "total_tokens")
	}
}

func TestStreamOfGenerateIsCumulative(t *testing.T) {
	s := open(t, Options{})
	o := order{Say: "grün 世界", Chunk: 2}
	events := eventsOf(t, s.post(generatePath, o.body(generatePath, `"stream":true`)))
	if events[len(events)-1] != "[DONE]" {
		t.Fatalf("%q", events)
	}
	text, ids := "", 0
	for _, e := range events[:len(events)-1] {
		now := value(t, e, "text").(string)
		if !strings.HasPrefix(now, text) {
			t.Errorf("%q does not go on from %q", now, text)
		}
		list := value(t, e, "output_ids").([]any)
		wants(t, e, fmt.Sprint(len(list)), "meta_info", "completion_tokens")
		if len(list) < ids {
			t.Errorf("ids were lost: %s", e)
		}
		text, ids = now, len(list)
	}
	last := events[len(events)-2]
	if text != o.Say {
		t.Errorf("got %q", text)
	}
	wants(t, last, "stop", "meta_info", "finish_reason", "type")
	wants(t, last, fmt.Sprint(stageEOS), "meta_info", "finish_reason", "matched")
	whole := s.post(generatePath, o.body(generatePath, "")).body
	wants(t, whole, o.Say, "text")
	if strings.HasPrefix(whole, "[") {
		t.Errorf("one text gives a list: %s", whole)
	}
	// Lists give lists, and in streams the index tells which.
	list := s.post(generatePath, `{"text":[`+o.prompt()+`],"sampling_params":{"n":2}}`).body
	wants(t, list, o.Say, 0, "text")
	wants(t, list, o.Say, 1, "text")
	events = eventsOf(t, s.post(generatePath, `{"text":[`+o.prompt()+`,"x"],"stream":true}`))
	seen := map[string]bool{}
	for _, e := range events[:len(events)-1] {
		seen[fmt.Sprint(value(t, e, "index"))] = true
	}
	if len(seen) != 2 {
		t.Errorf("indices %v", seen)
	}
}

func TestStreamIsFlushedByTheEvent(t *testing.T) {
	s := open(t, Options{})
	r := s.startStream(order{Say: "abc", Hold: 2}.body(chatPath, `"stream":true`))
	// The order is held at its third token: what came before must be here.
	buffer, text := make([]byte, 1<<16), ""
	for !strings.Contains(text, `"content":"b"`) {
		n, err := r.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		text += string(buffer[:n])
	}
	close(s.stage.release)
}

func TestHeadersOfStreams(t *testing.T) {
	s := open(t, Options{})
	r := s.post(chatPath, order{Say: "x"}.body(chatPath, `"stream":true`), "X-Request-Id", "mine-1")
	if r.header.Get("X-Request-Id") != "mine-1" || r.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%v", r.header)
	}
	wants(t, eventsOf(t, r)[0], "chatcmpl-mine-1", "id")
	if o := s.do("OPTIONS", chatPath, ""); o.status != http.StatusNoContent || o.header.Get("Access-Control-Allow-Methods") == "" {
		t.Errorf("%d %v", o.status, o.header)
	}
}
