package tokenizer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is an entry of added_tokens: text that becomes one token wherever
// it stands, before anything else looks at the text around it.
type addedToken struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only with no word character beside it
	LStrip     bool   `json:"lstrip"`      // takes the white space before it along
	RStrip     bool   `json:"rstrip"`      // and that after it
	Normalized bool   `json:"normalized"`  // looked for in normalized text
	Special    bool   `json:"special"`     // never shown; not for users to write
}

// trie finds the longest of many strings that a text starts with.
type trie struct {
	nodes  []trieNode
	starts [256]bool // bytes that a string begins with
}

type trieNode struct {
	labels []byte // of the edges to next, same order
	next   []int32
	token  int32 // index of the string that ends here, or -1
}

func newTrie() *trie { return &trie{nodes: []trieNode{{token: -1}}} }

func (t *trie) empty() bool { return len(t.nodes) == 1 }

func (t *trie) add(text string, token int32) {
	at := int32(0)
	for i := range len(text) {
		next := t.step(at, text[i])
		if next < 0 {
			next = int32(len(t.nodes))
			t.nodes = append(t.nodes, trieNode{token: -1})
			t.nodes[at].labels = append(t.nodes[at].labels, text[i])
			t.nodes[at].next = append(t.nodes[at].next, next)
		}
		at = next
	}
	t.nodes[at].token = token
	t.starts[text[0]] = true
}

func (t *trie) step(at int32, label byte) int32 {
	n := &t.nodes[at]
	if i := slices.Index(n.labels, label); i >= 0 {
		return n.next[i]
	}
	return -1
}

// longest returns the longest string that text starts with, or -1.
func (t *trie) longest(text string) (token int32, length int) {
	token = -1
	at := int32(0)
	for i := range len(text) {
		if at = t.step(at, text[i]); at < 0 {
			break
		}
		if t.nodes[at].token >= 0 {
			token, length = t.nodes[at].token, i+1
		}
	}
	return token, length
}

// depth measures how much of text goes along some string.
func (t *trie) depth(text string) int {
	at := int32(0)
	for i := range len(text) {
		if at = t.step(at, text[i]); at < 0 {
			return i
		}
	}
	return len(text)
}

// which says what to do with the special tokens among the added ones.
type which uint8

const (
	allAdded     which = iota // look for all added tokens
	ordinaryOnly              // text of special tokens stays text
	specialOnly               // the others stay text
)

// cut calls piece for the stretches of text between added tokens, with token -1,
// and for those tokens; it does so in the order and with the odd corners of the
// reference library: matches are leftmost and longest among all of the trie,
// and one that does not count still hides what overlaps it.
func (t *Tokenizer) cut(text string, tr *trie, which which, piece func(text string, token int32)) {
	done := 0
	for at := 0; at < len(text) && !tr.empty(); {
		if !tr.starts[text[at]] {
			at++
			continue
		}
		token, length := tr.longest(text[at:])
		if token < 0 {
			at++
			continue
		}
		start, end := at, at+length
		at = end
		a := &t.added[token]
		if which == ordinaryOnly && a.Special || which == specialOnly && !a.Special ||
			a.SingleWord && (endsWithWord(text[:start]) || startsWithWord(text[end:])) {
			continue
		}
		if a.LStrip {
			start = len(strings.TrimRightFunc(text[:start], unicode.IsSpace)) // perhaps taken already
		}
		if a.RStrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if done < start {
			piece(text[done:start], -1)
		}
		piece("", token)
		done = end
	}
	if done < len(text) {
		piece(text[done:], -1)
	}
}

func endsWithWord(text string) bool {
	r, n := utf8.DecodeLastRuneInString(text)
	return n > 0 && isWord(r)
}

func startsWithWord(text string) bool {
	r, n := utf8.DecodeRuneInString(text)
	return n > 0 && isWord(r)
}

// isWord is \w of Unicode's technical standard 18, annex C.
func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.Is(unicode.Nd, r) || unicode.Is(unicode.Nl, r) ||
		unicode.Is(unicode.Pc, r) || unicode.Is(unicode.Other_Alphabetic, r) || unicode.Is(unicode.Join_Control, r)
}
