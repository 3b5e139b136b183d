package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The patterns of the model families that this package knows by heart. Where a
// tokenizer.json holds exactly one of them, the functions below split text;
// any other pattern goes through a regular expression engine, with which encoding
// takes twice as long (BenchmarkEncodeAgainstPattern). FuzzScan holds both to the
// same pieces.
const (
	patternGPT2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternQwen = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// patternLlama is Qwen's with numbers in groups of up to three digits.
	patternLlama = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// scanner returns the length in bytes of the first piece of a text that is not
// empty.
type scanner func(text string) int

func knownScanner(pattern string) scanner {
	switch pattern {
	case patternGPT2:
		return scanGPT2
	case patternQwen:
		return func(text string) int { return scanTiktoken(text, 1) }
	case patternLlama:
		return func(text string) int { return scanTiktoken(text, 3) }
	}
	return nil
}

type class uint8

const (
	other class = iota
	letter
	number
	space
)

func classOf(r rune) class {
	if r < utf8.RuneSelf {
		return asciiClass[r]
	}
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

var asciiClass = func() (table [utf8.RuneSelf]class) {
	for r := range rune(utf8.RuneSelf) {
		switch {
		case unicode.IsLetter(r):
			table[r] = letter
		case unicode.IsNumber(r):
			table[r] = number
		case unicode.IsSpace(r):
			table[r] = space
		}
	}
	return table
}()

// first returns the class and length of the first character; at the end of the
// text the length is 0.
func first(text string) (class, int) {
	if text == "" {
		return other, 0
	}
	if c := text[0]; c < utf8.RuneSelf {
		return asciiClass[c], 1
	}
	r, n := utf8.DecodeRuneInString(text)
	return classOf(r), n
}

// run returns where the characters of one class that start at byte i end.
func run(text string, i int, of class) int {
	for i < len(text) {
		c, n := first(text[i:])
		if c != of {
			break
		}
		i += n
	}
	return i
}

// contraction measures 's and its like at the start of text. Folding case also
// takes U+017F, the long s.
func contraction(text string, fold bool) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	lower := func(i int) byte {
		if i >= len(text) {
			return 0
		}
		if c := text[i]; fold && c >= 'A' && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return text[i]
	}
	switch lower(1) {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if lower(2) == 'e' {
			return 3
		}
	case 'l':
		if lower(2) == 'l' {
			return 3
		}
	}
	if fold && strings.HasPrefix(text[1:], "\u017F") {
		return 1 + len("\u017F")
	}
	return 0
}

func scanTiktoken(text string, digits int) int {
	if n := contraction(text, true); n > 0 {
		return n
	}
	head, n := first(text)
	switch {
	case head == letter:
		return run(text, n, letter)
	case head == number:
		for range digits - 1 {
			c, m := first(text[n:])
			if c != number || m == 0 {
				break
			}
			n += m
		}
		return n
	case text[0] != '\r' && text[0] != '\n':
		if c, m := first(text[n:]); m > 0 && c == letter {
			return run(text, n+m, letter)
		}
	}
	if end := punctuation(text); end > 0 {
		for end < len(text) && (text[end] == '\r' || text[end] == '\n') {
			end++
		}
		return end
	}
	return blanks(text, true)
}

func scanGPT2(text string) int {
	if n := contraction(text, false); n > 0 {
		return n
	}
	start := 0
	if text[0] == ' ' {
		start = 1
	}
	switch c, n := first(text[start:]); {
	case n > 0 && (c == letter || c == number):
		return run(text, start+n, c)
	}
	if end := punctuation(text); end > 0 {
		return end
	}
	return blanks(text, false)
}

// punctuation measures a run of what is no letter, number or space, with one
// space before it.
func punctuation(text string) int {
	start := 0
	if text[0] == ' ' {
		start = 1
	}
	if end := run(text, start, other); end > start {
		return end
	}
	return 0
}

// blanks measures white space: with lines, up to the last line break in it;
// otherwise all of it at the end of the text, else all but the last character,
// which goes with the word that follows.
func blanks(text string, lines bool) int {
	end, last, afterBreak := 0, 0, 0
	for end < len(text) {
		c, n := first(text[end:])
		if c != space {
			break
		}
		if text[end] == '\r' || text[end] == '\n' {
			afterBreak = end + n
		}
		last = end
		end += n
	}
	switch {
	case lines && afterBreak > 0:
		return afterBreak
	case end == len(text) || last == 0:
		return end
	}
	return last
}
