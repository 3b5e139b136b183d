package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/ardanlabs/jinja"
)

// printed is v as Python prints it: the engine prints none as nothing, 1.0 as 1,
// and texts within lists without their escapes.
func printed(v jinja.Value) string {
	switch {
	case v.IsString():
		return v.AsString()
	case v.IsUndefined() || v.IsCallable():
		return ""
	}
	var out strings.Builder
	represent(&out, v)
	return out.String()
}

// represent writes v as Python's repr does.
func represent(out *strings.Builder, v jinja.Value) {
	switch {
	case v.IsString():
		representText(out, v.AsString())
	case v.IsFloat():
		out.WriteString(pythonFloat(v.AsFloat()))
	case v.IsList():
		out.WriteByte('[')
		for i, item := range v.AsList().Items {
			if i > 0 {
				out.WriteString(", ")
			}
			represent(out, item)
		}
		out.WriteByte(']')
	case v.IsDict():
		out.WriteByte('{')
		for i, key := range v.AsDict().Keys {
			if i > 0 {
				out.WriteString(", ")
			}
			representText(out, key)
			out.WriteString(": ")
			represent(out, v.AsDict().Data[key])
		}
		out.WriteByte('}')
	default:
		out.WriteString(v.String())
	}
}

func representText(out *strings.Builder, text string) {
	quote := '\''
	if strings.Contains(text, `'`) && !strings.Contains(text, `"`) {
		quote = '"'
	}
	out.WriteRune(quote)
	for _, r := range text {
		switch {
		case r == quote || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(out, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(out, `\u%04x`, r)
		default:
			fmt.Fprintf(out, `\U%08x`, r)
		}
	}
	out.WriteRune(quote)
}

// quoted writes text as a literal that the engine reads as that text.
func quoted(text string) string { return "'" + engineEscapes.Replace(text) + "'" }

var engineEscapes = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

// escapeDigits are how many digits of which base an escape has.
var escapeDigits = map[byte][2]int{'x': {2, 16}, 'u': {4, 16}, 'U': {8, 16}}

var plainEscapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\\': `\`, '\'': `'`, '"': `"`, '\n': ""}

// unquoted is the text of a literal of Jinja's, whose escapes are Python's. The
// engine knows a few of them.
func unquoted(literal string) (string, error) {
	var out strings.Builder
	text := literal[1 : len(literal)-1]
	for {
		before, rest, found := strings.Cut(text, `\`)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		if plain, ok := plainEscapes[rest[0]]; ok {
			out.WriteString(plain)
			text = rest[1:]
			continue
		}
		form, ok := escapeDigits[rest[0]]
		if !ok {
			out.WriteByte('\\')
			text = rest
			continue
		}
		digits := rest[1:min(1+form[0], len(rest))]
		code, err := strconv.ParseUint(digits, form[1], 32)
		if err != nil || len(digits) < form[0] {
			return "", fmt.Errorf("the escape \\%s is none", short(rest[:1]+digits))
		}
		out.WriteRune(rune(code))
		text = rest[1+form[0]:]
	}
}
