package frontdoor

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/backend/tokenizer"
)

// vocabOfQwen is that of Qwen 3, for which the ids of row 7 were reported.
const vocabOfQwen = 151936

// wrongIDs are ids that took servers down, in each field where a client may write
// some. After each the server has to answer as before.
func wrongIDs(t *testing.T, cases []struct{ path, body, says string }) {
	s := openHouse(t, func(h *House) { h.Vocab, h.Tokenizer = vocabOfQwen, tokenizer.Bytes(vocabOfQwen) })
	for _, c := range cases {
		t.Run(c.path+" "+cut(c.body, 80), func(t *testing.T) {
			refused(t, s.post(c.path, c.body), 400, c.says)
			s.healthy()
			s.served(t)
		})
	}
	s.settled()
}

func TestRow07PromptsOutsideTheVocab(t *testing.T) {
	wrongIDs(t, []struct{ path, body, says string }{
		{textPath, `{"prompt":[200000]}`, "200000, which is not in the vocabulary (vocab) of 151936"},
		{textPath, `{"prompt":[-1]}`, "-1, which is not in the vocabulary"},
		{textPath, `{"prompt":[151936]}`, "vocab"},
		{textPath, `{"prompt":[[104],[104,200000]]}`, "vocab"},
		{textPath, `{"prompt":[99999999999]}`, "vocab"},
		{generatePath, `{"input_ids":[200000]}`, "vocab"},
		{generatePath, `{"input_ids":[[-1]]}`, "vocab"},
		{"/detokenize", `{"tokens":[200000]}`, "vocab"},
	})
}

func TestRow08StopsAndBiasesOutsideTheVocab(t *testing.T) {
	wrongIDs(t, []struct{ path, body, says string }{
		{textPath, `{` + hi + `,"stop_token_ids":[999999]}`, "stop_token_ids"},
		{chatPath, `{` + user + `,"stop_token_ids":[-1]}`, "stop_token_ids"},
		{generatePath, `{"text":"hi","sampling_params":{"stop_token_ids":[151936]}}`, "sampling_params.stop_token_ids"},
		{textPath, `{` + hi + `,"logit_bias":{"999999":1}}`, "logit_bias"},
		{chatPath, `{` + user + `,"logit_bias":{"-1":1}}`, "logit_bias"},
		{chatPath, `{` + user + `,"logit_bias":{"5":1,"+5":1}}`, "logit_bias"}, // one token, twice
		{generatePath, `{"text":"hi","sampling_params":{"logit_bias":{"151936":-100}}}`, "sampling_params.logit_bias"},
	})
}

func TestRow09SeedsBeyond64Bits(t *testing.T) {
	s := open(t, Options{})
	for _, seed := range []string{"18446744073709551616", "18446744073709551615", "9223372036854775808", "-9223372036854775809", "1e30"} {
		for path, body := range map[string]string{textPath: `{` + hi + `,"seed":` + seed + `}`, chatPath: `{` + user + `,"seed":` + seed + `}`,
			generatePath: `{"text":"hi","sampling_params":{"sampling_seed":` + seed + `}}`} { // order: each is a case of its own.
			refused(t, s.post(path, body), 400, "seed")
			s.healthy()
		}
	}
	for _, seed := range []string{"9223372036854775807", "-9223372036854775808", "0"} {
		if r := s.post(textPath, order{Say: "x"}.body(textPath, `"seed":`+seed)); r.status != 200 {
			t.Errorf("seed %s: %d %s", seed, r.status, r.body)
		}
	}
	s.served(t)
}

// streamedText asks for a stream at each path and returns the pieces of its text.
func (s *site) streamedText(t *testing.T, path string, o order, more string) (pieces []string) {
	t.Helper()
	events := eventsOf(t, s.post(path, o.body(path, `"stream":true`+more)))
	if path != generatePath {
		object := map[string]string{chatPath: chatChunk, textPath: textCompletion}[path]
		choices, _ := toldBy(t, events, object)
		return choices[0].pieces
	}
	shown := ""
	for _, e := range events[:len(events)-1] { // from the start each time: clients cut off what they have
		text := value(t, e, "text").(string)
		if !strings.HasPrefix(text, shown) {
			t.Errorf("%q does not go on from %q", text, shown)
			return pieces
		}
		pieces, shown = append(pieces, text[len(shown):]), text
	}
	return pieces
}

func TestRow14CharactersOfSeveralTokens(t *testing.T) {
	s := open(t, Options{})
	for _, say := range []string{"你好，世界。今天天气很好！", "🎉👩‍👩‍👧🇨🇳 party", "한국어 текст עברית"} {
		for _, path := range []string{chatPath, textPath, generatePath} {
			for chunk := 1; chunk <= 4; chunk++ {
				pieces := s.streamedText(t, path, order{Say: say, Chunk: chunk}, longEnough[path])
				if got := strings.Join(pieces, ""); got != say || strings.ContainsRune(got, '\ufffd') {
					t.Errorf("%s in chunks of %d: %q came as %q", path, chunk, say, pieces)
				}
			}
		}
	}
}

