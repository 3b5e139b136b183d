package figure

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// element is what tests read back from an SVG.
type element struct {
	tag, class, text string
}

func parseSVG(t interface{ Fatalf(string, ...any) }, svg []byte) []element {
	d := xml.NewDecoder(bytes.NewReader(svg))
	var out []element
	var open []int
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			el := element{tag: e.Name.Local}
			for _, a := range e.Attr {
				if a.Name.Local == "class" {
					el.class, _, _ = strings.Cut(a.Value, " f-")
					el.class, _, _ = strings.Cut(el.class, " k-")
				}
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Fatalf("attribute %s of <%s> is %q", a.Name.Local, el.tag, a.Value)
				}
			}
			open = append(open, len(out))
			out = append(out, el)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				out[open[len(open)-1]].text += string(e)
			}
		}
	}
}

func count(els []element, class string) (n int) {
	for _, e := range els {
		if e.class == class {
			n++
		}
	}
	return n
}

func texts(els []element) (out []string) {
	for _, e := range els {
		if e.tag == "text" {
			out = append(out, e.text)
		}
	}
	return out
}

func svgOf(t interface{ Fatalf(string, ...any) }, d Drawing) []element {
	var b bytes.Buffer
	if err := WriteSVG(&b, d); err != nil {
		t.Fatalf("%v", err)
	}
	return parseSVG(t, b.Bytes())
}

// checkScene fails where a shape leaves the page, and where text covers text.
func checkScene(t interface {
	Fatalf(string, ...any)
	Errorf(string, ...any)
}, s *scene, overlaps bool) {
	page := box{0, 0, s.width, s.height}
	var placed []box
	var names []string
	for i := range s.shapes {
		sh := &s.shapes[i]
		b := sh.bounds()
		if !b.inside(page) {
			t.Errorf("%s %q at %+v leaves the page %+v", sh.class, sh.text, b, page)
		}
		if sh.kind != label || sh.text == "" {
			continue
		}
		for k, o := range placed {
			if overlaps && b.overlap(o) > 0.1 {
				t.Errorf("%q covers %q", sh.text, names[k])
			}
		}
		placed, names = append(placed, b), append(names, sh.text)
	}
}

func TestNothingIsCutOrCovered(t *testing.T) {
	for name, d := range trials() {
		t.Run(name, func(t *testing.T) {
			s, err := d.layout()
			if err != nil {
				t.Fatal(err)
			}
			checkScene(t, s, true)
		})
	}
}

func TestQuickstartShowsItsData(t *testing.T) {
	els := svgOf(t, quickstart())
	for class, want := range map[string]int{
		"mark": 24, "error": 24, "cap": 48, "ring": 3, "ref": 9, "line": 3,
		"mark legend": 1, "line legend": 1, "ref legend": 3,
	} {
		if got := count(els, class); got != want {
			t.Errorf("%d of class %q, want %d", got, class, want)
		}
	}
	shown := texts(els)
	for _, want := range []string{"throughput (tok/s)", "threshold B of the large model (requests)", "routing probability p = 0.2",
		"delayed, chain", "delayed, simulated", "async", "alternate", "lockstep", "best B = 5", "best B = 6", "best B = 7", "0", "800", "8"} {
		if !slices.Contains(shown, want) {
			t.Errorf("%q is not on the page: %q", want, shown)
		}
	}
}

func TestMarksLieInTheirPanels(t *testing.T) {
	f := quickstart()
	s, err := f.layout()
	if err != nil {
		t.Fatal(err)
	}
	var frames []box
	for _, sh := range s.shapes {
		if sh.class == "axis" && len(sh.pts) == 3 {
			frames = append(frames, sh.bounds())
		}
	}
	if len(frames) != 3 {
		t.Fatalf("%d panels", len(frames))
	}
	n := 0
	for i := range s.shapes {
		if sh := &s.shapes[i]; sh.class == "mark" {
			if !slices.ContainsFunc(frames, sh.bounds().inside) {
				t.Errorf("mark at %v lies in no panel", sh.pts)
			}
			n++
		}
	}
	if n != 24 {
		t.Errorf("%d marks", n)
	}
}

