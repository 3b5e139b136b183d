// Package locate finds the lines of a TOML document on which its keys and
// array elements stand. The decoder in use reports no place for a key that it
// does not know or whose value is out of range; this scanner does.
//
// It is lenient: it is meant for documents that the decoder has accepted, and
// for any other it returns what it could follow.
package locate

import (
	"strconv"
	"strings"
)

// Lines maps the paths of a document to line numbers, counted from 1.
type Lines struct {
	line  map[string]int
	order map[string]int
}

// Join is the path of key in the table at path parent ("" is the root).
// Keys that are not bare are quoted, so that paths are unambiguous.
func Join(parent, key string) string {
	if !isBare(key) {
		key = strconv.Quote(key)
	}
	if parent == "" {
		return key
	}
	return parent + "." + key
}

// Index is the path of element i, counted from 0, of the array at path parent.
func Index(parent string, i int) string {
	return parent + "[" + strconv.Itoa(i) + "]"
}

// Line is the line of path, or else of the nearest table or array around it;
// 1 when nothing around it is known.
func (l Lines) Line(path string) int {
	for {
		if n, ok := l.line[path]; ok {
			return n
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return 1
		}
		path = path[:cut]
	}
}

// Order ranks path by its first place in the document: smaller is earlier.
func (l Lines) Order(path string) int { return l.order[path] }

// Scan finds the paths of src.
func Scan(src string) Lines {
	s := &scanner{
		src:    strings.TrimPrefix(src, "\ufeff"),
		row:    1,
		lines:  Lines{line: map[string]int{}, order: map[string]int{}},
		tables: map[string]int{},
	}
	table := ""
	for s.blank(); s.at < len(s.src); s.blank() {
		if s.peek() == '[' {
			table = s.header()
		} else {
			s.pair(table)
		}
		s.restOfLine()
	}
	return s.lines
}

type scanner struct {
	src    string
	at     int
	row    int
	lines  Lines
	tables map[string]int // elements so far of each array of tables
}

func (s *scanner) peek() byte {
	if s.at < len(s.src) {
		return s.src[s.at]
	}
	return 0
}

// next consumes one byte and counts lines.
func (s *scanner) next() byte {
	c := s.peek()
	if s.at < len(s.src) {
		s.at++
	}
	if c == '\n' {
		s.row++
	}
	return c
}

func (s *scanner) has(prefix string) bool { return strings.HasPrefix(s.src[s.at:], prefix) }

// spaces consumes what may stand between two parts of one line.
func (s *scanner) spaces() {
	for c := s.peek(); c == ' ' || c == '\t'; c = s.peek() {
		s.next()
	}
}

// blank consumes spaces, line ends and comments.
func (s *scanner) blank() {
	for s.at < len(s.src) {
		switch s.peek() {
		case ' ', '\t', '\r', '\n':
			s.next()
		case '#':
			s.restOfLine()
		default:
			return
		}
	}
}

func (s *scanner) restOfLine() {
	for s.at < len(s.src) && s.peek() != '\n' {
		s.next()
	}
}

// record notes the first place of a path.
func (s *scanner) record(path string, row int) {
	if _, ok := s.lines.line[path]; !ok {
		s.lines.line[path] = row
		s.lines.order[path] = len(s.lines.order)
	}
}

// header reads [a.b] or [[a.b]] and returns the path of the table that the
// following pairs belong to.
func (s *scanner) header() string {
	row := s.row
	s.next()
	array := s.peek() == '['
	if array {
		s.next()
	}
	parts := s.dotted()
	path := ""
	for i, part := range parts {
		path = Join(path, part)
		s.record(path, row)
		if array && i == len(parts)-1 {
			s.tables[path]++
		}
		if n := s.tables[path]; n > 0 {
			path = Index(path, n-1)
			s.record(path, row)
		}
	}
	return path
}

// pair reads key = value below a table.
func (s *scanner) pair(table string) {
	row, start := s.row, s.at
	path := table
	for _, part := range s.dotted() {
		path = Join(path, part)
		s.record(path, row)
	}
	s.spaces()
	if s.peek() == '=' {
		s.next()
		s.spaces()
		s.value(path, 0)
	}
	if s.at == start {
		s.next() // Not TOML: step over it, so that the scan ends.
	}
}

