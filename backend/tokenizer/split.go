package tokenizer

import (
	"strings"
	"unicode"

	"github.com/dlclark/regexp2/v2"
)

// step cuts a piece of text into smaller ones: one pre-tokenizer. Pieces are not
// empty. Steps run one after the other as the file lists them: folded into one
// pattern they would cut elsewhere.
type step interface {
	split(text string, yield func(piece string))
}

// split applies the steps from the first to the last.
func split(steps []step, text string, yield func(piece string)) {
	switch {
	case text == "":
	case len(steps) == 0:
		yield(text)
	default:
		steps[0].split(text, func(piece string) { split(steps[1:], piece, yield) })
	}
}

// scanStep cuts by a pattern known by heart, whose matches leave no gap.
type scanStep struct{ scan scanner }

func (s scanStep) split(text string, yield func(string)) {
	for text != "" {
		n := s.scan(text)
		yield(text[:n])
		text = text[n:]
	}
}

// patternStep cuts by any other pattern. Of matches and what lies between them
// it drops one, if asked to.
type patternStep struct {
	re              *regexp2.Regexp
	dropMatches     bool
	dropWhatBetween bool
}

func newPatternStep(pattern string) (patternStep, error) {
	// The stack grows with the text, which has a limit elsewhere; a match that
	// gave up would be a request that nobody can explain.
	re, err := regexp2.Compile(pattern, regexp2.OptionMaxBacktrackingStackSize(-1))
	return patternStep{re: re}, err
}

func (s patternStep) split(text string, yield func(string)) {
	part := func(from, to int, drop bool) {
		if from < to && !drop {
			yield(text[from:to])
		}
	}
	matches, err := s.re.FindAllStringIndex(text, -1)
	if err != nil {
		panic("tokenizer: a pattern without limits gave up: " + err.Error())
	}
	done := 0
	for _, m := range matches {
		part(done, m[0], s.dropWhatBetween)
		part(m[0], m[1], s.dropMatches)
		done = m[1]
	}
	part(done, len(text), s.dropWhatBetween)
}

// stringStep cuts at a fixed string.
type stringStep struct {
	at                           string
	dropMatches, dropWhatBetween bool
}

func (s stringStep) split(text string, yield func(string)) {
	for text != "" {
		between, rest, found := strings.Cut(text, s.at)
		if between != "" && !s.dropWhatBetween {
			yield(between)
		}
		if found && !s.dropMatches {
			yield(s.at)
		}
		text = rest
	}
}

// digitStep sets numbers apart: each digit alone, or in runs.
type digitStep struct{ alone bool }

func (s digitStep) split(text string, yield func(string)) {
	start := 0
	wasNumber := false
	for i, r := range text {
		isNumber := unicode.IsNumber(r)
		if i > start && (isNumber != wasNumber || isNumber && s.alone) {
			yield(text[start:i])
			start = i
		}
		wasNumber = isNumber
	}
	yield(text[start:])
}

// spaceStep puts a space before a text that has none: add_prefix_space.
type spaceStep struct{}

func (spaceStep) split(text string, yield func(string)) {
	if text[0] != ' ' {
		text = " " + text
	}
	yield(text)
}
