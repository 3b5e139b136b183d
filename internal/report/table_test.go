package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jedib0t/go-pretty/v6/text"
	"pgregory.net/rapid"
)

func terminal(t testing.TB, tab Table, o TerminalOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := tab.Terminal(&b, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func small() Table {
	return Table{
		Title:    "Results",
		Columns:  []Column{{Name: "system", Key: true}, {Name: "B", Number: true}, {Name: "throughput", Unit: "tok/s", Number: true}, {Name: "remark"}},
		Rows:     [][]string{{"tokenrouter", "7", "374.3", ""}, {"异步", "1", "304.1", "B does not matter"}},
		Emphasis: []int{0},
		Note:     "Over 3 seeds.",
	}
}

func TestTerminalTable(t *testing.T) {
	want := `Results
system       B  throughput  remark
                     tok/s
───────────────────────────────────────────────
tokenrouter  7       374.3
异步         1       304.1  B does not matter
Over 3 seeds.
`
	if d := cmp.Diff(want, terminal(t, small(), TerminalOptions{})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want, terminal(t, small(), TerminalOptions{Width: 80})); d != "" {
		t.Errorf("wide terminal: %s", d)
	}
}

func TestWithoutColourNoEscapes(t *testing.T) {
	if out := terminal(t, small(), TerminalOptions{}); strings.Contains(out, "\x1b") {
		t.Errorf("escape sequences without colour: %q", out)
	}
	out := terminal(t, small(), TerminalOptions{Colour: true})
	if !strings.Contains(out, "\x1b[1mtokenrouter\x1b[0m") {
		t.Errorf("the best row is not bold: %q", out)
	}
	if d := cmp.Diff(terminal(t, small(), TerminalOptions{}), text.StripEscape(out)); d != "" {
		t.Errorf("colour changes the layout: %s", d)
	}
}

func TestNarrowTerminalRepeatsKeys(t *testing.T) {
	tab := resultTable()
	out := terminal(t, tab, TerminalOptions{Width: 60})
	if n := strings.Count(out, "single:large"); n < 2 {
		t.Errorf("key column stands %d times:\n%s", n, out)
	}
	for _, c := range tab.Columns {
		if !strings.Contains(out, c.Name) {
			t.Errorf("column %q is lost", c.Name)
		}
	}
	for line := range strings.Lines(out) {
		if w := text.StringWidth(strings.TrimRight(line, "\n")); w > 60 {
			t.Errorf("%d columns wide: %q", w, line)
		}
	}
	for _, word := range strings.Fields("not applicable: one model has no hand-offs, so there is no B to choose") {
		if !strings.Contains(out, word) {
			t.Errorf("%q is lost or broken", word)
		}
	}
}

func TestNamesCannotCommandTheTerminal(t *testing.T) {
	tab := Table{Title: "a\x1b[31mb", Columns: []Column{{Name: "c\nd"}}, Rows: [][]string{{"e\x07\rf\u009b2J"}}, Note: "n\x1b]0;x\x07"}
	if out := terminal(t, tab, TerminalOptions{}); strings.ContainsAny(out, "\x1b\x07\r\u009b") {
		t.Errorf("control characters came through: %q", out)
	}
}

func TestRaggedTablesAreErrors(t *testing.T) {
	for _, tab := range []Table{
		{Title: "no columns"},
		{Columns: []Column{{Name: "a"}}, Rows: [][]string{{"1", "2"}}},
		{Columns: []Column{{Name: "a"}}, Rows: [][]string{{"1"}}, Emphasis: []int{1}},
	} {
		var b bytes.Buffer
		if tab.Terminal(&b, TerminalOptions{}) == nil || tab.Markdown(&b) == nil || (&Page{Tables: []Table{tab}}).WriteHTML(&b) == nil {
			t.Errorf("%+v was taken", tab)
		}
		if b.Len() > 0 {
			t.Errorf("%q was written before the error", b.String())
		}
	}
}

func TestMarkdown(t *testing.T) {
	tab := small()
	tab.Rows[1][3] = "a|b <c> x_y *z*"
	var b bytes.Buffer
	if err := tab.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	want := `**Results**

| system          |     B | throughput (tok/s) | remark                |
|:--------------- | -----:| ------------------:|:--------------------- |
| **tokenrouter** | **7** |          **374.3** |                       |
| 异步            |     1 |              304.1 | a\|b &lt;c> x\_y \*z\* |

Over 3 seeds.
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

// TestAnyTableKeepsItsNumbers: whatever the width, every number is printed whole.
func TestAnyTableKeepsItsNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := Table{}
		for c := range rapid.IntRange(1, 8).Draw(t, "columns") {
			tab.Columns = append(tab.Columns, Column{Name: rapid.StringMatching(`[a-z ]{0,12}`).Draw(t, "name"), Unit: rapid.SampledFrom([]string{"", "ms", "tok/s"}).Draw(t, "unit"), Number: c > 0, Key: c == 0})
		}
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			var row []string
			for c := range tab.Columns {
				if c == 0 {
					row = append(row, rapid.StringMatching(`[a-z]{0,40}`).Draw(t, "key"))
				} else {
					row = append(row, rapid.StringMatching(`[1-9][0-9]{0,9}\.[0-9]{2}`).Draw(t, "number"))
				}
			}
			tab.Rows = append(tab.Rows, row)
		}
		var b bytes.Buffer
		if err := tab.Terminal(&b, TerminalOptions{Width: rapid.IntRange(0, 120).Draw(t, "width")}); err != nil {
			t.Fatal(err)
		}
		for _, r := range tab.Rows {
			for _, cell := range r[1:] {
				if !strings.Contains(b.String(), cell) {
					t.Fatalf("%s is lost in\n%s", cell, b.String())
				}
			}
		}
	})
}
