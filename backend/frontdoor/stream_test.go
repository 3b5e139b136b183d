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

// eachStream asks for streams of many kinds, and has look see their events one by
// one: good ends and bad ones, several answers, chunks of several tokens.
func eachStream(t *testing.T, look func(t *testing.T, path string, events []string)) {
	s := open(t, Options{})
	for _, c := range []struct {
		name, more string
		order
	}{
		{"to its end", ``, order{Say: "grün 世界 🎉."}},
		{"several answers", `,"n":3`, order{Say: "abcdef", Chunk: 2}},
		{"all extras", `,"return_token_ids":true,"n":2,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`, order{Say: "世x", Chunk: 3}},
		{"out of tokens", `,"max_tokens":3,"stream_options":{"include_usage":true}`, order{Say: "abcdef", Chunk: 2}},
		{"a stop string", `,"stop":"cd"`, order{Say: "abcdef", Chunk: 3}},
		{"nothing to say", ``, order{Tokens: []Token{stageEOS}}},
		{"a failure", `,"n":2`, order{Say: "abcdef", Fail: 2}},
	} {
		for _, path := range []string{chatPath, textPath} {
			t.Run(c.name+" at "+path, func(t *testing.T) {
				look(t, path, eventsOf(t, s.post(path, c.order.body(path, `"stream":true`+c.more))))
			})
		}
	}
}

// streamed is an event with choices, as far as tests of rules look.
type streamed struct {
	ID, Object, Model string
	Created           json.Number
	Choices           []map[string]any
	Error             map[string]any
}

// parsed takes events apart, but for the last, which is no JSON.
func parsed(t *testing.T, events []string) (list []streamed) {
	t.Helper()
	for _, e := range events[:len(events)-1] {
		var v streamed
		if err := json.Unmarshal([]byte(e), &v); err != nil {
			t.Fatalf("%v: %s", err, e)
		}
		list = append(list, v)
	}
	return list
}

func TestS01EventsAreFlushedOneByOne(t *testing.T) {
	s := open(t, Options{})
	for _, path := range []string{chatPath, textPath, generatePath} {
		events := eventsOf(t, s.post(path, order{Say: "abc"}.body(path, `"stream":true`))) // which looks at type and form
		if len(events) < 5 {
			t.Errorf("%s: three letters and the end come in %d events", path, len(events))
		}
	}
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

func TestS02EachChoiceBeginsWithItsRole(t *testing.T) {
	eachStream(t, func(t *testing.T, path string, events []string) {
		begun := map[any]bool{}
		for _, e := range parsed(t, events) {
			for _, c := range e.Choices {
				if path == textPath {
					if c["delta"] != nil || c["role"] != nil {
						t.Errorf("a completion with a role: %v", c)
					}
					continue
				}
				delta := c["delta"].(map[string]any)
				role, has := delta["role"]
				if first := !begun[c["index"]]; has != first || first && (role != "assistant" || delta["content"] != "") {
					t.Errorf("choice %v, begun before: %t: %v", c["index"], !first, delta)
				}
				begun[c["index"]] = true
			}
		}
	})
}

func TestS03AllEventsAreOfOneAnswer(t *testing.T) {
	eachStream(t, func(t *testing.T, path string, events []string) {
		list := parsed(t, events)
		for _, e := range list {
			first, want := list[0], map[string]string{chatPath: "chat.completion.chunk", textPath: "text_completion"}[path]
			if e.Error != nil {
				continue
			}
			if e.ID == "" || e.ID != first.ID || e.Model != "routed" || e.Created != first.Created || strings.Contains(e.Created.String(), ".") || e.Object != want {
				t.Errorf("%+v after %+v", e, first)
			}
		}
	})
}

func TestS04EachChoiceHasFinishReason(t *testing.T) {
	eachStream(t, func(t *testing.T, _ string, events []string) {
		for _, text := range events[:len(events)-1] {
			if _, failed := value(t, text).(map[string]any)["error"]; failed {
				continue
			}
			for i := range value(t, text, "choices").([]any) {
				value(t, text, "choices", i, "finish_reason") // null until the end
			}
		}
	})
}

func TestS05OneEndOfEachChoice(t *testing.T) {
	eachStream(t, func(t *testing.T, path string, events []string) {
		ended, open, failed := map[any]bool{}, map[any]bool{}, false
		for _, e := range parsed(t, events) {
			failed = failed || e.Error != nil
			for _, c := range e.Choices {
				index := c["index"]
				if open[index] = true; ended[index] {
					t.Errorf("choice %v goes on after its end: %v", index, c)
				}
				if c["finish_reason"] == nil {
					continue
				}
				ended[index] = true
				if delta, chat := c["delta"].(map[string]any); chat && len(delta) > 0 || !chat && c["text"] != "" {
					t.Errorf("the end of choice %v has text: %v", index, c)
				}
			}
		}
		if len(ended) != len(open) && !failed || len(ended) > 0 && failed {
			t.Errorf("%d of %d choices have ended, failed: %t", len(ended), len(open), failed)
		}
	})
}

func TestS07EveryStreamEndsWithDone(t *testing.T) {
	eachStream(t, func(t *testing.T, _ string, events []string) {
		for i, e := range events {
			if (e == "[DONE]") != (i == len(events)-1) {
				t.Errorf("event %d of %d is %s", i, len(events), e)
			}
		}
	})
}

func TestS14ProxiesHoldNothingBack(t *testing.T) {
	s := open(t, Options{})
	for _, path := range []string{chatPath, textPath, generatePath} {
		r := s.post(path, order{Say: "abc"}.body(path, `"stream":true`))
		if r.header.Get("Cache-Control") != "no-cache" || r.header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("%s: %v", path, r.header)
		}
	}
}

// Clients put up with comments, CRLF and data without a space, but nobody may
// count on it.
func TestS13StreamsArePlain(t *testing.T) {
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

func TestS06UsageOnlyIfAskedFor(t *testing.T) {
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

func TestS08FailureBeforeTheFirstToken(t *testing.T) {
	s := open(t, Options{})
	r := s.post(chatPath, order{Tokens: []Token{}, Refuse: "full"}.body(chatPath, `"stream":true`))
	refused(t, r, 503, "full")
}

func TestS09FailureAfterIt(t *testing.T) {
	s := open(t, Options{})
	for _, path := range []string{chatPath, textPath, generatePath} {
		events := eventsOf(t, s.post(path, order{Say: "abcdef", Fail: 2}.body(path, `"stream":true`)))
		if n := len(events); events[n-1] != "[DONE]" {
			t.Errorf("%s: %q", path, events)
		} else {
			wants(t, events[n-2], "an engine has failed", "error", "message")
			wants(t, events[n-2], "503", "error", "code")
			value(t, events[n-2], "error", "param")
			wants(t, events[n-2], "true", "error", "retryable")
			if strings.Contains(strings.Join(events, ""), `"finish_reason":"`) {
				t.Errorf("%s: a failure that looks like an end: %q", path, events)
			}
		}
		// Who wants no stream gets no half answer.
		refused(t, s.post(path, order{Say: "abcdef", Fail: 2}.body(path, "")), 503, "an engine has failed")
	}
	s.settled()
}

func TestS10HoldsBackHalfCharacters(t *testing.T) {
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

func TestS11HoldsBackStopStrings(t *testing.T) {
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

func TestS12TokensWithoutText(t *testing.T) {
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
func TestS10StreamedIsWhole(t *testing.T) {
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
