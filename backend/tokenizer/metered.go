package tokenizer

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A template is a stranger's program, and the engine bounds neither its time nor
// its memory. So its source is changed before it is compiled: every tag reports
// to a meter (see meter.go), which ends a rendering that does too much; what can
// make much of little within one tag is replaced or refused. The reports are
// expressions that print nothing, because those are the only tags around which
// the engine changes no white space.
const (
	meteredPrefix = "metered_"
	stepName      = meteredPrefix + "step"
	printName     = meteredPrefix + "print"
	enterName     = meteredPrefix + "enter"
	leaveName     = meteredPrefix + "leave"
)

// Limits of sources: ten times and more what templates of known models have.
const (
	sourceMax    = 256 << 10
	bracketsMax  = 64  // of brackets within each other, as the parser is recursive
	operatorsMax = 128 // in a tag: each may copy the longest text that is allowed
	digitsMax    = 9
)

// growing are the filters and methods whose results may be longer than all that
// they are given. The meter has its own.
var growing = map[string]string{"replace": "|.", "join": "|", "indent": "|", "format": ".", "append": ".", "insert": ".", "update": "."}

// metered returns source with its reports.
func metered(source string) (string, error) {
	if len(source) > sourceMax {
		return "", fmt.Errorf("it has %d bytes; at most %d are read", len(source), sourceMax)
	}
	if strings.Contains(source, meteredPrefix) || strings.Contains(source, "__filter_") {
		return "", fmt.Errorf("names with %s or __filter_ are reserved", meteredPrefix)
	}
	var out strings.Builder
	raw := false
	for at := 0; at < len(source); {
		open := nextTag(source, at)
		out.WriteString(source[at:open])
		if open == len(source) {
			break
		}
		end, ok := tagEnd(source, open)
		if !ok {
			// The compiler says where.
			out.WriteString(source[open:])
			break
		}
		tag := source[open:end]
		word := firstWord(tag)
		raw = raw && word != "endraw"
		if tag[1] == '#' || raw || word == "endraw" {
			out.WriteString(tag)
		} else if err := writeTag(&out, tag, word, textAfter(source, end)); err != nil {
			line := 1 + strings.Count(source[:open], "\n")
			return "", fmt.Errorf("line %d: %w", line, err)
		}
		raw = raw || tag[1] == '%' && word == "raw"
		at = end
	}
	return out.String(), nil
}

func nextTag(source string, at int) int {
	for ; at+1 < len(source); at++ {
		if source[at] == '{' && strings.IndexByte("{%#", source[at+1]) >= 0 {
			return at
		}
	}
	return len(source)
}

// tagEnd returns the byte after the tag that begins at open, as the engine
// finds it: quoted text ends no tag, except in comments.
func tagEnd(source string, open int) (end int, ok bool) {
	closer := map[byte]string{'{': "}}", '%': "%}", '#': "#}"}[source[open+1]]
	quote := byte(0)
	for i := open + 2; i < len(source); i++ {
		switch c := source[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case closer != "#}" && (c == '"' || c == '\''):
			quote = c
		case strings.HasPrefix(source[i:], closer):
			return i + 2, true
		}
	}
	return 0, false
}

// textAfter is the length of the text that a tag at whose end it stands prints
// at most, comments skipped.
func textAfter(source string, at int) int {
	n := 0
	for {
		open := nextTag(source, at)
		n += open - at
		if open == len(source) || source[open+1] != '#' {
			return n
		}
		end, ok := tagEnd(source, open)
		if !ok {
			return n
		}
		at = end
	}
}

// firstWord is a statement's keyword: letters, as the engine has it.
func firstWord(tag string) string {
	if tag[1] != '%' {
		return ""
	}
	text := strings.TrimSpace(strings.TrimPrefix(tag[2:], "-"))
	n := 0
	for n < len(text) && (text[n] == '_' || text[n]|' ' >= 'a' && text[n]|' ' <= 'z') {
		n++
	}
	return text[:n]
}

var (
	setPattern   = regexp.MustCompile(`^set\s+([A-Za-z_][\w.]*)`)
	macroPattern = regexp.MustCompile(`(?s)^(?:macro\s+\w+|call)\s*\((.*)\)`)
	paramPattern = regexp.MustCompile(`([A-Za-z_]\w*)\s*(?:[,=)]|$)`)
)

// writeTag writes an expression or statement with its reports. What it sets, and
// what a macro is called with, goes to the meter too, which knows how long it is.
func writeTag(out *strings.Builder, tag, word string, text int) error {
	head, tail := 2, len(tag)-2
	if head < tail && tag[head] == '-' {
		head++
	}
	if tail > head && tag[tail-1] == '-' {
		tail--
	}
	if tag[1] == '%' && word == "" {
		return fmt.Errorf("a statement without a name")
	}
	code, err := tameCode(tag[head:tail])
	if err != nil {
		return err
	}
	if word == "endmacro" {
		fmt.Fprintf(out, "{{ %s() }}", leaveName)
	}
	if tag[1] == '{' && strings.TrimSpace(code) != "" {
		code = " (" + code + ")|" + printName + " "
	}
	out.WriteString(tag[:head] + code + tag[tail:])
	if word == "raw" {
		return nil
	}
	trimmed := strings.TrimSpace(code)
	if m := macroPattern.FindStringSubmatch(trimmed); m != nil {
		var names strings.Builder
		for _, p := range paramPattern.FindAllStringSubmatch(m[1], -1) {
			names.WriteString(", " + p[1])
		}
		if word == "macro" {
			fmt.Fprintf(out, "{{ %s() }}", enterName)
		}
		fmt.Fprintf(out, "{{ %s(%d%s) }}", stepName, text, names.String())
		return nil
	}
	if m := setPattern.FindStringSubmatch(trimmed); m != nil {
		fmt.Fprintf(out, "{{ %s(%d, %s) }}", stepName, text, strings.TrimRight(m[1], "."))
		return nil
	}
	if word == "macro" || word == "set" {
		return fmt.Errorf("a %s of nothing that has a name", word)
	}
	fmt.Fprintf(out, "{{ %s(%d) }}", stepName, text)
	return nil
}

