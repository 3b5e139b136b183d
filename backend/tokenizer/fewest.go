package tokenizer

import "unicode/utf8"

// FewestTokens returns how many tokens text becomes at the least, without
// encoding it: whoever can take only so many need not pay for a text that is far
// too long. It is 0 where nothing is known, as for tokenizers that drop text.
// White space that an added token swallows counts as text.
func (t *Tokenizer) FewestTokens(text string) int {
	t.measure.Do(func() { t.longest = t.longestToken() })
	if t.longest == 0 {
		return 0
	}
	bytes := len(text)
	if t.nfc {
		// Composition joins characters, and the worst case in Unicode makes less
		// than four bytes one. A letter of ASCII takes part as the base of a
		// character that is longer than itself.
		ascii := 0
		for i := range len(text) {
			if text[i] < utf8.RuneSelf {
				ascii++
			}
		}
		bytes = ascii + (len(text)-ascii)/4
	}
	return (bytes + t.longest - 1) / t.longest
}

// longestToken returns the bytes of the longest token, 0 if text may vanish.
func (t *Tokenizer) longestToken() int {
	for _, token := range t.byteTokens {
		if token < 0 {
			return 0
		}
	}
	for _, s := range t.steps {
		switch s := s.(type) {
		case patternStep:
			if s.dropMatches || s.dropWhatBetween {
				return 0
			}
		case stringStep:
			if s.dropMatches || s.dropWhatBetween {
				return 0
			}
		}
	}
	longest := 1
	for _, entry := range t.entries {
		longest = max(longest, len(entry))
	}
	for i := range t.added {
		longest = max(longest, len(t.added[i].Content))
	}
	return longest
}
