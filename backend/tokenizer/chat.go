package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"

	"github.com/ardanlabs/jinja"
)

// ChatOptions says how messages become a prompt.
type ChatOptions struct {
	AddGenerationPrompt bool // end with the start of the assistant's turn
	// ContinueFinal leaves the last message open, for the model to write on.
	ContinueFinal bool
	Tools         json.RawMessage // JSON array of tool schemas; nil for none
	Kwargs        json.RawMessage // JSON object of further variables, such as enable_thinking
	// Now is what a template that prints the date gets. Zero stands for the
	// present time in UTC.
	Now time.Time
	// TokensMax has EncodeChat refuse chats that certainly have more tokens before
	// it makes them. 0 stands for no bound.
	TokensMax int
}

// ChatError is what is wrong with the messages or options of a chat, or what
// the model's template says is wrong with them: a mistake of the client.
type ChatError struct{ Reason string }

func (e *ChatError) Error() string { return e.Reason }

func chatError(format string, args ...any) error { return &ChatError{fmt.Sprintf(format, args...)} }

// ErrNoChatTemplate is returned for models without a chat template.
var ErrNoChatTemplate = errors.New("the model has no chat template")

// chatTemplate is a template as its model's folder has it. One that does not
// compile is an error only to those who chat.
type chatTemplate struct {
	compiled *jinja.Template
	err      error
	probe    probe
}

func (t *Tokenizer) setTemplate(name, source string) {
	if t.templates == nil {
		t.templates = map[string]*chatTemplate{}
	}
	c := &chatTemplate{}
	c.compiled, c.err = compile(source)
	t.templates[name] = c
}

func compile(source string) (*jinja.Template, error) {
	tame, err := metered(source)
	if err != nil {
		return nil, err
	}
	return jinja.Compile(tame)
}

// HasChatTemplate tells whether Chat can work.
func (t *Tokenizer) HasChatTemplate() bool { return t.templates["default"] != nil }

// Chat renders messages, a JSON array of objects with role and content, as the
// model's template has it. Errors are a *ChatError or ErrNoChatTemplate, unless
// the template itself is broken.
func (t *Tokenizer) Chat(messages json.RawMessage, o ChatOptions) (string, error) {
	c, err := t.newChat(messages, o)
	if err != nil {
		return "", err
	}
	return c.render(func(text string) string { return text })
}

// chat is a chat whose messages were read.
type chat struct {
	template  *chatTemplate
	messages  jinja.Value
	tools     jinja.Value
	variables map[string]jinja.Value // the rest of what the template sees
	final     bool
	input     int    // bytes of what the client sent
	meter     *meter // nil for one that fits input
}

func (t *Tokenizer) newChat(messages json.RawMessage, o ChatOptions) (*chat, error) {
	c := &chat{template: t.templates["default"], tools: jinja.None(), final: o.ContinueFinal}
	c.input = len(messages) + len(o.Tools) + len(o.Kwargs)
	if len(o.Tools) > 0 && string(o.Tools) != "null" {
		if special := t.templates["tool_use"]; special != nil {
			c.template = special
		}
		var err error
		if c.tools, err = decodeValue(o.Tools); err != nil {
			return nil, chatError("tools: %v", err)
		}
		if !c.tools.IsList() {
			return nil, chatError("tools: not a list")
		}
	}
	if c.template == nil {
		return nil, ErrNoChatTemplate
	}
	if c.template.err != nil {
		return nil, fmt.Errorf("the model's chat template: %w", c.template.err)
	}
	if o.AddGenerationPrompt && o.ContinueFinal {
		return nil, chatError("add_generation_prompt and continue_final_message exclude each other")
	}
	var err error
	if c.messages, err = decodeValue(messages); err != nil {
		return nil, chatError("messages: %v", err)
	}
	if err := c.tidyMessages(); err != nil {
		return nil, err
	}
	c.variables = map[string]jinja.Value{
		"bos_token":       jinja.NewString(t.bosText),
		"eos_token":       jinja.NewString(t.eosText),
		"strftime_now":    jinja.NewCallable("strftime_now", strftimeAt(o.Now)),
		"raise_exception": jinja.NewCallable("raise_exception", raise),
	}
	if err := c.addKwargs(o.Kwargs); err != nil {
		return nil, err
	}
	c.variables["add_generation_prompt"] = jinja.NewBool(o.AddGenerationPrompt)
	return c, nil
}

