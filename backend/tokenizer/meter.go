package tokenizer

import (
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// Limits of one rendering. They grow with what the client sent, of which a
// template may print a part several times; the fixed part is for the template.
const (
	textFixed   = 4 << 20 // bytes printed
	textFactor  = 8
	stepsFixed  = 1 << 20 // tags met, items of ranges, values looked at
	stepsFactor = 16      // for each byte
	macroDepth  = 200
	// renderTime ends what is within these limits and still slow, such as a
	// search through megabytes at each of a million steps. Templates of known
	// models take milliseconds.
	renderTime = 10 * time.Second
)

// meter counts what a rendering does. Its methods are a template's functions.
type meter struct {
	text, steps, depth int // what is left
	longest            int // what a single value may hold
	end                time.Time
}

func newMeter(input int) *meter {
	m := &meter{text: textFixed + textFactor*input, steps: stepsFixed + stepsFactor*input, depth: macroDepth}
	m.longest = m.text
	m.end = time.Now().Add(renderTime)
	return m
}

var (
	errLong  = &ChatError{"the model's chat template prints too much for these messages"}
	errSteps = &ChatError{"the model's chat template takes too many steps for these messages"}
	errDeep  = &ChatError{"the model's chat template calls macros or nests values too deeply"}
	errSlow  = &ChatError{"the model's chat template takes too long for these messages"}
)

func (m *meter) addTo(variables map[string]jinja.Value) {
	for name, f := range map[string]func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error){
		stepName:                  m.step,
		printName:                 m.print,
		enterName:                 m.enter,
		leaveName:                 m.leave,
		"range":                   m.numbers,
		pythonFilter:              m.json,
		meteredPrefix + "replace": m.replace,
		meteredPrefix + "join":    m.join,
		meteredPrefix + "indent":  m.indent,
		meteredPrefix + "format":  m.format,
		meteredPrefix + "append":  m.method(`{% set r = v.append(a) %}`),
		meteredPrefix + "insert":  m.method(`{% set r = v.insert(a, b) %}`),
		meteredPrefix + "update":  m.method(`{% set r = v.update(a) %}`),
	} {
		variables[name] = jinja.NewCallable(name, f)
	}
}

func (m *meter) spend(text, steps int) error {
	m.text -= text
	m.steps -= steps
	switch {
	case m.text < 0:
		return errLong
	case m.steps < 0:
		return errSteps
	case m.steps%256 < steps && time.Now().After(m.end):
		return errSlow
	}
	return nil
}

// step is met after every tag: with the length of the text that follows, and
// with the values that the tag has set.
func (m *meter) step(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	for _, v := range args[1:] {
		if _, err := m.size(v); err != nil {
			return jinja.Undefined(), err
		}
	}
	return jinja.Undefined(), m.spend(int(args[0].AsInt()), 1)
}

func (m *meter) print(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	n, err := m.size(args[0])
	if err != nil {
		return jinja.Undefined(), err
	}
	return args[0], m.spend(n, 1)
}

func (m *meter) enter([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	if m.depth--; m.depth < 0 {
		return jinja.Undefined(), errDeep
	}
	return jinja.Undefined(), nil
}

func (m *meter) leave([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	m.depth++
	return jinja.Undefined(), nil
}

// size is about how long v is when it is printed. An error says that it holds
// too much, or itself.
func (m *meter) size(v jinja.Value) (int, error) {
	n := 0
	err := m.measure(v, &n, 0)
	return n, err
}

func (m *meter) measure(v jinja.Value, n *int, depth int) error {
	if depth > maxNesting+10 {
		return errDeep
	}
	if err := m.spend(0, 1); err != nil {
		return err
	}
	switch {
	case v.IsString():
		*n += len(v.AsString())
	case v.IsList():
		for _, item := range v.AsList().Items {
			if err := m.measure(item, n, depth+1); err != nil {
				return err
			}
		}
	case v.IsDict():
		d := v.AsDict()
		for _, key := range d.Keys {
			*n += len(key)
			if err := m.measure(d.Data[key], n, depth+1); err != nil {
				return err
			}
		}
	}
	if *n += 8; *n > m.longest {
		return errLong
	}
	return nil
}

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
	return jinja.NewList(items), nil
}

func (m *meter) json(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	for _, v := range args {
		if _, err := m.size(v); err != nil {
			return jinja.Undefined(), err
		}
	}
	return pythonJSON(m.longest, args, kwargs)
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

// texts prints values as the engine does.
func (m *meter) texts(args []jinja.Value) ([]string, error) {
	out := make([]string, len(args))
	for i, v := range args {
		if _, err := m.size(v); err != nil {
			return nil, err
		}
		if v.IsString() {
			out[i] = v.AsString()
			continue
		}
		printed, err := runEngine("{{ v }}", v)
		if err != nil {
			return nil, err
		}
		out[i] = printed.AsString()
	}
	return out, nil
}

func (m *meter) fits(n int) error {
	if n < 0 || n > m.longest {
		return errLong
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
	if len(args) > 3 && args[3].IsInt() {
		count = int(args[3].AsInt())
	}
	if v, ok := kwargs["count"]; ok && v.IsInt() {
		count = int(v.AsInt())
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

func (m *meter) join(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	n, err := m.size(args[0])
	if err != nil {
		return jinja.Undefined(), err
	}
	separator := jinja.NewString("")
	if len(args) > 1 {
		separator = args[1]
	}
	if d, ok := kwargs["d"]; ok {
		separator = d
	}
	each, err := m.size(separator)
	if err != nil {
		return jinja.Undefined(), err
	}
	if args[0].IsList() {
		n += each * args[0].AsList().Len()
	}
	if err := m.fits(n); err != nil {
		return jinja.Undefined(), err
	}
	if attribute, ok := kwargs["attribute"]; ok {
		return runEngine("{{ v|join(a, attribute=b) }}", args[0], separator, attribute)
	}
	return runEngine("{{ v|join(a) }}", args[0], separator)
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
func (m *meter) method(template string) func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	return func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(args) > 3 {
			return jinja.Undefined(), fmt.Errorf("more than two arguments")
		}
		for _, v := range args[1:] {
			n, err := m.size(v)
			if err == nil {
				err = m.spend(n, 1)
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
