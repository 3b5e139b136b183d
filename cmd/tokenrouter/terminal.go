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
		o.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if width, _, err := c.GetTermSize(); err == nil {
			o.Width = width
		}
	}
	return t.Terminal(w, o)
}
