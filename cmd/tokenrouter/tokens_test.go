package main

import (
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
)

// A text is coloured and marked by whoever wrote it, ends in plain colour at the
// start of a line, and cannot steer the terminal.
func TestTokensShowTheWriter(t *testing.T) {
	chunks := []subserver.Chunk{
		{Text: "It ", Writer: 0}, {Text: "was", Writer: 0}, {Text: " a ", Writer: 1}, {Writer: 1, Tokens: []algorithms.Token{7}},
		{Text: "dark", Writer: 1}, {Text: " and\n", Writer: 0}, {Text: "\x1b[2Jstormy", Writer: 1},
	}
	for _, c := range []struct {
		name             string
		colour, mark, tt bool
		want             string
	}{
		{"plain", false, false, false, "It was a dark and\n\x1b[2Jstormy\n"},
		{"marked", false, true, false, "It was⟪ a dark⟫ and\n⟪\x1b[2Jstormy⟫\n"},
		{"terminal", true, false, true, "It was\x1b[1;33m a dark\x1b[0m and\n\x1b[1;33m·[2Jstormy\x1b[0m\n"},
		{"both", true, true, true, "It was\x1b[1;33m⟪ a dark⟫\x1b[0m and\n\x1b[1;33m⟪·[2Jstormy⟫\x1b[0m\n"},
	} {
		var b strings.Builder
		out := &tokens{w: &b, o: &generateOptions{mark: c.mark}, colour: c.colour, terminal: c.tt}
		for i := range chunks {
			if err := out.chunk(&chunks[i]); err != nil {
				t.Fatal(err)
			}
		}
		out.end()
		if b.String() != c.want {
			t.Errorf("%s: %q, want %q", c.name, b.String(), c.want)
		}
	}
}
