package tokenizer

// StopMatcher looks for stop strings in text that comes in pieces. It holds back
// text that could be the start of one, so that nobody sees half of it. How the
// text is cut into pieces changes nothing but when text is shown.
//
// The match that ends first counts, since generation stops there; of several
// that end at the same place, the longest, which hides the most; of equal
// strings, the first.
type StopMatcher struct {
	stops   []stop
	show    bool
	held    []byte // shown if no stop string comes of it
	matched int    // index of the stop string found, or -1
}

// stop is a stop string and how far into it the text has come: the usual
// automaton of Knuth, Morris and Pratt.
type stop struct {
	text    string
	failure []int // by length: the longest proper prefix that is a suffix too
	at      int   // bytes of text that the input ends with
}

// NewStopMatcher returns a matcher for one request. Empty stop strings match
// nothing. With show the matched string is shown before the text ends.
func NewStopMatcher(stops []string, show bool) *StopMatcher {
	m := &StopMatcher{show: show, matched: -1}
	for _, text := range stops {
		m.stops = append(m.stops, newStop(text))
	}
	return m
}

func newStop(text string) stop {
	s := stop{text: text, failure: make([]int, len(text)+1)}
	for i := 1; i < len(text); i++ {
		k := s.failure[i]
		for k > 0 && text[k] != text[i] {
			k = s.failure[k]
		}
		if text[k] == text[i] {
			k++
		}
		s.failure[i+1] = k
	}
	return s
}

// advance takes one byte in and says whether the string is complete.
func (s *stop) advance(c byte) bool {
	if s.text == "" {
		return false
	}
	for s.at > 0 && s.text[s.at] != c {
		s.at = s.failure[s.at]
	}
	if s.text[s.at] == c {
		s.at++
	}
	return s.at == len(s.text)
}

// Next takes the text that follows and returns what may be shown now; stopped
// says that a stop string was found. After that all text is hidden.
func (m *StopMatcher) Next(text string) (shown string, stopped bool) {
	if m.matched >= 0 {
		return "", true
	}
	for i := range len(text) {
		m.held = append(m.held, text[i])
		for j := range m.stops {
			if m.stops[j].advance(text[i]) && (m.matched < 0 || len(m.stops[j].text) > len(m.stops[m.matched].text)) {
				m.matched = j
			}
		}
		if m.matched >= 0 {
			keep := len(m.held)
			if !m.show {
				keep -= len(m.stops[m.matched].text)
			}
			shown = string(m.held[:keep])
			m.held = nil
			return shown, true
		}
	}
	// A stop string begins with a whole character, so the cut is between two.
	cut := len(m.held)
	for j := range m.stops {
		cut = min(cut, len(m.held)-m.stops[j].at)
	}
	shown = string(m.held[:cut])
	m.held = append(m.held[:0], m.held[cut:]...)
	return shown, false
}

// Rest returns what is held back, when no text follows. After a match that is
// nothing.
func (m *StopMatcher) Rest() string {
	rest := string(m.held)
	m.held = nil
	for j := range m.stops {
		m.stops[j].at = 0
	}
	return rest
}

// Matched returns the stop string that was found.
func (m *StopMatcher) Matched() (text string, ok bool) {
	if m.matched < 0 {
		return "", false
	}
	return m.stops[m.matched].text, true
}
