package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// The meter's own of what may make much of little: how long a result will be is
// known before it is made.

// numbers is range.
func (m *meter) numbers(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) < 1 || len(args) > 3 {
		return jinja.Undefined(), fmt.Errorf("range takes 1 to 3 numbers, not %d", len(args))
	}
	bounds := [3]int64{0, 0, 1}
	for i, v := range args {
		if v.IsFloat() {
			v = jinja.NewInt(int64(v.AsFloat()))
		}
		if !v.IsInt() {
			return jinja.Undefined(), fmt.Errorf("range takes numbers, not %s", short(v.String()))
		}
		bounds[i] = v.AsInt()
	}
	if len(args) == 1 {
		bounds[0], bounds[1] = 0, bounds[0]
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if step == 0 {
		return jinja.Undefined(), fmt.Errorf("range: the step is 0")
	}
	var items []jinja.Value
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if err := m.spend(0, 1); err != nil {
			return jinja.Undefined(), err
		}
		items = append(items, jinja.NewInt(i))
	}
	return jinja.NewList(items), m.makeBytes(itemBytes * len(items))
}

func (m *meter) lookAll(values []jinja.Value) error {
	for _, v := range values {
		if _, err := m.look([]jinja.Value{v}, nil); err != nil {
			return err
		}
	}
	return nil
}

func (m *meter) json(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if err := m.lookAll(args); err != nil {
		return jinja.Undefined(), err
	}
	text, err := pythonJSON(m.longest, args, kwargs)
	if err != nil {
		return text, err
	}
	return text, m.fits(len(text.AsString()))
}

// runEngine runs one of the engine's own filters or methods on values that were
// found to be harmless: v, a and b.
func runEngine(template string, args ...jinja.Value) (jinja.Value, error) {
	t, err := jinja.Compile(template)
	if err != nil {
		return jinja.Undefined(), err
	}
	variables := map[string]jinja.Value{}
	for i, v := range args {
		variables[string("vab"[i])] = v
	}
	text, err := t.RenderValues(variables)
	return jinja.NewString(text), err
}

// itemsOf are what a loop through v meets, in a list of their own.
func itemsOf(v jinja.Value) []jinja.Value {
	switch {
	case v.IsList():
		return slices.Clone(v.AsList().Items)
	case v.IsDict():
		items := make([]jinja.Value, 0, v.AsDict().Len())
		for _, key := range v.AsDict().Keys {
			items = append(items, jinja.NewString(key))
		}
		return items
	}
	return nil
}

// each is the filter map with the name of another.
func (m *meter) each(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	items := itemsOf(args[0])
	for i, item := range items {
		var err error
		if args[1].AsString() == "tojson" {
			if items[i], err = m.json([]jinja.Value{item}, nil); err != nil {
				return jinja.Undefined(), err
			}
			continue
		}
		if items[i], err = runEngine("{{ v|"+args[1].AsString()+" }}", item); err != nil {
			return jinja.Undefined(), err
		}
	}
	return jinja.NewList(items), m.spend(0, len(items))
}

// texts are the values as they are printed.
func (m *meter) texts(args []jinja.Value) ([]string, error) {
	if err := m.lookAll(args); err != nil {
		return nil, err
	}
	out := make([]string, len(args))
	for i, v := range args {
		out[i] = m.printed(v)
	}
	return out, nil
}

func (m *meter) fits(n int) error {
	if n < 0 || n > m.longest {
		m.err = errLong
		return m.err
	}
	if err := m.makeBytes(n); err != nil {
		return err
	}
	return m.spend(0, n/64)
}

func (m *meter) replace(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if len(args) < 3 {
		return jinja.Undefined(), fmt.Errorf("replace takes a text and what replaces it")
	}
	s, err := m.texts(args[:3])
	if err != nil {
		return jinja.Undefined(), err
	}
	count := -1
	given, ok := kwargs["count"]
	if len(args) > 3 && !ok {
		given, ok = args[3], true
	}
	if ok && !given.IsInt() {
		return jinja.Undefined(), fmt.Errorf("replace takes a whole number for its count")
	} else if ok {
		count = int(given.AsInt())
	}
	n := strings.Count(s[0], s[1])
	if count >= 0 {
		n = min(n, count)
	}
	if err := m.fits(len(s[0]) + n*max(len(s[2])-len(s[1]), 0)); err != nil {
		return jinja.Undefined(), err
	}
	return jinja.NewString(strings.Replace(s[0], s[1], s[2], count)), nil
}

