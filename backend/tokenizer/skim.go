package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
)

// skimmer walks over JSON text. A vocabulary is one object of some 150,000
// entries, and encoding/json alone takes longer to read it than this package
// does for all that it builds (BenchmarkOpenAgainstJSON). What is neither a
// vocabulary nor a list of merges is only measured here, and then read by
// encoding/json.
type skimmer struct {
	text string
	at   int
}

// truncated says where the text ends too early.
func (s *skimmer) truncated() error {
	return fmt.Errorf("ends too early, at byte %d", len(s.text))
}

func (s *skimmer) fail(what string) error {
	if s.at >= len(s.text) {
		return s.truncated()
	}
	return fmt.Errorf("at byte %d: %s", s.at, what)
}

// noValue says what stands where a value should.
func (s *skimmer) noValue() error {
	found := strings.ToValidUTF8(s.text[s.at:min(s.at+10, len(s.text))], "")
	return s.fail(fmt.Sprintf("not JSON: a value is missing before %q", found))
}

func (s *skimmer) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// accept steps over c and the white space around it, if it comes next.
func (s *skimmer) accept(c byte) bool {
	s.space()
	if s.at >= len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	s.space()
	return true
}

// span steps over a string and returns it with its quotes.
func (s *skimmer) span() (quoted string, plain bool, err error) {
	if s.at >= len(s.text) || s.text[s.at] != '"' {
		return "", false, s.fail("no string")
	}
	start := s.at
	plain = true
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return s.text[start:s.at], plain, nil
		case c == '\\':
			plain = false
			s.at++
		case c < ' ':
			return "", false, s.fail("control character in a string")
		}
	}
	return "", false, s.truncated()
}

func (s *skimmer) str() (string, error) {
	quoted, plain, err := s.span()
	if err != nil {
		return "", err
	}
	if plain {
		return quoted[1 : len(quoted)-1], nil
	}
	var out string
	if err := json.Unmarshal([]byte(quoted), &out); err != nil {
		return "", s.fail("bad string " + quoted)
	}
	return out, nil
}

// maxID bounds the ids of a vocabulary, so that one wrong number does not ask for
// all of memory. The largest vocabularies have some 260,000 entries.
const maxID = 1 << 22

func (s *skimmer) id() (int, error) {
	start, n := s.at, 0
	for ; s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9'; s.at++ {
		n = n*10 + int(s.text[s.at]-'0')
		if n > maxID {
			return 0, s.fail(fmt.Sprintf("an id above %d", maxID))
		}
	}
	if s.at == start {
		return 0, s.fail("no whole number")
	}
	if s.text[start] == '0' && s.at > start+1 {
		return 0, s.fail("a whole number that begins with 0")
	}
	return n, nil
}

// value steps over any value and returns its text. It counts brackets and
// leaves it to the reader of that text to find what is wrong within.
func (s *skimmer) value() (string, error) {
	s.space()
	start, depth := s.at, 0
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			if _, _, err := s.span(); err != nil {
				return "", err
			}
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			if depth == 0 {
				return "", s.noValue()
			}
			depth--
			s.at++
		case ' ', '\t', '\n', '\r', ',', ':':
			if depth == 0 {
				return "", s.noValue()
			}
			s.at++
		default: // a number or a word
			for s.at < len(s.text) && !strings.ContainsRune(" \t\n\r,:\"{}[]", rune(s.text[s.at])) {
				s.at++
			}
		}
		if depth == 0 {
			return s.text[start:s.at], nil
		}
	}
	return "", s.truncated()
}

// object calls entry at the value of each key; entry steps over it.
func (s *skimmer) object(entry func(key string) error) error {
	if !s.accept('{') {
		return s.fail("no object")
	}
	if s.accept('}') {
		return nil
	}
	for {
		key, err := s.str()
		if err != nil {
			return err
		}
		if !s.accept(':') {
			return s.fail("no colon")
		}
		if err := entry(key); err != nil {
			return err
		}
		if s.accept('}') {
			return nil
		}
		if !s.accept(',') {
			return s.fail("neither a comma nor the end of the object")
		}
	}
}

// array calls item at each value; item steps over it.
func (s *skimmer) array(item func() error) error {
	if !s.accept('[') {
		return s.fail("no array")
	}
	if s.accept(']') {
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if s.accept(']') {
			return nil
		}
		if !s.accept(',') {
			return s.fail("neither a comma nor the end of the array")
		}
	}
}

// sections returns the text of each value of a tokenizer.json and of its model.
// Those of vocab and merges are only measured, since whoever reads them finds
// what is wrong in them.
func sections(text string) (top, model map[string]string, err error) {
	s := &skimmer{text: text}
	top, model = map[string]string{}, map[string]string{}
	note := func(into map[string]string, key string, check bool) error {
		v, err := s.value()
		if err == nil && check && !json.Valid([]byte(v)) {
			err = fmt.Errorf("%s is no JSON", short(key))
		}
		into[key] = v
		return err
	}
	s.space()
	err = s.object(func(key string) error {
		if key != "model" {
			return note(top, key, true)
		}
		err := s.object(func(key string) error { return note(model, key, key != "vocab" && key != "merges") })
		if err != nil {
			return fmt.Errorf("model: %w", err)
		}
		return nil
	})
	if s.space(); err == nil && s.at < len(s.text) {
		err = s.fail("more after the end")
	}
	return top, model, err
}
