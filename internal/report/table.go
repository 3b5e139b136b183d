package report

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Column is the head of one column.
type Column struct {
	Name string
	Unit string // "token/s"; empty for names and pure numbers
	// Number sets the column flush right and sorts it by value.
	Number bool
	// Key columns say what a row is. Where a table is too wide for the terminal
	// and continues below itself, they are repeated.
	Key bool
}

// Table holds printed values; whoever fills it decides on digits.
type Table struct {
	Title   string
	Columns []Column
	Rows    [][]string // each as long as Columns
	// Emphasis lists rows to stand out, such as the best B.
	Emphasis []int
	Note     string // one line below the table
}

// TerminalOptions say what the terminal can do.
type TerminalOptions struct {
	// Colour allows bold and faint text. The caller looks at NO_COLOR and at
	// whether the output is a terminal.
	Colour bool
	// Width is the number of columns of the terminal; 0 means no limit.
	Width int
}

const (
	minWidth     = 20 // a narrower terminal gets this and wraps by itself
	columnSpace  = 2  // what the style puts round a cell
	widestNarrow = 28 // a text column may wrap down to this before the table splits
)

func (t *Table) check() error {
	if len(t.Columns) == 0 {
		return fmt.Errorf("report: table %q has no columns", t.Title)
	}
	for i, r := range t.Rows {
		if len(r) != len(t.Columns) {
			return fmt.Errorf("report: table %q, row %d: %d cells for %d columns", t.Title, i, len(r), len(t.Columns))
		}
	}
	for _, i := range t.Emphasis {
		if i < 0 || i >= len(t.Rows) {
			return fmt.Errorf("report: table %q emphasises row %d of %d", t.Title, i, len(t.Rows))
		}
	}
	return nil
}

func (t *Table) emphasised(row int) bool {
	for _, i := range t.Emphasis {
		if i == row {
			return true
		}
	}
	return false
}

// Terminal writes the table for a terminal. A table that is too wide first wraps
// its columns of text, then continues below itself with the key columns repeated.
func (t *Table) Terminal(w io.Writer, o TerminalOptions) error {
	if err := t.check(); err != nil {
		return err
	}
	var b strings.Builder
	if t.Title != "" {
		title := plain(t.Title)
		if o.Width > 0 {
			title = text.WrapSoft(title, max(o.Width, minWidth))
		}
		b.WriteString(bold(title, o.Colour) + "\n")
	}
	for i, block := range t.blocks(o.Width) {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(t.render(block, o))
		b.WriteString("\n")
	}
	if t.Note != "" {
		note := plain(t.Note)
		if o.Width > 0 {
			note = text.WrapSoft(note, max(o.Width, minWidth))
		}
		b.WriteString(faint(note, o.Colour) + "\n")
	}
	_, err := io.WriteString(w, trimLines(b.String()))
	return err
}

// trimLines drops the blanks that pad cells at the end of lines.
func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// bold and faint write escape sequences themselves, since those of go-pretty
// hang on a switch that is global to the process.
func bold(s string, colour bool) string  { return styled(s, "1", colour) }
func faint(s string, colour bool) string { return styled(s, "2", colour) }

func styled(s, code string, colour bool) string {
	if !colour || s == "" {
		return s
	}
	lines := strings.Split(s, "\n")
	for i := range lines {
		if lines[i] != "" {
			lines[i] = "\x1b[" + code + "m" + lines[i] + "\x1b[0m"
		}
	}
	return strings.Join(lines, "\n")
}

// plain replaces control characters, so that a name from a file can neither
// break the table nor command the terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}

// natural is the width of column c without wrapping, space round it included.
func (t *Table) natural(c int) int {
	w := max(text.StringWidth(plain(t.Columns[c].Name)), text.StringWidth(plain(t.Columns[c].Unit)))
	for _, r := range t.Rows {
		w = max(w, text.StringWidth(plain(r[c])))
	}
	return w + columnSpace
}

// width is what column c takes in a terminal of the given width: text wraps
// where it is wide, numbers never.
func (t *Table) width(c, terminal int) int {
	w := t.natural(c)
	if terminal <= 0 || t.Columns[c].Number {
		return w
	}
	return min(w, max(widestNarrow+columnSpace, terminal/4))
}

