package report

import (
	"bytes"
	"encoding/xml"
	"io"
	"slices"
	"strings"
	"testing"
)

func html(t testing.TB, p *Page) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := p.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// node is a start tag with the text directly inside it.
type node struct {
	tag  string
	attr map[string]string
	text string
}

// void elements of HTML that the page uses.
var void = []string{"meta", "link", "br", "img", "input", "hr"}

// parse reads the page as XML with HTML's void elements, and fails where tags do
// not nest.
func parse(t testing.TB, page []byte) []node {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(page))
	d.Strict, d.Entity = false, xml.HTMLEntity
	var out []node
	var open []int
	for {
		tok, err := d.RawToken()
		if err == io.EOF {
			if len(open) > 0 {
				t.Fatalf("<%s> is not closed", out[open[len(open)-1]].tag)
			}
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			n := node{tag: e.Name.Local, attr: map[string]string{}}
			for _, a := range e.Attr {
				n.attr[a.Name.Local] = a.Value
			}
			out = append(out, n)
			if !slices.Contains(void, n.tag) {
				open = append(open, len(out)-1)
			}
		case xml.EndElement:
			if slices.Contains(void, e.Name.Local) {
				continue
			}
			if len(open) == 0 || out[open[len(open)-1]].tag != e.Name.Local {
				t.Fatalf("</%s> closes nothing", e.Name.Local)
			}
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				out[open[len(open)-1]].text += string(e)
			}
		}
	}
}

func TestPageHoldsEverything(t *testing.T) {
	p := trialPage(t)
	nodes := parse(t, html(t, p))
	count := map[string]int{}
	var all strings.Builder
	for _, n := range nodes {
		count[n.tag]++
		all.WriteString(n.text + "\n")
		if n.tag == "th" && n.attr["scope"] == "" {
			t.Errorf("<th>%s has no scope", n.text)
		}
		if n.tag == "svg" && (n.attr["role"] != "img" || n.attr["aria-label"] == "") {
			t.Error("a figure has no name for those who cannot see it")
		}
	}
	tab := p.Tables[0]
	for tag, want := range map[string]int{"svg": 4, "figure": 4, "figcaption": 4, "table": 1, "caption": 1, "tr": 1 + len(tab.Rows), "th": len(tab.Columns) + 3*len(tab.Rows), "h1": 1, "script": 1} {
		if count[tag] != want {
			t.Errorf("%d <%s>, want %d", count[tag], tag, want)
		}
	}
	texts := []string{p.Title, p.Question, p.Command, p.Version, p.Figures[0].Caption, tab.Note, tab.Rows[5][10], "results.csv"}
	texts = append(append(texts, p.Answers...), p.Assumptions...)
	for _, s := range p.Settings {
		texts = append(texts, s.Name, s.Value)
	}
	for _, d := range p.Definitions {
		texts = append(texts, d.Term, d.Unit, d.Text)
	}
	for _, want := range texts {
		if !strings.Contains(all.String(), want) {
			t.Errorf("%q is not on the page", want)
		}
	}
}

func TestPageLoadsNothing(t *testing.T) {
	page := html(t, trialPage(t))
	for _, n := range parse(t, page) {
		for _, a := range []string{"src", "srcset", "data", "action", "xlink"} {
			if v, ok := n.attr[a]; ok {
				t.Errorf("<%s> loads %s=%q", n.tag, a, v)
			}
		}
		if slices.Contains([]string{"link", "img", "iframe", "object", "form"}, n.tag) {
			t.Errorf("<%s> on the page", n.tag)
		}
	}
	for _, bad := range []string{"url(", "@import", "http:", "https:"} {
		if i := bytes.Index(bytes.ReplaceAll(page, []byte("http://www.w3.org/2000/svg"), nil), []byte(bad)); i >= 0 {
			t.Errorf("the page contains %s", bad)
		}
	}
	if len(page) > 120_000 {
		t.Errorf("%d bytes", len(page))
	}
}

