package tokenizer

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// longRun is the number of combining characters in a row from which on compose
// does not leave the work to x/text, which puts U+034F between them after 30
// (Unicode's "stream-safe text format"), as nobody else does. One character may
// stand for three.
const longRun = 8

// compose returns text in Unicode's normalization form C.
func compose(text string) string {
	if norm.NFC.IsNormalString(text) {
		return text
	}
	if isHard(text) {
		return composeLong(text)
	}
	return norm.NFC.String(text)
}

// isHard reports whether x/text may compose text in another way than Unicode: if
// it has a long run of marks, or a character that is no mark and yet composes
// with one before it, as vowel signs of Indic scripts do. Over such a one x/text
// joins what is before it with marks behind it.
func isHard(text string) bool {
	run := 0
	for _, r := range text {
		if r < firstCombining {
			run = 0
			continue
		}
		p := properties(r)
		if p.CCC() == 0 {
			if !p.BoundaryBefore() && !isJamo(r) {
				return true
			}
			run = 0
		} else if run++; run == longRun {
			return true
		}
	}
	return false
}

// isJamo tells the vowels and final consonants of Hangul, which x/text composes
// by arithmetic, and rightly.
func isJamo(r rune) bool { return r >= 0x1161 && r <= 0x11C2 }

// firstCombining is the first character that composes with one before it.
const firstCombining = 0x300

func properties(r rune) norm.Properties {
	var buf [utf8.UTFMax]byte
	return norm.NFC.Properties(buf[:utf8.EncodeRune(buf[:], r)])
}

func combiningClass(r rune) uint8 { return properties(r).CCC() }

// mark is a character and its combining class.
type mark struct {
	r     rune
	class uint8
}

// composeLong is the algorithm of the standard, section 3.11: take all characters
// apart, bring the marks of each into order, and put together what fits.
func composeLong(text string) string {
	var apart []mark
	var buf [utf8.UTFMax]byte
	for _, r := range text {
		whole := buf[:utf8.EncodeRune(buf[:], r)]
		if d := norm.NFD.Properties(whole).Decomposition(); d != nil {
			whole = d
		} else if isHangul := r >= 0xAC00 && r <= 0xD7A3; isHangul { // taken apart by arithmetic
			whole = norm.NFD.Bytes(whole)
		}
		for _, r := range string(whole) {
			apart = append(apart, mark{r, combiningClass(r)})
		}
	}
	for start := 0; start < len(apart); {
		end := start + 1
		if apart[start].class > 0 {
			for end < len(apart) && apart[end].class > 0 {
				end++
			}
			slices.SortStableFunc(apart[start:end], func(a, b mark) int { return int(a.class) - int(b.class) })
		}
		start = end
	}
	return string(putTogether(apart))
}

func putTogether(apart []mark) (out []rune) {
	starter := -1 // in out
	last := uint8(0)
	for _, m := range apart {
		if starter >= 0 && m.r >= firstCombining && (last < m.class || last == 0 && starter == len(out)-1) {
			if r, ok := composite(out[starter], m.r); ok {
				out[starter] = r
				continue
			}
		}
		if m.class == 0 {
			starter = len(out)
		}
		last = m.class
		out = append(out, m.r)
	}
	return out
}

// composite returns the one character that two make.
func composite(a, b rune) (r rune, ok bool) {
	text := norm.NFC.String(string([]rune{a, b}))
	r, n := utf8.DecodeRuneInString(text)
	return r, n == len(text)
}
