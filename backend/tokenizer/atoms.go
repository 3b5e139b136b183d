package tokenizer

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var codeToken = regexp.MustCompile(`^(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?)?|[A-Za-z_][A-Za-z0-9_]*|\*\*|//|==|!=|<=|>=|[,.:()\[\]{}|~+\-*/%<>=])`)

// splitCode splits the code of a tag into tokens. What is none is refused, as
// Jinja does; the engine skips it.
func splitCode(code string) ([]string, error) {
	var tokens []string
	quoted := strings.ReplaceAll(code, "\\\n", "\\ ") // so that \. takes an escaped line end
	for at := 0; at < len(code); {
		n := len(codeToken.FindString(quoted[at:]))
		if n > 0 {
			tokens = append(tokens, code[at:at+n])
			at += n
			continue
		}
		r, size := utf8.DecodeRuneInString(code[at:])
		if !unicode.IsSpace(r) {
			return nil, fmt.Errorf("the character %q has no meaning outside quotes", r)
		}
		at += size
	}
	if len(tokens) > tokensMax {
		return nil, fmt.Errorf("a tag of more than %d words and signs", tokensMax)
	}
	return tokens, nil
}

// atom is an expression without operators.
func (p *parser) atom() code {
	token := p.peek()
	switch {
	case p.take("("):
		return p.parenthesis()
	case p.take("["):
		items := p.list("]")
		return p.node("["+joinCode(items)+"]", items...)
	case p.take("{"):
		return p.fields()
	case token == "" || slices.Contains(reserved, token) || !isName(token) && token[0] != '"' && token[0] != '\'' && !isDigit(token[0]):
		p.failf("%s where a value should stand", p.found())
		return code{}
	case isDigit(token[0]) && !strings.Contains(token, ".") && len(token) > digitsMax:
		p.failf("the number %s has more than %d digits", short(token), digitsMax)
		return code{}
	}
	p.at++
	if !isName(token) && !isDigit(token[0]) {
		return p.text(token)
	}
	if !isName(token) || slices.Contains(constants, token) {
		return code{text: token, literal: true}
	}
	return code{text: token, name: token}
}

// text is a literal, or several in a row, which are one to Jinja.
func (p *parser) text(literal string) code {
	var text string
	for {
		part, err := unquoted(literal)
		if err != nil {
			p.failf("%w", err)
		}
		text += part
		if literal = p.peek(); literal == "" || literal[0] != '"' && literal[0] != '\'' {
			return code{text: quoted(text), literal: true}
		}
		p.at++
	}
}

// parenthesis is an expression, or a tuple, which is a list to the engine.
func (p *parser) parenthesis() code {
	if p.take(")") {
		return code{text: "[]"}
	}
	first := p.expression()
	if p.take(")") {
		return first
	}
	p.expect(",")
	items := append([]code{first}, p.list(")")...)
	return p.node("["+joinCode(items)+"]", items...)
}

// list reads expressions with commas between them and perhaps one at the end.
func (p *parser) list(closer string) []code {
	var items []code
	for p.err == nil && !p.take(closer) {
		items = append(items, p.expression())
		if p.peek() != closer {
			p.expect(",")
		}
	}
	return items
}

func joinCode(items []code) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = item.text
	}
	return strings.Join(texts, ", ")
}

// fields is an object. Blanks keep its end and that of one within it apart: }}
// would end the tag.
func (p *parser) fields() code {
	var parts []code
	var texts []string
	for p.err == nil && !p.take("}") {
		key := p.expression()
		p.expect(":")
		value := p.expression()
		parts = append(parts, key, value)
		texts = append(texts, look(key)+": "+value.text)
		if p.peek() != "}" {
			p.expect(",")
		}
	}
	return p.node("{ "+strings.Join(texts, ", ")+" }", parts...)
}

// arguments are those of a call. Those by name come last.
type arguments struct {
	values []code
	names  []string // of the last of values
}

func (p *parser) arguments() (a arguments) {
	p.calls++
	p.expect("(")
	for p.err == nil && !p.take(")") {
		if p.peekAt(1) == "=" {
			a.names = append(a.names, p.variable())
			p.at++
		} else if len(a.names) > 0 {
			p.failf("%s where an argument by name should stand", p.found())
		}
		a.values = append(a.values, p.expression())
		if p.peek() != ")" {
			p.expect(",")
		}
	}
	return a
}

func plain(e code) string { return e.text }

// write writes the arguments without brackets, each as it is told.
func (a arguments) write(each func(code) string) string {
	texts := make([]string, len(a.values))
	for i, v := range a.values {
		texts[i] = each(v)
		if named := i - (len(a.values) - len(a.names)); named >= 0 {
			texts[i] = a.names[named] + "=" + texts[i]
		}
	}
	return strings.Join(texts, ", ")
}

// writeFields writes arguments that all have names as the fields of an object.
func (a arguments) writeFields() string {
	texts := make([]string, len(a.values))
	for i, v := range a.values {
		texts[i] = "'" + a.names[i] + "': " + v.text
	}
	return strings.Join(texts, ", ")
}