func (m *meter) indent(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	s, err := m.texts(args[:1])
	if err != nil {
		return jinja.Undefined(), err
	}
	option := func(position int, name string, otherwise jinja.Value) jinja.Value {
		if v, ok := kwargs[name]; ok {
			return v
		}
		if len(args) > position {
			return args[position]
		}
		return otherwise
	}
	width, first := option(1, "width", jinja.NewInt(4)), option(2, "first", jinja.NewBool(false))
	if !width.IsInt() || width.AsInt() < 0 || width.AsInt() > 1000 {
		return jinja.Undefined(), fmt.Errorf("indent takes a width of 0 to 1000")
	}
	if err := m.fits(len(s[0]) + (1+strings.Count(s[0], "\n"))*int(width.AsInt())); err != nil {
		return jinja.Undefined(), err
	}
	return runEngine("{{ v|indent(a, b) }}", jinja.NewString(s[0]), width, first)
}

// format puts texts where the first one says {} or {0}.
func (m *meter) format(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	s, err := m.texts(args)
	if err != nil {
		return jinja.Undefined(), err
	}
	text := s[0]
	for i, arg := range s[1:] {
		place := fmt.Sprintf("{%d}", i)
		if err := m.fits(len(text) + (1+strings.Count(text, place))*len(arg)); err != nil {
			return jinja.Undefined(), err
		}
		text = strings.Replace(strings.ReplaceAll(text, place, arg), "{}", arg, 1)
	}
	return jinja.NewString(text), nil
}

// method runs a method that changes a list or an object. All that is put into
// one counts as printed, or a list of one long text many times would be more
// than memory holds when it is.
func (m *meter) method(template string, takes int) func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	return func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(args) != 1+takes {
			return jinja.Undefined(), fmt.Errorf("a method of a list or object with %d arguments instead of %d", len(args)-1, takes)
		}
		for _, v := range args[1:] {
			n, values, err := m.size(v)
			if err == nil {
				err = m.spend(n, values)
			}
			if err == nil && holds(v, args[0]) {
				err = errDeep
			}
			if err != nil {
				return jinja.Undefined(), err
			}
		}
		_, err := runEngine(template, args...)
		return jinja.None(), err
	}
}

// holds tells whether v is or has within it the list or object that part is.
func holds(v, part jinja.Value) bool {
	switch {
	case v.IsList():
		if part.IsList() && v.AsList() == part.AsList() {
			return true
		}
		for _, item := range v.AsList().Items {
			if holds(item, part) {
				return true
			}
		}
	case v.IsDict():
		if part.IsDict() && v.AsDict() == part.AsDict() {
			return true
		}
		for _, key := range v.AsDict().Keys {
			if holds(v.AsDict().Data[key], part) {
				return true
			}
		}
	}
	return false
}

// field is an object's field that has the name of a method of the meter's. The
// method itself is a value to some templates, but not one to be called by another
// name.
func (m *meter) field(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	v, name := args[0], args[1].AsString()
	has := ""
	switch {
	case v.IsDict():
		if field, ok := v.AsDict().Get(name); ok {
			return field, m.err
		}
		has = "update"
	case v.IsString():
		has = "replace format split"
	case v.IsList():
		has = "append insert"
	}
	if !strings.Contains(has, name) {
		return jinja.Undefined(), m.err
	}
	return jinja.NewCallable(name, func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		return jinja.Undefined(), fmt.Errorf("the method %s under another name", name)
	}), m.err
}

// list is the filter of that name. A text becomes a list of characters.
func (m *meter) list(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	switch v := args[0]; {
	case v.IsList():
		return v, m.err
	case v.IsString():
		return m.listOf(strings.Split(v.AsString(), ""))
	case v.IsDict() || v.IsUndefined():
		items := itemsOf(v)
		return jinja.NewList(items), m.makeBytes(itemBytes * len(items))
	}
	return jinja.NewList(args[:1]), m.err
}

// eachOf is what a filter goes through: texts and objects as lists.
func (m *meter) eachOf(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if v := args[0]; v.IsString() || v.IsDict() || v.IsUndefined() {
		return m.list(args, nil)
	}
	return args[0], m.err
}

// row is v, or a list for what the tests for rows take for one.
func (m *meter) row(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if v := args[0]; v.IsString() || v.IsDict() || v.IsUndefined() {
		return jinja.NewList(nil), m.err
	}
	return args[0], m.err
}

