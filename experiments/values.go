package experiments

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Threshold is the B of one model: entry i is asked for while i+1 requests are
// live, the last one beyond. One entry does not depend on the load.
type Threshold []int

// Tuned stands for the threshold that the chain finds best.
var Tuned = Threshold{0}

const tunedWord = "tuned"

// IsTuned reports whether the threshold is Tuned.
func (t Threshold) IsTuned() bool { return len(t) == 1 && t[0] == 0 }

// Setting is one resolved key of an experiment. Value has the Go type that its
// key's kind names.
type Setting struct {
	Path    string
	Value   any
	Default bool // neither the file nor --set gave it
}

// Text writes the value as TOML.
func (s Setting) Text() string { return tomlText(s.Value) }

// tomlText writes a value, checked or as decoded, as TOML.
func tomlText(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case int:
		return strconv.Itoa(v)
	case float64:
		return formatFloat(v)
	case Setting:
		return v.Text()
	case Length:
		return lengthText(v)
	case Class:
		return v.toml()
	case Classes:
		return tomlList(v)
	case Threshold:
		if v.IsTuned() {
			return strconv.Quote(tunedWord)
		}
		if len(v) == 1 {
			return strconv.Itoa(v[0])
		}
		return tomlList(v)
	case []string:
		return tomlList(v)
	case []int:
		return tomlList(v)
	case []float64:
		return tomlList(v)
	case [][]float64:
		return tomlList(v)
	case []any:
		return tomlList(v)
	}
	return fmt.Sprint(v)
}

func tomlList[T any](items []T) string {
	parts := make([]string, len(items))
	for i, item := range items {
		parts[i] = tomlText(item)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// formatFloat writes the shortest text that reads back as f; whole numbers
// have no exponent, since people count zeros worse than they read them.
func formatFloat(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// jsonValue writes a checked value as JSON.
func jsonValue(v any) []byte {
	switch typed := v.(type) {
	case Length:
		return lengthJSON(typed)
	case Classes:
		return typed.json()
	case Threshold:
		if typed.IsTuned() {
			v = tunedWord
		} else if len(typed) == 1 {
			v = typed[0]
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic("experiments: a checked setting is not JSON: " + err.Error())
	}
	return text
}
