package figure

import (
	"fmt"
	"image/color"
	"math"
	"strings"
	"unicode"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/vg"
)

// Sizes in points at the printed size. Journals ask for 7 points at least.
const (
	titleSize  = 10.0
	labelSize  = 9.0
	tickSize   = 8.0
	smallSize  = 7.0
	margin     = 6.0 // white space round the page
	lineWidth  = 1.4
	axisWidth  = 0.6
	gridWidth  = 0.5
	errorWidth = 0.8
	markRadius = 2.4
	capRadius  = 2.0 // half width of the cap of an error bar
	tickLength = 3.0
	leading    = 1.2 // distance of base lines over text size
)

// ink is a colour of the theme with the colour that replaces it on a dark page.
// The name becomes part of the class of SVG elements.
type ink struct {
	name        string
	light, dark color.RGBA
}

func rgb(hex uint32) color.RGBA {
	return color.RGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: 255}
}

var (
	inkText  = ink{"text", rgb(0x1a1a1a), rgb(0xe8e8e8)}
	inkAxis  = ink{"axis", rgb(0x3c3c3c), rgb(0xb8b8b8)}
	inkGrid  = ink{"grid", rgb(0xe1e1e1), rgb(0x3a3d42)}
	inkRef   = ink{"ref", rgb(0x6e6e6e), rgb(0xa0a0a0)}
	inkQuiet = ink{"quiet", rgb(0xd4d4d4), rgb(0x54585e)}
	inkPaper = ink{"paper", rgb(0xffffff), rgb(0x1b1d20)}
)

// okabeIto is the palette of Okabe and Ito (2008), which stays distinct under
// the common colour deficiencies, less its yellow, which vanishes on white.
var okabeIto = []ink{
	{"blue", rgb(0x0072b2), rgb(0x4aa3df)},
	{"vermillion", rgb(0xd55e00), rgb(0xf28344)},
	{"green", rgb(0x009e73), rgb(0x2fc096)},
	{"purple", rgb(0xcc79a7), rgb(0xdf9cc2)},
	{"orange", rgb(0xe69f00), rgb(0xf0b83a)},
	{"sky", rgb(0x56b4e9), rgb(0x8fd3f8)},
	{"black", rgb(0x000000), rgb(0xf2f2f2)},
}

func inks() []ink {
	all := append([]ink{inkText, inkAxis, inkGrid, inkRef, inkQuiet, inkPaper}, okabeIto...)
	for _, k := range okabeIto {
		all = append(all, onto(k))
	}
	return all
}

// onto picks black or white for text on k, whichever is easier to read.
func onto(k ink) ink {
	best := func(c color.RGBA) color.RGBA {
		if black := rgb(0x000000); contrast(c, black) > contrast(c, rgb(0xffffff)) {
			return black
		}
		return rgb(0xffffff)
	}
	return ink{"on" + k.name, best(k.light), best(k.dark)}
}

// DarkCSS returns style rules that recolour the SVGs of this package for a dark
// page. The caller wraps them in a media query.
func DarkCSS() string {
	var b strings.Builder
	for _, k := range inks() {
		fmt.Fprintf(&b, "svg .f-%s{fill:%s}svg .k-%s{stroke:%s}\n", k.name, hex(k.dark), k.name, hex(k.dark))
	}
	return b.String()
}

func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// luminance is the relative luminance of WCAG 2.1.
func luminance(c color.RGBA) float64 {
	lin := func(v uint8) float64 {
		x := float64(v) / 255
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*lin(c.R) + 0.7152*lin(c.G) + 0.0722*lin(c.B)
}

// contrast is the contrast ratio of WCAG 2.1, between 1 and 21.
func contrast(a, b color.RGBA) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// fonts is shared by all drawings; the cache inside is safe for concurrent use.
var fonts = font.NewCache(liberation.Collection())

func face(size float64, bold bool) font.Face {
	f := font.Font{Typeface: "Liberation", Variant: "Sans"}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return fonts.Lookup(f, vg.Length(size))
}

// textWidth is the width in points of s on one line.
func textWidth(s string, size float64, bold bool) float64 {
	f := face(size, bold)
	return f.Width(s).Points()
}

// Ascent and descent of Liberation Sans over its size. Its tables say 0.905
// and 0.212, of which digits and capitals use 0.73.
const (
	capHeight = 0.73
	descent   = 0.21
)

// wrap breaks s into lines no wider than width: between words, and inside a
// word only where that word alone is wider than a line.
func wrap(s string, size float64, bold bool, width float64) []string {
	var lines []string
	line := ""
	for _, word := range words(s) {
		joined := word
		if line != "" {
			joined = line + " " + word
		}
		if textWidth(joined, size, bold) <= width {
			line = joined
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		var pieces []string
		pieces, line = breakWord(word, size, bold, width)
		lines = append(lines, pieces...)
	}
	if line != "" || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}

// words splits s at blanks, but leaves a sign with the word after it: "+ graphs".
func words(s string) []string {
	var out []string
	sign := ""
	for _, w := range strings.Fields(s) {
		if r := []rune(w); len(r) == 1 && !unicode.IsLetter(r[0]) && !unicode.IsDigit(r[0]) {
			sign += w + " "
			continue
		}
		out = append(out, sign+w)
		sign = ""
	}
	if sign != "" {
		out = append(out, strings.TrimRight(sign, " "))
	}
	return out
}

// clip cuts s to width and ends it in an ellipsis if anything was cut.
func clip(s string, size float64, bold bool, width float64) string {
	if textWidth(s, size, bold) <= width {
		return s
	}
	runes := []rune(s)
	for len(runes) > 0 && textWidth(string(runes)+"…", size, bold) > width {
		runes = runes[:len(runes)-1]
	}
	return strings.TrimRight(string(runes), " ") + "…"
}

// breakWord cuts pieces of at most width off word and returns them and the rest.
func breakWord(word string, size float64, bold bool, width float64) (pieces []string, rest string) {
	runes := []rune(word)
	for textWidth(string(runes), size, bold) > width && len(runes) > 1 {
		n := 1
		for n+1 < len(runes) && textWidth(string(runes[:n+1]), size, bold) <= width {
			n++
		}
		// A break after punctuation reads better than one inside a syllable.
		for k := n; k > n/3; k-- {
			if strings.ContainsRune("-_/.,:=", runes[k-1]) {
				n = k
				break
			}
		}
		pieces = append(pieces, string(runes[:n]))
		runes = runes[n:]
	}
	return pieces, string(runes)
}
