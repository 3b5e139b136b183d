package main

import (
	"io"
	"os"

	"github.com/vbauerster/cupwriter"

	"github.com/tokenrouter/tokenrouter/internal/report"
)

// printTable writes a table the way w can show it: bold only on a terminal
// and without NO_COLOR, no wider than the terminal.
func printTable(w io.Writer, t *report.Table) error {
	o := report.TerminalOptions{}
	if c := cupwriter.New(w, false); c.IsTerminal() {
		o.Colour = hasColours(w)
		if width, _, err := c.GetTermSize(); err == nil {
			o.Width = width
		}
	}
	return t.Terminal(w, o)
}

// hasColours reports whether w is a terminal that shows colours, and may.
func hasColours(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func isTerminal(w io.Writer) bool { return cupwriter.New(w, false).IsTerminal() }
