// Package figure draws the plots of an experiment at the size at which a paper
// prints them: line charts in small multiples, grouped bars, schedules and
// heatmaps.
//
// A drawing is plain data. It is laid out once into a list of shapes in points
// (1/72 inch), and that list is written as SVG or painted as PNG, so both show
// the same picture and tests can ask the list whether any text is cut or
// covered. Equal drawings give equal bytes.
//
// Text is set in Liberation Sans, whose widths equal those of Arial, so an SVG
// that names the font without carrying it keeps its layout.
package figure

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// Drawing is a picture that this package can lay out: *Figure, *Gantt or
// *Heatmap.
type Drawing interface {
	layout() (*scene, error)
}

// MinDPI is the lowest resolution that WritePNG accepts. Below it 8-point text
// stops being legible in print.
const MinDPI = 100

// maxPixels bounds a PNG, so that a mistaken size is an error and not an
// allocation of gigabytes.
const maxPixels = 1 << 26

var errNothing = errors.New("figure: there is nothing to draw")

// WriteSVG writes d as one SVG document without scripts, identifiers or fonts,
// so it can stand alone or inside a page. It fails when d is inconsistent
// (slices of different length, sizes out of range) or w fails.
func WriteSVG(w io.Writer, d Drawing) error {
	s, err := layoutChecked(d)
	if err != nil {
		return err
	}
	return s.writeSVG(w)
}

// WritePNG paints d on white at dpi dots per inch (200 or more for print).
func WritePNG(w io.Writer, d Drawing, dpi int) error {
	if dpi < MinDPI {
		return fmt.Errorf("figure: %d dpi is too coarse for print, use at least %d", dpi, MinDPI)
	}
	s, err := layoutChecked(d)
	if err != nil {
		return err
	}
	if px := s.width / 72 * s.height / 72 * float64(dpi) * float64(dpi); px > maxPixels {
		return fmt.Errorf("figure: %.0f million pixels at %d dpi, at most %d are painted", px/1e6, dpi, maxPixels>>20)
	}
	return s.writePNG(w, dpi)
}

func layoutChecked(d Drawing) (*scene, error) {
	if d == nil {
		return nil, errNothing
	}
	s, err := d.layout()
	if err != nil {
		return nil, err
	}
	if !(s.width > 0 && s.height > 0) || math.IsInf(s.width, 0) || math.IsInf(s.height, 0) {
		return nil, fmt.Errorf("figure: page of %g by %g points", s.width, s.height)
	}
	return s, nil
}
