package tokenizer

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// slowWord merges as the rule says: the pair of the lowest rank, the leftmost of
// those, until there is none.
func slowWord(t *Tokenizer, word string) []int32 {
	var tokens []int32
	for i := range len(word) {
		tokens = append(tokens, t.byteTokens[word[i]])
	}
	for {
		best, at := merge{rank: never}, -1
		for i := range len(tokens) - 1 {
			if m := t.mergeOf(tokens[i], tokens[i+1]); m.rank < best.rank {
				best, at = m, i
			}
		}
		if at < 0 {
			return tokens
		}
		tokens = slices.Concat(tokens[:at], []int32{best.token}, tokens[at+2:])
	}
}

func TestMergesAgainstSlowTwin(t *testing.T) {
	tok := open(t, "qwen")
	w := newWorkspace().(*workspace)
	texts := readTexts(t)
	rapid.Check(t, func(t *rapid.T) {
		word := strings.Join(rapid.SliceOfN(rapid.SampledFrom(texts), 1, 4).Draw(t, "texts"), "")
		word = word[:min(len(word), 300)]
		want := slowWord(tok, word)
		if got := tok.mergeWord(w, word); !slices.Equal(got, want) {
			t.Fatalf("%q: %v, want %v", word, got, want)
		}
		w.tokens = w.tokens[:0]
		for i := range len(word) {
			w.tokens = append(w.tokens, tok.byteTokens[word[i]])
		}
		if got := tok.mergeByHeap(w); !slices.Equal(got, want) {
			t.Fatalf("%q by heap: %v, want %v", word, got, want)
		}
	})
}

// checkRoundTrip encodes and decodes: byte-level vocabularies lose nothing but
// what composing changes.
func checkRoundTrip(t *testing.T, qwen, llama *Tokenizer, text string) {
	for _, skip := range []bool{false, true} {
		// Composed again, since each side of an added token is composed alone: the
		// ">" of "<think>" takes no stroke from what follows.
		got := compose(qwen.Decode(qwen.EncodeOrdinary(text, false), skip))
		if want := compose(text); got != want {
			t.Errorf("%q comes back as %q, want %q", text, got, want)
		}
		want := text
		if !skip {
			want = "<|begin_of_text|>" + text
		}
		if got := llama.Decode(llama.EncodeOrdinary(text, true), skip); got != want {
			t.Errorf("%q comes back as %q, want %q", text, got, want)
		}
	}
	if got := llama.Decode(llama.Encode(text, false), false); got != text {
		t.Errorf("%q comes back as %q", text, got)
	}
}

func FuzzRoundTrip(f *testing.F) {
	for _, text := range readTexts(f)[:200] {
		f.Add(text)
	}
	qwen, llama := open(f, "qwen"), open(f, "llama")
	f.Fuzz(func(t *testing.T, text string) {
		if utf8.ValidString(text) {
			checkRoundTrip(t, qwen, llama, text)
		} else if got := llama.Decode(llama.EncodeOrdinary(text, false), false); got != repair([]byte(text)) {
			t.Errorf("%q comes back as %q", text, got)
		}
	})
}

func TestEncodeOrdinary(t *testing.T) {
	tok := open(t, "qwen")
	end, _ := tok.ID("<|im_end|>")
	think, _ := tok.ID("<think>")
	if !tok.Special(end) || tok.Special(think) {
		t.Fatal("the flags of added tokens are mixed up")
	}
	const text = "a<|im_end|>b<think>"
	if got := tok.Encode(text, false); !slices.Contains(got, end) || !slices.Contains(got, think) {
		t.Errorf("Encode gives %v, without one of the added tokens", got)
	}
	got := tok.EncodeOrdinary(text, false)
	if slices.Contains(got, end) || !slices.Contains(got, think) {
		t.Errorf("EncodeOrdinary gives %v, with %d or without %d", got, end, think)
	}
	if tok.Decode(got, true) != text {
		t.Errorf("EncodeOrdinary says %q", tok.Decode(got, true))
	}
}

