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

func TestChatRefuses(t *testing.T) {
	tok := withTemplate(t, "qwen", "qwen3")
	deep := strings.Repeat("[", 100_000)
	const hello = `[{"role":"user","content":"hello"}]`
	for _, c := range []struct {
		messages string
		o        ChatOptions
		want     string
	}{
		{``, ChatOptions{}, "messages: EOF"},
		{`"hi"`, ChatOptions{}, "messages: not a list"},
		{`[{}`, ChatOptions{}, "messages: "},
		{`[] []`, ChatOptions{}, "messages: more after"},
		{`[1e999]`, ChatOptions{}, "messages: the number 1e999"},
		{`[3]`, ChatOptions{}, "messages[0]: not an object"},
		{`[{}]`, ChatOptions{}, "messages[0].role"},
		{`[{"role":123}]`, ChatOptions{}, "messages[0].role: not a string"},
		{`[{"role":"user","content":7}]`, ChatOptions{}, "messages[0].content: neither"},
		{`[{"role":"user","content":["x"]}]`, ChatOptions{}, "messages[0].content[0]: not an object"},
		{`[{"role":"user","content":[{"type":"image_url"}]}]`, ChatOptions{}, "only parts of type text"},
		{`[{"role":"user","content":"x","tool_calls":3}]`, ChatOptions{}, "messages[0].tool_calls: not a list"},
		{deep, ChatOptions{}, "messages: nested deeper than 100"},
		{hello, ChatOptions{Tools: []byte(deep)}, "tools: nested deeper"},
		{hello, ChatOptions{Tools: []byte(`{}`)}, "tools: not a list"},
		{hello, ChatOptions{Kwargs: []byte(`[]`)}, "chat_template_kwargs: not an object"},
		{hello, ChatOptions{Kwargs: []byte(`{"a"`)}, "chat_template_kwargs: "},
		{hello, ChatOptions{Kwargs: []byte(`{"messages":[]}`)}, `chat_template_kwargs: "messages" has a field of its own`},
		{hello, ChatOptions{AddGenerationPrompt: true, ContinueFinal: true}, "exclude each other"},
		{`[]`, ChatOptions{ContinueFinal: true}, "continue_final_message without any message"},
	} {
		for _, call := range []func(json.RawMessage, ChatOptions) error{
			func(m json.RawMessage, o ChatOptions) error { _, err := tok.Chat(m, o); return err },
			func(m json.RawMessage, o ChatOptions) error { _, err := tok.EncodeChat(m, o); return err },
		} {
			err := call([]byte(c.messages), c.o)
			var refused *ChatError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", short(c.messages), err, c.want)
			}
		}
	}
}

// What clients send is brought into the form that templates know.
func TestChatTidies(t *testing.T) {
	tok := open(t, "qwen")
	for _, c := range []struct{ template, messages, want string }{
		{`{{ messages[0].content }}`, `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`, "a\nb"},
		{`{% if messages[0].content is string %}s{% else %}{% for p in messages[0].content %}{{ p.text }}{% endfor %}{% endif %}`,
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`, "ab"},
		// As Qwen3 has it: what is no string would be lost.
		{`{% for m in messages %}{% if m.content is string %}{{ m.content }}{% endif %}{% endfor %}`,
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`, "a\nb"},
		// Lists are looked into in the messages of one role only.
		{`{% for m in messages %}{% if m.role == 'user' and m.content is not string %}{{ m.content|map(attribute='text')|join }}{% else %}{{ m.content }}{% endif %}{% endfor %}`,
			`[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":[{"type":"text","text":"c"},{"type":"text","text":"d"}]}]`,
			"a\nbcd"},
		{`[{{ messages[0].content }}]`, `[{"role":"user"}]`, "[]"},
		{`[{{ messages[0].content }}]`, `[{"role":"assistant","content":null}]`, "[]"},
		{`{{ 'tool_calls' in messages[0] }}`, `[{"role":"assistant","tool_calls":null}]`, "False"},
		{`{% for m in messages if m.tool_calls %}{{ '<' + m.tool_calls[0].function.arguments }}{% endfor %}`,
			`[{"role":"assistant","tool_calls":[{"function":{"arguments":"{\"z\":1}"}}]}]`, `<{"z":1}`},
		{`{{ messages[0].tool_calls[0].function.arguments.z }}`, `[{"role":"assistant","tool_calls":[{"function":{"arguments":"{\"z\":1}"}}]}]`, "1"},
		{`{{ messages[0].tool_calls[0].function.arguments }}`, `[{"role":"assistant","tool_calls":[{"function":{"arguments":"{\"z\""}}]}]`, `{"z"`},
		{`{{ messages[0].tool_calls | tojson }}`, `[{"role":"assistant","tool_calls":[{"z":1,"a":{"y":[1.0,null]}}]}]`, `[{"z": 1, "a": {"y": [1.0, null]}}]`},
		{`{{ messages[0].reasoning_content }}`, `[{"role":"assistant","reasoning":"hm"}]`, "hm"},
		{`{{ messages[0].thinking }}`, `[{"role":"assistant","reasoning_content":"hm"}]`, "hm"},
		{`{{ messages[0].content }}`, `[{"role":"user","content":"\ud83d"}]`, "\uFFFD"},
	} {
		tok.setTemplate("default", c.template)
		if got, err := tok.Chat([]byte(c.messages), ChatOptions{}); err != nil || got != c.want {
			t.Errorf("%s of %s: %q, %v, want %q", c.template, c.messages, got, err, c.want)
		}
	}
}

