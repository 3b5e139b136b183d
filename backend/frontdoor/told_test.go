package frontdoor

import (
	"encoding/json"
	"strings"
	"testing"
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
