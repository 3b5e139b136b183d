package experiments

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/experiments/internal/locate"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// Length is a distribution of a number of tokens.
type Length = workload.Length

// Class is one [[workload.classes]] table. Fields that it leaves out are zero:
// the workload's own count then.
type Class struct {
	Name                       string
	Share                      float64
	PromptTokens, OutputTokens *Length
	Lengths                    string
	TTFTMs, TPOTMs             float64
}

// Classes are the kinds of requests of a workload.
type Classes []Class

// classKeys is the table of keys of one class.
var classKeys = []key{
	{path: "name", kind: kindString, doc: "letters, digits, - and _"},
	{path: "share", kind: kindFloat, above: true, max: 1e6, def: 1.0, doc: "of all requests; shares need not sum to 1"},
	{path: "prompt_tokens", kind: kindLength, min: 1, max: maxTokens, doc: "default: that of the workload"},
	{path: "output_tokens", kind: kindLength, min: 1, max: maxTokens, doc: "default: that of the workload"},
	{path: "lengths", kind: kindString, doc: "instead of both: a name or a .csv file"},
	{path: "ttft_ms", kind: kindFloat, above: true, max: maxLimitMs, doc: "limit; default: workload.limits.ttft_ms"},
	{path: "tpot_ms", kind: kindFloat, above: true, max: maxLimitMs, doc: "limit; default: workload.limits.tpot_ms"},
}

// maxClasses bounds the columns of the results.
const maxClasses = 16

// classes checks an array of tables.
func (c *valueCheck) classes(v any) Classes {
	tables := tablesOf(v)
	switch {
	case len(tables) == 0:
		c.fail("", "start each class with [[workload.classes]]", "must be an array of tables, got %s", describe(v))
		return nil
	case len(tables) > maxClasses:
		c.fail("", "", "must be at most %d classes, got %d", maxClasses, len(tables))
		return nil
	}
	var out Classes
	names := map[string]bool{}
	for i, t := range tables {
		sub := locate.Index("", i)
		class := c.class(sub, t)
		if class.Name != "" && names[class.Name] {
			c.fail(sub+".name", "", "two classes are named %q", class.Name)
		}
		names[class.Name] = true
		out = append(out, class)
	}
	return out
}

func (c *valueCheck) class(sub string, t map[string]any) Class {
	values := map[string]any{}
	var known []string
	for i := range classKeys {
		known = append(known, classKeys[i].path)
	}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		k := classKey(name)
		at := sub + "." + locate.Join("", name)
		if k == nil {
			c.fail(at, offer(name, known), "unknown key")
			continue
		}
		checked, found := k.check(t[name], c.voc)
		for _, f := range found {
			c.findings = append(c.findings, finding{at + f.sub, f.msg, f.hint})
		}
		if len(found) == 0 {
			values[name] = checked
		}
	}
	class := Class{Share: 1}
	class.Name, _ = values["name"].(string)
	if share, ok := values["share"].(float64); ok {
		class.Share = share
	}
	class.Lengths, _ = values["lengths"].(string)
	class.TTFTMs, _ = values["ttft_ms"].(float64)
	class.TPOTMs, _ = values["tpot_ms"].(float64)
	if l, ok := values["prompt_tokens"].(Length); ok {
		class.PromptTokens = &l
	}
	if l, ok := values["output_tokens"].(Length); ok {
		class.OutputTokens = &l
	}
	if _, given := t["name"]; !given {
		c.fail(sub+".name", `name = "chat"`, "is missing")
	} else if class.Name != "" && locate.Join("", class.Name) != class.Name {
		c.fail(sub+".name", "", "must be letters, digits, - and _ only, got %q", class.Name)
	}
	return class
}

func classKey(name string) *key {
	for i := range classKeys {
		if classKeys[i].path == name {
			return &classKeys[i]
		}
	}
	return nil
}

// fields lists what the class gives, in the order of the table.
func (c *Class) fields() (names []string, values []any) {
	add := func(name string, value any, given bool) {
		if given {
			names, values = append(names, name), append(values, value)
		}
	}
	add("name", c.Name, true)
	add("share", c.Share, true)
	if c.PromptTokens != nil {
		add("prompt_tokens", *c.PromptTokens, true)
	}
	if c.OutputTokens != nil {
		add("output_tokens", *c.OutputTokens, true)
	}
	add("lengths", c.Lengths, c.Lengths != "")
	add("ttft_ms", c.TTFTMs, c.TTFTMs > 0)
	add("tpot_ms", c.TPOTMs, c.TPOTMs > 0)
	return names, values
}

