package frontdoor

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// What would change the answer is obeyed or refused.
func TestUnbuiltFieldsAreRefused(t *testing.T) {
	s := open(t, Options{})
	for _, c := range []struct{ name, wanted, neutral string }{
		{"allowed_token_ids", "[1]", "null"}, {"bad_words", `["a"]`, "[ ]"}, {"truncate_prompt_tokens", "5", "null"},
		{"suffix", `"x"`, `""`}, {"best_of", "2", "1"}, {"length_penalty", "2", "1.0"}, {"chat_template", `"x"`, "null"},
		{"modalities", `["audio"]`, `[ "text" ]`}, {"echo", "true", "false"}, {"custom_logit_processor", `"x"`, "null"},
		{"dry_multiplier", "0.5", "0.0"}, {"guided_json", "{}", "null"}, {"length_penalty", "1e999", "1"},
		{"priority", "1", "0"}, {"custom_params", `{"threshhold":0.9}`, "{}"}, {"vllm_xargs", `{"Model":"small"}`, `{"other":null}`},
	} {
		for path, start := range map[string]string{textPath: `{` + hi, chatPath: `{` + user, generatePath: `{"text":"hi"`} { // order: each is a case of its own.
			t.Run(c.name+" at "+path, func(t *testing.T) {
				if path == generatePath && c.name == "best_of" {
					t.Skip("it is not among its parameters")
				}
				refused(t, s.post(path, start+`,"`+c.name+`":`+c.wanted+`}`), 400, c.name)
				if r := s.post(path, start+`,"`+c.name+`":`+c.neutral+`}`); r.status != 200 {
					t.Errorf("%s is no change: %d %s", c.neutral, r.status, r.body)
				}
			})
		}
	}
	refused(t, s.post(generatePath, `{"text":"hi","sampling_params":{"dry_multiplier":1}}`), 400, "sampling_params.dry_multiplier")
	refused(t, s.post(generatePath, `{"text":"hi","sampling_params":{"custom_params":{"threshhold":1}}}`), 400, "want threshold, model, return_writers")
	for _, more := range []string{`"user":"me"`, `"cache_salt":"x"`, `"session_id":"y"`, `"n":2,"best_of":2`, `"whatever":[1]`, `"add_special_tokens":false`} {
		if r := s.post(textPath, `{`+hi+`,`+more+`}`); r.status != 200 {
			t.Errorf("%s: %d %s", more, r.status, r.body)
		}
	}
	refused(t, s.post(chatPath, `{`+user+`,"add_special_tokens":true}`), 400, "add_special_tokens")
}

// A message says what is wanted of the number that is wrong.
func TestMessagesSayWhatIsWanted(t *testing.T) {
	s := open(t, Options{})
	for more, want := range map[string]string{ // order: each is a case of its own.
		`"max_tokens":1e30`:       "want a whole number from 1 to 4096",
		`"max_tokens":2147483648`: "max_tokens is 2147483648, want a whole number from 1 to 4096",
		`"max_tokens":1.5`:        "max_tokens is 1.5, want a whole number",
		`"logprobs":-1`:           "logprobs is -1, want a whole number from 0 to 20",
		`"logprobs":21`:           "logprobs is 21, want a whole number from 0 to 20",
		`"n":1.5`:                 "n is 1.5, want a whole number from 1 to 128",
		`"top_k":2.5`:             "top_k is 2.5, want a whole number",
		`"min_tokens":-1`:         "min_tokens is -1, want a whole number of at least 0",
	} {
		refused(t, s.post(textPath, `{`+hi+`,`+more+`}`), 400, want)
	}
	refused(t, s.post(chatPath, `{`+user+`,"logprobs":true,"top_logprobs":-1}`), 400, "from 0 to 20")
}

// More than the service can ever hold is a mistake, and not a queue that is full.
func TestMoreAnswersThanThereIsRoomFor(t *testing.T) {
	s := closed(t, Options{})
	h := onStage(s.stage)
	h.AnswersMax = 10
	s.door.Open(h)
	s.listen(10 * time.Second)
	prompts := func(n int) string { return `"prompt":[` + strings.Repeat(`"hi",`, n-1) + `"hi"]` }
	refused(t, s.post(textPath, `{`+prompts(11)+`}`), http.StatusBadRequest, "prompt has 11 prompts, and this server takes at most 10 at once")
	refused(t, s.post(textPath, `{`+prompts(4)+`,"n":3}`), http.StatusBadRequest, "n asks for 3 answers to 4 prompts")
	if r := s.post(textPath, `{`+prompts(5)+`,"n":2}`); r.status != 200 {
		t.Errorf("%d: %s", r.status, cut(r.body, 300))
	}
}