func TestTokenTexts(t *testing.T) {
	tok := open(t, "llama")
	bos, ok := tok.ID("<|begin_of_text|>")
	if !ok || tok.TokenText(bos) != "<|begin_of_text|>" {
		t.Errorf("ID gives %d %v", bos, ok)
	}
	for id := range Token(256) {
		if text := tok.TokenBytes(id); len(text) != 1 {
			t.Errorf("token %d stands for %q, not one byte", id, text)
		}
	}
	the, ok := tok.ID(" the")
	if !ok || string(tok.TokenBytes(the)) != " the" {
		t.Errorf("ID of \" the\" gives %d %v", the, ok)
	}
	if got := string(tok.AppendBytes([]byte("in"), the)); got != "in the" {
		t.Errorf("AppendBytes gives %q", got)
	}
	half := tok.Encode("世", false)[0]
	if got := tok.TokenText(half); utf8.ValidString(string(tok.TokenBytes(half))) == (got == "\uFFFD") {
		t.Errorf("TokenText gives %q for %q", got, tok.TokenBytes(half))
	}
	for _, id := range []Token{-1, -1 << 31, Token(tok.Vocab()), 1<<31 - 1} {
		if got := tok.TokenBytes(id); len(got) > 0 || tok.Special(id) || tok.Decode([]Token{id}, false) != "" {
			t.Errorf("id %d names nothing and stands for %q", id, got)
		}
	}
	if _, ok := tok.ID("no such token"); ok {
		t.Error("ID finds what is not there")
	}
}

// Any number of goroutines may encode, and what one has seen changes nothing for
// another.
func TestEncodeTogether(t *testing.T) {
	tok := open(t, "smol")
	texts := readTexts(t)[:500]
	want := make([][]Token, len(texts))
	for i, text := range texts {
		want[i] = tok.Encode(text, true)
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for _, i := range rand.New(rand.NewPCG(uint64(worker), 1)).Perm(len(texts)) {
				if got := tok.Encode(texts[i], true); !slices.Equal(got, want[i]) {
					t.Errorf("%q: %v, alone %v", texts[i], got, want[i])
				}
			}
		})
	}
	wg.Wait()
}

// More words than a workspace remembers.
func TestManyWords(t *testing.T) {
	tok := open(t, "llama")
	var text strings.Builder
	for i := range rememberedWords + 3000 {
		text.WriteString(" ")
		for n := i; n > 0; n /= 26 {
			text.WriteByte(byte('a' + n%26))
		}
	}
	w := newWorkspace().(*workspace)
	for word := range strings.SplitSeq(text.String(), " ") {
		tok.word(w, nil, word)
	}
	if len(w.words) > rememberedWords {
		t.Errorf("%d words are remembered, want %d at most", len(w.words), rememberedWords)
	}
	first := tok.Encode(text.String(), false)
	if second := tok.Encode(text.String(), false); !slices.Equal(first, second) {
		t.Error("what was forgotten comes out differently")
	}
	if got := tok.Decode(first, false); got != text.String() {
		t.Error("words are lost")
	}
}

func TestBytes(t *testing.T) {
	tok := Bytes(300)
	if tok.Vocab() != 300 {
		t.Errorf("%d entries", tok.Vocab())
	}
	ids := tok.Encode("é<|im_end|>[299]", true)
	want := append([]Token{0xC3, 0xA9, 258}, slices.Collect(func(yield func(Token) bool) {
		for _, b := range []byte("[299]") {
			if !yield(Token(b)) {
				return
			}
		}
	})...)
	if !slices.Equal(ids, want) {
		t.Errorf("%v, want %v", ids, want)
	}
	if got := tok.Decode([]Token{'a', 299, 256, 'b'}, true); got != "a [299]b" {
		t.Errorf("decoded %q", got)
	}
	if !slices.Equal(tok.EOS(), []Token{258}) {
		t.Errorf("EOS is %v", tok.EOS())
	}
	if _, ok := tok.BOS(); ok {
		t.Error("there is a BOS")
	}
	prompt, err := tok.Chat([]byte(`[{"role":"user","content":"x"}]`), ChatOptions{AddGenerationPrompt: true})
	if err != nil || prompt != "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n" {
		t.Errorf("chat is %q, %v", prompt, err)
	}
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	var got []byte
	for id := range Token(256) {
		got = tok.AppendBytes(got, id)
	}
	if !bytes.Equal(got, all) {
		t.Error("the first 256 tokens are not the bytes")
	}
	defer func() {
		if recover() == nil {
			t.Error("a vocabulary too small for the bytes was made")
		}
	}()
	Bytes(MinBytesVocab - 1)
}
