package tokenizer

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// EncodeChat renders messages as Chat does and turns them into tokens, so that
// special tokens come from the template alone: a user who writes "<|im_end|>"
// gets those characters and ends no turn.
//
// The template is rendered twice: as it is, and with a mark, a character that
// occurs nowhere in the chat, behind each character of the client's strings that
// a special token could begin with. If the second text without its marks is the
// first, the marks have misled no condition of the template, and they say which
// special tokens are its own: those without a mark. Otherwise the template looks
// for something that such a character begins, say "</think>", and less is
// marked: first what has two characters of a special token or is cut off by the
// end of its string, then only whole special tokens. If even that changes the
// text, the chat is encoded as Encode does it. Where nothing is marked, which is
// the most frequent case, the tokens are those of Encode.
//
// A role is the client's string too, and templates that build a special token
// around it, as in '<|' + role + '|>', get what they ask for: whoever takes
// roles from clients must know them by name.
func (t *Tokenizer) EncodeChat(messages json.RawMessage, o ChatOptions) ([]Token, error) {
	c, err := t.newChat(messages, o)
	if err != nil {
		return nil, err
	}
	plain, err := c.render(func(text string) string { return text })
	if err != nil {
		return nil, err
	}
	if n := t.FewestTokens(plain); o.TokensMax > 0 && n > o.TokensMax {
		return nil, chatError("at least %d tokens, which is more than the context length of %d tokens", n, o.TokensMax)
	}
	mark := c.unusedRune(plain)
	if mark == 0 {
		return nil, chatError("the messages hold all private-use characters of Unicode, which leaves none to work with")
	}
	for _, suspicious := range []func(text string, at int) bool{t.beginsSpecial, t.couldBecomeSpecial, t.isSpecial} {
		marked, any, err := t.renderMarked(c, suspicious, mark)
		if !any {
			break
		}
		if err == nil && unmarked(marked, mark) == plain {
			return t.encodeMarked(marked, mark), nil
		}
	}
	return t.Encode(plain, false), nil
}

// renderMarked renders the chat with marks, and says whether there are any.
func (t *Tokenizer) renderMarked(c *chat, suspicious func(string, int) bool, mark rune) (text string, any bool, err error) {
	text, err = c.render(func(text string) string {
		var out strings.Builder
		if t.startsWithinSpecial(text) {
			out.WriteRune(mark)
		}
		start := 0
		for i := range text {
			if suspicious(text, i) {
				_, n := utf8.DecodeRuneInString(text[i:])
				out.WriteString(text[start : i+n])
				out.WriteRune(mark)
				start = i + n
			}
		}
		if start == 0 && out.Len() == 0 {
			return text
		}
		any = true
		out.WriteString(text[start:])
		return out.String()
	})
	return text, any, err
}

// beginsSpecial tells whether some special token begins with the byte at i.
func (t *Tokenizer) beginsSpecial(text string, i int) bool { return t.specialText.starts[text[i]] }

// couldBecomeSpecial tells whether at byte i begins a special token, or two
// characters of one, or one that the end of the text cuts off.
func (t *Tokenizer) couldBecomeSpecial(text string, i int) bool {
	if !t.specialText.starts[text[i]] {
		return false
	}
	_, n := utf8.DecodeRuneInString(text[i:])
	depth := t.specialText.depth(text[i:])
	return depth > n || i+depth == len(text)
}

func (t *Tokenizer) isSpecial(text string, i int) bool {
	if !t.specialText.starts[text[i]] {
		return false
	}
	token, _ := t.specialText.longest(text[i:])
	return token >= 0
}

// startsWithinSpecial tells whether text starts with the end of a special token,
// whose beginning may stand before it.
func (t *Tokenizer) startsWithinSpecial(text string) bool {
	if text == "" {
		return false
	}
	for _, a := range t.added {
		if !a.Special {
			continue
		}
		for i := range a.Content {
			if i > 0 && strings.HasPrefix(text, a.Content[i:]) {
				return true
			}
		}
	}
	return false
}

// unusedRune returns a private-use character that neither the rendered chat nor
// what it was rendered from holds, or 0 if all are used.
func (c *chat) unusedRune(plain string) rune {
	const firstPrivate, lastPrivate = '\uE000', '\uF8FF'
	var used [lastPrivate - firstPrivate + 1]bool
	note := func(text string) string {
		for _, r := range text {
			if r >= firstPrivate && r <= lastPrivate {
				used[r-firstPrivate] = true
			}
		}
		return text
	}
	note(plain)
	for _, v := range []jinja.Value{c.messages, c.tools} {
		mapStrings(v, note)
	}
	for i, is := range used {
		if !is {
			return firstPrivate + rune(i)
		}
	}
	return 0
}

func unmarked(text string, mark rune) string { return strings.ReplaceAll(text, string(mark), "") }

// encodeMarked encodes text in which no mark stands in the special tokens that
// count.
func (t *Tokenizer) encodeMarked(text string, mark rune) []Token {
	var dst []Token
	t.cut(text, t.anyAdded, specialOnly, func(part string, token int32) {
		if token >= 0 {
			dst = append(dst, Token(t.added[token].ID))
			return
		}
		dst = t.encode(dst, unmarked(part, mark), ordinaryOnly)
	})
	return dst
}
