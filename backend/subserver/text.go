package subserver

import (
	"strings"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// teller turns the tokens of one request into the text that its client may see
// and finds stop strings, wherever tokens are cut. Text that may be the start
// of a stop string is held back until it is clear that it is not.
type teller struct {
	detok Detokenizer // nil: no text
	stops []string
	show  bool   // show the stop string as well
	held  string // not shown yet
	spare int    // tokens to come before a stop string counts
}

func newTeller(r *Request, detok Detokenizer) teller {
	return teller{detok: detok, stops: r.Stop, show: r.ShowStop, spare: r.Sampling.MinTokens}
}

// take takes tokens that were written one by one. It returns how many of them
// the client sees, the text that it may see now, and the stop string that ended
// it, if one did.
func (t *teller) take(tokens []algorithms.Token) (n int, text, stop string) {
	if t.detok == nil {
		return len(tokens), "", ""
	}
	if len(t.stops) == 0 {
		return len(tokens), t.detok.Next(tokens), ""
	}
	var shown strings.Builder
	for i := range tokens {
		t.held += t.detok.Next(tokens[i : i+1])
		if t.spare--; t.spare >= 0 {
			shown.WriteString(t.held) // no stop string may begin here
			t.held = ""
			continue
		}
		if out, stop := t.scan(); stop != "" {
			shown.WriteString(out)
			return i + 1, shown.String(), stop
		} else {
			shown.WriteString(out)
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
	t.held += t.detok.Rest()
	if t.spare > 0 {
		return t.held, ""
	}
	text, stop = t.scan()
	if stop == "" {
		text += t.held
	}
	t.held = ""
	return text, stop
}

// scan cuts off what may be shown. Of several stop strings the one that is
// complete first counts, among those the one that began first.
func (t *teller) scan() (text, stop string) {
	start, end := -1, len(t.held)+1
	for _, s := range t.stops {
		at := strings.Index(t.held, s)
		if at < 0 {
			continue
		}
		if e := at + len(s); e < end || e == end && at < start {
			start, end, stop = at, e, s
		}
	}
	if stop != "" {
		if t.show {
			start = end
		}
		text, t.held = t.held[:start], ""
		return text, stop
	}
	keep := 0
	for _, s := range t.stops {
		keep = max(keep, overlap(t.held, s))
	}
	cut := len(t.held) - keep
	text, t.held = t.held[:cut], t.held[cut:]
	return text, ""
}

// overlap is the length of the longest end of text that begins stop.
func overlap(text, stop string) int {
	for n := min(len(text), len(stop)-1); n > 0; n-- {
		if strings.HasSuffix(text, stop[:n]) {
			return n
		}
	}
	return 0
}
