package tokenizer

import (
	"strings"
	"testing"
)

func TestFewestTokens(t *testing.T) {
	texts := append(readTexts(t), strings.Repeat("\u1fbe\u0308\u0341", 100), strings.Repeat("e\u0301", 100), strings.Repeat(" ", 1000), strings.Repeat("\u1100\u1161\u11a8", 100))
	for _, family := range families {
		tok := open(t, family)
		for _, text := range texts {
			if got, fewest := len(tok.Encode(text, false)), tok.FewestTokens(text); fewest > got {
				t.Errorf("%s: %d tokens, and %d at the least: %.80q", family, got, fewest, text)
			}
		}
		if fewest := tok.FewestTokens(strings.Repeat("a", 1<<20)); family != "odd" && fewest < 1000 {
			t.Errorf("%s: a million letters are %d tokens at the least", family, fewest)
		}
	}
	if got := Bytes(MinBytesVocab).FewestTokens(strings.Repeat("a", 1300)); got != 100 {
		t.Errorf("bytes: %d, want 100: <|endoftext|> has 13", got)
	}
}
