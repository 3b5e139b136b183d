package tokenizer

import (
	"sync"
	"unicode/utf8"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// Token is a vocabulary id.
type Token = algorithms.Token

// Tokenizer is a byte-level BPE tokenizer with its model's chat template.
type Tokenizer struct {
	entries      []string // by id: the bytes that a token stands for; "" where there is no such id
	special      []bool   // by id
	ids          map[string]int32
	byteTokens   [256]int32 // -1: the vocabulary lacks that byte
	merges       map[uint64]merge
	ignoreMerges bool // a word that is a token is that token, whatever the merges say

	added        []addedToken
	addedIDs     map[string]Token
	inText       *trie // indices into added, for those looked for in the text as it comes
	inNormalized *trie // those looked for in normalized text
	anyAdded     *trie // all of them
	specialText  *trie // those that are special

	nfc            bool // text is composed before anything else
	steps          []step
	prefix, suffix []Token // around a text, if special tokens are asked for
	bos            Token   // -1: none
	bosText        string
	eosText        string
	eos            []Token
	templates      map[string]*chatTemplate // by name; "default" and perhaps "tool_use"

	pool sync.Pool // of *workspace

	measure sync.Once
	longest int // see longestToken
}

// Vocab returns one more than the largest id, added tokens included.
func (t *Tokenizer) Vocab() int { return len(t.entries) }

// BOS returns the token that begins a text; ok is false for models without one.
func (t *Tokenizer) BOS() (token Token, ok bool) { return t.bos, t.bos >= 0 }

// EOS returns the tokens that end a text: first the tokenizer's own, then those
// that generation_config.json adds. The caller must not change it.
func (t *Tokenizer) EOS() []Token { return t.eos }

// Special tells whether a token is one that users neither see nor write.
func (t *Tokenizer) Special(token Token) bool { return t.known(token) && t.special[token] }

func (t *Tokenizer) known(token Token) bool { return token >= 0 && int(token) < len(t.entries) }

// ID returns the token with exactly this text: an added token such as
// "<|im_end|>", or an entry of the vocabulary by the text that it stands for
// (" the", not "Ġthe").
func (t *Tokenizer) ID(text string) (token Token, ok bool) {
	if token, ok := t.addedIDs[text]; ok {
		return token, true
	}
	id, ok := t.ids[text]
	return Token(id), ok
}

// TokenBytes returns what a token stands for. That need not be whole
// characters. For ids that name nothing it is empty.
func (t *Tokenizer) TokenBytes(token Token) []byte { return t.AppendBytes(nil, token) }

// AppendBytes appends TokenBytes to dst.
func (t *Tokenizer) AppendBytes(dst []byte, token Token) []byte {
	if !t.known(token) {
		return dst
	}
	return append(dst, t.entries[token]...)
}

// TokenText returns TokenBytes as text, U+FFFD in place of broken characters.
func (t *Tokenizer) TokenText(token Token) string { return repair(t.TokenBytes(token)) }

// Encode turns text into tokens. The text of added tokens, special ones among
// them, becomes those tokens. With addSpecial the model's own rule puts tokens
// around the text, such as Llama 3's <|begin_of_text|>.
func (t *Tokenizer) Encode(text string, addSpecial bool) []Token {
	return t.around(text, allAdded, addSpecial)
}

// EncodeOrdinary is Encode for text that must not act on the model: what looks
// like a special token is read as the characters that it is made of. Added
// tokens that are not special, such as Qwen's <think>, stay tokens.
func (t *Tokenizer) EncodeOrdinary(text string, addSpecial bool) []Token {
	return t.around(text, ordinaryOnly, addSpecial)
}

func (t *Tokenizer) around(text string, which which, addSpecial bool) []Token {
	// The first guess at the number of tokens costs at most one more growth:
	// English has some four bytes in a token.
	dst := make([]Token, 0, len(text)/3+len(t.prefix)+len(t.suffix)+1)
	if addSpecial {
		dst = append(dst, t.prefix...)
	}
	dst = t.encode(dst, text, which)
	if addSpecial {
		dst = append(dst, t.suffix...)
	}
	return dst
}

// encode appends the tokens of text.
func (t *Tokenizer) encode(dst []Token, text string, which which) []Token {
	if !utf8.ValidString(text) {
		text = repair([]byte(text))
	}
	w := t.pool.Get().(*workspace)
	word := func(piece string) { dst = t.word(w, dst, piece) }
	t.cut(text, t.inText, which, func(part string, token int32) {
		if token >= 0 {
			dst = append(dst, Token(t.added[token].ID))
			return
		}
		if t.nfc {
			part = compose(part)
		}
		t.cut(part, t.inNormalized, which, func(part string, token int32) {
			if token >= 0 {
				dst = append(dst, Token(t.added[token].ID))
				return
			}
			split(t.steps, part, word)
		})
	})
	if cap(w.tokens) <= longestKept {
		t.pool.Put(w)
	}
	return dst
}

// Decode turns tokens into text, U+FFFD in place of broken characters. Ids that
// name nothing are passed over, as are special tokens if asked.
func (t *Tokenizer) Decode(tokens []Token, skipSpecial bool) string {
	var b []byte
	for _, token := range tokens {
		if !skipSpecial || !t.Special(token) {
			b = t.AppendBytes(b, token)
		}
	}
	return repair(b)
}

// Decoder turns tokens into text as they come.
type Decoder struct {
	t           *Tokenizer
	skipSpecial bool
	held        []byte // of a character that is not whole: at most three
}

// NewDecoder returns a decoder for one request. Whatever the pieces in which it
// gets the tokens, its texts and Rest join to what Decode makes of all of them.
func (t *Tokenizer) NewDecoder(skipSpecial bool) *Decoder {
	return &Decoder{t: t, skipSpecial: skipSpecial}
}

// Next returns the text that the tokens complete. It holds back the bytes of a
// character whose end has not come.
func (d *Decoder) Next(tokens []Token) string {
	for _, token := range tokens {
		if !d.skipSpecial || !d.t.Special(token) {
			d.held = d.t.AppendBytes(d.held, token)
		}
	}
	text, held := complete(d.held)
	d.held = append(d.held[:0], held...)
	return text
}

// Rest returns what was held back, when no token follows: U+FFFD if the tokens
// ended within a character, else nothing.
func (d *Decoder) Rest() string {
	text := repair(d.held)
	d.held = d.held[:0]
	return text
}