// codeToken takes one token of a tag's code. What it does not take is refused, as
// Jinja does; the engine skips it, which would hide a filter's name behind its
// bar, or takes it for a name.
var codeToken = regexp.MustCompile(`^(?:\s+|"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]*)?)?|[A-Za-z_][A-Za-z0-9_]*|\*\*|//|==|!=|<=|>=|[,.:()\[\]{}|~+\-*/%<>=])`)

// tamer changes the code of one tag, token by token.
type tamer struct {
	out       []string // tokens so far, white space included
	solid     []int    // where in out the tokens that are not white space stand
	open      []int    // where in solid the brackets stand that are open
	operators int
}

func tameCode(code string) (string, error) {
	var t tamer
	quoted := regexpDotAll(code)
	for at := 0; at < len(code); {
		n := len(codeToken.FindString(quoted[at:]))
		if n == 0 {
			r, size := utf8.DecodeRuneInString(code[at:])
			if !unicode.IsSpace(r) {
				return "", fmt.Errorf("the character %q has no meaning outside quotes", r)
			}
			t.out = append(t.out, " ")
			at += size
			continue
		}
		token := code[at : at+n]
		at += n
		rest := strings.TrimLeft(code[at:], " \t\r\n")
		if strings.TrimSpace(token) != "" {
			var err error
			if token, err = t.tame(token, rest); err != nil {
				return "", err
			}
			t.solid = append(t.solid, len(t.out))
		}
		t.out = append(t.out, token)
	}
	return strings.Join(t.out, ""), nil
}

// regexpDotAll makes line ends ordinary, so that \. takes an escaped one.
func regexpDotAll(code string) string { return strings.ReplaceAll(code, "\\\n", "\\ ") }

// before is the i-th token before the present one that is not white space.
func (t *tamer) before(i int) string {
	if len(t.solid) < i {
		return ""
	}
	return t.out[t.solid[len(t.solid)-i]]
}

func (t *tamer) tame(token, rest string) (string, error) {
	switch token {
	case "(", "[", "{":
		if t.open = append(t.open, len(t.solid)); len(t.open) > bracketsMax {
			return "", fmt.Errorf("more than %d brackets within each other", bracketsMax)
		}
	case ")", "]", "}":
		t.open = t.open[:max(len(t.open)-1, 0)]
	case "+", "~", ",", "|":
		if t.operators++; t.operators > operatorsMax {
			return "", fmt.Errorf("more than %d operators and commas in one tag", operatorsMax)
		}
	case "*":
		return token, t.refuseRepeat(rest)
	case ":":
		return token, t.refuseStride(rest)
	}
	if token[0] >= '0' && token[0] <= '9' && !strings.Contains(token, ".") && len(token) > digitsMax {
		return "", fmt.Errorf("the number %s has more than %d digits", short(token), digitsMax)
	}
	switch previous := t.before(1); {
	case previous == "|" && token == "tojson":
		return pythonFilter, nil
	case previous == "|" && strings.Contains(growing[token], "|"):
		return meteredPrefix + token, nil
	case previous == "." && strings.Contains(growing[token], "."):
		dot := t.solid[len(t.solid)-1]
		if strings.HasPrefix(rest, "(") {
			t.out[dot] = "|"
			return meteredPrefix + token, nil
		}
		// A field of that name, and no method to be called by another name.
		t.out[dot] = ""
		return "['" + token + "']", nil
	}
	return token, nil
}

var (
	shortNumber = regexp.MustCompile(`^[0-9]{1,2}(?:[^0-9.]|$)`)
	allDigits   = regexp.MustCompile(`^[0-9.]+$`)
)

// refuseRepeat refuses a * that might repeat a text often: one side has to be a
// number that the template writes out, and a small one if the text may stand
// before it.
func (t *tamer) refuseRepeat(rest string) error {
	const factors = "* / // % **"
	left := allDigits.MatchString(t.before(1)) && (t.before(2) == "" || !strings.Contains(factors, t.before(2)))
	if left || shortNumber.MatchString(rest) && t.before(2) != "*" {
		return nil
	}
	return fmt.Errorf("a product without a small number that is written out is not supported, because it may repeat a text without end")
}

// refuseStride refuses a slice with a step, except of the whole: [::-1]. The
// engine counts from its start to its stop, wherever they are.
func (t *tamer) refuseStride(rest string) error {
	if len(t.open) == 0 {
		return nil
	}
	bracket := t.open[len(t.open)-1]
	if t.out[t.solid[bracket]] != "[" {
		return nil
	}
	depth, colons := 0, 0
	for _, at := range t.solid[bracket+1:] {
		switch t.out[at] {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		case ":":
			if depth == 0 {
				colons++
			}
		}
	}
	if colons > 0 && len(t.solid) != bracket+2 {
		return fmt.Errorf("a slice with a step has to be of the whole, [::-1]")
	}
	return nil
}
