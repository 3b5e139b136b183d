package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
)

// section is a normalizer, pre-tokenizer, post-processor or decoder. Errors about
// one begin with the path to it within its section, so that they read
// "pre_tokenizer.pretokenizers[1].type is …".
type section struct {
	Type string `json:"type"`

	Normalizers   []json.RawMessage `json:"normalizers"`
	Pretokenizers []json.RawMessage `json:"pretokenizers"`
	Processors    []json.RawMessage `json:"processors"`
	Decoders      []json.RawMessage `json:"decoders"`

	// Of Split.
	Pattern *struct {
		Regex  *string
		String *string
	} `json:"pattern"`
	Behavior string `json:"behavior"`
	Invert   bool   `json:"invert"`
	// Of Digits.
	IndividualDigits bool `json:"individual_digits"`
	// Of ByteLevel.
	AddPrefixSpace bool  `json:"add_prefix_space"`
	UseRegex       *bool `json:"use_regex"`
	// Of TemplateProcessing.
	Single        []templatePiece `json:"single"`
	SpecialTokens map[string]struct {
		IDs []int `json:"ids"`
	} `json:"special_tokens"`
}

type templatePiece struct {
	SpecialToken *struct{ ID string }
	Sequence     *struct{ ID string }
}

func readSection(text []byte) (s section, err error) {
	if err := unmarshal(text, &s); err != nil {
		return s, fmt.Errorf(": %w", err)
	}
	return s, nil
}

func unsupported(kind, supported string) error {
	return fmt.Errorf(".type is %q, which is %w: only %s", short(kind), ErrUnsupported, supported)
}

// each reads the sections of a list and wraps what goes wrong in one.
func each(name string, list []json.RawMessage, read func(i int, text []byte) error) error {
	for i, text := range list {
		if err := read(i, text); err != nil {
			return fmt.Errorf(".%s[%d]%w", name, i, err)
		}
	}
	return nil
}

func readNormalizer(text string) (nfc bool, err error) {
	s, err := readSection([]byte(text))
	if err != nil {
		return false, err
	}
	switch s.Type {
	case "", "NFC":
		if s.Type == "" && text != "null" {
			return false, unsupported("", "NFC and Sequence")
		}
		return s.Type == "NFC", nil
	case "Sequence":
		err := each("normalizers", s.Normalizers, func(_ int, text []byte) error {
			one, err := readNormalizer(string(text))
			nfc = nfc || one
			return err
		})
		return nfc, err
	}
	return false, unsupported(s.Type, "NFC and Sequence")
}

// normalizeAdded normalizes the tokens that are looked for in normalized text.
func (t *Tokenizer) normalizeAdded() {
	t.inNormalized = newTrie()
	for i, a := range t.added {
		if a.Normalized {
			t.inNormalized.add(compose(a.Content), int32(i))
		}
	}
}

func readSteps(text string) ([]step, error) {
	steps, bytes, err := readPretokenizer([]byte(text))
	if err == nil && !bytes {
		err = unsupported("", "a Sequence with ByteLevel at its end, or ByteLevel alone")
	}
	return steps, err
}

const pretokenizers = "Sequence, Split, Digits and ByteLevel"

// readPretokenizer also says whether the section maps bytes to characters, after
// which no other may come: it would see those characters, not the text.
func readPretokenizer(text []byte) (steps []step, bytes bool, err error) {
	s, err := readSection(text)
	if err != nil {
		return nil, false, err
	}
	switch s.Type {
	case "Sequence":
		err := each("pretokenizers", s.Pretokenizers, func(_ int, text []byte) error {
			if bytes {
				return fmt.Errorf(" comes after ByteLevel, which must be the last")
			}
			var more []step
			var err error
			more, bytes, err = readPretokenizer(text)
			steps = append(steps, more...)
			return err
		})
		return steps, bytes, err
	case "Split":
		one, err := readSplit(s)
		return []step{one}, false, err
	case "Digits":
		return []step{digitStep{alone: s.IndividualDigits}}, false, nil
	case "ByteLevel":
		if s.AddPrefixSpace {
			steps = append(steps, spaceStep{})
		}
		if s.UseRegex == nil || *s.UseRegex {
			steps = append(steps, scanStep{scanGPT2})
		}
		return steps, true, nil
	}
	return nil, false, unsupported(s.Type, pretokenizers)
}

