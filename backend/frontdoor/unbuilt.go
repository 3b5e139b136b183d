package frontdoor

import (
	"encoding/json"
	"slices"
	"strings"
)

// unbuilt are fields that change what the answer means, so they are refused as
// long as nobody obeys them. false and "" are ways to say that none is wanted.
var unbuilt = []string{
	// The answer is to have a certain form.
	"regex", "ebnf", "json_schema", "structural_tag", "structured_outputs", "guided_json", "guided_regex", "guided_choice",
	"guided_grammar", "functions", "function_call", "audio", "prediction", "web_search_options",
	// It is to be chosen otherwise.
	"use_beam_search", "logits_processors", "custom_logit_processor", "allowed_token_ids", "stop_regex", "thinking_token_budget",
	// It is to tell more.
	"echo", "prompt_logprobs", "return_hidden_states",
	// The prompt is to be another one.
	"suffix", "truncate_prompt_tokens", "chat_template", "prompt_embeds", "documents", "lora_path",
}

// neutral are such fields that have a value of their own for no change.
var neutral = []struct{ name, value string }{
	{"bad_words", "[]"}, {"modalities", `["text"]`}, {"length_penalty", "1"}, {"dry_multiplier", "0"}, {"xtc_probability", "0"},
	{"typical_p", "1"}, {"top_a", "0"}, {"mirostat_mode", "0"}, {"detokenize", "true"}, {"priority", "0"},
}

func (f *fields) refuseUnbuilt() {
	for _, name := range unbuilt {
		if raw, ok := f.take(name); ok && string(raw) != "false" && string(raw) != `""` {
			f.fail(name, "is not supported; leave it out")
		}
	}
	for _, n := range neutral {
		if raw, ok := f.take(n.name); ok && plainest(raw) != n.value {
			f.fail(n.name, "is %s, which is not supported; leave it out or give %s", quoteRaw(raw), n.value)
		}
	}
}

// plainest writes JSON in the shortest way: 1.0 is 1.
func plainest(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw) // a number that Go has no place for
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic("frontdoor: JSON that was read cannot be written: " + err.Error())
	}
	return string(text)
}

// only refuses members of other names, in objects that nobody but us reads: there
// a name that is unknown is misspelled.
func (f *fields) only(names ...string) {
	for _, name := range f.names() {
		if f.has(name) && !slices.Contains(names, name) {
			f.fail(cut(name, quoteMax), "is unknown, want %s", strings.Join(names, ", "))
		}
	}
}