func (c Class) toml() string {
	var parts []string
	names, values := c.fields()
	for i, name := range names {
		parts = append(parts, name+" = "+tomlText(values[i]))
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

// json writes the classes in the order of the table's keys.
func (cs Classes) json() []byte {
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range cs {
		if i > 0 {
			b.WriteByte(',')
		}
		names, values := cs[i].fields()
		for j, name := range names {
			b.WriteByte("{,"[min(j, 1)])
			fmt.Fprintf(&b, "%q:%s", name, jsonValue(values[j]))
		}
		b.WriteByte('}')
	}
	b.WriteByte(']')
	return b.Bytes()
}

// lengthForms are the tables that a length may be, by their keys. The first
// keys tell a form from the others.
var lengthForms = []struct {
	mark  []string
	known []string
	need  []string
	like  string
}{
	{[]string{"mean", "cv"}, []string{"mean", "cv", "min", "max"}, []string{"mean", "cv", "max"}, "{ mean = 800, cv = 1.2, max = 8192 }"},
	{[]string{"bounds", "weights"}, []string{"bounds", "weights"}, []string{"bounds", "weights"}, "{ bounds = [1, 512, 2048], weights = [3, 1] }"},
	{nil, []string{"min", "max"}, []string{"min", "max"}, "{ min = 900, max = 1100 }"},
}

// length checks a number of tokens: fixed, or a table that describes a
// distribution.
func (c *valueCheck) length(v any) Length {
	table, ok := v.(map[string]any)
	if !ok {
		switch v.(type) {
		case int64, float64:
		default:
			c.fail("", unquote(v), "must be a whole number or {min, max}, got %s", describe(v))
			return Length{}
		}
		return workload.Fixed(c.whole("", v))
	}
	form := lengthForms[len(lengthForms)-1]
	for _, f := range lengthForms {
		marked := false
		for _, name := range f.mark {
			_, given := table[name]
			marked = marked || given
		}
		if marked {
			form = f
			break
		}
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if !slices.Contains(form.known, name) {
			c.fail("."+locate.Join("", name), offer(name, form.known), "unknown key")
		}
	}
	for _, name := range form.need {
		if _, ok := table[name]; !ok {
			c.fail("", "write "+form.like, "lacks %s", name)
			return Length{}
		}
	}
	l := c.formed(table)
	if len(c.findings) == 0 {
		if err := l.Validate(); err != nil {
			c.fail("", "", "%v", err)
		}
	}
	return l
}

func (c *valueCheck) formed(table map[string]any) Length {
	if table["bounds"] != nil {
		bounds := list(c, ".bounds", table["bounds"], "an array of whole numbers", c.whole)
		shares := valueCheck{key: &key{max: 1e9}, voc: c.voc}
		weights := list(&shares, ".weights", table["weights"], "an array of numbers", shares.number)
		c.findings = append(c.findings, shares.findings...)
		return workload.Histogram(bounds, weights)
	}
	low := 1
	if v, given := table["min"]; given {
		low = c.whole(".min", v)
	}
	high := c.whole(".max", table["max"])
	if len(c.findings) == 0 && low > high {
		c.fail("", "swap them", "min %d is more than max %d", low, high)
	}
	if table["mean"] == nil {
		return workload.Uniform(low, high)
	}
	mean := c.number(".mean", table["mean"])
	spread := valueCheck{key: &key{max: 100}, voc: c.voc}
	cv := spread.number(".cv", table["cv"])
	c.findings = append(c.findings, spread.findings...)
	return workload.Lognormal(mean, cv, low, high)
}

// lengthText writes a length as TOML.
func lengthText(l Length) string {
	switch {
	case l.Weights != nil:
		return "{ bounds = " + tomlList(l.Bounds) + ", weights = " + tomlList(l.Weights) + " }"
	case l.LogMean > 0:
		return fmt.Sprintf("{ mean = %s, cv = %s, min = %d, max = %d }", formatFloat(l.LogMean), formatFloat(l.CV), l.Min, l.Max)
	case l.Min == l.Max:
		return fmt.Sprint(l.Min)
	}
	return fmt.Sprintf("{ min = %d, max = %d }", l.Min, l.Max)
}

// lengthJSON writes a length as JSON.
func lengthJSON(l Length) []byte {
	switch {
	case l.Weights != nil:
		return fmt.Appendf(nil, `{"bounds":%s,"weights":%s}`, jsonValue(l.Bounds), jsonValue(l.Weights))
	case l.LogMean > 0:
		return fmt.Appendf(nil, `{"mean":%s,"cv":%s,"min":%d,"max":%d}`, jsonValue(l.LogMean), jsonValue(l.CV), l.Min, l.Max)
	case l.Min == l.Max:
		return fmt.Append(nil, l.Min)
	}
	return fmt.Appendf(nil, `{"min":%d,"max":%d}`, l.Min, l.Max)
}
