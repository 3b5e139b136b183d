package experiments

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/experiments/internal/locate"
	"github.com/tokenrouter/tokenrouter/internal/nearest"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
)

// document is an experiment file while it is being checked.
type document struct {
	file   string
	lines  locate.Lines
	voc    vocabulary
	tables map[string]string // by model name: its table in the file, models[1]
	values settings
	origin map[string]origin // of each value
	axes   []axis
	pinned map[string]bool // paths that the file sweeps and --set does not
	files  files
	errs   SpecErrors
}

// origin is where a value came from: a path in the file, or the command line.
type origin struct {
	src     string
	fromSet bool
}

// axis is one swept key.
type axis struct {
	path   string
	values []any // checked
	origin origin
}

// read checks src key by key. What is wrong is left in errs.
func read(file string, src []byte) *document {
	d := &document{
		file:   file,
		voc:    vocabulary{profiles: steptime.Names(), algorithms: algorithms.Names()},
		tables: map[string]string{},
		values: settings{},
		origin: map[string]origin{},
		pinned: map[string]bool{},
		files:  files{dir: filepath.Dir(file), read: map[string]*readFile{}},
	}
	root := map[string]any{}
	if err := toml.Unmarshal(src, &root); err != nil {
		d.errs = append(d.errs, syntaxError(file, err))
		return d
	}
	d.lines = locate.Scan(string(src))
	models := d.readModels(root["models"])
	sweep, plain := root["sweep"], map[string]any{}
	for name, v := range root {
		if name != "models" && name != "sweep" {
			plain[name] = v
		}
	}
	d.walk(plain, "", "", "")
	for _, m := range models {
		d.walk(m.table, m.src, m.path, "models.*")
	}
	d.readSweep(sweep)
	if _, ok := root["question"]; !ok {
		d.fail(problem{path: "question", msg: "is missing", hint: `question = "Which threshold suits …?"`})
	}
	return d
}

func syntaxError(file string, err error) *SpecError {
	e := &SpecError{File: file, Msg: err.Error()}
	var parse toml.ParseError
	if errors.As(err, &parse) {
		e.Line = max(parse.Position.Line, 1)
		if parse.Message != "" {
			e.Msg = "not TOML: " + parse.Message
		}
	}
	return e
}

// modelTable is one [[models]] table: where it is, and what errors call it.
type modelTable struct {
	table     map[string]any
	src, path string
}

// tablesOf is an array of tables as the decoder gives it: of two types, by how
// it is written in the file. Anything else is nil.
func tablesOf(v any) []map[string]any {
	switch v := v.(type) {
	case []map[string]any:
		return v
	case []any:
		var tables []map[string]any
		for _, item := range v {
			t, ok := item.(map[string]any)
			if !ok {
				return nil
			}
			tables = append(tables, t)
		}
		return tables
	}
	return nil
}

// readModels collects the models' names first: other values refer to them.
func (d *document) readModels(v any) []modelTable {
	tables := tablesOf(v)
	switch {
	case v == nil:
		d.fail(problem{path: "models", msg: "is missing", hint: "start each model with [[models]]"})
	case len(tables) == 0:
		d.fail(problem{path: "models", msg: "must be an array of tables", hint: "start each model with [[models]]"})
	case len(tables) > maxModels:
		d.fail(problem{path: "models", msg: fmt.Sprintf("must be at most %d models, got %d", maxModels, len(tables))})
	}
	var out []modelTable
	for i, t := range tables {
		m := modelTable{t, locate.Index("models", i), locate.Index("models", i)}
		if name, ok := d.modelName(t["name"], m.src); ok {
			m.path = "models." + name
			d.voc.models = append(d.voc.models, name)
			d.tables[name] = m.src
		}
		out = append(out, m)
	}
	return out
}

func (d *document) modelName(v any, src string) (string, bool) {
	path := src + ".name"
	name, isString := v.(string)
	switch {
	case v == nil:
		d.fail(problem{path: path, msg: "is missing", hint: `name = "small"`})
	case !isString:
		return "", false // Reported with all other types.
	case locate.Join("", name) != name:
		d.fail(problem{path: path, msg: fmt.Sprintf("must be letters, digits, - and _ only, got %q", name)})
	case d.tables[name] != "":
		d.fail(problem{path: path, msg: fmt.Sprintf("two models are named %q", name)})
	default:
		return name, true
	}
	return "", false
}

// walk checks the keys of one table. src is its path in the file, path its
// name in errors and settings, pattern its name in the key table.
func (d *document) walk(t map[string]any, src, path, pattern string) {
	for _, name := range slices.Sorted(maps.Keys(t)) {
		v := t[name]
		at := origin{src: locate.Join(src, name)}
		full, general := locate.Join(path, name), locate.Join(pattern, name)
		if k := keyAt[general]; k != nil {
			d.store(k, full, v, at)
			continue
		}
		if !isTable(general) {
			d.failAt(at, full, "unknown key", unknownHint(name, pattern))
			continue
		}
		inner, ok := v.(map[string]any)
		if !ok {
			d.failAt(at, full, "must be a table, got "+describe(v), "")
			continue
		}
		d.walk(inner, at.src, full, general)
	}
}

// unknownHint offers the near keys of the same table, or else the table in
// which a key of that name belongs.
func unknownHint(name, pattern string) string {
	if near := nearest.Names(name, children(pattern)); len(near) > 0 {
		return "did you mean " + strings.Join(near, " or ") + "?"
	}
	for i := range keys {
		if table, found := strings.CutSuffix(keys[i].path, "."+name); found {
			if table == "models.*" {
				return "it belongs to a model, below [[models]]"
			}
			return "it belongs below [" + table + "]"
		}
	}
	return offer(name, children(pattern))
}

