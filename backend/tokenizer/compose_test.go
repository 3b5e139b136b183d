package tokenizer

import (
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

func TestComposeLongRuns(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a" + strings.Repeat("\u0301", 100), "á" + strings.Repeat("\u0301", 99)},
		{"a" + strings.Repeat("\u0316\u0301", 40), "á" + strings.Repeat("\u0316", 40) + strings.Repeat("\u0301", 39)},
		{strings.Repeat("\u0344", 20), strings.Repeat("\u0308\u0301", 20)},
		// A vowel sign that is no mark keeps the accent behind it from the letter.
		{"A\u09be\u0300\u0316", "A\u09be\u0316\u0300"},
		{"A\u09be\u0316\u0300", "A\u09be\u0316\u0300"},
		{"e\u0301\u09c7\u09be\u0301", "é\u09cb\u0301"},
		{"\u1100\u1161\u11a8" + strings.Repeat("\u0316", 40) + "e\u0301", "각" + strings.Repeat("\u0316", 40) + "é"},
	} {
		if got := compose(c.text); got != c.want {
			t.Errorf("compose(%+q) = %+q, want %+q", c.text, got, c.want)
		}
	}
}

// The long way is the only one, and gives what x/text gives, where that is right.
func TestComposeAgainstTwin(t *testing.T) {
	r := rapid.OneOf(
		rapid.Rune(),
		rapid.RuneFrom([]rune("aeoAÅéﬁ한가\u1100\u1161\u11a8\u0301\u0308\u0316\u0323\u0344\u0345\u09c7\u09be\u0958\u0338\u3099か\u0f71\u0f72\u0f73\u2126")),
	)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(r, 0, 12, -1).Draw(t, "text")
		got := composeLong(text)
		if want := norm.NFC.String(text); got != want && !isHard(text) {
			t.Fatalf("composeLong(%+q) = %+q, want %+q", text, got, want)
		}
		if short := compose(text); short != got {
			t.Fatalf("compose(%+q) = %+q, the long way gives %+q", text, short, got)
		}
	})
}

func FuzzCompose(f *testing.F) {
	f.Add("a\u0316\u0301\u1100\u1161\u11a8")
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		once := compose(text)
		if compose(once) != once || composeLong(once) != once {
			t.Fatalf("%+q composes to %+q, which is not composed", text, once)
		}
		if !strings.Contains(text, "\u034F") && strings.Contains(once, "\u034F") {
			t.Fatalf("%+q becomes %+q", text, once)
		}
	})
}