// longEnough lets an answer be as long as the rows' texts.
var longEnough = map[string]string{chatPath: `,"max_tokens":200`, textPath: `,"max_tokens":200`, generatePath: `,"sampling_params":{"max_new_tokens":200}`}

func TestRow15NothingIsSentTwice(t *testing.T) {
	s := open(t, Options{})
	for _, path := range []string{chatPath, textPath, generatePath} {
		for _, say := range []string{"A 世ab", "A 世世ab", "A 世界ab", "a世", "世 世 世"} {
			for chunk := 1; chunk <= 6; chunk++ { // also such that end within a character
				if got := strings.Join(s.streamedText(t, path, order{Say: say, Chunk: chunk}, longEnough[path]), ""); got != say {
					t.Errorf("%s in chunks of %d: %q came as %q", path, chunk, say, got)
				}
			}
		}
	}
}

// The prompt ends with ABC, the model goes on with the alphabet: nothing of the stop
// string may come out, in whatever parts it comes.
func TestRow16StopStringsDoNotLeak(t *testing.T) {
	s := open(t, Options{})
	for _, c := range []struct{ say, text, matched string }{{"DEFGHIJKLM", "", "DEFGHIJ"}, {"DEFGHxyz", "DEFGHxyz", "<nil>"}, {"xDEFDEFGHIJ", "xDEF", "DEFGHIJ"}} {
		for chunk := 1; chunk <= 4; chunk++ {
			o := order{Say: c.say, Chunk: chunk}
			prompt := strings.TrimSuffix(o.prompt(), `"`) + ` ABC"`
			body := `{"prompt":` + prompt + `,"max_tokens":20,"stop":"DEFGHIJ","stream":true}`
			choices, _ := toldBy(t, eventsOf(t, s.post(textPath, body)), textCompletion)
			if got := choices[0]; got.text != c.text || got.finish != "stop" || fmt.Sprint(got.stop) != c.matched {
				t.Errorf("%s in chunks of %d: %q, ended by %s, %v", c.say, chunk, got.pieces, got.finish, got.stop)
			}
		}
	}
}

// The last event of a choice says why it is the last, however the choice ends.
func TestRow17TheLastChunkHasAFinishReason(t *testing.T) {
	s := open(t, Options{})
	for more, want := range map[string]string{ // order: each is a case of its own.
		``: "stop", `,"max_tokens":3`: "length", `,"stop":"de"`: "stop", `,"stop_token_ids":[100]`: "stop", `,"max_tokens":6,"ignore_eos":true`: "length",
	} {
		for _, path := range []string{chatPath, textPath} {
			events := eventsOf(t, s.post(path, order{Say: "abcdef", Chunk: 2}.body(path, `"stream":true`+more)))
			for i, e := range events[:len(events)-1] {
				finish, there := value(t, e, "choices", 0).(map[string]any)["finish_reason"]
				if last := i == len(events)-2; !there || last && finish != want || !last && finish != nil {
					t.Errorf("%s with %s: event %d of %d ends by %v, there: %t", path, more, i, len(events)-1, finish, there)
				}
			}
		}
	}
}

// Clients that are strict drop the text of an event that has a finish_reason.
func TestRow18TextAndEndAreTwoEvents(t *testing.T) {
	s := open(t, Options{})
	for _, path := range []string{chatPath, textPath} {
		for chunk := 1; chunk <= 5; chunk++ {
			events := eventsOf(t, s.post(path, order{Say: "abcdefghijklmn", Chunk: chunk}.body(path, `"stream":true,"max_tokens":10`)))
			text := ""
			for _, e := range parsed(t, events) {
				c := e.Choices[0]
				piece, _ := c["text"].(string)
				if delta, ok := c["delta"].(map[string]any); ok {
					piece, _ = delta["content"].(string)
				}
				if c["finish_reason"] == nil {
					text += piece
				} else if piece != "" || c["finish_reason"] != "length" {
					t.Errorf("%s: the end has %q, %v", path, piece, c["finish_reason"])
				}
			}
			if text != "abcdefghij" {
				t.Errorf("%s in chunks of %d: a strict client has %q", path, chunk, text)
			}
		}
	}
}

func TestRow19StreamsTellTheirUsage(t *testing.T) {
	s := open(t, Options{})
	for _, path := range []string{chatPath, textPath} {
		for _, n := range []int{1, 3} {
			o := order{Say: "abcdef", Chunk: 2}
			more := fmt.Sprintf(`"n":%d,"stop":"zz"`, n)
			whole := s.post(path, o.body(path, more))
			events := eventsOf(t, s.post(path, o.body(path, more+`,"stream":true,"stream_options":{"include_usage":true}`)))
			last := events[len(events)-2]
			wants(t, last, "[]", "choices")
			wants(t, last, fmt.Sprint(n*(len(o.Say)+1)), "usage", "completion_tokens")
			told, _ := json.Marshal(value(t, last, "usage"))
			want, _ := json.Marshal(value(t, whole.body, "usage"))
			if string(told) != string(want) {
				t.Errorf("%s: the stream tells %s, the whole answer %s", path, told, want)
			}
		}
	}
}