// store checks a value and keeps it if it is right.
func (d *document) store(k *key, path string, v any, at origin) {
	checked, found := k.check(v, &d.voc)
	for _, f := range found {
		d.failAt(origin{src: at.src + f.sub, fromSet: at.fromSet}, path+f.sub, f.msg, f.hint)
	}
	if len(found) == 0 {
		d.values[path] = checked
		d.origin[path] = at
	}
}

// readSweep reads the [sweep] table. Its keys are paths, in quotes or not.
func (d *document) readSweep(v any) {
	if v == nil {
		return
	}
	t, ok := v.(map[string]any)
	if !ok {
		d.fail(problem{path: "sweep", msg: "must be a table, got " + describe(v), hint: `"models.large.B" = [1, 2, 4] below [sweep]`})
		return
	}
	d.sweepTable(t, "sweep", "")
	slices.SortStableFunc(d.axes, func(a, b axis) int {
		return d.lines.Order(a.origin.src) - d.lines.Order(b.origin.src)
	})
}

func (d *document) sweepTable(t map[string]any, src, path string) {
	for _, name := range slices.Sorted(maps.Keys(t)) {
		at, full := origin{src: locate.Join(src, name)}, name
		if path != "" {
			full = path + "." + name
		}
		if inner, ok := t[name].(map[string]any); ok {
			d.sweepTable(inner, at.src, full)
			continue
		}
		d.addAxis(full, t[name], at)
	}
}

// addAxis checks one swept key and all its values.
func (d *document) addAxis(path string, v any, at origin) {
	shown := "sweep." + locate.Join("", path)
	k := d.settable(path, at, shown)
	if k == nil {
		return
	}
	items, ok := v.([]any)
	switch {
	case !ok:
		d.failAt(at, shown, "must be an array of values, got "+describe(v), "write ["+tomlText(v)+"]")
		return
	case len(items) == 0:
		d.failAt(at, shown, "must not be empty", "")
		return
	case slices.ContainsFunc(d.axes, func(a axis) bool { return a.path == path }):
		d.failAt(at, shown, "is swept twice", "")
		return
	}
	a := axis{path: path, origin: at}
	seen := map[string]bool{}
	for i, item := range items {
		checked, found := k.check(item, &d.voc)
		for _, f := range found {
			sub := locate.Index("", i) + f.sub
			d.failAt(origin{src: at.src + sub, fromSet: at.fromSet}, shown+sub, f.msg, f.hint)
		}
		text := tomlText(checked)
		if len(found) == 0 && seen[text] {
			sub := locate.Index("", i)
			d.failAt(origin{src: at.src + sub, fromSet: at.fromSet}, shown+sub, "the value "+text+" is given twice", "")
		}
		seen[text] = true
		a.values = append(a.values, checked)
	}
	d.axes = append(d.axes, a)
}

// settable is the key at path, if a sweep or --set may change it; what is
// wrong is reported under the name shown.
func (d *document) settable(path string, at origin, shown string) *key {
	k := keyFor(path)
	model, isModel := modelOf(path)
	known := isModel && d.tables[model] != ""
	switch {
	case k != nil && isModel && !known:
		d.failAt(at, shown, fmt.Sprintf("no model is named %q", model), offer(model, d.voc.models))
	case k == nil:
		d.failAt(at, shown, "names no key", offer(path, d.allPaths()))
	case isModel && strings.HasSuffix(path, ".name"):
		d.failAt(at, shown, "a model's name cannot be changed", "")
	case path == "workload.classes" && !at.fromSet:
		d.failAt(at, shown, "cannot be swept", "the columns of the results name the classes")
	case !isSetting(path) && !at.fromSet:
		d.failAt(at, shown, "cannot be swept", "give "+path+" itself a list, or leave it out")
	default:
		return k
	}
	return nil
}

// modelOf is the model whose key path is.
func modelOf(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, "models.")
	if !ok {
		return "", false
	}
	name, _, ok := strings.Cut(rest, ".")
	return name, ok
}

// allPaths lists every path that --set or a sweep may name.
func (d *document) allPaths() []string {
	var paths []string
	for i := range keys {
		for _, path := range expand(keys[i].path, d.voc.models) {
			if isSetting(path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

func (d *document) failAt(at origin, path, msg, hint string) {
	p := d.placeOf(at)
	d.fail(problem{path: path, at: &p, msg: msg, hint: hint})
}

func (d *document) placeOf(at origin) place {
	if at.fromSet {
		return place{file: fromSet}
	}
	return place{d.file, d.lines.Line(at.src)}
}

// fail reports a problem at its place, or at that of its path.
func (d *document) fail(p problem) { d.errs = append(d.errs, d.located(p, d.origin)) }

func (d *document) located(p problem, origins map[string]origin) *SpecError {
	at := place{}
	if p.at != nil {
		at = *p.at
	} else {
		at = d.placeOf(d.originOf(p.path, origins))
	}
	return &SpecError{File: at.file, Line: at.line, Path: p.path, Msg: p.msg, Hint: p.hint}
}

// originOf finds where path, or the value that path leads into, came from; for
// what was not written, the table in which it is missing.
func (d *document) originOf(path string, origins map[string]origin) origin {
	whole, sub := path, ""
	if cut := strings.IndexByte(path, '['); cut > 0 && !strings.HasPrefix(path, "models[") {
		whole, sub = path[:cut], path[cut:]
	}
	if at, ok := origins[whole]; ok {
		at.src += sub
		return at
	}
	if model, ok := modelOf(path); ok || strings.HasPrefix(path, "models.") {
		if !ok {
			model = strings.TrimPrefix(path, "models.")
		}
		if table, known := d.tables[model]; known {
			return origin{src: table + strings.TrimPrefix(path, "models."+model)}
		}
	}
	return origin{src: path}
}
