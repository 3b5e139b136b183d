package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// The small tokenizers of testdata, one for each family of pre-tokenizers.
var families = []string{"qwen", "llama", "smol", "odd"}

// reference is what the reference library says; see testdata/generate.
type reference struct {
	Vocab    int                // entries of the vocabulary
	IDs      [][]Token          // of each text
	Ordinary map[string][]Token // by number of the text, where it differs if special tokens are text
	Hello    []Token            // of "hello", with what the post-processor adds
	Decoded  []decoded
}

type decoded struct {
	ids               []Token
	text, skipSpecial string
}

func (d *decoded) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&d.ids, &d.text, &d.skipSpecial})
}

func readPacked(t testing.TB, name string, v any) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(z).Decode(v)
	}
	if err != nil {
		t.Fatal(name, err)
	}
}

func readTexts(t testing.TB) (texts []string) {
	t.Helper()
	readPacked(t, "strings", &texts)
	if len(texts) < 2000 {
		t.Fatalf("only %d texts", len(texts))
	}
	return texts
}

func open(t testing.TB, family string) *Tokenizer {
	t.Helper()
	tok, err := Open(filepath.Join("testdata", family))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func checkReference(t *testing.T, tok *Tokenizer, name string) {
	var want reference
	readPacked(t, name+".ids", &want)
	if tok.Vocab() != want.Vocab {
		t.Errorf("%d entries, want %d", tok.Vocab(), want.Vocab)
	}
	wrong := 0
	check := func(how, text string, got, want []Token) {
		if slices.Equal(got, want) {
			return
		}
		if wrong++; wrong <= 10 {
			t.Errorf("%s(%q)\n got %v\nwant %v", how, text, got, want)
		}
	}
	for i, text := range readTexts(t) {
		check("Encode", text, tok.Encode(text, false), want.IDs[i])
		ordinary, differs := want.Ordinary[strconv.Itoa(i)]
		if !differs {
			ordinary = want.IDs[i]
		}
		check("EncodeOrdinary", text, tok.EncodeOrdinary(text, false), ordinary)
	}
	check("Encode with special tokens", "hello", tok.Encode("hello", true), want.Hello)
	for _, d := range want.Decoded {
		if got := tok.Decode(d.ids, false); got != d.text {
			t.Errorf("Decode(%v) = %q, want %q", d.ids, got, d.text)
		}
		if got := tok.Decode(d.ids, true); got != d.skipSpecial {
			t.Errorf("Decode(%v), special tokens skipped, = %q, want %q", d.ids, got, d.skipSpecial)
		}
	}
	if wrong > 0 {
		t.Errorf("%d wrong in all", wrong)
	}
	if len(want.Ordinary) == 0 || len(want.Decoded) == 0 {
		t.Error("the fixture lacks a part")
	}
}

func TestReference(t *testing.T) {
	for _, family := range families {
		t.Run(family, func(t *testing.T) { checkReference(t, open(t, family), family) })
	}
}

// qwen3Variable names the environment variable with the path of Qwen3's own
// tokenizer.json, which is too large to be kept here. CI gets it from a package.
const qwen3Variable = "TOKENROUTER_QWEN3_TOKENIZER"

func openQwen3(t testing.TB) *Tokenizer {
	path := os.Getenv(qwen3Variable)
	if path == "" {
		t.Skip("no " + qwen3Variable + ", the path of Qwen3's tokenizer.json")
	}
	tok, err := Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestReferenceQwen3(t *testing.T) {
	tok := openQwen3(t)
	checkReference(t, tok, "qwen3")
	if len(tok.EOS()) == 0 || tok.TokenText(tok.EOS()[0]) != "<|im_end|>" {
		t.Errorf("EOS is %v", tok.EOS())
	}
	if !tok.HasChatTemplate() {
		t.Error("no chat template")
	}
}