func (c *chat) addKwargs(text json.RawMessage) error {
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	kwargs, err := decodeValue(text)
	if err != nil {
		return chatError("chat_template_kwargs: %v", err)
	}
	if !kwargs.IsDict() {
		return chatError("chat_template_kwargs: not an object")
	}
	for _, key := range kwargs.AsDict().OrderedKeys() {
		switch key {
		case "messages", "tools", "add_generation_prompt", "continue_final_message", "strftime_now", "raise_exception":
			return chatError("chat_template_kwargs: %q has a field of its own", short(key))
		}
		c.variables[key], _ = kwargs.AsDict().Get(key)
	}
	return nil
}

// raise is a template's raise_exception.
func raise(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	reason := "the model's chat template refuses these messages"
	if len(args) > 0 {
		reason = args[0].String()
		if args[0].IsString() {
			reason = args[0].AsString()
		}
	}
	return jinja.Undefined(), &ChatError{reason}
}

// render renders the chat with every string of a client changed by mark.
func (c *chat) render(mark func(string) string) (text string, err error) {
	// The engine panics on some mistakes of types, which a client's values can
	// bring about.
	defer func() {
		if p := recover(); p != nil {
			text, err = "", chatError("the model's chat template cannot render these messages: %v", p)
		}
	}()
	variables := maps.Clone(c.variables)
	messages := mapStrings(c.messages, mark)
	variables["tools"] = c.tools
	if c.tools.IsList() {
		variables["tools"] = mapStrings(c.tools, mark)
	}
	final := ""
	if c.final {
		if final, err = c.tagFinal(messages); err != nil {
			return "", err
		}
	}
	variables["messages"] = messages
	m := c.meter
	if m == nil {
		m = newMeter(c.input)
	}
	m.addTo(variables)
	text, err = c.template.compiled.RenderValues(variables)
	var refused *ChatError
	switch {
	case errors.As(err, &refused):
		return "", refused
	case err != nil:
		return "", chatError("the model's chat template cannot render these messages: %v", err)
	case c.final:
		return c.cutFinal(text, final)
	}
	return text, nil
}

// finalTag ends the last message while it renders, so that what the template
// puts after it can be cut off. The space shows whether the template trims
// messages. The reference library does the same.
const finalTag = "CONTINUE_FINAL_MESSAGE_TAG "

// tagFinal puts the tag at the end of the last message's text, in place.
func (c *chat) tagFinal(messages jinja.Value) (final string, err error) {
	list := messages.AsList().Items
	if len(list) == 0 {
		return "", chatError("continue_final_message without any message")
	}
	last := list[len(list)-1].AsDict()
	content, _ := last.Get("content")
	if content.IsString() {
		last.Set("content", jinja.NewString(content.AsString()+finalTag))
		return content.AsString(), nil
	}
	if content.IsList() {
		for i := content.AsList().Len() - 1; i >= 0; i-- {
			part := content.AsList().Get(i)
			if !part.IsDict() {
				continue
			}
			if text, ok := part.AsDict().Get("text"); ok && text.IsString() {
				part.AsDict().Set("text", jinja.NewString(text.AsString()+finalTag))
				return text.AsString(), nil
			}
		}
	}
	return "", chatError("continue_final_message needs text in the last message")
}

func (c *chat) cutFinal(text, final string) (string, error) {
	at := strings.LastIndex(text, strings.TrimSpace(finalTag))
	if at < 0 || !strings.Contains(text, strings.TrimSpace(final)) {
		return "", chatError("continue_final_message: the model's chat template leaves out parts of the last message")
	}
	if strings.HasPrefix(text[at:], finalTag) {
		return text[:at], nil
	}
	return strings.TrimRightFunc(text[:at], unicode.IsSpace), nil
}
