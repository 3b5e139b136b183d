package tokenizer

import (
	"strings"
	"sync"
	"time"

	"github.com/ardanlabs/jinja"
)

// probe is what a template makes of some forms of messages, found out by trying
// them when the first client sends one: what its source says does not tell. Many
// templates ask whether content is a string only to leave out what is none.
type probe struct {
	once       sync.Once
	partsOf    map[string]bool // roles whose lists of content parts it looks into
	argsAsText bool            // arguments of tool calls have to be JSON in a string
}

const (
	probeOne, probeTwo = "probe-one", "probe-two"
	probeParts         = `[{"type": "text", "text": "` + probeOne + `"}, {"type": "text", "text": "` + probeTwo + `"}]`
	probeUser          = `{"role": "user", "content": "u"}`
	probeCall          = `{"role": "assistant", "content": "", "tool_calls": [{"id": "call00000", "type": "function", "function": {"name": "f", "arguments": `
)

// probeChats are chats with parts, by the role that has them.
var probeChats = map[string]string{
	"system":    `[{"role": "system", "content": ` + probeParts + `}, ` + probeUser + `]`,
	"developer": `[{"role": "developer", "content": ` + probeParts + `}, ` + probeUser + `]`,
	"user":      `[{"role": "user", "content": ` + probeParts + `}]`,
	"assistant": `[` + probeUser + `, {"role": "assistant", "content": ` + probeParts + `}]`,
	"tool": `[` + probeUser + `, ` + probeCall + `{}}}]}, {"role": "tool", "tool_call_id": "call00000", "name": "f", "content": ` +
		probeParts + `}]`,
}

// takesParts tells whether lists of parts in messages of role reach the template
// as they are.
func (c *chatTemplate) takesParts(role string) bool {
	c.probe.once.Do(c.try)
	return c.probe.partsOf[role]
}

// takesArguments tells whether the arguments of tool calls reach it as objects.
func (c *chatTemplate) takesArguments() bool {
	c.probe.once.Do(c.try)
	return !c.probe.argsAsText
}

func (c *chatTemplate) try() {
	c.probe.partsOf = map[string]bool{}
	for _, role := range []string{"system", "developer", "user", "assistant", "tool"} {
		text := c.tryChat(probeChats[role])
		// A list that was printed, in Python's or JSON's way, was not looked into.
		c.probe.partsOf[role] = strings.Contains(text, probeOne) && strings.Contains(text, probeTwo) &&
			!strings.Contains(text, `'type'`) && !strings.Contains(text, `"type"`)
	}
	object := c.tryChat(`[` + probeUser + `, ` + probeCall + `{"a": "` + probeOne + `"}}}]}]`)
	if !strings.Contains(object, probeOne) {
		asText := c.tryChat(`[` + probeUser + `, ` + probeCall + `"{\"a\": \"` + probeOne + `\"}"}}]}]`)
		c.probe.argsAsText = strings.Contains(asText, probeOne)
	}
}

// tryChat renders messages, or returns "" if the template refuses them.
func (c *chatTemplate) tryChat(messages string) string {
	v, err := decodeValue([]byte(messages))
	if err != nil {
		panic("tokenizer: " + err.Error())
	}
	t := chat{template: c, messages: v, tools: jinja.None(), meter: newMeter(0), variables: map[string]jinja.Value{
		"bos_token": jinja.NewString(""), "eos_token": jinja.NewString(""), "add_generation_prompt": jinja.NewBool(false),
		"strftime_now": jinja.NewCallable("strftime_now", strftimeAt(time.Time{})), "raise_exception": jinja.NewCallable("raise_exception", raise),
	}}
	t.meter.steps /= 16
	t.meter.end = time.Now().Add(renderTime / 10)
	text, err := t.render(func(text string) string { return text })
	if err != nil {
		return ""
	}
	return text
}