// TestHeightsAreProportional: a mark's place is its value.
func TestHeightsAreProportional(t *testing.T) {
	f := &Figure{YFromZero: true, Facets: []Facet{{Series: []Series{{Name: "a", Style: Points, X: []float64{0, 1, 2}, Y: []float64{0, 50, 100}}}}}}
	s, err := f.layout()
	if err != nil {
		t.Fatal(err)
	}
	var p []pt
	for _, sh := range s.shapes {
		if sh.class == "mark" {
			p = append(p, sh.pts[0])
		}
	}
	if len(p) != 3 || math.Abs(p[0].y-2*p[1].y+p[2].y) > 1e-9 || math.Abs(p[0].x-2*p[1].x+p[2].x) > 1e-9 || p[2].y >= p[0].y {
		t.Errorf("marks at %v", p)
	}
}

func TestGapsSplitLines(t *testing.T) {
	nan := math.NaN()
	f := &Figure{Facets: []Facet{{Series: []Series{
		{Name: "gap", X: []float64{1, 2, 3, 4, 5}, Y: []float64{1, 2, nan, 4, 5}},
		{Name: "lone", X: []float64{1, 2, 3}, Y: []float64{nan, 2, math.Inf(1)}},
		{Name: "marks", Style: LinePoints, X: []float64{1, nan, 3}, Y: []float64{1, 2, 3}, Low: []float64{0, 1, nan}, High: []float64{2, 3, 4}},
	}}}}
	els := svgOf(t, f)
	if l, m, e := count(els, "line"), count(els, "mark"), count(els, "error"); l != 3 || m != 2 || e != 1 {
		t.Errorf("%d lines (want 2 and a dot), %d marks (want 2), %d intervals (want 1)", l, m, e)
	}
}

func TestLogAxisLeavesOutWhatItCannotShow(t *testing.T) {
	f := &Figure{YLog: true, Facets: []Facet{{Series: []Series{{Name: "a", Style: Points, X: []float64{1, 2, 3, 4}, Y: []float64{-1, 0, 10, 100}}}}}}
	if n := count(svgOf(t, f), "mark"); n != 2 {
		t.Errorf("%d marks, want 2", n)
	}
}

