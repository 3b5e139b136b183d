package figure

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestScheduleShowsEverySpan(t *testing.T) {
	g := schedules()
	spans, fit := 0, 0
	for _, p := range g.Panels {
		for _, r := range p.Rows {
			spans += len(r.Spans)
		}
	}
	els := svgOf(t, g)
	if n := count(els, "span"); n != spans {
		t.Errorf("%d spans drawn of %d", n, spans)
	}
	shown := texts(els)
	for _, s := range shown {
		if s == "S" || s == "L" {
			fit++
		}
	}
	if fit != 4*(3+4+4+4+4+4) {
		t.Errorf("%d tokens named, want all", fit)
	}
	for _, want := range []string{"delayed, B = 2: mean latency 8.67", "lockstep: mean latency 13.83", "request 6", "large", "time (small steps)", "waiting"} {
		if !slices.Contains(shown, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestSpanLengthsAreProportional(t *testing.T) {
	g := &Gantt{Panels: []GanttPanel{{Rows: []Row{{Name: "m", Spans: []Span{{From: 0, To: 1, Kind: "a"}, {From: 1, To: 5, Kind: "b"}}}}}}}
	s, err := g.layout()
	if err != nil {
		t.Fatal(err)
	}
	var w []float64
	for _, sh := range s.shapes {
		if sh.class == "span" {
			w = append(w, sh.pts[1].x-sh.pts[0].x)
		}
	}
	if len(w) != 2 || math.Abs(w[1]-4*w[0]) > 1e-9 {
		t.Errorf("widths %v", w)
	}
}

func TestLabelsThatDoNotFitAreLeftOut(t *testing.T) {
	g := &Gantt{Panels: []GanttPanel{{Rows: []Row{{Name: strings.Repeat("long row name ", 20), Spans: []Span{{From: 0, To: 0.1, Kind: "a", Label: "too long for it"}, {From: 1, To: 100, Kind: "a", Label: "fits"}}}}}}}
	s, err := g.layout()
	if err != nil {
		t.Fatal(err)
	}
	checkScene(t, s, true)
	shown := texts(svgOf(t, g))
	if slices.Contains(shown, "too long for it") || !slices.Contains(shown, "fits") {
		t.Errorf("texts %q", shown)
	}
}

func TestOddSchedulesAreDrawn(t *testing.T) {
	for name, g := range map[string]*Gantt{
		"empty panel":  {Panels: []GanttPanel{{}}},
		"no spans":     {Panels: []GanttPanel{{Title: strings.Repeat("title ", 60), Rows: []Row{{Name: "m"}}}}},
		"zero length":  {Panels: []GanttPanel{{Rows: []Row{{Name: "m", Spans: []Span{{From: 3, To: 3, Kind: "a"}}}}}}},
		"cut at To":    {To: 10, Panels: []GanttPanel{{Rows: []Row{{Name: "m", Spans: []Span{{From: 3, To: 30, Kind: "a"}, {From: 40, To: 50, Kind: "a"}}}}}}},
		"before zero":  {Panels: []GanttPanel{{Rows: []Row{{Name: "m", Spans: []Span{{From: -5, To: -3, Kind: "a"}}}}}}},
		"nine systems": {Panels: make([]GanttPanel, 9)},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := g.layout()
			if err != nil {
				t.Fatal(err)
			}
			checkScene(t, s, true)
			render(t, g)
		})
	}
}

func TestHeatmapPrintsItsNumbers(t *testing.T) {
	els := svgOf(t, gains())
	shown := texts(els)
	for _, want := range []string{"+18.0", "0.0", "−3.9", "–", "gain (%)", "routing probability p", "0.02", "8"} {
		if !slices.Contains(shown, want) {
			t.Errorf("%q is missing from %q", want, shown)
		}
	}
	if c, b := count(els, "cell"), count(els, "best"); c != 48 || b != 6 {
		t.Errorf("%d cells, %d best", c, b)
	}
}

func TestHeatmapColours(t *testing.T) {
	if w := shade(0).light; w != rgb(0xffffff) {
		t.Errorf("the centre is %v, not white", w)
	}
	up, down := shade(0.8).light, shade(-0.8).light
	if up.R <= up.B || down.B <= down.R {
		t.Errorf("gain %v should be orange, loss %v blue", up, down)
	}
	if shade(3) != shade(1) {
		t.Error("colours do not saturate")
	}
}

func TestOddHeatmapsAreDrawn(t *testing.T) {
	nan := math.NaN()
	for name, h := range map[string]*Heatmap{
		"one cell":   {XNames: []string{"a"}, YNames: []string{"b"}, Values: [][]float64{{1}}},
		"only gaps":  {Title: "t", XNames: []string{"a", "b"}, YNames: []string{"b"}, Values: [][]float64{{nan, math.Inf(1)}}, Best: true},
		"huge":       {XNames: []string{"a", "b"}, YNames: []string{"b"}, Values: [][]float64{{1e300, -1e300}}, ValueLabel: "v"},
		"long names": {Title: strings.Repeat("title ", 40), XLabel: "x", YLabel: "y", XNames: []string{strings.Repeat("col ", 30), "b"}, YNames: []string{strings.Repeat("row ", 60)}, Values: [][]float64{{1, 2}}},
		"wide":       {WidthIn: 7, XNames: []string{"a", "b"}, YNames: []string{"b"}, Values: [][]float64{{1, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := h.layout()
			if err != nil {
				t.Fatal(err)
			}
			checkScene(t, s, true)
			render(t, h)
		})
	}
}