// split is the method: at white space, or at a text so many times.
func (m *meter) split(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if !args[0].IsString() {
		return jinja.Undefined(), fmt.Errorf("split of what is no text")
	}
	times := -1
	if v, ok := kwargs["maxsplit"]; ok && v.IsInt() {
		times = int(v.AsInt())
	}
	if len(args) > 2 && args[2].IsInt() {
		times = int(args[2].AsInt())
	}
	if len(args) == 1 {
		return m.listOf(strings.Fields(args[0].AsString()))
	}
	s, err := m.texts(args[:2])
	if err != nil {
		return jinja.Undefined(), err
	}
	if times >= 0 {
		times++ // parts
	}
	return m.listOf(strings.SplitN(s[0], s[1], times))
}

// fromJSON reads what the engine would give its fields in another order, and its
// whole numbers as others.
func (m *meter) fromJSON(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if !args[0].IsString() {
		return jinja.Undefined(), nil
	}
	text := args[0].AsString()
	if err := m.makeBytes(itemBytes / 2 * len(text)); err != nil {
		return jinja.Undefined(), err
	}
	return decodeValue([]byte(text))
}

func (m *meter) listOf(texts []string) (jinja.Value, error) {
	items := make([]jinja.Value, len(texts))
	for i, text := range texts {
		items[i] = jinja.NewString(text)
	}
	if err := m.makeBytes(itemBytes * len(items)); err != nil {
		return jinja.Undefined(), err
	}
	return jinja.NewList(items), m.spend(0, len(items)/lookDivisor)
}

// product is a * b: of numbers, or of a text, which is repeated. Of all else the
// engine makes 0, a wrong prompt that nobody would notice.
func (m *meter) product(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	a, b := args[0], args[1]
	switch {
	case a.IsInt() && b.IsInt():
		return jinja.NewInt(a.AsInt() * b.AsInt()), nil
	case a.IsNumber() && b.IsNumber():
		return jinja.NewFloat(float(a) * float(b)), nil
	case a.IsString() && b.IsInt():
		times := int(max(b.AsInt(), 0))
		n := len(a.AsString())
		if n > 0 && times > m.longest/n {
			n, times = m.longest+1, 1
		}
		if err := m.fits(n * times); err != nil {
			return jinja.Undefined(), err
		}
		return jinja.NewString(strings.Repeat(a.AsString(), times)), nil
	}
	return jinja.Undefined(), fmt.Errorf("a product of other than numbers, or of a text and a whole number")
}

func float(v jinja.Value) float64 {
	if v.IsInt() {
		return float64(v.AsInt())
	}
	return v.AsFloat()
}

// slice is v[start:stop], or v[::step]. The engine would go on behind an error
// within the bounds.
func (m *meter) slice(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	for _, name := range []string{"start", "stop", "step"} {
		if v, ok := kwargs[name]; ok && !v.IsInt() {
			return jinja.Undefined(), fmt.Errorf("the %s of a slice is no whole number", name)
		}
	}
	if err := m.make(args[0]); err != nil {
		return jinja.Undefined(), err
	}
	switch v := args[0]; {
	case v.IsList():
		return jinja.NewList(slicePart(v.AsList().Items, kwargs)), nil
	case v.IsString() && len(v.AsString()) == utf8.RuneCountInString(v.AsString()):
		return jinja.NewString(string(slicePart([]byte(v.AsString()), kwargs))), nil
	case v.IsString():
		return jinja.NewString(string(slicePart([]rune(v.AsString()), kwargs))), nil
	}
	return jinja.Undefined(), nil
}

// slicePart is a copy of a part, since items may be added to it.
func slicePart[T any](items []T, bounds map[string]jinja.Value) []T {
	n := len(items)
	bound := func(name string, otherwise int) int {
		v, ok := bounds[name]
		if !ok {
			return otherwise
		}
		at := v.AsInt()
		if at < 0 {
			at += int64(n)
		}
		return int(min(max(at, 0), int64(n)))
	}
	var part []T
	step := 1
	if v, ok := bounds["step"]; ok {
		step = int(min(max(v.AsInt(), int64(-n-1)), int64(n+1)))
	}
	if step < 0 {
		for i := n - 1; i >= 0; i += step {
			part = append(part, items[i])
		}
		return part
	}
	for i := bound("start", 0); i < bound("stop", n); i += max(step, 1) {
		part = append(part, items[i])
	}
	return part
}
