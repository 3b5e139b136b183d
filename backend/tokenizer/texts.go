package tokenizer

import (
	"fmt"
	"strings"

	"github.com/ardanlabs/jinja"
)

// sum is a + b: of texts, lists or numbers. The engine would add the text of
// anything to a text, and Python refuses that: a template that says "+" was not
// written for such messages.
func (m *meter) sum(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	a, b := asNumber(args[0]), asNumber(args[1])
	switch {
	case a.IsString() && b.IsString():
		n := len(a.AsString()) + len(b.AsString())
		if n > m.longest {
			return jinja.Undefined(), m.fits(n)
		}
		if err := m.makeBytes(n); err != nil {
			return jinja.Undefined(), err
		}
		return jinja.NewString(a.AsString() + b.AsString()), m.work(n, 0)
	case a.IsList() && b.IsList():
		items := append(itemsOf(a), b.AsList().Items...)
		if err := m.makeBytes(itemBytes / 2 * len(items)); err != nil {
			return jinja.Undefined(), err
		}
		return jinja.NewList(items), m.work(0, len(items))
	case a.IsInt() && b.IsInt():
		return jinja.NewInt(a.AsInt() + b.AsInt()), m.err
	case a.IsNumber() && b.IsNumber():
		return jinja.NewFloat(float(a) + float(b)), m.err
	}
	return jinja.Undefined(), fmt.Errorf("a sum of %s and %s", kindOf(a), kindOf(b))
}

var markup = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

// markup is a text made safe in HTML, as Python does it.
func (m *meter) markup(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if !args[0].IsString() {
		return jinja.Undefined(), fmt.Errorf("a sum of a text and %s", kindOf(args[0]))
	}
	text := markup.Replace(args[0].AsString())
	return jinja.NewString(text), m.fits(len(text))
}

// asNumber is v, or 0 or 1 for false or true.
func asNumber(v jinja.Value) jinja.Value {
	switch {
	case !v.IsBool():
		return v
	case v.AsBool():
		return jinja.NewInt(1)
	}
	return jinja.NewInt(0)
}

func kindOf(v jinja.Value) string {
	switch {
	case v.IsString():
		return "a text"
	case v.IsList():
		return "a list"
	case v.IsDict():
		return "an object"
	case v.IsNumber():
		return "a number"
	case v.IsNone():
		return "none"
	}
	return "what is not there"
}

// trim is the filter, of the text of any value.
func (m *meter) trim(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	text, err := m.texts(args[:1])
	if err != nil {
		return jinja.Undefined(), err
	}
	return m.stripped(append([]jinja.Value{jinja.NewString(text[0])}, args[1:]...), strings.TrimFunc)
}

// strip is the method of that name.
func (m *meter) strip(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	return m.stripped(args, strings.TrimFunc)
}

func (m *meter) lstrip(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	return m.stripped(args, strings.TrimLeftFunc)
}

func (m *meter) rstrip(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	return m.stripped(args, strings.TrimRightFunc)
}

func (m *meter) stripped(args []jinja.Value, strip func(string, func(rune) bool) string) (jinja.Value, error) {
	if !args[0].IsString() {
		return jinja.Undefined(), fmt.Errorf("%s has no white space to strip", kindOf(args[0]))
	}
	text := args[0].AsString()
	is := isSpace
	if len(args) > 1 && args[1].IsString() {
		cut := args[1].AsString()
		is = func(r rune) bool { return strings.ContainsRune(cut, r) }
	}
	return jinja.NewString(strip(text, is)), m.makeBytes(len(text))
}

// formatted is the filter format: a text with %s or %d for each argument.
func (m *meter) formatted(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	texts, err := m.texts(args)
	if err != nil {
		return jinja.Undefined(), err
	}
	var out strings.Builder
	format, values := texts[0], texts[1:]
	for {
		before, rest, found := strings.Cut(format, "%")
		out.WriteString(before)
		switch {
		case !found && len(values) > 0:
			return jinja.Undefined(), fmt.Errorf("format: more values than places for them")
		case !found:
			return jinja.NewString(out.String()), m.fits(out.Len())
		case strings.HasPrefix(rest, "%"):
			out.WriteByte('%')
		case len(values) == 0:
			return jinja.Undefined(), fmt.Errorf("format: more places than values")
		case strings.HasPrefix(rest, "s"), strings.HasPrefix(rest, "d") && args[len(args)-len(values)].IsInt():
			if err := m.fits(out.Len() + len(values[0])); err != nil {
				return jinja.Undefined(), err
			}
			out.WriteString(values[0])
			values = values[1:]
		default:
			return jinja.Undefined(), fmt.Errorf("format: only %%s, and %%d of whole numbers, are supported")
		}
		format = rest[1:]
	}
}

// join is the filter: the texts of a list's items, or of one field of them.
func (m *meter) join(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if err := m.lookAll(args); err != nil {
		return jinja.Undefined(), err
	}
	separator := ""
	if len(args) > 1 {
		separator = m.printed(args[1])
	}
	if d, ok := kwargs["d"]; ok {
		separator = m.printed(d)
	}
	attribute, ofField := kwargs["attribute"]
	if len(args) > 2 {
		attribute, ofField = args[2], true
	}
	items := itemsOf(args[0])
	if args[0].IsString() {
		for _, r := range args[0].AsString() {
			items = append(items, jinja.NewString(string(r)))
		}
		if err := m.makeBytes(itemBytes * len(items)); err != nil {
			return jinja.Undefined(), err
		}
	}
	var out strings.Builder
	for i, item := range items {
		if ofField {
			item = field(item, m.printed(attribute))
		}
		text := m.printed(item)
		if out.Len()+len(separator)+len(text) > m.longest {
			return jinja.Undefined(), m.fits(m.longest + 1)
		}
		if i > 0 {
			out.WriteString(separator)
		}
		out.WriteString(text)
	}
	return jinja.NewString(out.String()), m.fits(out.Len())
}

// field is what v has under a name, or under names with dots between them.
func field(v jinja.Value, path string) jinja.Value {
	for name := range strings.SplitSeq(path, ".") {
		if !v.IsDict() {
			return jinja.Undefined()
		}
		v, _ = v.AsDict().Get(name)
	}
	return v
}
