package subserver

import (
	"strings"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend/tokenizer"
)

// teller turns the tokens of one request into the text that its client may see
// and finds stop strings, wherever tokens are cut.
type teller struct {
	detok Detokenizer            // nil: no text
	stops *tokenizer.StopMatcher // nil: no stop strings
	spare int                    // tokens to come before a stop string counts
}

func newTeller(r *Request, detok Detokenizer) teller {
	t := teller{detok: detok, spare: r.Sampling.MinTokens}
	if len(r.Stop) > 0 {
		t.stops = tokenizer.NewStopMatcher(r.Stop, r.ShowStop)
	}
	return t
}

// take takes tokens that were written one by one. It returns how many of them
// the client sees, the text that it may see now, and the stop string that ended
// it, if one did.
func (t *teller) take(tokens []algorithms.Token) (n int, text, stop string) {
	if t.detok == nil {
		return len(tokens), "", ""
	}
	if t.stops == nil {
		return len(tokens), t.detok.Next(tokens), ""
	}
	var shown strings.Builder
	for i := range tokens {
		text := t.detok.Next(tokens[i : i+1])
		if t.spare--; t.spare >= 0 {
			shown.WriteString(text) // no stop string may begin here
			continue
		}
		text, stopped := t.stops.Next(text)
		shown.WriteString(text)
		if stopped {
			stop, _ := t.stops.Matched()
			return i + 1, shown.String(), stop
		}
	}
	return len(tokens), shown.String(), ""
}

// rest returns the text that is left when no token follows, up to a stop string
// that it completes.
func (t *teller) rest() (text, stop string) {
	if t.detok == nil {
		return "", ""
	}
	text = t.detok.Rest()
	if t.stops == nil || t.spare > 0 {
		return text, ""
	}
	text, stopped := t.stops.Next(text)
	if stopped {
		stop, _ = t.stops.Matched()
		return text, stop
	}
	return text + t.stops.Rest(), ""
}