func TestChatTemplates(t *testing.T) {
	tok := open(t, "qwen")
	chat := []byte(`[{"role":"user","content":"x"}]`)
	if _, err := tok.Chat(chat, ChatOptions{}); !errors.Is(err, ErrNoChatTemplate) || tok.HasChatTemplate() {
		t.Errorf("without a template: %v", err)
	}
	if err := tok.readConfig([]byte(`{"chat_template":[{"name":"default","template":"plain"},{"name":"tool_use","template":"tools"}]}`)); err != nil {
		t.Fatal(err)
	}
	for tools, want := range map[string]string{``: "plain", `null`: "plain", `[]`: "tools"} {
		if got, err := tok.Chat(chat, ChatOptions{Tools: []byte(tools)}); got != want {
			t.Errorf("tools %q: %q, %v, want %q", tools, got, err, want)
		}
	}
	var refused *ChatError
	for _, broken := range []string{`{% if %}`, `{{ '%d' % 3 }}`} {
		tok.setTemplate("default", broken)
		if _, err := tok.Chat(chat, ChatOptions{}); err == nil || errors.As(err, &refused) {
			t.Errorf("%s: %v, want an error that is not the client's", broken, err)
		}
	}
	tok.setTemplate("default", `{{ raise_exception('no ' ~ messages[0].content) }}`)
	if _, err := tok.Chat(chat, ChatOptions{}); !errors.As(err, &refused) || refused.Reason != "no x" {
		t.Errorf("a template that raises: %v", err)
	}
	tok.setTemplate("default", `{{ nothing.at.all() }}`)
	if _, err := tok.Chat(chat, ChatOptions{}); !errors.As(err, &refused) {
		t.Errorf("a template that fails: %v", err)
	}
}

func TestStrftime(t *testing.T) {
	tok := open(t, "qwen")
	at := time.Date(2026, 3, 7, 14, 5, 9, 0, time.UTC)
	for format, want := range map[string]string{
		"%Y-%m-%d %H:%M:%S": "2026-03-07 14:05:09", "%d %b %Y": "07 Mar 2026", "%A, %B %-d, %y": "Saturday, March 7, 26",
		"%I %p %j %%": "02 PM 066 %", "2006 Jan": "2006 Jan", "": "",
	} {
		tok.setTemplate("default", `{{ strftime_now("`+format+`") }}`)
		if got, err := tok.Chat([]byte(`[]`), ChatOptions{Now: at}); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", format, got, err, want)
		}
	}
	for _, format := range []string{"%", "%Q", "%-"} {
		tok.setTemplate("default", `{{ strftime_now("`+format+`") }}`)
		if got, err := tok.Chat([]byte(`[]`), ChatOptions{Now: at}); err == nil {
			t.Errorf("%s gives %q", format, got)
		}
	}
	tok.setTemplate("default", `{{ strftime_now("%Y") }}`)
	if got, err := tok.Chat([]byte(`[]`), ChatOptions{}); err != nil || got < "2024" {
		t.Errorf("now is %q, %v", got, err)
	}
}
