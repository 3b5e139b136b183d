package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// The template engine's own tojson sorts keys and escapes "<" when it indents,
// prints 1.0 as 1, and escapes U+2028. Models were trained on Python's
// json.dumps(ensure_ascii=False), so templates call the filter below instead,
// under a name that the engine does not know.
const pythonFilter = "python_tojson"

// jsonStyle is how json.dumps lays out.
type jsonStyle struct {
	item, key string // separators
	indent    string // of one level
	lines     bool   // an indent was given, perhaps an empty one
	sorted    bool
	ascii     bool
	longest   int // of the text
}

func pythonJSON(longest int, args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Undefined(), fmt.Errorf("tojson: nothing to print")
	}
	option := func(position int, name string) jinja.Value { // the order of transformers' filter
		if v, ok := kwargs[name]; ok {
			return v
		}
		if len(args) > position {
			return args[position]
		}
		return jinja.None()
	}
	style := jsonStyle{item: ", ", key: ": ", longest: longest}
	style.ascii = option(1, "ensure_ascii").IsTruthy()
	style.sorted = option(4, "sort_keys").IsTruthy()
	if indent := option(2, "indent"); indent.IsInt() {
		style.lines, style.item = true, ","
		style.indent = strings.Repeat(" ", int(min(max(indent.AsInt(), 0), 16)))
	} else if indent.IsString() {
		style.lines, style.item, style.indent = true, ",", indent.AsString()
	}
	if separators := option(3, "separators"); separators.IsList() {
		items := separators.AsList().Items
		if len(items) != 2 || !items[0].IsString() || !items[1].IsString() {
			return jinja.Undefined(), fmt.Errorf("tojson: separators are two strings")
		}
		style.item, style.key = items[0].AsString(), items[1].AsString()
	}
	var out strings.Builder
	if err := style.write(&out, args[0], "\n"); err != nil {
		return jinja.Undefined(), err
	}
	return jinja.NewString(out.String()), nil
}

// write prints v; line is what begins a new line where v stands.
func (s jsonStyle) write(out *strings.Builder, v jinja.Value, line string) error {
	if out.Len() > s.longest || len(line) > s.longest {
		return errLong
	}
	switch {
	case v.IsNone():
		out.WriteString("null")
	case v.IsBool():
		out.WriteString(strconv.FormatBool(v.AsBool()))
	case v.IsInt():
		out.WriteString(strconv.FormatInt(v.AsInt(), 10))
	case v.IsFloat():
		out.WriteString(pythonFloat(v.AsFloat()))
	case v.IsString():
		s.writeString(out, v.AsString())
	case v.IsList():
		items := v.AsList().Items
		return s.group(out, "[]", len(items), line, func(i int, line string) error { return s.write(out, items[i], line) })
	case v.IsDict():
		keys := v.AsDict().OrderedKeys()
		if s.sorted {
			keys = slices.Sorted(slices.Values(keys))
		}
		return s.group(out, "{}", len(keys), line, func(i int, line string) error {
			s.writeString(out, keys[i])
			out.WriteString(s.key)
			item, _ := v.AsDict().Get(keys[i])
			return s.write(out, item, line)
		})
	default:
		return fmt.Errorf("tojson: %s is not JSON", short(v.String()))
	}
	return nil
}

func (s jsonStyle) group(out *strings.Builder, brackets string, n int, line string, write func(i int, line string) error) error {
	out.WriteByte(brackets[0])
	inner := line + s.indent
	for i := range n {
		if i > 0 {
			out.WriteString(s.item)
		}
		if s.lines {
			out.WriteString(inner)
		}
		if err := write(i, inner); err != nil {
			return err
		}
	}
	if s.lines && n > 0 {
		out.WriteString(line)
	}
	out.WriteByte(brackets[1])
	return nil
}

// pythonFloat prints a number as Python's repr: with a decimal point, and with an
// exponent only from 1e16 on and below 1e-4.
func pythonFloat(f float64) string {
	switch size := math.Abs(f); {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 0):
		return strings.Replace(strconv.FormatFloat(f, 'g', -1, 64), "Inf", "Infinity", 1)
	case size != 0 && (size < 1e-4 || size >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

func (s jsonStyle) writeString(out *strings.Builder, text string) {
	out.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r == '\b':
			out.WriteString(`\b`)
		case r == '\f':
			out.WriteString(`\f`)
		case r < ' ' || s.ascii && r > '~' && r <= 0xFFFF:
			fmt.Fprintf(out, `\u%04x`, r)
		case s.ascii && r > 0xFFFF:
			fmt.Fprintf(out, `\u%04x\u%04x`, 0xD800+(r-0x10000)>>10, 0xDC00+(r-0x10000)&0x3FF)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
}
