package tokenizer

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// The subserver's detokenizer.
var _ interface {
	Next(tokens []algorithms.Token) string
	Rest() string
} = (*Decoder)(nil)

// Broken bytes become U+FFFD as in Python's bytes.decode(errors="replace"), which
// gave the expected texts, and which Rust's from_utf8_lossy agrees with.
func TestRepair(t *testing.T) {
	for _, c := range []struct{ bytes, want string }{
		{"", ""},
		{"a\xffb", "a\uFFFDb"},
		{"\xff\xfe\xfd", "\uFFFD\uFFFD\uFFFD"},
		{"\xc0\xaf", "\uFFFD\uFFFD"},
		{"\xe4\xb8", "\uFFFD"},
		{"\xe4\xb8x", "\uFFFDx"},
		{"\xe4x\xb8", "\uFFFDx\uFFFD"},
		{"\xf0\x9f\x98", "\uFFFD"},
		{"\xf0\x9f\x98\xf0\x9f\x98\x80", "\uFFFD😀"},
		{"\xf0\x80\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
		{"\xe0\x80\x80", "\uFFFD\uFFFD\uFFFD"},
		{"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
		{"\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
		{"\xf5\x80", "\uFFFD\uFFFD"},
		{"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", "\uFFFD\uFFFD\uFFFD\uFFFDA"},
		{"ok 世界\xe4", "ok 世界\uFFFD"},
	} {
		if got := repair([]byte(c.bytes)); got != c.want {
			t.Errorf("repair(%q) = %q, want %q", c.bytes, got, c.want)
		}
	}
}

// chunked decodes tokens in the pieces that cuts ask for.
func chunked(t rapid.TB, d *Decoder, tokens []Token, cuts []byte) string {
	var out strings.Builder
	take := func(text string) {
		if !utf8.ValidString(text) {
			t.Fatalf("%q is half a character", text)
		}
		out.WriteString(text)
	}
	for i := 0; len(tokens) > 0; i++ {
		n := 1
		if i < len(cuts) {
			n = min(int(cuts[i]%5), len(tokens))
		}
		take(d.Next(tokens[:n]))
		tokens = tokens[n:]
	}
	take(d.Rest())
	return out.String()
}

func TestDecoderJoinsToDecode(t *testing.T) {
	tok := open(t, "qwen")
	rapid.Check(t, func(t *rapid.T) {
		// Ids below 256 are bytes in these vocabularies: most texts are broken.
		ids := rapid.SliceOf(rapid.OneOf(rapid.Int32Range(0, 255), rapid.Int32Range(-2, int32(tok.Vocab()+2)))).Draw(t, "ids")
		cuts := rapid.SliceOf(rapid.Byte()).Draw(t, "cuts")
		skip := rapid.Bool().Draw(t, "skip")
		tokens := make([]Token, len(ids))
		for i, id := range ids {
			tokens[i] = Token(id)
		}
		if got, want := chunked(t, tok.NewDecoder(skip), tokens, cuts), tok.Decode(tokens, skip); got != want {
			t.Fatalf("%q in pieces, %q at once", got, want)
		}
	})
}

// Every character comes with the token that completes it, and once: a decoder
// that moves back shows "世" twice, one that does not wait shows U+FFFD.
func TestDecoderHoldsBack(t *testing.T) {
	tok := Bytes(MinBytesVocab)
	d := tok.NewDecoder(true)
	var got []string
	for _, b := range []byte("A 世a😀b") {
		got = append(got, d.Next([]Token{Token(b)}))
	}
	want := []string{"A", " ", "", "", "世", "a", "", "", "", "😀", "b"}
	if strings.Join(got, "|") != strings.Join(want, "|") || d.Rest() != "" {
		t.Errorf("%q, want %q", got, want)
	}
	if got := d.Next([]Token{0xFF}); got != "\uFFFD" {
		t.Errorf("a byte that begins nothing is held back: %q", got)
	}
	if got := d.Next([]Token{0xE4, 0xB8, 258}); got != "" {
		t.Errorf("half a character and a hidden token show %q", got)
	}
	if got := d.Rest(); got != "\uFFFD" {
		t.Errorf("a text that ends within a character ends with %q", got)
	}
	if got := d.Rest(); got != "" {
		t.Errorf("what was held back came twice: %q", got)
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte("A 世a\xf0\x9f\x98"), []byte{1, 0, 2})
	tok := Bytes(MinBytesVocab)
	f.Fuzz(func(t *testing.T, text, cuts []byte) {
		tokens := make([]Token, len(text))
		for i, b := range text {
			tokens[i] = Token(b)
		}
		got := chunked(t, tok.NewDecoder(false), tokens, cuts)
		if want := tok.Decode(tokens, false); got != want {
			t.Fatalf("%q in pieces, %q at once", got, want)
		}
		if utf8.Valid(text) && got != string(text) {
			t.Fatalf("%q decodes to %q", text, got)
		}
	})
}
