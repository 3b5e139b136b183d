package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// parse builds a tokenizer from the text of a tokenizer.json.
func parse(text string) (*Tokenizer, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("is not UTF-8")
	}
	top, model, err := sections(text)
	if err != nil {
		return nil, err
	}
	t := empty()
	if err := unmarshal([]byte(orNull(top["added_tokens"])), &t.added); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	if err := t.readModel(model); err != nil {
		return nil, fmt.Errorf("model.%w", err)
	}
	if err := t.indexAdded(); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	if t.nfc, err = readNormalizer(orNull(top["normalizer"])); err != nil {
		return nil, fmt.Errorf("normalizer%w", err)
	}
	if t.nfc {
		t.normalizeAdded()
	}
	if t.steps, err = readSteps(orNull(top["pre_tokenizer"])); err != nil {
		return nil, fmt.Errorf("pre_tokenizer%w", err)
	}
	if err := t.readPostProcessor(orNull(top["post_processor"])); err != nil {
		return nil, fmt.Errorf("post_processor%w", err)
	}
	if err := readDecoder(orNull(top["decoder"])); err != nil {
		return nil, fmt.Errorf("decoder%w", err)
	}
	return t, nil
}

func empty() *Tokenizer {
	t := &Tokenizer{
		addedIDs: map[string]Token{}, merges: map[uint64]merge{},
		inText: newTrie(), inNormalized: newTrie(), anyAdded: newTrie(), specialText: newTrie(),
		bos: -1, pool: sync.Pool{New: newWorkspace},
	}
	for b := range t.byteTokens {
		t.byteTokens[b] = -1
	}
	return t
}

func orNull(text string) string { return cmp.Or(text, "null") }

// readModel reads the section "model", whose values model holds as text.
func (t *Tokenizer) readModel(model map[string]string) error {
	var kind string
	if err := unmarshal([]byte(orNull(model["type"])), &kind); err != nil {
		return fmt.Errorf("type: %w", err)
	}
	if kind != "" && kind != "BPE" { // the oldest files do not say
		return fmt.Errorf("type is %q, which is %w: only BPE is", kind, ErrUnsupported)
	}
	for _, f := range []struct {
		name string
		fine []string
		why  string
	}{
		{"dropout", []string{"", "null", "0", "0.0"}, "it makes tokens a matter of chance"},
		{"continuing_subword_prefix", []string{"", "null", `""`}, "byte-level vocabularies have none"},
		{"end_of_word_suffix", []string{"", "null", `""`}, "byte-level vocabularies have none"},
		{"byte_fallback", []string{"", "null", "false"}, "byte-level vocabularies need none"},
		{"ignore_merges", []string{"", "null", "false", "true"}, "it is true or false"},
	} {
		if !slices.Contains(f.fine, model[f.name]) {
			return fmt.Errorf("%s is %s, which is %w: %s", f.name, short(model[f.name]), ErrUnsupported, f.why)
		}
	}
	t.ignoreMerges = model["ignore_merges"] == "true"
	for _, name := range []string{"vocab", "merges"} {
		if model[name] == "" {
			return fmt.Errorf("%s is missing", name)
		}
	}
	if err := t.readVocab(model["vocab"]); err != nil {
		return fmt.Errorf("vocab: %w", err)
	}
	if err := t.readUnknown(model); err != nil {
		return err
	}
	if err := t.readMerges(model["merges"]); err != nil {
		return fmt.Errorf("merges: %w", err)
	}
	return nil
}

// readUnknown lets bytes that the vocabulary lacks become the unk_token, if there
// is one.
func (t *Tokenizer) readUnknown(model map[string]string) error {
	var name *string
	if err := unmarshal([]byte(orNull(model["unk_token"])), &name); err != nil {
		return fmt.Errorf("unk_token: %w", err)
	}
	missing := slices.Index(t.byteTokens[:], -1)
	if name == nil || missing < 0 {
		return nil
	}
	token, ok := t.ids[*name]
	switch {
	case !ok:
		return fmt.Errorf("unk_token is %q, which vocab lacks, as it lacks the byte %#x", short(*name), missing)
	case model["fuse_unk"] == "true":
		return fmt.Errorf("fuse_unk is true, and vocab lacks the byte %#x: only vocabularies of all bytes may say so", missing)
	}
	for b, have := range t.byteTokens {
		if have < 0 {
			t.byteTokens[b] = token
		}
	}
	return nil
}

// short cuts what an error quotes from a file.
func short(text string) string {
	if len(text) > 80 {
		return strings.ToValidUTF8(text[:80], "") + "…"
	}
	return text
}

