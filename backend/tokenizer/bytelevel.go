package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// A byte-level vocabulary spells each byte as one character that can be seen,
// so that a space is "Ġ": GPT-2's bytes_to_unicode. Bytes that Latin-1 prints
// stand for themselves, and the others for U+0100, U+0101 and so on, in order.
const alphabetSize = 256 + 68 // 68 bytes cannot be printed

var byteOf = func() (table [alphabetSize]int16) {
	for i := range table {
		table[i] = -1
	}
	next := 256
	for b := range 256 {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			table[b] = int16(b)
		} else {
			table[next] = int16(b)
			next++
		}
	}
	return table
}()

// appendUnspelled appends the bytes that a vocabulary entry stands for. An entry
// with a character outside the alphabet, as some added tokens have, stands for
// its own text, and mapped is false.
func appendUnspelled(dst []byte, entry string) (out []byte, mapped bool) {
	start := len(dst)
	for _, r := range entry {
		if r >= alphabetSize || byteOf[r] < 0 {
			return append(dst[:start], entry...), false
		}
		dst = append(dst, byte(byteOf[r]))
	}
	return dst, true
}

// prefixOfRune measures the longest prefix of b that begins a character's
// UTF-8, and says whether it is the whole character. A byte that begins none
// counts as a prefix of one byte: this is Unicode's "substitution of maximal
// subparts" (standard, section 3.9), as Python and Rust do it, where Go's own
// functions replace each byte or each run of bytes.
func prefixOfRune(b []byte) (n int, whole bool) {
	low, high, size := byte(0x80), byte(0xBF), 0
	switch c := b[0]; {
	case c < 0x80:
		return 1, true
	case c < 0xC2 || c > 0xF4:
		return 1, false
	case c < 0xE0:
		size = 2
	case c < 0xF0:
		size = 3
		switch c {
		case 0xE0: // below are overlong forms
			low = 0xA0
		case 0xED: // above are surrogates
			high = 0x9F
		}
	default:
		size = 4
		switch c {
		case 0xF0: // below are overlong forms
			low = 0x90
		case 0xF4: // above is no Unicode
			high = 0x8F
		}
	}
	for n = 1; n < size && n < len(b); n++ {
		if b[n] < low || b[n] > high {
			return n, false
		}
		low, high = 0x80, 0xBF
	}
	return n, n == size
}

// complete splits b into text whose broken characters are replaced by U+FFFD,
// and the at most three bytes at its end that more bytes could make a character.
func complete(b []byte) (text string, held []byte) {
	var out strings.Builder
	start := 0 // of what is good and not yet written
	for at := 0; at < len(b); {
		if b[at] < utf8.RuneSelf {
			at++
			continue
		}
		n, whole := prefixOfRune(b[at:])
		if whole {
			at += n
			continue
		}
		out.Write(b[start:at])
		if at+n == len(b) && extendable(b[at]) {
			return out.String(), b[at:]
		}
		out.WriteString("\uFFFD")
		at += n
		start = at
	}
	out.Write(b[start:])
	return out.String(), nil
}

// extendable tells a byte that begins a character of several.
func extendable(c byte) bool { return c >= 0xC2 && c <= 0xF4 }

// repair replaces what is no UTF-8, to the end.
func repair(b []byte) string {
	text, held := complete(b)
	if len(held) > 0 {
		text += "\uFFFD"
	}
	return text
}