func TestBarsStandOnZero(t *testing.T) {
	s, err := published().layout()
	if err != nil {
		t.Fatal(err)
	}
	var feet []float64
	refs := 0
	for _, sh := range s.shapes {
		switch sh.class {
		case "bar":
			feet = append(feet, sh.bounds().y1)
		case "reference":
			refs++
		}
	}
	if len(feet) != 8 || slices.Max(feet)-slices.Min(feet) > 1e-9 || refs != 5 {
		t.Errorf("%d bars on %v, %d references", len(feet), feet, refs)
	}
	for _, want := range []string{"374.3", "220.9", "official", "published"} {
		if !slices.Contains(texts(svgOf(t, published())), want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestNamesKeepTheirColour(t *testing.T) {
	f := &Figure{Facets: []Facet{
		{Series: []Series{{Name: "a", X: []float64{1}, Y: []float64{1}}, {Name: "b", X: []float64{1}, Y: []float64{1}}}},
		{Series: []Series{{Name: "b", X: []float64{1}, Y: []float64{1}}, {Name: "c", Hue: "a", X: []float64{1}, Y: []float64{1}}}},
	}}
	l := newLooks(f)
	if l.of("a", false).k.name != "blue" || l.of("b", false).k.name != "vermillion" || l.of("c", false).k.name != "blue" {
		t.Errorf("looks %+v", l.entries)
	}
}

func TestMoreNamesThanColoursDiffer(t *testing.T) {
	var fc Facet
	for i := range 21 {
		fc.Series = append(fc.Series, Series{Name: string(rune('a' + i)), Style: LinePoints, X: []float64{1, 2}, Y: []float64{1, float64(i)}})
	}
	l := newLooks(&Figure{Facets: []Facet{fc}})
	type key struct {
		colour string
		mark   marker
		dash   int
	}
	seen := map[key]string{}
	for _, e := range l.entries {
		k := key{e.look.k.name, e.look.mark, len(e.look.dash)}
		if o, ok := seen[k]; ok {
			t.Errorf("%s looks like %s", e.name, o)
		}
		seen[k] = e.name
	}
}

func TestPNGHasItsSize(t *testing.T) {
	for _, dpi := range []int{200, 300} {
		var b bytes.Buffer
		f := single()
		if err := WritePNG(&b, f, dpi); err != nil {
			t.Fatal(err)
		}
		s, err := f.layout()
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := png.DecodeConfig(&b)
		if err != nil {
			t.Fatal(err)
		}
		w, h := s.width/72*float64(dpi), s.height/72*float64(dpi)
		if math.Abs(float64(cfg.Width)-w) > 1 || math.Abs(float64(cfg.Height)-h) > 1 {
			t.Errorf("%d dpi: %d × %d pixels, want %.0f × %.0f", dpi, cfg.Width, cfg.Height, w, h)
		}
	}
}

// TestPNGIsPainted reads pixels: the first bar is blue down to the axis.
func TestPNGIsPainted(t *testing.T) {
	f := published()
	var b bytes.Buffer
	if err := WritePNG(&b, f, 200); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.layout()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(s.shapes, func(sh shape) bool { return sh.class == "bar" })
	bar := s.shapes[i].bounds()
	at := func(x, y float64) [3]uint32 {
		r, g, b, _ := img.At(int(x/72*200), int(y/72*200)).RGBA()
		return [3]uint32{r >> 8, g >> 8, b >> 8}
	}
	if got := at((bar.x0+bar.x1)/2, bar.y1-3); got != [3]uint32{0x00, 0x72, 0xb2} {
		t.Errorf("inside the bar: %x", got)
	}
	if got := at(1, 1); got != [3]uint32{255, 255, 255} {
		t.Errorf("corner: %x", got)
	}
}

func TestSameDrawingSameBytes(t *testing.T) {
	first := map[string][2][]byte{}
	for name, d := range trials() {
		svg, img := render(t, d)
		first[name] = [2][]byte{svg, img}
	}
	for name, d := range trials() {
		svg, img := render(t, d)
		if !bytes.Equal(svg, first[name][0]) || !bytes.Equal(img, first[name][1]) {
			t.Errorf("%s differs between two runs", name)
		}
	}
}

// TestDrawingsMayBeWrittenAtOnce matters under the race detector.
func TestDrawingsMayBeWrittenAtOnce(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := errors.Join(WriteSVG(io.Discard, quickstart()), WritePNG(io.Discard, quickstart(), 100)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestSVGCarriesNoFontAndSaysWhatItShows(t *testing.T) {
	svg, _ := render(t, quickstart())
	for _, bad := range []string{"@font-face", "base64", "<style", "<script", " id="} {
		if bytes.Contains(svg, []byte(bad)) {
			t.Errorf("the SVG contains %s", bad)
		}
	}
	if !bytes.Contains(svg, []byte("Liberation Sans")) || !bytes.Contains(svg, []byte("<desc>throughput (tok/s) against")) {
		t.Error("no font name or no description")
	}
	if len(svg) > 60_000 {
		t.Errorf("%d bytes", len(svg))
	}
}

func TestTextIsEscaped(t *testing.T) {
	f := single()
	f.Title, f.YLabel = `<b> & "x" `+"\x00", "a<b"
	els := svgOf(t, f)
	if !slices.Contains(texts(els), "a<b") || count(els, "") == 0 {
		t.Errorf("texts %q", texts(els))
	}
	for _, e := range els {
		if e.tag == "b" {
			t.Error("a title became markup")
		}
	}
}

func TestBadFiguresAreErrors(t *testing.T) {
	x := []float64{1, 2}
	with := func(s Series) *Figure { return &Figure{Title: "T", Facets: []Facet{{Title: "F", Series: []Series{s}}}} }
	for want, d := range map[string]Drawing{
		"no facets":                     &Figure{},
		`series "s": 2 X but 1 Y`:       with(Series{Name: "s", X: x, Y: x[:1]}),
		"intervals need one of each":    with(Series{X: x, Y: x, Low: x}),
		"runs from 2 down to 1":         with(Series{X: x, Y: x, Low: []float64{1, 2}, High: []float64{1, 1}}),
		"unknown style":                 with(Series{Style: styles}),
		"bars need linear axes":         &Figure{YLog: true, Facets: []Facet{{Series: []Series{{Style: Bars}}}}},
		"1 to 40":                       &Figure{WidthIn: 1e6, Facets: []Facet{{}}},
		"do not fit":                    &Figure{WidthIn: 1, Columns: 5, Facets: make([]Facet, 5)},
		"XLog cannot hold":              &Figure{XLog: true, XNames: []string{"a"}, Facets: []Facet{{}}},
		"the 1 XNames stand for":        &Figure{XNames: []string{"a"}, Facets: []Facet{{Series: []Series{{X: []float64{1}, Y: []float64{1}}}}}},
		"no panels":                     &Gantt{},
		"before the end 5":              &Gantt{Panels: []GanttPanel{{Rows: []Row{{Spans: []Span{{From: 0, To: 5}, {From: 4, To: 6}}}}}}},
		"runs from 5 to 1":              &Gantt{Panels: []GanttPanel{{Rows: []Row{{Spans: []Span{{From: 5, To: 1}}}}}}},
		"0 columns and 0 rows":          &Heatmap{},
		"1 rows of values but 2 YNames": &Heatmap{XNames: []string{"a"}, YNames: []string{"a", "b"}, Values: [][]float64{{1}}},
		"2 values but 1 XNames":         &Heatmap{XNames: []string{"a"}, YNames: []string{"a"}, Values: [][]float64{{1, 2}}},
		"nothing to draw":               nil,
	} {
		err := WriteSVG(io.Discard, d)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if err := WritePNG(io.Discard, single(), 72); err == nil {
		t.Error("72 dpi was taken")
	}
	if err := WritePNG(io.Discard, single(), 100_000); err == nil {
		t.Error("100 000 dpi was taken")
	}
}

func TestOddFiguresAreDrawn(t *testing.T) {
	nan := math.NaN()
	long := strings.Repeat("a very long name that goes on ", 8)
	one := []float64{1}
	for name, f := range map[string]*Figure{
		"no series":     {Facets: []Facet{{}}},
		"empty series":  {Facets: []Facet{{Series: []Series{{Name: "a", Style: LinePoints}}}}},
		"only gaps":     {Facets: []Facet{{Series: []Series{{Name: "a", X: one, Y: []float64{nan}}}}}},
		"one point":     {Facets: []Facet{{Series: []Series{{Name: "a", Style: LinePoints, X: one, Y: one}}}}},
		"huge":          {Facets: []Facet{{Series: []Series{{Name: "a", X: []float64{1, 2, 3}, Y: []float64{-1e300, 1e300, math.MaxFloat64}}}}}},
		"huge, log":     {YLog: true, Facets: []Facet{{Series: []Series{{Name: "a", X: []float64{1, 2}, Y: []float64{1e-290, 1e300}}}}}},
		"small":         {YLog: true, Facets: []Facet{{Series: []Series{{Name: "a", X: []float64{1, 2}, Y: []float64{5e-324, 1e-300}}}}}},
		"small, linear": {Facets: []Facet{{Series: []Series{{Name: "a", X: []float64{1, 2}, Y: []float64{5e-324, 1e-300}}}}}},
		"flat":          {Facets: []Facet{{Series: []Series{{Name: "a", X: []float64{1, 2}, Y: []float64{0.1 + 0.2, 0.3}}}}}},
		"long names": {Title: long, XLabel: "x", YLabel: "y", Facets: []Facet{{Title: long, Marks: []Mark{{Axis: AtX, Value: 1, Label: long}, {Axis: AtPoint, X: 2, Value: 1, Label: long}, {Axis: AtY, Value: 1, Label: long}},
			Series: []Series{{Name: long, X: []float64{1, 2}, Y: []float64{1, 2}}}}, {Title: "b"}, {Title: long}}},
		"one long word":       {Title: strings.Repeat("x", 200), Facets: []Facet{{Series: []Series{{Name: strings.Repeat("y", 100), X: one, Y: one}}}}},
		"wide tick labels":    {Facets: []Facet{{Series: []Series{{X: []float64{123456.5, 123457}, Y: []float64{1e9, 1e9 + 1}}}}, {}, {}}},
		"reference, no bars":  {Facets: []Facet{{Series: []Series{{Name: "r", Style: Reference, X: []float64{1, 2}, Y: []float64{3, 4}}}}}},
		"negative bars":       {XNames: []string{"a", "b"}, BarValues: true, Facets: []Facet{{Series: []Series{{Name: "r", Style: Bars, X: []float64{0, 1}, Y: []float64{-3, 4}}}}}},
		"band with one point": {Facets: []Facet{{Series: []Series{{Name: "r", X: one, Y: one, Low: one, High: []float64{2}}}}}},
		"marks off the data":  {Facets: []Facet{{Marks: []Mark{{Axis: AtX, Value: 5, Label: "five"}, {Axis: AtY, Value: nan, Label: "no"}, {Axis: AtPoint, X: 1, Value: 9, Label: "p"}}, Series: []Series{{Name: "r", X: one, Y: one}}}}},
		"Chinese":             {Title: "吞吐量", Facets: []Facet{{Series: []Series{{Name: "延迟", X: one, Y: one}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := f.layout()
			if err != nil {
				t.Fatal(err)
			}
			checkScene(t, s, true)
			render(t, f)
			svgOf(t, f)
		})
	}
}

// TestAnyFigureStaysOnItsPage draws random figures of every style.
func TestAnyFigureStaysOnItsPage(t *testing.T) {
	number := rapid.OneOf(rapid.Float64Range(-1e3, 1e3), rapid.Float64Range(0.1, 10), rapid.Float64(), rapid.Just(math.NaN()), rapid.Just(0.0))
	name := rapid.StringMatching(`[a-zA-Z0-9 =.,/<&-]{0,40}`)
	rapid.Check(t, func(t *rapid.T) {
		f := &Figure{Title: name.Draw(t, "title"), XLabel: name.Draw(t, "x"), YLabel: "y", XLog: rapid.Bool().Draw(t, "xlog"), YLog: rapid.Bool().Draw(t, "ylog"), BarValues: true}
		for range rapid.IntRange(1, 5).Draw(t, "facets") {
			fc := Facet{Title: name.Draw(t, "facet")}
			for range rapid.IntRange(0, 4).Draw(t, "series") {
				s := Series{Name: name.Draw(t, "name"), Style: Style(rapid.IntRange(0, int(styles)-1).Draw(t, "style")), Dashed: rapid.Bool().Draw(t, "dashed")}
				if s.Style == Bars && (f.XLog || f.YLog) {
					s.Style = Points
				}
				interval := rapid.Bool().Draw(t, "interval")
				for range rapid.IntRange(0, 6).Draw(t, "points") {
					y := number.Draw(t, "y")
					s.X, s.Y = append(s.X, number.Draw(t, "x")), append(s.Y, y)
					if interval {
						d := math.Abs(number.Draw(t, "d"))
						s.Low, s.High = append(s.Low, y-d), append(s.High, y+d)
					}
				}
				fc.Series = append(fc.Series, s)
			}
			for range rapid.IntRange(0, 3).Draw(t, "marks") {
				fc.Marks = append(fc.Marks, Mark{Axis: Axis(rapid.IntRange(0, 2).Draw(t, "axis")), Value: number.Draw(t, "v"), X: number.Draw(t, "x"), Label: name.Draw(t, "label")})
			}
			f.Facets = append(f.Facets, fc)
		}
		s, err := f.layout()
		if err != nil {
			t.Fatal(err)
		}
		checkScene(t, s, false)
		svgOf(t, f)
	})
}
