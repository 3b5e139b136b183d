package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// small is the smallest whole tokenizer.json; the cases below break it.
const small = `{"added_tokens":[{"id":3,"content":"<s>","special":true}],
"normalizer":{"type":"NFC"},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"ByteLevel","use_regex":false}]},
"post_processor":null,"decoder":{"type":"ByteLevel"},
"model":{"type":"BPE","dropout":null,"unk_token":null,"byte_fallback":false,"vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}`

func TestParseSmall(t *testing.T) {
	tok, err := parse(small)
	if err != nil {
		t.Fatal(err)
	}
	// c is in no vocabulary and vanishes, as in the reference library.
	if got := tok.Encode("cabba<s>", false); len(got) != 4 || got[0] != 2 || got[1] != 1 || got[2] != 0 || got[3] != 3 {
		t.Errorf("ids are %v", got)
	}
	if tok, err = parse(strings.Replace(small, `"unk_token":null`, `"unk_token":"a"`, 1)); err != nil {
		t.Fatal(err)
	}
	if got := tok.Encode("éabc", false); !slices.Equal(got, []Token{0, 0, 2, 0}) {
		t.Errorf("with an unk_token ids are %v", got)
	}
	// Escapes, and the newer form of merges.
	spelled := strings.NewReplacer(`"ab"`, `"\u0061b"`, `["a b"]`, `[["a", "\u0062"] ]`).Replace(small)
	if tok, err = parse(spelled); err != nil {
		t.Fatal(err)
	}
	if got := tok.Encode("ab", false); len(got) != 1 || got[0] != 2 {
		t.Errorf("ids are %v", got)
	}
}

