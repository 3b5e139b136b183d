package loadtest

import (
	"encoding/json"
	"strconv"
)

// scanner walks over one JSON text without building anything. A measuring
// client reads a small object for each token of each stream: decoding them by
// reflection is most of what it costs. Methods return false where the text is
// not JSON, or not of the shape asked for.
type scanner struct {
	data  []byte
	at    int
	depth int
}

// maxDepth is deeper than any honest reply is nested.
const maxDepth = 200

// end skips space and reports whether nothing follows.
func (s *scanner) end() bool { return s.peek() == 0 && s.at == len(s.data) }

// peek skips space and returns the next byte, 0 at the end: a byte 0 is nothing
// that JSON has between its tokens.
func (s *scanner) peek() byte {
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// word takes a literal.
func (s *scanner) word(w string) bool {
	if s.end() || len(s.data)-s.at < len(w) || string(s.data[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

// null takes null if it comes next.
func (s *scanner) null() bool { return s.peek() == 'n' && s.word("null") }

// text takes a string and returns what stands between its quotes.
func (s *scanner) text() (raw []byte, ok bool) {
	if !s.take('"') {
		return nil, false
	}
	start := s.at
	for s.at < len(s.data) {
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return s.data[start : s.at-1], true
		case c < ' ':
			return nil, false
		case c == '\\':
			if !s.escape() {
				return nil, false
			}
		default:
			s.at++
		}
	}
	return nil, false
}

// escape takes what begins with a backslash.
func (s *scanner) escape() bool {
	rest := s.data[s.at+1:]
	if len(rest) == 0 {
		return false
	}
	switch rest[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
		return true
	case 'u':
		if len(rest) < 5 {
			return false
		}
		for _, c := range rest[1:5] {
			if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
				return false
			}
		}
		s.at += 6
		return true
	}
	return false
}

// digits takes as many as come and returns how many.
func (s *scanner) digits() int {
	start := s.at
	for s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' {
		s.at++
	}
	return s.at - start
}

func (s *scanner) next(set string) bool {
	for i := range len(set) {
		if s.at < len(s.data) && s.data[s.at] == set[i] {
			s.at++
			return true
		}
	}
	return false
}

// number takes a number and returns its text.
func (s *scanner) number() (text []byte, ok bool) {
	s.peek()
	start := s.at
	s.next("-")
	if !s.next("0") && s.digits() == 0 {
		return nil, false
	}
	if s.next(".") && s.digits() == 0 {
		return nil, false
	}
	if s.next("eE") {
		s.next("+-")
		if s.digits() == 0 {
			return nil, false
		}
	}
	return s.data[start:s.at], true
}

// count takes a whole number from 0 to what 31 bits hold, or null, which is -1.
func (s *scanner) count() (n int, ok bool) {
	if s.null() {
		return -1, true
	}
	text, ok := s.number()
	if !ok {
		return 0, false
	}
	x, err := strconv.ParseUint(string(text), 10, 31)
	return int(x), err == nil
}

// skip takes any value.
func (s *scanner) skip() bool {
	switch s.peek() {
	case '{':
		return s.object(func([]byte) bool { return s.skip() })
	case '[':
		return s.array(s.skip)
	case '"':
		_, ok := s.text()
		return ok
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	_, ok := s.number()
	return ok
}

// object takes an object; member takes the value of each key.
func (s *scanner) object(member func(key []byte) bool) bool {
	if s.depth++; s.depth > maxDepth || !s.take('{') {
		return false
	}
	for first := true; !s.take('}'); first = false {
		if !first && !s.take(',') {
			return false
		}
		key, ok := s.text()
		if !ok || !s.take(':') || !member(unescaped(key)) {
			return false
		}
	}
	s.depth--
	return true
}

// array takes an array.
func (s *scanner) array(element func() bool) bool {
	if s.depth++; s.depth > maxDepth || !s.take('[') {
		return false
	}
	for first := true; !s.take(']'); first = false {
		if !first && !s.take(',') || !element() {
			return false
		}
	}
	s.depth--
	return true
}

// unescaped is a key as it is meant. Servers write theirs plainly.
func unescaped(key []byte) []byte {
	for _, c := range key {
		if c == '\\' {
			var plain string
			if json.Unmarshal([]byte(`"`+string(key)+`"`), &plain) == nil {
				return []byte(plain)
			}
		}
	}
	return key
}
