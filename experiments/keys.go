package experiments

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tokenrouter/tokenrouter/experiments/internal/locate"
	"github.com/tokenrouter/tokenrouter/internal/nearest"
)

// kind is the type of a key's value. The comment gives the Go type that a
// checked value has.
type kind uint8

const (
	kindString    kind = iota // string
	kindInt                   // int
	kindFloat                 // float64
	kindStrings               // []string
	kindInts                  // []int
	kindFloats                // []float64
	kindMatrix                // [][]float64
	kindThreshold             // Threshold
	kindLength                // Length: one number, or a table
	kindBool                  // bool
	kindClasses               // Classes
)

// key describes one key of an experiment file: everything that can be checked
// about its value alone.
type key struct {
	path     string  // "*" stands for a model's name
	kind     kind    //
	min, max float64 // bounds of every number in the value, both included
	above    bool    // min itself is too small
	def      any     // default; nil for none
	oneOf    func(*vocabulary) []string
	orFile   string // a name that ends so is a file's, and may be any
	doc      string
}

// vocabulary holds the names that values may refer to.
type vocabulary struct{ models, profiles, algorithms []string }

func choices(names ...string) func(*vocabulary) []string {
	return func(*vocabulary) []string { return names }
}

// finding is what is wrong inside one value; sub is the path from the value to
// the culprit, in the notation of package locate.
type finding struct{ sub, msg, hint string }

// check returns the value in its Go type, and what is wrong with it.
func (k *key) check(v any, voc *vocabulary) (any, []finding) {
	c := &valueCheck{key: k, voc: voc}
	var out any
	switch k.kind {
	case kindString:
		out = c.text("", v)
	case kindInt:
		out = c.whole("", v)
	case kindFloat:
		out = c.number("", v)
	case kindStrings:
		out = list(c, "", v, "an array of strings", c.text)
	case kindInts:
		out = list(c, "", v, "an array of whole numbers", c.whole)
	case kindFloats:
		out = list(c, "", v, "an array of numbers", c.number)
	case kindMatrix:
		out = list(c, "", v, "an array of rows of numbers", func(sub string, row any) []float64 {
			return list(c, sub, row, "an array of numbers", c.number)
		})
	case kindThreshold:
		if v == tunedWord {
			out = Tuned
		} else if _, isList := v.([]any); isList {
			out = Threshold(list(c, "", v, "a whole number or an array of them", c.whole))
		} else {
			out = Threshold{c.whole("", v)}
		}
	case kindLength:
		out = c.length(v)
	case kindBool:
		var ok bool
		if out, ok = v.(bool); !ok {
			c.fail("", "", "must be true or false, got %s", describe(v))
			out = false
		}
	case kindClasses:
		out = c.classes(v)
	}
	return out, c.findings
}

type valueCheck struct {
	key      *key
	voc      *vocabulary
	findings []finding
}

func (c *valueCheck) fail(sub, hint, format string, args ...any) {
	c.findings = append(c.findings, finding{sub, fmt.Sprintf(format, args...), hint})
}

func (c *valueCheck) text(sub string, v any) string {
	s, ok := v.(string)
	if !ok {
		hint := ""
		switch v.(type) {
		case bool, int64, float64:
			hint = fmt.Sprintf("write it in quotes: %q", tomlText(v))
		}
		c.fail(sub, hint, "must be a string, got %s", describe(v))
		return ""
	}
	if c.key.oneOf == nil {
		if strings.TrimSpace(s) == "" {
			c.fail(sub, "", "must not be empty")
		}
		return s
	}
	if suffix := c.key.orFile; suffix != "" && strings.HasSuffix(s, suffix) {
		return s
	}
	if known := c.key.oneOf(c.voc); !slices.Contains(known, s) {
		c.fail(sub, offer(s, known), "%q is not known", s)
	}
	return s
}

// offer turns known names into a hint: the nearest ones, or all if few.
func offer(got string, known []string) string {
	if near := nearest.Names(got, known); len(near) > 0 {
		return "did you mean " + strings.Join(near, " or ") + "?"
	}
	if len(known) == 0 {
		return ""
	}
	if len(known) > maxListed {
		return fmt.Sprintf("one of %s … (%d in all)", strings.Join(known[:maxListed], ", "), len(known))
	}
	return "one of " + strings.Join(known, ", ")
}

// maxListed is how many names an error lists when none of them is near.
const maxListed = 12

func (c *valueCheck) whole(sub string, v any) int {
	switch n := v.(type) {
	case int64:
		c.bounds(sub, float64(n), strconv.FormatInt(n, 10))
		return int(n)
	case float64:
		hint := ""
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			hint = fmt.Sprintf("write %.0f", n)
		}
		c.fail(sub, hint, "must be a whole number, got %s", describe(v))
	default:
		c.fail(sub, unquote(v), "must be a whole number, got %s", describe(v))
	}
	return 0
}

func (c *valueCheck) number(sub string, v any) float64 {
	switch n := v.(type) {
	case int64:
		c.bounds(sub, float64(n), strconv.FormatInt(n, 10))
		return float64(n)
	case float64:
		c.bounds(sub, n, formatFloat(n))
		return n
	}
	c.fail(sub, unquote(v), "must be a number, got %s", describe(v))
	return 0
}

// unquote is the hint for a number that was written as a string.
func unquote(v any) string {
	if s, ok := v.(string); ok {
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			return "write " + s + " without quotes"
		}
	}
	return ""
}

func (c *valueCheck) bounds(sub string, n float64, got string) {
	k := c.key
	lowest, highest := formatFloat(k.min), formatFloat(k.max)
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		c.fail(sub, "", "must be finite, got %s", got)
	case k.above && n <= k.min:
		c.fail(sub, "", "must be more than %s, got %s", lowest, got)
	case n < k.min && k.max == 1:
		c.fail(sub, "", "must be between %s and %s, got %s", lowest, highest, got)
	case n < k.min:
		c.fail(sub, "", "must be at least %s, got %s", lowest, got)
	case n > k.max:
		c.fail(sub, "", "must be at most %s, got %s", highest, got)
	}
}

func list[T any](c *valueCheck, sub string, v any, want string, element func(string, any) T) []T {
	items, ok := v.([]any)
	if !ok {
		hint := ""
		switch v.(type) {
		case string, int64, float64:
			hint = "write [" + tomlText(v) + "]"
		}
		c.fail(sub, hint, "must be %s, got %s", want, describe(v))
		return nil
	}
	if len(items) == 0 {
		c.fail(sub, "", "must not be empty")
	}
	out := make([]T, len(items))
	for i, item := range items {
		out[i] = element(locate.Index(sub, i), item)
	}
	return out
}

// describe names a TOML value in an error.
func describe(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q (a string)", v)
	case bool, int64, float64:
		return tomlText(v)
	case []any:
		return "an array"
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "an array of tables"
	}
	return "a date or time"
}
