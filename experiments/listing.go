package experiments

import (
	"fmt"
	"slices"
	"strings"
)

// KeyInfo describes a key of experiment files to people.
type KeyInfo struct{ Path, Value, Default, Meaning string }

// kindNames say what a value looks like.
var kindNames = map[kind]string{
	kindString:    "string",
	kindInt:       "whole number",
	kindFloat:     "number",
	kindStrings:   "[string, …]",
	kindInts:      "[whole number, …]",
	kindFloats:    "[number, …]",
	kindMatrix:    "[[number, …], …]",
	kindThreshold: `whole number, [whole number, …] or "tuned"`,
	kindLength:    "whole number or a table",
	kindBool:      "true or false",
	kindClasses:   "[table, …]",
}

// Keys lists all keys in the order of the table; * stands for a model's name.
func Keys() []KeyInfo {
	var out []KeyInfo
	for i := range keys {
		out = append(out, keys[i].info(""))
		if keys[i].kind == kindClasses {
			for j := range classKeys {
				out = append(out, classKeys[j].info(keys[i].path+"."))
			}
		}
	}
	return append(out, KeyInfo{
		Path: `sweep."PATH"`, Value: "[value, …]", Meaning: "a cell for each value; the last key changes fastest",
	})
}

// isNumeric reports whether the key has bounds.
func (k *key) isNumeric() bool {
	switch k.kind {
	case kindString, kindStrings, kindBool, kindClasses:
		return false
	}
	return true
}

// info describes the key below a table.
func (k *key) info(table string) KeyInfo {
	info := KeyInfo{Path: table + k.path, Value: kindNames[k.kind], Meaning: k.doc}
	if k.def != nil {
		info.Default = tomlText(k.def)
	}
	if k.isNumeric() {
		from := "from"
		if k.above {
			from = "above"
		}
		info.Value += fmt.Sprintf(", %s %s to %s", from, formatFloat(k.min), formatFloat(k.max))
	}
	return info
}

// TOML writes a list as TOML; of settings their values.
func TOML[T any](items []T) string { return tomlList(items) }

// SweptValues lists the values of a swept key, nil for any other.
func (p *Plan) SweptValues(path string) []Setting {
	if !slices.Contains(p.Swept, path) {
		return nil
	}
	return p.Values(path)
}

// Values lists the values that a key takes in the plan's points. One that is not
// swept may have several: by default a model takes as many GPUs as its profile
// says, and profiles are swept.
func (p *Plan) Values(path string) []Setting {
	var out []Setting
	for _, point := range p.Points {
		for _, s := range point.Settings {
			if s.Path == path && !slices.ContainsFunc(out, func(o Setting) bool { return o.Text() == s.Text() }) {
				out = append(out, s)
			}
		}
	}
	return out
}

// ValueText writes the value of a key that is not swept; where what is swept
// changes it, all of them.
func (p *Plan) ValueText(path string) string {
	var texts []string
	for _, s := range p.Values(path) {
		texts = append(texts, s.Text())
	}
	return strings.Join(texts, " or ")
}

// JSON writes the value as JSON.
func (s Setting) JSON() []byte { return jsonValue(s.Value) }
