package frontdoor

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/tokenrouter/tokenrouter/backend/tokenizer"
)

// chatForm is /v1/chat/completions.
type chatForm struct{}

func (chatForm) idPrefix() string    { return "chatcmpl-" }
func (chatForm) promptField() string { return "messages" }

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chatChoice struct {
	Index    int           `json:"index"`
	Message  chatMessage   `json:"message"`
	Logprobs *chatLogprobs `json:"logprobs"`
	ending
	extras
}

type chatDelta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type chatPiece struct {
	Index        int           `json:"index"`
	Delta        chatDelta     `json:"delta"`
	Logprobs     *chatLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
	extras
}

// chatClosing is a piece that says why there is no further one.
type chatClosing struct {
	Index    int           `json:"index"`
	Delta    chatDelta     `json:"delta"`
	Logprobs *chatLogprobs `json:"logprobs"`
	ending
}

const chatChunk = "chat.completion.chunk"

func (chatForm) opening(c *choice) any {
	empty := ""
	o := c.ask.answer(chatChunk, c.sofar(), chatPiece{Index: c.index, Delta: chatDelta{"assistant", &empty}})
	if c.ask.tokenIDs {
		o.PromptTokenIDs = c.request.Prompt
	}
	return o
}

func (chatForm) piece(c *choice, ch *Chunk) any {
	if !c.tells(ch) {
		return nil
	}
	p := chatPiece{Index: c.index, Delta: chatDelta{Content: &ch.Text}, extras: c.extrasOf(ch)}
	if c.request.Logprobs >= 0 && len(ch.Tokens) > 0 {
		p.Logprobs = c.chatLogprobs(ch.Top)
	}
	return c.ask.answer(chatChunk, c.sofar(), p)
}

func (chatForm) closing(c *choice) any {
	return c.ask.answer(chatChunk, c.sofar(), chatClosing{Index: c.index, ending: c.ending()})
}

func (chatForm) tail(a *ask, choices []*choice) any {
	if !a.usage {
		return nil
	}
	return a.answer(chatChunk, a.used(choices))
}

func (chatForm) whole(a *ask, choices []*choice) any {
	var list []any
	for _, c := range choices {
		o := chatChoice{Index: c.index, Message: chatMessage{"assistant", c.text.String()}, ending: c.ending(), extras: a.extras(c.tokens, c.writers)}
		if c.request.Logprobs >= 0 {
			o.Logprobs = c.chatLogprobs(c.top)
		}
		list = append(list, o)
	}
	w := a.answer("chat.completion", a.used(choices), list...)
	if a.tokenIDs {
		w.PromptTokenIDs = a.prompts[0]
	}
	return w
}

// readChat reads the body of a chat completion.
func (h *House) readChat(f *fields) *ask {
	a := &ask{form: chatForm{}, house: h}
	a.choose(f)
	a.streaming(f)
	f.refuseTools()
	f.refuseUnbuilt()
	if f.flag("add_special_tokens", false) {
		f.fail("add_special_tokens", "is not supported: a chat has those of its template; leave it out")
	}
	prompt, err := h.chatPrompt(f, h.Context)
	var wrong *tokenizer.ChatError
	switch {
	case f.err != nil:
		return a
	case errors.As(err, &wrong), errors.Is(err, tokenizer.ErrNoChatTemplate):
		f.err = badRequest("messages", "messages: %v", err)
		return a
	case err != nil:
		f.err = asError(err)
		return a
	case len(prompt) == 0:
		f.fail("messages", "make an empty prompt, want some text")
		return a
	}
	a.prompts = [][]Token{prompt}
	a.sample(f, &chatty)
	a.length(f, &chatty, 0, prompt)
	a.common.Logprobs = -1
	logprobs := f.flag("logprobs", false)
	switch {
	case logprobs:
		a.common.Logprobs = a.top(f, "top_logprobs", 0)
	case f.has("top_logprobs") && f.integer("top_logprobs", 0, -1, 1<<31, "at least 0, or -1 for all") != 0:
		f.fail("top_logprobs", "needs logprobs: set it to true")
	}
	return a
}