func TestPageEscapes(t *testing.T) {
	bad := `</title></style></script><script>alert(1)</script><b onload=x>"'&`
	tab := Table{Title: bad, Columns: []Column{{Name: bad, Unit: bad}}, Rows: [][]string{{bad}}, Note: bad}
	p := &Page{Title: bad, Question: bad, Answers: []string{bad}, Tables: []Table{tab}, Settings: []Setting{{bad, bad}}, Command: bad,
		Definitions: []Definition{{bad, bad, bad}}, Assumptions: []string{bad}, Files: []File{{"a b.csv", bad}}, Version: bad}
	scripts := 0
	for _, n := range parse(t, html(t, p)) {
		if n.tag == "b" {
			t.Error("text became markup")
		}
		if n.tag == "script" {
			scripts++
		}
	}
	if scripts != 1 {
		t.Errorf("%d scripts", scripts)
	}
}

func TestEmptyPage(t *testing.T) {
	nodes := parse(t, html(t, &Page{Title: "nothing"}))
	for _, n := range nodes {
		if slices.Contains([]string{"table", "figure", "section", "footer"}, n.tag) {
			t.Errorf("<%s> on an empty page", n.tag)
		}
	}
}

func TestSamePageSameBytes(t *testing.T) {
	if !bytes.Equal(html(t, trialPage(t)), html(t, trialPage(t))) {
		t.Error("two pages of one input differ")
	}
}

func TestUnfitFiguresAreErrors(t *testing.T) {
	wrap := func(s string) string {
		return `<svg xmlns="http://www.w3.org/2000/svg" width="10pt" viewBox="0 0 1 1">` + s + `</svg>`
	}
	for _, svg := range []string{
		"", "text", "<p/>", wrap("<script>x</script>"), wrap("<foreignObject/>"), wrap(`<rect onclick="x"/>`), wrap(`<image href="x"/>`),
		wrap(`<rect style="fill:url(x)"/>`), wrap("<rect>"), wrap("") + wrap(""), "<!DOCTYPE svg>" + wrap(""), `<?xml version="1.0"?>` + wrap(""),
		`<svg xmlns="http://www.w3.org/2000/svg"/>`, `<svg width="-1pt"/>`, wrap("<!-- x -->"), wrap("<![CDATA[<script>]]>"),
	} {
		p := &Page{Figures: []NamedSVG{{Name: "a", SVG: []byte(svg)}}}
		if err := p.WriteHTML(io.Discard); err == nil {
			t.Errorf("%q was taken", svg)
		}
	}
	good := []byte(wrap("<rect/>"))
	for _, names := range [][]string{{""}, {"a b"}, {"a", "a"}, {`"`}} {
		p := &Page{}
		for _, n := range names {
			p.Figures = append(p.Figures, NamedSVG{Name: n, SVG: good})
		}
		if err := p.WriteHTML(io.Discard); err == nil {
			t.Errorf("names %q were taken", names)
		}
	}
	for _, f := range []string{"", "/etc/passwd", "javascript:x", "http://x"} {
		if err := (&Page{Files: []File{{Name: f}}}).WriteHTML(io.Discard); err == nil {
			t.Errorf("file %q was taken", f)
		}
	}
}

// FuzzCheckSVG: whatever passes has only drawing elements and no attribute that acts.
func FuzzCheckSVG(f *testing.F) {
	f.Add([]byte(`<svg width="10pt"><rect/></svg>`))
	f.Add([]byte(`<svg width="10pt"><title>a &lt; b</title></svg>`))
	f.Add([]byte(`<svg width="1"><a/></svg>`))
	f.Fuzz(func(t *testing.T, svg []byte) {
		if _, err := checkSVG(svg); err != nil {
			return
		}
		low := bytes.ToLower(svg)
		for _, bad := range []string{"<script", "<iframe", "<foreignobject", "<a ", "<!--", "<?", "<!doctype"} {
			if i := bytes.Index(low, []byte(bad)); i >= 0 && !insideQuotes(svg, i) {
				t.Errorf("%s passed in %q", bad, svg)
			}
		}
	})
}

// insideQuotes tells whether position i lies in an attribute value.
func insideQuotes(svg []byte, i int) bool {
	quote := byte(0)
	tag := false
	for _, c := range svg[:i] {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && c == '<':
			tag = true
		case quote == 0 && c == '>':
			tag = false
		case quote == 0 && tag && (c == '"' || c == '\''):
			quote = c
		}
	}
	return quote != 0
}
