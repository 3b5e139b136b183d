package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"

	"github.com/tokenrouter/tokenrouter/internal/report/figure"
)

// Page is one experiment's report: a single HTML file that loads nothing, needs
// no script and follows the reader's light or dark setting.
type Page struct {
	Title    string
	Question string
	Answers  []string // what came out, one sentence each, with numbers and units
	Figures  []NamedSVG
	Tables   []Table
	Settings []Setting
	Command  string // how to repeat it, as typed in a shell
	// Definitions explain the metrics in the tables, with their units.
	Definitions []Definition
	// Assumptions become numbered footnotes: what was assumed, derived or left out.
	Assumptions []string
	Files       []File // written beside the page
	Version     string
}

// NamedSVG is a figure as figure.WriteSVG writes it.
type NamedSVG struct {
	Name    string // anchor on the page: letters, digits and hyphens
	Caption string
	SVG     []byte
	Files   []File // the same picture in other forms
}

// Setting is a row of the settings of the experiment.
type Setting struct{ Name, Value string }

// Definition explains a metric.
type Definition struct{ Term, Unit, Text string }

// File is a file beside the page, linked by its relative name.
type File struct{ Name, About string }

//go:embed page.html
var pageSource string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// WriteHTML writes the page. It fails when a figure is not a plain SVG drawing,
// an anchor is unfit or used twice, or a table is ragged.
func (p *Page) WriteHTML(w io.Writer) error {
	v := view{Page: p, JS: template.JS(pageJS)}
	v.CSS = template.CSS(pageCSS + "@media (prefers-color-scheme: dark) {\n" + figure.DarkCSS() + "}\n")
	hash := sha256.Sum256([]byte(pageJS))
	v.ScriptHash = base64.StdEncoding.EncodeToString(hash[:])
	seen := map[string]bool{}
	for i := range p.Figures {
		f := &p.Figures[i]
		if !anchorOK(f.Name) || seen[f.Name] {
			return fmt.Errorf("report: figure %q: want a name of letters, digits and hyphens that no other figure has", f.Name)
		}
		seen[f.Name] = true
		points, err := checkSVG(f.SVG)
		if err != nil {
			return fmt.Errorf("report: figure %q: %w", f.Name, err)
		}
		v.Pictures = append(v.Pictures, picture{NamedSVG: f, Markup: template.HTML(f.SVG), Size: sizeCSS(points)})
	}
	for i := range p.Tables {
		if err := p.Tables[i].check(); err != nil {
			return err
		}
		v.Grids = append(v.Grids, newGrid(&p.Tables[i]))
	}
	for _, list := range [][]File{p.Files, p.figureFiles()} {
		for _, f := range list {
			if strings.ContainsAny(f.Name, ":\\") || strings.HasPrefix(f.Name, "/") || f.Name == "" {
				return fmt.Errorf("report: file %q: want a name relative to the page", f.Name)
			}
		}
	}
	var b bytes.Buffer // so that an error leaves no half page
	if err := pageTemplate.Execute(&b, v); err != nil {
		return fmt.Errorf("report: page %q: %w", p.Title, err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (p *Page) figureFiles() (out []File) {
	for _, f := range p.Figures {
		out = append(out, f.Files...)
	}
	return out
}

// view is what the template reads.
type view struct {
	*Page
	CSS        template.CSS
	JS         template.JS
	ScriptHash string
	Pictures   []picture
	Grids      []grid
}

type picture struct {
	*NamedSVG
	Markup template.HTML
	Size   template.CSS
}

// grid is a table with its emphasis resolved.
type grid struct {
	*Table
	Units bool
	Body  []gridRow
}

type gridRow struct {
	Best  bool
	Cells []gridCell
}

type gridCell struct {
	Text   string
	Number bool
	Head   bool // the cell names its row
}

func newGrid(t *Table) grid {
	g := grid{Table: t}
	for _, c := range t.Columns {
		g.Units = g.Units || c.Unit != ""
	}
	for i, r := range t.Rows {
		row := gridRow{Best: t.emphasised(i)}
		for k, cell := range r {
			row.Cells = append(row.Cells, gridCell{cell, t.Columns[k].Number, t.Columns[k].Key})
		}
		g.Body = append(g.Body, row)
	}
	return g
}

func anchorOK(s string) bool {
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-') {
			return false
		}
	}
	return s != ""
}

// sizeCSS shows a drawing at 1.3 times its printed size, since screens are read
// from further away than paper. Wide ones stop shrinking where their text would
// become too small, and scroll.
func sizeCSS(points float64) template.CSS {
	px := points * 96 / 72
	css := fmt.Sprintf("width:min(100%%,%.0fpx)", px*1.3)
	if points > 360 {
		css += fmt.Sprintf(";min-width:%.0fpx", points*1.15)
	}
	return template.CSS(css)
}

// drawn are the elements that drawings of the figure package consist of.
var drawn = map[string]bool{"svg": true, "title": true, "desc": true, "rect": true, "polyline": true, "polygon": true, "circle": true, "text": true}

var errNotSVG = errors.New("not an SVG document")

// checkSVG refuses everything but plain shapes and text, so that markup taken
// over unescaped can neither run nor load anything, and returns the width in points.
func checkSVG(svg []byte) (width float64, err error) {
	if bytes.Contains(svg, []byte("<![CDATA[")) {
		return 0, errors.New("CDATA is not allowed on the page")
	}
	d := xml.NewDecoder(bytes.NewReader(svg))
	depth, roots := 0, 0
	for {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errNotSVG, err)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			if depth == 0 {
				roots++
				if e.Name.Local != "svg" {
					return 0, errNotSVG
				}
				if width, err = rootWidth(e); err != nil {
					return 0, err
				}
			}
			depth++
			if !drawn[e.Name.Local] {
				return 0, fmt.Errorf("element <%s> is not allowed on the page", e.Name.Local)
			}
			for _, a := range e.Attr {
				if n := strings.ToLower(a.Name.Local); strings.HasPrefix(n, "on") || n == "href" || n == "style" {
					return 0, fmt.Errorf("attribute %s of <%s> is not allowed on the page", a.Name.Local, e.Name.Local)
				}
			}
		case xml.EndElement:
			depth--
		case xml.ProcInst, xml.Directive, xml.Comment:
			return 0, errors.New("declarations and comments are not allowed on the page")
		}
	}
	if roots != 1 {
		return 0, errNotSVG
	}
	return width, nil
}

func rootWidth(e xml.StartElement) (float64, error) {
	for _, a := range e.Attr {
		if a.Name.Local == "width" {
			v, err := strconv.ParseFloat(strings.TrimSuffix(a.Value, "pt"), 64)
			if err != nil || !(v > 0) {
				return 0, fmt.Errorf("width %q: want points", a.Value)
			}
			return v, nil
		}
	}
	return 0, errors.New("the drawing has no width")
}
