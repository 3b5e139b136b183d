package tokenizer

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// chatCase is a chat and what transformers makes of it.
type chatCase struct {
	Template string          `json:"template"`
	Messages json.RawMessage `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
	Kwargs   json.RawMessage `json:"kwargs"`
	Prompt   bool            `json:"add_generation_prompt"`
	Continue bool            `json:"continue_final_message"`
	Text     string          `json:"text"`
	Error    string          `json:"error"`
}

func (c *chatCase) options() ChatOptions {
	return ChatOptions{
		AddGenerationPrompt: c.Prompt, ContinueFinal: c.Continue, Tools: c.Tools, Kwargs: c.Kwargs,
		Now: time.Date(2026, 3, 7, 14, 5, 9, 0, time.UTC),
	}
}

func readChats(t testing.TB) (cases []chatCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/chats.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// withTemplate returns a small tokenizer with another chat template.
func withTemplate(t testing.TB, family, template string) *Tokenizer {
	t.Helper()
	tok := open(t, family)
	text, err := os.ReadFile(filepath.Join("testdata", template+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	tok.bosText, tok.eosText = "<|begin_of_text|>", "<|eot_id|>"
	tok.setTemplate("default", string(text))
	return tok
}

func TestChatReference(t *testing.T) {
	toks := map[string]*Tokenizer{}
	for i, c := range readChats(t) {
		tok := toks[c.Template]
		if tok == nil {
			tok = withTemplate(t, "llama", c.Template)
			toks[c.Template] = tok
		}
		text, err := tok.Chat(c.Messages, c.options())
		var refused *ChatError
		switch {
		case c.Error != "" && !errors.As(err, &refused):
			t.Errorf("case %d, %s: error is %v, want %s", i, c.Template, err, c.Error)
		case c.Error != "":
			if _, want, _ := strings.Cut(c.Error, ": "); refused.Reason != want {
				t.Errorf("case %d, %s: refused with %q, want %q", i, c.Template, refused.Reason, want)
			}
		case err != nil:
			t.Errorf("case %d, %s: %v", i, c.Template, err)
		case text != c.Text:
			t.Errorf("case %d, %s (-want +got):\n%s", i, c.Template, cmp.Diff(c.Text, text))
		}
	}
	if len(toks) != 4 {
		t.Errorf("%d templates, want 4", len(toks))
	}
}

// Chats of clients who mean no harm give the ids of the plain way.
func TestEncodeChatPlain(t *testing.T) {
	tok := withTemplate(t, "qwen", "qwen3")
	for i, c := range readChats(t) {
		if c.Template != "qwen3" || c.Error != "" {
			continue
		}
		got, err := tok.EncodeChat(c.Messages, c.options())
		if err != nil {
			t.Fatal(err)
		}
		if want := tok.Encode(c.Text, false); !slices.Equal(got, want) {
			t.Errorf("case %d: %v, want %v", i, got, want)
		}
	}
}
