package experiments

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// Load checks the experiment in src, which was read from file, with the
// settings in set ("path=value", the value in TOML) put over it. A set path
// that the file sweeps is no longer swept. The error is a SpecErrors and lists
// everything that is wrong.
func Load(file string, src []byte, set ...string) (*Plan, error) {
	d := read(file, src)
	for _, s := range set {
		d.set(s)
	}
	if len(d.errs) > 0 {
		return nil, d.errs.sorted()
	}
	plan := d.plan()
	if len(d.errs) > 0 {
		return nil, d.errs.sorted()
	}
	plan.File = file
	plan.Name = strings.TrimSuffix(filepath.Base(file), ".toml")
	return plan, nil
}

// set puts one value from the command line over those of the file.
func (d *document) set(text string) {
	at := origin{fromSet: true}
	path, value, ok := strings.Cut(text, "=")
	path = strings.TrimSpace(path)
	if !ok || path == "" {
		d.failAt(at, "", fmt.Sprintf("%q is not path=value", text), "for example --set models.large.B=4")
		return
	}
	if swept, ok := strings.CutPrefix(path, "sweep."); ok {
		swept = strings.Trim(swept, `"`)
		if v, ok := d.parse(path, value, nil); ok {
			d.dropRivals(swept)
			place := d.dropAxis(swept)
			d.addAxis(swept, v, at)
			d.moveLastAxis(place)
		}
		return
	}
	k := d.settable(path, at, printable(path))
	if k == nil {
		return
	}
	v, ok := d.parse(path, value, k)
	if !ok {
		return
	}
	d.dropAxis(path)
	d.dropRivals(path)
	d.store(k, path, v, at)
}

// parse reads a TOML value. Words need no quotes where k wants a string, and
// no brackets where it wants several.
func (d *document) parse(path, text string, k *key) (any, bool) {
	doc := map[string]any{}
	if err := toml.Unmarshal([]byte("v = "+text), &doc); err == nil && len(doc) == 1 {
		if _, isString := doc["v"].(string); !isString || k == nil || k.kind != kindStrings {
			return doc["v"], true
		}
		text = doc["v"].(string)
	}
	text = strings.TrimSpace(text)
	if k != nil && (k.kind == kindString || k.kind == kindThreshold && text == tunedWord) {
		return text, true
	}
	if k != nil && k.kind == kindStrings && !strings.HasPrefix(text, "[") {
		var items []any
		for _, word := range strings.Split(text, ",") {
			items = append(items, strings.TrimSpace(word))
		}
		return items, true
	}
	d.failAt(origin{fromSet: true}, printable(path), fmt.Sprintf("%q is not a TOML value", text), "")
	return nil, false
}

// printable quotes a path from the command line that would garble a message.
func printable(path string) string {
	if quoted := strconv.Quote(path); quoted[1:len(quoted)-1] != path {
		return quoted
	}
	return path
}

// dropAxis stops sweeping path and returns the place of it among the swept
// keys, -1 if it was none.
func (d *document) dropAxis(path string) int {
	i := slices.IndexFunc(d.axes, func(a axis) bool { return a.path == path })
	if i >= 0 {
		d.axes = slices.Delete(d.axes, i, i+1)
		d.pinned[path] = true
	}
	return i
}

// moveLastAxis puts the axis that was added last at a place; -1 leaves it.
func (d *document) moveLastAxis(place int) {
	last := len(d.axes) - 1
	if place >= 0 && place < last {
		a := d.axes[last]
		d.axes = slices.Insert(d.axes[:last], place, a)
	}
}

// dropRivals makes room for a value that stands in place of others: whoever
// sets a profile means it to replace step_ms or a roofline, and so on; likewise
// for the two ways to end a run and to give lengths.
func (d *document) dropRivals(path string) {
	switch path {
	case "workload.requests":
		d.drop("workload.duration_s")
	case "workload.duration_s":
		d.drop("workload.requests")
	case "workload.lengths":
		d.drop("workload.prompt_tokens")
		d.drop("workload.output_tokens")
	case "workload.prompt_tokens", "workload.output_tokens":
		d.drop("workload.lengths")
	}
	model, ok := modelOf(path)
	if !ok {
		return
	}
	at := "models." + model + "."
	chosen, _, _ := strings.Cut(strings.TrimPrefix(path, at), ".")
	if !slices.Contains(stepTimeKeys, chosen) {
		return
	}
	for i := range keys {
		rest, isModel := strings.CutPrefix(keys[i].path, "models.*.")
		table, _, _ := strings.Cut(rest, ".")
		if isModel && table != chosen && slices.Contains(stepTimeKeys, table) {
			d.drop(at + rest)
		}
	}
}

// drop forgets what the file says of a key.
func (d *document) drop(path string) {
	delete(d.values, path)
	d.dropAxis(path)
}

// stepTimeKeys are the ways to give the step times of a model: a key and two
// tables.
var stepTimeKeys = []string{"profile", "step_ms", "roofline"}