// blocks distributes the columns over tables that each fit the width.
func (t *Table) blocks(terminal int) [][]int {
	total := 0
	var keys, all []int
	for c := range t.Columns {
		all = append(all, c)
		total += t.natural(c)
		if t.Columns[c].Key {
			keys = append(keys, c)
		}
	}
	if terminal <= 0 || total <= terminal {
		return [][]int{all}
	}
	terminal = max(terminal, minWidth)
	keyWidth := 0
	for _, c := range keys {
		keyWidth += t.width(c, terminal)
	}
	var blocks [][]int
	block, used := append([]int(nil), keys...), keyWidth
	for _, c := range all {
		if t.Columns[c].Key {
			continue
		}
		if w := t.width(c, terminal); used+w > terminal && len(block) > len(keys) {
			blocks = append(blocks, block)
			block, used = append([]int(nil), keys...), keyWidth
		}
		block, used = append(block, c), used+t.width(c, terminal)
	}
	return append(blocks, block)
}

// render prints some of the columns.
func (t *Table) render(columns []int, o TerminalOptions) string {
	w := table.NewWriter()
	w.SetStyle(terminalStyle())
	var names, units table.Row
	var configs []table.ColumnConfig
	anyUnit := false
	for i, c := range columns {
		col := t.Columns[c]
		names = append(names, bold(plain(col.Name), o.Colour))
		units = append(units, faint(plain(col.Unit), o.Colour))
		anyUnit = anyUnit || col.Unit != ""
		cfg := table.ColumnConfig{Number: i + 1, Align: text.AlignLeft, AlignHeader: text.AlignLeft}
		if col.Number {
			cfg.Align, cfg.AlignHeader = text.AlignRight, text.AlignRight
		} else if o.Width > 0 {
			cfg.WidthMaxEnforcer = text.WrapSoft
			cfg.WidthMax = t.width(c, max(o.Width, minWidth)) - columnSpace
		}
		configs = append(configs, cfg)
	}
	w.SetColumnConfigs(configs)
	w.AppendHeader(names)
	if anyUnit {
		w.AppendHeader(units)
	}
	for k, r := range t.Rows {
		row := make(table.Row, len(columns))
		for i, c := range columns {
			row[i] = plain(r[c])
			if t.emphasised(k) {
				row[i] = bold(plain(r[c]), o.Colour)
			}
		}
		w.AppendRow(row)
	}
	return w.Render()
}

// terminalStyle is a rule under the head and nothing else.
func terminalStyle() table.Style {
	s := table.StyleLight
	s.Options = table.Options{SeparateHeader: true}
	s.Format.Header = text.FormatDefault
	s.Box.PaddingLeft, s.Box.PaddingRight = "", "  "
	return s
}

// Markdown writes the table in the dialect of GitHub.
func (t *Table) Markdown(w io.Writer) error {
	if err := t.check(); err != nil {
		return err
	}
	p := table.NewWriter()
	style := table.StyleLight
	style.Markdown.PadContent = true // the source is read too
	p.SetStyle(style)
	var head table.Row
	var configs []table.ColumnConfig
	for i, c := range t.Columns {
		name := plain(c.Name)
		if c.Unit != "" {
			name += " (" + plain(c.Unit) + ")"
		}
		head = append(head, markdownText(name))
		cfg := table.ColumnConfig{Number: i + 1, Align: text.AlignLeft}
		if c.Number {
			cfg.Align, cfg.AlignHeader = text.AlignRight, text.AlignRight
		}
		configs = append(configs, cfg)
	}
	p.SetColumnConfigs(configs)
	p.AppendHeader(head)
	for k, r := range t.Rows {
		row := make(table.Row, len(r))
		for i, cell := range r {
			row[i] = markdownText(plain(cell))
			if t.emphasised(k) && cell != "" {
				row[i] = "**" + markdownText(plain(cell)) + "**"
			}
		}
		p.AppendRow(row)
	}
	out := p.RenderMarkdown() + "\n"
	if t.Title != "" {
		out = "**" + markdownText(plain(t.Title)) + "**\n\n" + out
	}
	if t.Note != "" {
		out += "\n" + markdownText(plain(t.Note)) + "\n"
	}
	_, err := io.WriteString(w, out)
	return err
}

// markdownText keeps names such as a_b and <x> as they are. Pipes are escaped by
// go-pretty.
func markdownText(s string) string {
	return strings.NewReplacer("\\", "\\\\", "*", "\\*", "_", "\\_", "`", "\\`", "<", "&lt;", "&", "&amp;", "[", "\\[").Replace(s)
}