func readSplit(s section) (step, error) {
	if s.Behavior != "Isolated" && s.Behavior != "Removed" {
		return nil, fmt.Errorf(".behavior is %q, which is %w: only Isolated and Removed", short(s.Behavior), ErrUnsupported)
	}
	// Inverted, what is between the matches counts as what matches.
	drop := s.Behavior == "Removed"
	dropMatches, dropWhatBetween := drop && !s.Invert, drop && s.Invert
	switch {
	case s.Pattern == nil || (s.Pattern.Regex == nil) == (s.Pattern.String == nil):
		return nil, fmt.Errorf(".pattern has neither Regex nor String, or both")
	case s.Pattern.String != nil:
		if *s.Pattern.String == "" {
			return nil, fmt.Errorf(".pattern.String is empty")
		}
		return stringStep{at: *s.Pattern.String, dropMatches: dropMatches, dropWhatBetween: dropWhatBetween}, nil
	}
	if scan := knownScanner(*s.Pattern.Regex); scan != nil && !dropMatches {
		return scanStep{scan}, nil
	}
	step, err := newPatternStep(*s.Pattern.Regex)
	if err != nil {
		return nil, fmt.Errorf(".pattern.Regex: %w", err)
	}
	step.dropMatches, step.dropWhatBetween = dropMatches, dropWhatBetween
	return step, nil
}

func (t *Tokenizer) readPostProcessor(text string) error {
	s, err := readSection([]byte(text))
	if err != nil {
		return err
	}
	switch s.Type {
	case "ByteLevel": // moves offsets, adds no token
		return nil
	case "Sequence":
		return each("processors", s.Processors, func(_ int, text []byte) error { return t.readPostProcessor(string(text)) })
	case "TemplateProcessing":
		return t.readTemplateProcessing(s)
	case "":
		if text == "null" {
			return nil
		}
	}
	return unsupported(s.Type, "Sequence, TemplateProcessing and ByteLevel")
}

func (t *Tokenizer) readTemplateProcessing(s section) error {
	var before, after []Token
	seen := false
	for i, p := range s.Single {
		switch {
		case p.SpecialToken != nil:
			ids := s.SpecialTokens[p.SpecialToken.ID].IDs
			if len(ids) == 0 {
				return fmt.Errorf(".single[%d] names %q, which special_tokens lacks", i, short(p.SpecialToken.ID))
			}
			for _, id := range ids {
				if id < 0 || id >= len(t.entries) || t.entries[id] == "" {
					return fmt.Errorf(".special_tokens: %q has the id %d, which names nothing", short(p.SpecialToken.ID), id)
				}
				if seen {
					after = append(after, Token(id))
				} else {
					before = append(before, Token(id))
				}
			}
		case p.Sequence != nil && p.Sequence.ID == "A" && !seen:
			seen = true
		default:
			return fmt.Errorf(".single[%d] is neither a special token nor the only sequence A", i)
		}
	}
	if !seen {
		return fmt.Errorf(".single lacks the sequence A")
	}
	t.prefix = slices.Concat(before, t.prefix)
	t.suffix = slices.Concat(t.suffix, after)
	return nil
}

func readDecoder(text string) error {
	s, err := readSection([]byte(text))
	if err != nil {
		return err
	}
	switch s.Type {
	case "ByteLevel":
		return nil
	case "Sequence":
		if len(s.Decoders) == 1 {
			return each("decoders", s.Decoders, func(_ int, text []byte) error { return readDecoder(string(text)) })
		}
		return fmt.Errorf(".decoders has %d entries, which is %w: only one, ByteLevel", len(s.Decoders), ErrUnsupported)
	}
	return unsupported(s.Type, "ByteLevel")
}
