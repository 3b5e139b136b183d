package frontdoor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// fields reads the members of a JSON object. The first that is wrong is kept and
// all later answers do not count. null is as good as absent.
type fields struct {
	raw  map[string]json.RawMessage
	path string // before names in errors
	err  *Error
}

// readFields takes a body apart. Members are looked at when they are asked for:
// those that nobody asks for may be anything.
func readFields(body []byte) (*fields, error) {
	if !utf8.Valid(body) {
		return nil, badRequest("", "the body is not UTF-8 text")
	}
	f := &fields{}
	if err := json.Unmarshal(body, &f.raw); err != nil {
		return nil, badRequest("", "the body is not a JSON object: %s%s", problem(err), around(body, err))
	}
	if f.raw == nil {
		return nil, badRequest("", "the body is null, want a JSON object")
	}
	return f, nil
}

// problem leaves out what Go calls the types.
func problem(err error) string {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return "it is a JSON " + kind.Value
	}
	return err.Error()
}

// around shows what stands before the place that is wrong.
func around(body []byte, err error) string {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) || syntax.Offset < 1 {
		return ""
	}
	end := min(int(syntax.Offset), len(body))
	return fmt.Sprintf(" after %q", bytes.ToValidUTF8(body[max(0, end-40):end], nil))
}

func (f *fields) fail(name, format string, args ...any) {
	if f.err == nil {
		f.err = badRequest(f.path+name, "%s%s %s", f.path, name, fmt.Sprintf(format, args...))
	}
}

// take hands over a member, unless it is absent.
func (f *fields) take(name string) (json.RawMessage, bool) {
	raw, ok := f.raw[name]
	return raw, ok && string(raw) != "null"
}

func (f *fields) has(name string) bool {
	_, ok := f.take(name)
	return ok
}

// value decodes a member, and says what it should have been if it is not.
func (f *fields) value(name string, to any, want string) bool {
	raw, ok := f.take(name)
	if !ok {
		return false
	}
	if err := json.Unmarshal(raw, to); err != nil {
		f.fail(name, "is %s, want %s", quoteRaw(raw), want)
		return false
	}
	return true
}

func quoteRaw(raw json.RawMessage) string { return cut(string(raw), quoteMax) }

func (f *fields) text(name string) string {
	s := ""
	f.value(name, &s, "a string")
	return s
}

func (f *fields) flag(name string, or bool) bool {
	v := or
	f.value(name, &v, "true or false")
	return v
}

// number reads a number in [low, high].
func (f *fields) number(name string, or, low, high float64, want string) float64 {
	x := or
	if f.value(name, &x, want) && !(x >= low && x <= high) {
		f.fail(name, "is %g, want %s", x, want)
	}
	return x
}

// integer reads a whole number in [low, high]; 10.0 is one too.
func (f *fields) integer(name string, or, low, high int64, want string) int64 {
	raw, ok := f.take(name)
	if !ok {
		return or
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		var x float64
		if json.Unmarshal(raw, &x) != nil || x != math.Trunc(x) || math.Abs(x) > 1<<53 {
			f.fail(name, "is %s, want %s", quoteRaw(raw), want)
			return or
		}
		n = int64(x)
	}
	if n < low || n > high {
		f.fail(name, "is %d, want %s", n, want)
	}
	return n
}

// texts reads a string or a list of strings.
func (f *fields) texts(name string, most int) []string {
	raw, ok := f.take(name)
	if !ok {
		return nil
	}
	if raw[0] == '"' {
		return []string{f.text(name)}
	}
	const want = "a string or a list of strings"
	var texts []string
	for _, one := range f.rawList(name, raw, most, want) {
		text := ""
		if one[0] != '"' || json.Unmarshal(one, &text) != nil {
			f.fail(name, "has %s in its list, want %s", quoteRaw(one), want)
			return nil
		}
		texts = append(texts, text)
	}
	return texts
}

// tokens reads a list of ids of a vocabulary.
func (f *fields) tokens(name string, vocab int) []Token {
	raw, ok := f.take(name)
	if !ok {
		return nil
	}
	return f.tokenList(name, raw, vocab)
}

func (f *fields) tokenList(name string, raw json.RawMessage, vocab int) []Token {
	var ids []*int64
	if err := json.Unmarshal(raw, &ids); err != nil {
		f.fail(name, "is %s, want a list of token ids", quoteRaw(raw))
		return nil
	}
	list := make([]Token, len(ids))
	for i, id := range ids {
		switch {
		case id == nil:
			f.fail(name, "has null in its list, want token ids")
			return nil
		case *id < 0 || *id >= int64(vocab):
			f.fail(name, "has token id %d, which is not in the vocabulary (vocab) of %d", *id, vocab)
			return nil
		}
		list[i] = Token(*id)
	}
	return list
}

// rawList reads a list without looking at what is in it, and no further than it
// may be long.
func (f *fields) rawList(name string, raw json.RawMessage, most int, want string) []json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(raw))
	if raw[0] != '[' {
		f.fail(name, "is %s, want %s", quoteRaw(raw), want)
		return nil
	}
	d.Token() // the bracket
	var list []json.RawMessage
	for d.More() {
		if len(list) == most {
			f.fail(name, "has more than %d entries, which is the most that is allowed", most)
			return nil
		}
		var one json.RawMessage
		if err := d.Decode(&one); err != nil {
			panic("frontdoor: JSON that was read is none: " + err.Error())
		}
		list = append(list, one)
	}
	return list
}

// object reads a member that is an object itself; nil if it is absent.
func (f *fields) object(name string) *fields {
	raw, ok := f.take(name)
	if !ok {
		return nil
	}
	inner := &fields{path: f.path + name + "."}
	if err := json.Unmarshal(raw, &inner.raw); err != nil {
		f.fail(name, "is %s, want an object", quoteRaw(raw))
		return nil
	}
	return inner
}

// apart gives each of so many prompts its own of the named members, if any of them
// is a list with an entry for each; else all have the same, and there is one.
func (f *fields) apart(prompts int, names ...string) []*fields {
	all := &fields{raw: map[string]json.RawMessage{}, path: f.path}
	list := []*fields{all}
	for _, name := range names {
		raw, ok := f.take(name)
		if !ok || raw[0] != '[' {
			continue
		}
		entries := f.rawList(name, raw, promptsMax, "a list")
		if len(entries) != prompts {
			f.fail(name, "has %d entries for %d prompts, want one each", len(entries), prompts)
			return []*fields{all}
		}
		for len(list) < prompts {
			list = append(list, &fields{raw: map[string]json.RawMessage{}, path: f.path})
		}
		for i, entry := range entries {
			list[i].raw[name] = entry
		}
	}
	for _, name := range names {
		if raw, ok := f.take(name); ok && raw[0] != '[' {
			for _, one := range list {
				one.raw[name] = raw
			}
		}
	}
	return list
}

// adopt takes over what is wrong with a part.
func (f *fields) adopt(part *fields) {
	if part != nil && f.err == nil {
		f.err = part.err
	}
}

// names lists the members in order.
func (f *fields) names() []string { return slices.Sorted(maps.Keys(f.raw)) }

// problem returns the first mistake as an error, nil if there is none.
func (f *fields) problem() error {
	if f.err == nil {
		return nil
	}
	return f.err
}
