package tokenizer

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// piece is a tag and the text behind it, up to the next tag: without comments,
// with what stood in raw blocks, and with the white space that Jinja leaves when
// it trims and strips blocks, as transformers has it do. The engine's own rules
// reach across tags that stand next to each other.
type piece struct {
	open byte   // of the tag: '{' or '%'; 0 of the text before the first one
	code string // within its marks
	line int    // where it begins
	text string
}

// spaces is Python's \s*.
const spaces = `[\s\v\x1c-\x1f\x{85}\p{Z}]*`

var (
	newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")
	rawBegin = regexp.MustCompile(`^\{%[-+]?` + spaces + `raw` + spaces + `(?:-%\}` + spaces + `|%\})`)
	rawEnd   = regexp.MustCompile(`\{%[-+]?` + spaces + `endraw` + spaces + `(?:\+%\}|-%\}` + spaces + `|%\}\n?)`)
)

// cutter reads a template's source from its beginning to its end.
type cutter struct {
	source string
	at     int
	pieces []piece
	// lineStart tells that nothing but a line end, or the template's beginning,
	// stands before at, as far as Jinja remembers.
	lineStart bool
}

func cutSource(source string) ([]piece, error) {
	c := &cutter{source: strings.TrimSuffix(newlines.Replace(source), "\n"), pieces: []piece{{line: 1}}, lineStart: true}
	for {
		open := nextTag(c.source, c.at)
		if open == len(c.source) {
			c.add(c.source[c.at:])
			return c.pieces, nil
		}
		c.textBefore(open)
		if err := c.tag(open); err != nil {
			return nil, fmt.Errorf("line %d: %w", c.line(open), err)
		}
	}
}

func (c *cutter) line(at int) int { return 1 + strings.Count(c.source[:at], "\n") }

func (c *cutter) add(text string) { c.pieces[len(c.pieces)-1].text += text }

func nextTag(source string, at int) int {
	for ; at+1 < len(source); at++ {
		if source[at] == '{' && strings.IndexByte("{%#", source[at+1]) >= 0 {
			return at
		}
	}
	return len(source)
}

// isSpace is white space to Python.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// textBefore adds the text that ends with the tag at open.
func (c *cutter) textBefore(open int) {
	text := c.source[c.at:open]
	switch mark := c.source[open+1:]; {
	case strings.HasPrefix(mark[1:], "-"):
		text = strings.TrimRightFunc(text, isSpace)
	case mark[0] == '{' || strings.HasPrefix(mark[1:], "+"):
	default:
		line := strings.LastIndexByte(text, '\n') + 1
		if (line > 0 || c.lineStart) && strings.TrimLeftFunc(text[line:], isSpace) == "" {
			text = text[:line]
		}
	}
	c.add(text)
}

// tag reads the one at open, and the white space behind it that goes with it.
func (c *cutter) tag(open int) error {
	kind := c.source[open+1]
	if kind == '%' {
		if begin := rawBegin.FindString(c.source[open:]); begin != "" {
			return c.raw(open + len(begin))
		}
	}
	start := open + 2
	if strings.HasPrefix(c.source[start:], "-") || strings.HasPrefix(c.source[start:], "+") {
		start++
	}
	end := -1
	if kind == '#' {
		if n := strings.Index(c.source[start:], "#}"); n >= 0 {
			end = start + n
		}
	} else {
		end = codeEnd(c.source, start, map[byte]string{'{': "}}", '%': "%}"}[kind])
	}
	if end < 0 {
		return fmt.Errorf("a tag without its end")
	}
	rest := c.source[end+2:]
	sign := byte(0)
	if end > start && (c.source[end-1] == '-' || c.source[end-1] == '+' && kind != '{') {
		end--
		sign = c.source[end]
	}
	n := 0
	switch {
	case sign == '-':
		n = len(rest) - len(strings.TrimLeftFunc(rest, isSpace))
	case kind != '{' && sign == 0 && strings.HasPrefix(rest, "\n"):
		n = 1
	}
	c.at = len(c.source) - len(rest) + n
	c.lineStart = n > 0 && rest[n-1] == '\n'
	if kind != '#' {
		c.pieces = append(c.pieces, piece{open: kind, code: c.source[start:end], line: c.line(open)})
	}
	return nil
}

// raw adds the text of the raw block that begins at start.
func (c *cutter) raw(start int) error {
	end := rawEnd.FindStringIndex(c.source[start:])
	if end == nil {
		return fmt.Errorf("raw without its end")
	}
	c.lineStart = c.source[start-1] == '\n'
	c.at = start
	c.textBefore(start + end[0])
	c.at = start + end[1]
	c.lineStart = c.source[c.at-1] == '\n'
	return nil
}

// codeEnd returns where closer stands that ends the code at start: neither in
// quotes nor in brackets. Without one it is -1.
func codeEnd(source string, start int, closer string) int {
	depth := 0
	quote := byte(0)
	for i := start; i < len(source); i++ {
		switch c := source[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case depth == 0 && strings.HasPrefix(source[i:], closer):
			return i
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth = max(depth-1, 0)
		}
	}
	return -1
}