// What cannot be followed exactly is refused, and the error says which field has
// which value.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{small, ``, `ends too early, at byte 0`},
		{`"merges":["a b"]}}`, `"merges":["a b"]`, `model: ends too early, at byte `},
		{`,"merges":["a b"]`, ``, `model.merges is missing`},
		{`"vocab":{"a":0,"b":1,"ab":2},`, ``, `model.vocab is missing`},
		{`"id":3`, `"id":"3"`, `added_tokens: id is a JSON string; want a whole number`},
		{small, `[]`, `no object`},
		{small, "{\"a\":\"\xff\"}", `is not UTF-8`},
		{`"post_processor":null`, `"post_processor":nil`, `post_processor is no JSON`},
		{`"type":"BPE"`, `"type":"Unigram"`, `model.type is "Unigram", which is not supported: only BPE`},
		{`"type":"BPE"`, `"type":"WordPiece"`, `model.type is "WordPiece"`},
		{`"dropout":null`, `"dropout":0.1`, `model.dropout is 0.1`},
		{`"byte_fallback":false`, `"byte_fallback":true`, `model.byte_fallback is true`},
		{`"byte_fallback":false`, `"end_of_word_suffix":"</w>"`, `model.end_of_word_suffix is "</w>"`},
		{`"byte_fallback":false`, `"continuing_subword_prefix":"##"`, `model.continuing_subword_prefix is "##"`},
		{`"unk_token":null`, `"unk_token":"<s>"`, `model.unk_token is "<s>", which vocab lacks, as it lacks the byte 0x0`},
		{`"unk_token":null`, `"unk_token":"a","fuse_unk":true`, `model.fuse_unk is true, and vocab lacks the byte 0x0`},
		{`"unk_token":null`, `"unk_token":7`, `model.unk_token: `},
		{`"NFC"`, `"Lowercase"`, `normalizer.type is "Lowercase", which is not supported: only NFC`},
		{`{"type":"NFC"}`, `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"NFKC"}]}`, `normalizer.normalizers[1].type is "NFKC"`},
		{`"Digits"`, `"Whitespace"`, `pre_tokenizer.pretokenizers[0].type is "Whitespace"`},
		{`"type":"Digits"`, `"type":"Split","behavior":"MergedWithNext","pattern":{"String":"x"}`, `pretokenizers[0].behavior is "MergedWithNext"`},
		{`"type":"Digits"`, `"type":"Split","behavior":"Isolated","pattern":{"Regex":"("}`, `pretokenizers[0].pattern.Regex: `},
		{`"type":"Digits"`, `"type":"Split","behavior":"Isolated"`, `pretokenizers[0].pattern has neither`},
		{`"type":"Digits"`, `"type":"Split","behavior":"Isolated","pattern":{"String":""}`, `pattern.String is empty`},
		{`"type":"Digits"`, `"type":"ByteLevel"`, `pretokenizers[1] comes after ByteLevel`},
		{`,{"type":"ByteLevel","use_regex":false}`, ``, `pre_tokenizer.type is ""`},
		{`"post_processor":null`, `"post_processor":{"type":"RobertaProcessing"}`, `post_processor.type is "RobertaProcessing"`},
		{`"post_processor":null`, `"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<x>"}}]}`, `post_processor.single[0] names "<x>", which special_tokens lacks`},
		{`"post_processor":null`, `"post_processor":{"type":"TemplateProcessing","single":[]}`, `post_processor.single lacks the sequence A`},
		{`"post_processor":null`, `"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<x>"}}],"special_tokens":{"<x>":{"ids":[9]}}}`, `has the id 9, which names nothing`},
		{`"decoder":{"type":"ByteLevel"}`, `"decoder":{"type":"Metaspace"}`, `decoder.type is "Metaspace"`},
		{`"decoder":{"type":"ByteLevel"}`, `"decoder":null`, `decoder.type is ""`},
		{`{"a":0,"b":1,"ab":2}`, `{}`, `model.vocab: is empty`},
		{`"ab":2`, `"ab":1`, `model.vocab: "b" and "ab" have the same id 1`},
		{`"ab":2`, `"ab":2,"a":7`, `model.vocab: has an entry twice`},
		{`"ab":2`, `"ab":02`, `begins with 0`},
		{`"ab":2`, `"ab":-2`, `model.vocab: entry "ab"`},
		{`"ab":2`, `"ab":99999999999`, `an id above`},
		{`["a b"]`, `["a c"]`, `model.merges: "c" of rule 0 is not in vocab`},
		{`["a b"]`, `["b a"]`, `model.merges: "ba" of rule 0 is not in vocab`},
		{`["a b"]`, `["a 世"]`, `model.merges: rule 0, "a" and "世", is not spelled in the alphabet of bytes`},
		{`["a b"]`, `["ab"]`, `rule 0: "ab" is not two entries`},
		{`["a b"]`, `[["a"]]`, `rule 0: has 1 entries, not 2`},
		{`["a b"]`, `7`, `model.merges: at byte 0: no array`},
		{`"id":3`, `"id":-3`, `added_tokens: "<s>" has the id -3`},
		{`"id":3`, `"id":99999999`, `id 99999999`},
		{`"id":3`, `"id":2`, `added_tokens: "<s>" has the id 2, which vocab gives to "ab"`},
		{`"content":"<s>"`, `"content":""`, `added_tokens: the token with id 3 has no content`},
		{`"id":3`, `"id":"3"`, `added_tokens: `},
	} {
		broken := strings.Replace(small, c.old, c.new, 1)
		if broken == small {
			t.Fatalf("%q is not in the small file", c.old)
		}
		if _, err := parse(broken); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in place of %s: %v, want %s", short(c.new), short(c.old), err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(small)
	f.Add(strings.Replace(small, `["a b"]`, `[["a","b"]]`, 1))
	f.Add(strings.Replace(small, `"type":"Digits"`, `"type":"Split","behavior":"Removed","invert":true,"pattern":{"Regex":"\\w+"}`, 1))
	f.Add(`{"model":{"vocab":{"a":1}},"decoder":{"type":"ByteLevel"},"pre_tokenizer":{"type":"ByteLevel"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		tok, err := parse(text)
		if err != nil {
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("%q is no JSON", text)
		}
		for _, token := range tok.Encode("a b<s>ab1 é\n", true) {
			if token < 0 || int(token) >= tok.Vocab() {
				t.Fatalf("token %d of %d", token, tok.Vocab())
			}
		}
	})
}

// folder makes a model's folder of a small tokenizer and further files.
func folder(t *testing.T, family string, files map[string]string) string {
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join("testdata", family, tokenizerFile))
	if err != nil {
		t.Fatal(err)
	}
	files[tokenizerFile] = string(text)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpenConfig(t *testing.T) {
	tok, err := Open(folder(t, "llama", map[string]string{
		configFile:     `{"bos_token":{"content":"<|begin_of_text|>","lstrip":false},"eos_token":"<|eot_id|>","chat_template":"config"}`,
		templateFile:   `file {{ bos_token }}{{ eos_token }}`,
		generationFile: `{"eos_token_id":[2701,1]}`,
	}))
	if err != nil {
		t.Fatal(err)
	}
	bos, ok := tok.BOS()
	if want, _ := tok.ID("<|begin_of_text|>"); !ok || bos != want {
		t.Errorf("BOS is %d %v, want %d", bos, ok, want)
	}
	if eot, _ := tok.ID("<|eot_id|>"); len(tok.EOS()) != 3 || tok.EOS()[0] != eot || tok.EOS()[1] != 2701 || tok.EOS()[2] != 1 {
		t.Errorf("EOS is %v", tok.EOS())
	}
	if text, err := tok.Chat([]byte(`[]`), ChatOptions{}); text != "file <|begin_of_text|><|eot_id|>" {
		t.Errorf("the template says %q, %v", text, err)
	}
	if ids := tok.Encode("a", true); ids[0] != bos {
		t.Errorf("ids are %v: the post-processor's BOS is missing", ids)
	}
}

func TestOpenEOSOfModel(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		want  Token
	}{
		{map[string]string{modelFile: `{"eos_token_id":7}`}, 7},
		{map[string]string{modelFile: `{"eos_token_id":7}`, generationFile: `{"eos_token_id":8}`}, 8},
		{map[string]string{modelFile: `{"eos_token_id":7}`, generationFile: `{"eos_token_id":null}`}, 7},
	} {
		tok, err := Open(folder(t, "qwen", c.files))
		if err != nil || len(tok.EOS()) != 1 || tok.EOS()[0] != c.want {
			t.Errorf("%v: EOS is %v, want %d, %v", c.files, tok.EOS(), c.want, err)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"bos_token":{"content":"<|im_start|>"},"eos_token":"<|im_end|>","add_bos_token":true,"chat_template":[{"name":"default","template":"{{ x }}"}],"eos_token_id":[1,2]}`))
	f.Add([]byte(`{"chat_template":"{% if a %}{{ b | tojson }}{% endif %}","eos_token_id":7}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		tok := Bytes(MinBytesVocab)
		if tok.readConfig(text) == nil && !json.Valid(text) {
			t.Fatalf("%q is no JSON", text)
		}
		if tok.readEOS(text) == nil && !json.Valid(text) {
			t.Fatalf("%q is no JSON", text)
		}
		if got := tok.Decode(tok.Encode("x", true), true); got != "x" {
			t.Fatalf("with %q a text becomes %q", text, got)
		}
	})
}

func TestOpenAddBOS(t *testing.T) {
	const named = `{"bos_token":"<|im_start|>","eos_token":"<|im_end|>"`
	for _, c := range []struct {
		family, config string
		before, after  string
	}{
		{"qwen", named + `}`, "", ""},
		{"qwen", named + `,"add_bos_token":true}`, "<|im_start|>", ""},
		{"qwen", named + `,"add_bos_token":true,"add_eos_token":true}`, "<|im_start|>", "<|im_end|>"},
		{"qwen", `{"bos_token":null,"add_bos_token":true}`, "", ""},
		{"llama", `{"bos_token":"<|begin_of_text|>"}`, "<|begin_of_text|>", ""},
		{"llama", `{"bos_token":"<|begin_of_text|>","add_bos_token":false}`, "", ""},
	} {
		tok, err := Open(folder(t, c.family, map[string]string{configFile: c.config}))
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Decode(tok.Encode("x", true), false); got != c.before+"x"+c.after {
			t.Errorf("%s with %s: %q", c.family, c.config, got)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("an empty folder: %v", err)
	}
	for _, c := range []struct{ file, text, want string }{
		{configFile, `{`, configFile + ": "},
		{configFile, `{"eos_token":"<no>"}`, `tokenizer_config.json: eos_token is "<no>", which tokenizer.json lacks`},
		{configFile, `{"bos_token":{"content":"<no>"}}`, `bos_token is "<no>"`},
		{configFile, `{"chat_template":7}`, `chat_template is neither`},
		{generationFile, `{"eos_token_id":"x"}`, `generation_config.json: eos_token_id`},
		{generationFile, `{"eos_token_id":[-1]}`, `eos_token_id has the id -1`},
	} {
		if _, err := Open(folder(t, "qwen", map[string]string{c.file: c.text})); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %s", c.file, c.text, err, c.want)
		}
	}
}
