package main

import (
	"fmt"
	"io"
	"math"
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

// figureText writes a figure with four digits, a dash for one that was not
// observed.
func figureText(x float64) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "–"
	case math.Abs(x) >= 1000:
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.4g", x)
}

// hasColours reports whether w is a terminal that shows colours, and may.
func hasColours(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func isTerminal(w io.Writer) bool { return cupwriter.New(w, false).IsTerminal() }
