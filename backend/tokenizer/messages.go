package tokenizer

import (
	"strings"

	"github.com/ardanlabs/jinja"
)

// tidyMessages brings what clients send into the form that templates are written
// for: fields that are null are left out, content is never null, a list of text
// parts is joined by line breaks where the template knows only text, the
// arguments of tool calls, which the protocol has as JSON in a string, are
// objects unless the template wants that string, and what a model thought has the
// name reasoning_content.
func (c *chat) tidyMessages() error {
	if !c.messages.IsList() {
		return chatError("messages: not a list")
	}
	for i, m := range c.messages.AsList().Items {
		if !m.IsDict() {
			return chatError("messages[%d]: not an object", i)
		}
		if role, ok := m.AsDict().Get("role"); !ok || !role.IsString() {
			return chatError("messages[%d].role: not a string", i)
		}
		tidied, err := c.tidyMessage(i, m.AsDict())
		if err != nil {
			return err
		}
		c.messages.AsList().Items[i] = tidied
	}
	return nil
}

func (c *chat) tidyMessage(i int, m *jinja.Dict) (jinja.Value, error) {
	out := jinja.NewDict()
	for _, key := range m.OrderedKeys() {
		v, _ := m.Get(key)
		switch {
		case key == "content":
			content, err := c.tidyContent(i, m, v)
			if err != nil {
				return out, err
			}
			v = content
		case v.IsNone():
			continue
		case key == "tool_calls":
			if !v.IsList() {
				return out, chatError("messages[%d].tool_calls: not a list", i)
			}
			for _, call := range v.AsList().Items {
				c.parseArguments(call)
			}
		}
		out.AsDict().Set(key, v)
	}
	nameReasoning(out.AsDict())
	if !out.AsDict().Has("content") {
		out.AsDict().Set("content", jinja.NewString(""))
	}
	return out, nil
}

// reasoningNames are the fields in which clients send back what a model thought.
// Templates read the first, or "thinking".
var reasoningNames = []string{"reasoning_content", "thinking", "reasoning"}

func nameReasoning(m *jinja.Dict) {
	for _, name := range reasoningNames {
		if v, ok := m.Get(name); ok {
			m.Set("reasoning_content", v)
			if !m.Has("thinking") {
				m.Set("thinking", v)
			}
			return
		}
	}
}

func (c *chat) tidyContent(i int, m *jinja.Dict, v jinja.Value) (jinja.Value, error) {
	switch {
	case v.IsNone():
		return jinja.NewString(""), nil
	case v.IsString():
		return v, nil
	case !v.IsList():
		return v, chatError("messages[%d].content: neither a string nor a list of parts", i)
	}
	var texts []string
	for j, part := range v.AsList().Items {
		if !part.IsDict() {
			return v, chatError("messages[%d].content[%d]: not an object", i, j)
		}
		text, ok := part.AsDict().Get("text")
		if kind, _ := part.AsDict().Get("type"); !kind.IsString() || kind.AsString() != "text" || !ok || !text.IsString() {
			return v, chatError("messages[%d].content[%d]: only parts of type text are supported", i, j)
		}
		texts = append(texts, text.AsString())
	}
	if role, _ := m.Get("role"); c.template.takesParts(role.AsString()) {
		return v, nil
	}
	return jinja.NewString(strings.Join(texts, "\n")), nil
}

// parseArguments replaces a tool call's arguments by what they say in JSON.
// Those that are no object stay text: models write such calls too.
func (c *chat) parseArguments(call jinja.Value) {
	if !call.IsDict() {
		return
	}
	function, ok := call.AsDict().Get("function")
	if !ok || !function.IsDict() {
		return
	}
	arguments, ok := function.AsDict().Get("arguments")
	if !ok || !arguments.IsString() {
		return
	}
	if v, err := decodeValue([]byte(arguments.AsString())); err == nil && v.IsDict() && c.template.takesArguments() {
		function.AsDict().Set("arguments", v)
	}
}