func (t *Tokenizer) readVocab(text string) error {
	type entry struct {
		end, id int32
		mapped  bool
	}
	size := strings.Count(text, ":")
	entries := make([]entry, 0, size)
	arena := make([]byte, 0, len(text)/2) // one allocation for the bytes of all entries
	largest := 0
	s := &skimmer{text: text}
	s.space()
	err := s.object(func(key string) error {
		id, err := s.id()
		if err != nil {
			return fmt.Errorf("entry %q: %w", short(key), err)
		}
		start := len(arena)
		unspelled, mapped := appendUnspelled(arena[start:], key)
		arena = append(arena[:start], unspelled...)
		entries = append(entries, entry{int32(len(arena)), int32(id), mapped})
		largest = max(largest, id)
		return nil
	})
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return fmt.Errorf("is empty")
	}
	for _, a := range t.added {
		largest = max(largest, a.ID)
	}
	if largest > maxID {
		return fmt.Errorf("an added token has the id %d, above %d", largest, maxID)
	}
	t.entries = make([]string, largest+1)
	t.special = make([]bool, largest+1)
	t.ids = make(map[string]int32, len(entries))
	mapped := 0
	all := string(arena)
	start := int32(0)
	for _, e := range entries {
		text := all[start:e.end]
		start = e.end
		if text == "" {
			return fmt.Errorf("has an entry without text")
		}
		if t.entries[e.id] != "" {
			return fmt.Errorf("%q and %q have the same id %d", short(t.entries[e.id]), short(text), e.id)
		}
		t.entries[e.id] = text
		if e.mapped {
			mapped++
			t.ids[text] = e.id
			if len(text) == 1 {
				t.byteTokens[text[0]] = e.id
			}
		}
	}
	if len(t.ids) < mapped {
		return fmt.Errorf("has an entry twice")
	}
	return nil
}

func (t *Tokenizer) readMerges(text string) error {
	s := &skimmer{text: text}
	s.space()
	if s.text[s.at:] == "null" {
		return nil
	}
	t.merges = make(map[uint64]merge, len(t.ids))
	var buf []byte // the two tokens of a rule, one behind the other
	rank := int32(0)
	lookup := func(text []byte) (int32, error) {
		if id, ok := t.ids[string(text)]; ok {
			return id, nil
		}
		return 0, fmt.Errorf("%q of rule %d is not in vocab", short(string(text)), rank)
	}
	return s.array(func() error {
		left, right, err := s.mergeRule()
		if err != nil {
			return fmt.Errorf("rule %d: %w", rank, err)
		}
		var fine [2]bool
		buf, fine[0] = appendUnspelled(buf[:0], left)
		border := len(buf)
		buf, fine[1] = appendUnspelled(buf, right)
		if !fine[0] || !fine[1] {
			return fmt.Errorf("rule %d, %q and %q, is not spelled in the alphabet of bytes", rank, short(left), short(right))
		}
		a, err := lookup(buf[:border])
		if err != nil {
			return err
		}
		b, err := lookup(buf[border:])
		if err != nil {
			return err
		}
		joined, err := lookup(buf)
		if err != nil {
			return err
		}
		t.merges[pairOf(a, b)] = merge{rank, joined}
		rank++
		return nil
	})
}

// mergeRule reads one rule: "left right" in older files, ["left", "right"] in
// newer ones.
func (s *skimmer) mergeRule() (left, right string, err error) {
	if s.at < len(s.text) && s.text[s.at] == '"' {
		rule, err := s.str()
		if err != nil {
			return "", "", err
		}
		left, right, ok := strings.Cut(rule, " ")
		if !ok || strings.Contains(right, " ") {
			return "", "", fmt.Errorf("%q is not two entries with one space between", short(rule))
		}
		return left, right, nil
	}
	n := 0
	err = s.array(func() (err error) {
		left = right
		right, err = s.str()
		n++
		return err
	})
	if err == nil && n != 2 {
		err = fmt.Errorf("has %d entries, not 2", n)
	}
	return left, right, err
}

// indexAdded makes the added tokens findable.
func (t *Tokenizer) indexAdded() error {
	for i, a := range t.added {
		switch {
		case a.Content == "":
			return fmt.Errorf("the token with id %d has no content", a.ID)
		case a.ID < 0 || a.ID >= len(t.entries):
			return fmt.Errorf("%q has the id %d", short(a.Content), a.ID)
		}
		if other, ok := t.addedIDs[a.Content]; ok && int(other) != a.ID {
			return fmt.Errorf("%q has two ids, %d and %d", short(a.Content), other, a.ID)
		}
		// The reference library spells added tokens with the alphabet of bytes too
		// when it decodes; only in those outside ASCII can it be seen.
		unspelled, _ := appendUnspelled(nil, a.Content)
		if was := t.entries[a.ID]; was != "" && was != string(unspelled) {
			return fmt.Errorf("%q has the id %d, which vocab gives to %q", short(a.Content), a.ID, short(was))
		}
		t.addedIDs[a.Content] = Token(a.ID)
		t.entries[a.ID] = string(unspelled)
		t.special[a.ID] = t.special[a.ID] || a.Special
		t.anyAdded.add(a.Content, int32(i))
		if a.Special {
			t.specialText.add(a.Content, int32(i))
		}
		if a.Normalized {
			t.inNormalized.add(a.Content, int32(i))
		} else {
			t.inText.add(a.Content, int32(i))
		}
	}
	return nil
}
