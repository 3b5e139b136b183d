package tokenizer

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// slowStop is the rule of StopMatcher on a whole text, said plainly.
func slowStop(text string, stops []string, show bool) (shown, matched string, found bool) {
	for end := range len(text) + 1 {
		for _, s := range stops {
			if s != "" && strings.HasSuffix(text[:end], s) && len(s) > len(matched) {
				matched = s
			}
		}
		if matched != "" {
			if show {
				return text[:end], matched, true
			}
			return text[:end-len(matched)], matched, true
		}
	}
	return text, "", false
}

// checkStop runs a matcher over text in pieces and holds it to slowStop, and to
// hiding no more than it must.
func checkStop(t rapid.TB, text string, stops []string, show bool, cuts []byte) {
	m := NewStopMatcher(stops, show)
	wantShown, wantMatched, want := slowStop(text, stops, show)
	var shown strings.Builder
	fed, stopped := 0, false
	for i := 0; fed < len(text) && !stopped; i++ {
		n := 1
		if i < len(cuts) {
			n = int(cuts[i] % 4)
		}
		next := min(fed+n, len(text))
		for next < len(text) && !utf8.RuneStart(text[next]) {
			next++
		}
		var piece string
		piece, stopped = m.Next(text[fed:next])
		fed = next
		shown.WriteString(piece)
		if !utf8.ValidString(piece) {
			t.Fatalf("%q is half a character", piece)
		}
		if held := fed - shown.Len(); !stopped && held != couldStart(text[:fed], stops) {
			t.Fatalf("after %q of %q %d bytes are held back, want %d (stops %q)", text[:fed], text, held, couldStart(text[:fed], stops), stops)
		}
	}
	shown.WriteString(m.Rest())
	matched, found := m.Matched()
	if shown.String() != wantShown || found != want || stopped != want || matched != wantMatched {
		t.Fatalf("%q with stops %q: shown %q, matched %q %v; want %q, %q %v", text, stops, shown.String(), matched, found, wantShown, wantMatched, want)
	}
	if more, stopped := m.Next("more"); found && (more != "" || !stopped) {
		t.Fatalf("text after the match shows %q", more)
	}
}

// couldStart measures the longest end of text that a stop string begins with.
func couldStart(text string, stops []string) int {
	for n := len(text); n > 0; n-- {
		if slices.ContainsFunc(stops, func(s string) bool { return strings.HasPrefix(s, text[len(text)-n:]) }) {
			return n
		}
	}
	return 0
}

func TestStop(t *testing.T) {
	for _, c := range []struct {
		text    string
		stops   []string
		shown   string
		matched string
	}{
		{"abc", nil, "abc", ""},
		{"abc", []string{""}, "abc", ""},
		{"abc", []string{"", "b"}, "a", "b"},
		{"ABCDEFGHIJK", []string{"DEFGHIJ"}, "ABC", "DEFGHIJ"},
		{"xDEFGDEFGH", []string{"DEFGH"}, "xDEFG", "DEFGH"},
		{"aab", []string{"ab"}, "a", "ab"},
		{"aaaab", []string{"aaab"}, "a", "aaab"},
		{"aabaaabaaac", []string{"aabaaac"}, "aaba", "aabaaac"},
		{"one\n\ntwo", []string{"\n\n", "two"}, "one", "\n\n"},
		// The match that ends first, though the other starts first.
		{"abcd", []string{"abcd", "bc"}, "a", "bc"},
		// Of those that end together the longest, in whatever order they come.
		{"abcd", []string{"cd", "bcd", "d"}, "a", "bcd"},
		{"abcd", []string{"d", "bcd", "cd"}, "a", "bcd"},
		{"a世界b", []string{"界"}, "a世", "界"},
		{"a世", []string{"世界"}, "a世", ""},
		{"<|im_en", []string{"<|im_end|>"}, "<|im_en", ""},
	} {
		for _, cuts := range [][]byte{nil, {3, 3, 3, 3}, {0, 2, 1}} {
			checkStop(t, c.text, c.stops, false, cuts)
			checkStop(t, c.text, c.stops, true, cuts)
		}
		if shown, matched, _ := slowStop(c.text, c.stops, false); shown != c.shown || matched != c.matched {
			t.Errorf("%q with %q: %q and %q, want %q and %q", c.text, c.stops, shown, matched, c.shown, c.matched)
		}
	}
}

func TestStopProperty(t *testing.T) {
	// Few letters make many near misses.
	word := rapid.StringOfN(rapid.RuneFrom([]rune("ab世界")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab世界")), 0, 40, -1).Draw(t, "text")
		stops := rapid.SliceOfN(word, 0, 4).Draw(t, "stops")
		checkStop(t, text, stops, rapid.Bool().Draw(t, "show"), rapid.SliceOf(rapid.Byte()).Draw(t, "cuts"))
	})
}

func FuzzStop(f *testing.F) {
	f.Add("ABCDEFGHIJ", "DEFGHIJ", "HI", true, []byte{1, 2})
	f.Add("aabaab世", "aab世", "ba", false, []byte{0, 3})
	f.Fuzz(func(t *testing.T, text, one, two string, show bool, cuts []byte) {
		if utf8.ValidString(text) && utf8.ValidString(one) && utf8.ValidString(two) {
			checkStop(t, text, []string{one, two}, show, cuts)
		}
	})
}