// refuseTools refuses what asks for answers of a certain form, but for the ways
// to say that none is wanted.
func (f *fields) refuseTools() {
	if format := f.object("response_format"); format != nil {
		if kind := format.text("type"); kind != "text" {
			f.fail("response_format", "of type %s is not supported, only text", quote(kind))
		}
		f.adopt(format)
	}
	if f.has("tools") {
		f.fail("tools", "are not supported; leave them out")
	}
	if raw, ok := f.take("tool_choice"); ok && string(raw) != `"none"` {
		f.fail("tool_choice", "is %s, only none is supported", quoteRaw(raw))
	}
}

// chatPrompt makes the tokens of the chat so far, no more than most of them.
func (h *House) chatPrompt(f *fields, most int) ([]Token, error) {
	messages := f.messages("messages")
	o := tokenizer.ChatOptions{AddGenerationPrompt: true, ContinueFinal: f.flag("continue_final_message", false), TokensMax: most}
	if o.ContinueFinal {
		o.AddGenerationPrompt = false
	}
	if f.has("add_generation_prompt") {
		o.AddGenerationPrompt = f.flag("add_generation_prompt", true)
	}
	if kwargs := f.object("chat_template_kwargs"); kwargs != nil {
		o.Kwargs, _ = f.take("chat_template_kwargs")
	}
	if f.err != nil {
		return nil, f.err
	}
	return h.Tokenizer.EncodeChat(messages, o)
}

// roles are those of the protocol. Models know no developer: what one says
// comes before all, as from the system.
var roles = map[string]string{"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}

// messages checks the messages of a chat, and brings their roles into the
// spelling that templates know.
func (f *fields) messages(name string) json.RawMessage {
	raw, ok := f.take(name)
	if !ok {
		f.fail(name, "is missing, want a list of messages")
		return nil
	}
	list := f.rawList(name, raw, messagesMax, "a list of messages")
	if len(list) == 0 {
		f.fail(name, "is empty, want at least one message")
		return nil
	}
	tidy := make([]map[string]json.RawMessage, len(list))
	for i, raw := range list {
		m := &fields{path: name + "[" + decimal(i) + "]."}
		if err := json.Unmarshal(raw, &m.raw); err != nil || m.raw == nil {
			f.fail(name, "has %s as its entry %d, want an object with role and content", quoteRaw(raw), i)
			return nil
		}
		role, known := roles[strings.ToLower(m.text("role"))]
		if !known {
			m.fail("role", "is %s, want system, developer, user, assistant or tool", quote(m.text("role")))
		}
		m.content()
		if f.adopt(m); f.err != nil {
			return nil
		}
		m.raw["role"], tidy[i] = json.RawMessage(`"`+role+`"`), m.raw
	}
	out, err := json.Marshal(tidy)
	if err != nil {
		panic("frontdoor: JSON that was read cannot be written: " + err.Error())
	}
	return out
}

// content checks what a message says.
func (f *fields) content() {
	raw, ok := f.take("content")
	if !ok || raw[0] == '"' {
		return
	}
	for i, part := range f.rawList("content", raw, messagesMax, "a string, null or a list of text parts") {
		p := &fields{path: f.path + "content[" + decimal(i) + "]."}
		if json.Unmarshal(part, &p.raw) != nil || p.raw == nil {
			f.fail("content", "has %s in its list, want parts like {\"type\":\"text\",\"text\":\"…\"}", quoteRaw(part))
			return
		}
		if kind := p.text("type"); kind != "text" {
			p.fail("type", "is %s: this model reads text only", quote(kind))
		}
		if !p.has("text") {
			p.fail("text", "is missing")
		}
		p.text("text")
		f.adopt(p)
	}
}
