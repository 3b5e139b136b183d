package frontdoor

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// textForm is /v1/completions.
type textForm struct{}

func (textForm) idPrefix() string    { return "cmpl-" }
func (textForm) promptField() string { return "prompt" }

type textChoice struct {
	Index    int           `json:"index"`
	Text     string        `json:"text"`
	Logprobs *textLogprobs `json:"logprobs"`
	ending
	PromptTokenIDs []Token `json:"prompt_token_ids,omitempty"`
	extras
}

type textPiece struct {
	Index          int           `json:"index"`
	Text           string        `json:"text"`
	Logprobs       *textLogprobs `json:"logprobs"`
	FinishReason   *string       `json:"finish_reason"`
	PromptTokenIDs []Token       `json:"prompt_token_ids,omitempty"`
	extras
}

const textCompletion = "text_completion"

// opening is nothing: completions have no roles.
func (textForm) opening(*choice) any { return nil }

func (textForm) piece(c *choice, ch *Chunk) any {
	if !c.tells(ch) {
		return nil
	}
	p := textPiece{Index: c.index, Text: ch.Text, extras: c.extrasOf(ch)}
	if c.request.Logprobs >= 0 && len(ch.Tokens) > 0 {
		p.Logprobs = c.textLogprobs(ch.Top)
	}
	if c.ask.tokenIDs && !c.opened {
		p.PromptTokenIDs, c.opened = c.request.Prompt, true
	}
	return c.ask.answer(textCompletion, c.sofar(), p)
}

func (textForm) closing(c *choice) any {
	return c.ask.answer(textCompletion, c.sofar(), textChoice{Index: c.index, ending: c.ending()})
}

func (textForm) tail(a *ask, choices []*choice) any {
	if !a.usage {
		return nil
	}
	return a.answer(textCompletion, a.used(choices))
}

func (textForm) whole(a *ask, choices []*choice) any {
	var list []any
	for _, c := range choices {
		o := textChoice{Index: c.index, Text: c.text.String(), ending: c.ending(), extras: a.extras(c.tokens, c.writers)}
		if c.request.Logprobs >= 0 {
			o.Logprobs = c.textLogprobs(c.top)
		}
		if a.tokenIDs {
			o.PromptTokenIDs = c.request.Prompt
		}
		list = append(list, o)
	}
	return a.answer(textCompletion, a.used(choices), list...)
}

// readCompletion reads the body of a completion.
func (h *House) readCompletion(f *fields) *ask {
	a := &ask{form: textForm{}, house: h}
	a.choose(f)
	a.streaming(f)
	f.refuseTools()
	f.refuseUnbuilt()
	h.readPrompts(a, f, "prompt")
	if f.err != nil {
		return a
	}
	a.sample(f, &openAI)
	a.length(f, &openAI, 16, a.prompts...)
	a.common.Logprobs = -1
	if f.has("logprobs") {
		a.common.Logprobs = a.top(f, "logprobs", 0)
	}
	return a
}

// readPrompts reads one prompt or many, as text or as token ids.
func (h *House) readPrompts(a *ask, f *fields, name string) {
	raw, ok := f.take(name)
	if !ok {
		f.fail(name, "is missing, want a string, a list of strings, of token ids or of lists of token ids")
		return
	}
	if raw[0] == '"' {
		h.addText(a, f, name, f.text(name))
		return
	}
	if first := bytes.TrimLeft(raw[1:], " \t\r\n"); raw[0] == '[' && !bytes.ContainsAny(first[:1], "\"[]") {
		h.addIDs(a, f, name, raw) // the list is one prompt
		return
	}
	list := f.rawList(name, raw, promptsMax, "a string, a list of strings, of token ids or of lists of token ids")
	if f.err == nil && len(list) == 0 {
		f.fail(name, "is empty, want some text or tokens")
	}
	a.list = true
	for _, one := range list {
		if one[0] != '"' {
			h.addIDs(a, f, name, one)
			continue
		}
		text := ""
		if err := json.Unmarshal(one, &text); err != nil {
			f.fail(name, "has %s in its list: %v", quoteRaw(one), err)
			return
		}
		h.addText(a, f, name, text)
	}
}

// addIDs adds a prompt of token ids, unless it is far too long to be looked at.
func (h *House) addIDs(a *ask, f *fields, name string, raw json.RawMessage) {
	if n := bytes.Count(raw, []byte(",")) + 1; n > h.Context {
		f.fail(name, "has %d tokens; the maximum context length of this model is %d tokens", n, h.Context)
		return
	}
	a.addTokens(f, name, f.tokenList(name, raw, h.Vocab))
}

func (h *House) addText(a *ask, f *fields, name, text string) {
	if text == "" {
		f.fail(name, "is empty, want some text or tokens")
		return
	}
	if n := h.Tokenizer.FewestTokens(text); n > h.Context {
		f.fail(name, "has at least %d tokens; the maximum context length of this model is %d tokens", n, h.Context)
	}
	if f.err != nil {
		return // no text is worth its tokens any more
	}
	a.addTokens(f, name, h.Tokenizer.Encode(text, f.flag("add_special_tokens", true)))
}

func (a *ask) addTokens(f *fields, name string, tokens []Token) {
	if len(tokens) == 0 {
		f.fail(name, "is empty, want some text or tokens")
	}
	a.prompts = append(a.prompts, tokens)
}

func decimal(i int) string { return strconv.Itoa(i) }
