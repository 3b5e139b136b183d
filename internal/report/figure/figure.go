package figure

import (
	"fmt"
	"math"
)

// Style says how a series is drawn.
type Style uint8

const (
	Line       Style = iota // a line through the points; the interval is a band
	Points                  // marks; the interval is an error bar
	LinePoints              // both; the interval is an error bar
	Step                    // the value holds until the next X; the interval is a band
	Bars                    // bars from zero, beside each other per X; the interval is an error bar
	Reference               // short horizontal lines to compare bars with
	styles
)

// Series is one row of the legend.
type Series struct {
	Name string
	// Hue names whose colour the series takes, so that a prediction and its
	// measurement can share one. Empty means Name.
	Hue   string
	Style Style
	// X and Y are the points. A Y that is NaN, infinite, or not positive on a
	// log axis is a gap, and so is such an X.
	X, Y []float64
	// Low and High are the ends of the interval round Y, in the unit of Y (not
	// distances from it). Both are nil, or both as long as Y. There is no interval
	// where either end is NaN, infinite, or not positive on a log axis.
	Low, High []float64
	Dashed    bool
	// Over names the bar series that a Reference is compared with. Empty: the
	// line spans all bars of the X.
	Over string
}

// Axis says which way a Mark lies.
type Axis uint8

const (
	AtX     Axis = iota // a vertical line at X = Value, named beside it
	AtY                 // a horizontal line at Y = Value, named in the legend
	AtPoint             // a ring round (X, Value), named beside it
)

// Mark is a reference in a facet: a best B, a published throughput.
type Mark struct {
	Axis  Axis
	Value float64
	X     float64 // AtPoint only
	Label string
	// Hue names the series whose colour an AtY line takes; empty: grey.
	Hue string
}

// Facet is one panel of a Figure.
type Facet struct {
	Title  string
	Series []Series
	Marks  []Mark
}

// Figure is a row (or rows) of panels that share both axes and one legend.
type Figure struct {
	Title          string
	XLabel, YLabel string
	XLog, YLog     bool
	YFromZero      bool // ignored on a log axis
	// XNames makes X a list of names: the values 0, 1, 2, … stand for them.
	XNames []string
	// BarValues prints the value on each bar.
	BarValues bool
	Facets    []Facet
	// Columns is the number of panels in a row; 0 picks one, at most 4.
	Columns int
	// WidthIn is the printed width in inches, 0 for 4.8 (one panel), 6.4 (two)
	// or 7; PanelHeightIn is the height of the area of data of a panel, 0 for 1.9.
	WidthIn, PanelHeightIn float64
	// About describes the picture to readers who cannot see it.
	About string
}

// check returns the first inconsistency.
func (f *Figure) check() error {
	if len(f.Facets) == 0 {
		return fmt.Errorf("figure %q: no facets; give at least one", f.Title)
	}
	if f.XLog && len(f.XNames) > 0 {
		return fmt.Errorf("figure %q: XNames are not numbers, so XLog cannot hold", f.Title)
	}
	if !within(f.WidthIn, 1, 40) || !within(f.PanelHeightIn, 0.5, 40) {
		return fmt.Errorf("figure %q: width %g in, panel height %g in; want 1 to 40 and 0.5 to 40 (0 for the default)",
			f.Title, f.WidthIn, f.PanelHeightIn)
	}
	if f.Columns < 0 || f.Columns > 12 {
		return fmt.Errorf("figure %q: %d columns; want 1 to 12 (0 for the default)", f.Title, f.Columns)
	}
	for i := range f.Facets {
		for k := range f.Facets[i].Series {
			if err := f.Facets[i].Series[k].check(); err != nil {
				return fmt.Errorf("figure %q, facet %q: %w", f.Title, f.Facets[i].Title, err)
			}
			if err := f.checkBars(&f.Facets[i].Series[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkBars refuses bars where they would lie: a bar's length is its value only
// on a linear axis.
func (f *Figure) checkBars(s *Series) error {
	if s.Style == Bars && (f.XLog || f.YLog) {
		return fmt.Errorf("figure %q, series %q: bars need linear axes; use Points on a log axis", f.Title, s.Name)
	}
	if n := len(f.XNames); n > 0 {
		for _, x := range s.X {
			if x < 0 || x > float64(n-1) || x != math.Trunc(x) && !math.IsNaN(x) {
				return fmt.Errorf("figure %q, series %q: X = %g, but the %d XNames stand for 0, 1, … %d", f.Title, s.Name, x, n, n-1)
			}
		}
	}
	return nil
}

func (s *Series) check() error {
	if s.Style >= styles {
		return fmt.Errorf("series %q: unknown style %d", s.Name, s.Style)
	}
	if len(s.X) != len(s.Y) {
		return fmt.Errorf("series %q: %d X but %d Y", s.Name, len(s.X), len(s.Y))
	}
	if len(s.Low) != len(s.High) || (s.Low != nil && len(s.Low) != len(s.Y)) {
		return fmt.Errorf("series %q: %d Y, %d Low, %d High; intervals need one of each", s.Name, len(s.Y), len(s.Low), len(s.High))
	}
	for i := range s.Low {
		if s.Low[i] > s.High[i] {
			return fmt.Errorf("series %q: interval %d runs from %g down to %g", s.Name, i, s.Low[i], s.High[i])
		}
	}
	return nil
}

// within allows zero, which stands for a default.
func within(v, low, high float64) bool { return v == 0 || v >= low && v <= high }

func (s *Series) hue() string {
	if s.Hue != "" {
		return s.Hue
	}
	return s.Name
}

// interval is the i-th interval, or false where there is none to draw.
func (s *Series) interval(i int, log bool) (low, high float64, ok bool) {
	if s.Low == nil || !usable(s.Low[i], log) || !usable(s.High[i], log) {
		return 0, 0, false
	}
	return s.Low[i], s.High[i], true
}

func (s *Series) hasMarks() bool { return s.Style == Points || s.Style == LinePoints }

// values lists what the axes have to cover: the X of data, those of marks, and Y.
func (f *Figure) values() (xs, marks, ys []float64) {
	for i := range f.Facets {
		for k := range f.Facets[i].Series {
			s := &f.Facets[i].Series[k]
			for j := range s.X {
				if !usable(s.X[j], f.XLog) || !usable(s.Y[j], f.YLog) {
					continue
				}
				xs, ys = append(xs, s.X[j]), append(ys, s.Y[j])
				if lo, hi, ok := s.interval(j, f.YLog); ok {
					ys = append(ys, lo, hi)
				}
				if s.Style == Bars {
					ys = append(ys, 0)
				}
			}
		}
		for _, m := range f.Facets[i].Marks {
			if m.Axis != AtX && usable(m.Value, f.YLog) {
				ys = append(ys, m.Value)
			}
			if m.Axis == AtX {
				marks = append(marks, m.Value)
			} else if m.Axis == AtPoint {
				marks = append(marks, m.X)
			}
		}
	}
	return xs, marks, ys
}

// wholeX tells that X counts something, so ticks between integers mislead.
func wholeX(xs []float64) bool {
	for _, x := range xs {
		if x != math.Trunc(x) {
			return false
		}
	}
	return true
}