// dotted reads the parts of a dotted key.
func (s *scanner) dotted() []string {
	var parts []string
	for {
		s.spaces()
		part, ok := s.keyPart()
		if !ok {
			return parts
		}
		parts = append(parts, part)
		s.spaces()
		if s.peek() != '.' {
			return parts
		}
		s.next()
	}
}

func (s *scanner) keyPart() (string, bool) {
	switch s.peek() {
	case '"', '\'':
		return s.quoted(), true
	}
	start := s.at
	for s.at < len(s.src) && isBareByte(s.peek()) {
		s.next()
	}
	return s.src[start:s.at], s.at > start
}

// maxDepth bounds the nesting that is followed; the decoder's own stack is
// the tighter limit in practice.
const maxDepth = 1000

// value reads any value and records what lies inside it below path.
func (s *scanner) value(path string, depth int) {
	switch {
	case depth > maxDepth:
		s.at = len(s.src)
	case s.peek() == '"' || s.peek() == '\'':
		s.quoted()
	case s.peek() == '[':
		s.array(path, depth)
	case s.peek() == '{':
		s.inlineTable(path, depth)
	default:
		for s.at < len(s.src) && !strings.ContainsRune(",]}#\n", rune(s.peek())) {
			s.next()
		}
	}
}

func (s *scanner) array(path string, depth int) {
	s.next()
	for i := 0; !s.closed(']'); i++ {
		element, start := Index(path, i), s.at
		s.record(element, s.row)
		s.value(element, depth+1)
		s.separator(start)
	}
}

// closed steps over the end of an array or an inline table, if it is here.
func (s *scanner) closed(end byte) bool {
	s.blank()
	if s.at < len(s.src) && s.peek() != end {
		return false
	}
	s.next()
	return true
}

// separator steps over what lies between an element that began at start and the
// next one, and over at least one byte, so that the scan ends whatever the text.
func (s *scanner) separator(start int) {
	s.blank()
	if s.peek() == ',' || s.at == start {
		s.next()
	}
}

func (s *scanner) inlineTable(path string, depth int) {
	s.next()
	for !s.closed('}') {
		start, row, inner := s.at, s.row, path
		for _, part := range s.dotted() {
			inner = Join(inner, part)
			s.record(inner, row)
		}
		s.blank()
		if s.peek() == '=' {
			s.next()
			s.blank()
			s.value(inner, depth+1)
		}
		s.separator(start)
	}
}

// quoted reads a string of any of the four kinds and returns its content;
// the content matters for keys only, which are never multi-line.
func (s *scanner) quoted() string {
	quote := s.src[s.at : s.at+1]
	if s.has(quote + quote + quote) {
		s.multiline(quote)
		return ""
	}
	s.next()
	var text strings.Builder
	for s.at < len(s.src) && s.peek() != quote[0] && s.peek() != '\n' {
		if quote == `"` && s.peek() == '\\' {
			s.escape(&text)
			continue
		}
		text.WriteByte(s.next())
	}
	if s.peek() == quote[0] {
		s.next()
	}
	return text.String()
}

func (s *scanner) multiline(quote string) {
	s.at += 3
	for s.at < len(s.src) && !s.has(quote+quote+quote) {
		if quote == `"` && s.peek() == '\\' {
			s.next()
		}
		s.next()
	}
	// Up to two quotes of the content may touch the closing three.
	for n := 0; n < 5 && s.has(quote); n++ {
		s.at++
	}
}

var escapes = map[byte]byte{
	'b': '\b', 't': '\t', 'n': '\n', 'f': '\f', 'r': '\r', 'e': 0x1b, '"': '"', '\\': '\\',
}

var hexDigits = map[byte]int{'x': 2, 'u': 4, 'U': 8}

func (s *scanner) escape(text *strings.Builder) {
	s.next()
	c := s.next()
	if digits := hexDigits[c]; digits > 0 && s.at+digits <= len(s.src) {
		if n, err := strconv.ParseUint(s.src[s.at:s.at+digits], 16, 32); err == nil {
			text.WriteRune(rune(n))
			s.at += digits
		}
		return
	}
	text.WriteByte(escapes[c])
}

func isBare(key string) bool {
	for i := range len(key) {
		if !isBareByte(key[i]) {
			return false
		}
	}
	return key != ""
}

func isBareByte(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
