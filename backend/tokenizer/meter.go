package tokenizer

import (
	"time"

	"github.com/ardanlabs/jinja"
)

// Limits of one rendering. They grow with what the client sent, of which a
// template may print a part several times; the fixed part is for the template.
const (
	textFixed   = 16 << 20 // bytes printed, by macros too
	valueFixed  = 4 << 20  // bytes of one value
	textFactor  = 8        // more of both for each byte that was sent
	stepsFixed  = 2 << 20  // tags met, items of ranges, values looked at
	stepsFactor = 16
	macroDepth  = 200
	// madeFixed bounds the bytes of texts and lists that are made in all, most of
	// them garbage at once, so that no more can be held. Some templates copy the
	// list of messages for each message.
	madeFixed  = 1 << 30
	madeFactor = 32
	// renderTime ends what is within these limits and still slow, such as a
	// search through megabytes at each of a million steps. Templates of known
	// models take milliseconds.
	renderTime = 10 * time.Second
)

// meter counts what a rendering does. Its methods are a template's functions.
type meter struct {
	text, steps, depth, made int // what is left
	longest                  int // what a single value may hold
	end                      time.Time
	printed                  func(jinja.Value) string // how values are printed; tests have the engine's way
	// err is the first one. All that is metered returns it from then on, should
	// the engine go on.
	err error
}

func newMeter(input int) *meter {
	return &meter{
		text: textFixed + textFactor*input, steps: stepsFixed + stepsFactor*input, depth: macroDepth, made: madeFixed + madeFactor*input,
		longest: valueFixed + textFactor*input,
		end:     time.Now().Add(renderTime),
		printed: printed,
	}
}

var (
	errLong  = &ChatError{"the model's chat template prints too much for these messages"}
	errSteps = &ChatError{"the model's chat template takes too many steps for these messages"}
	errDeep  = &ChatError{"the model's chat template calls macros or nests values too deeply"}
	errSlow  = &ChatError{"the model's chat template takes too long for these messages"}
)

type callable = func(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error)

func (m *meter) addTo(variables map[string]jinja.Value) {
	for name, f := range map[string]callable{
		stepName:                    m.step,
		printName:                   m.print,
		enterName:                   m.enter,
		leaveName:                   m.leave,
		lookName:                    m.look,
		writtenName:                 m.written,
		copiedName:                  m.copied,
		withinName:                  m.within,
		itemsName:                   m.items,
		passName:                    m.pass,
		productName:                 m.product,
		sliceName:                   m.slice,
		mapName:                     m.each,
		sumName:                     m.sum,
		markupName:                  m.markup,
		rowName:                     m.row,
		eachName:                    m.eachOf,
		meteredPrefix + "strip":     m.strip,
		meteredPrefix + "trim":      m.trim,
		meteredPrefix + "lstrip":    m.lstrip,
		meteredPrefix + "rstrip":    m.rstrip,
		meteredPrefix + "formatted": m.formatted,
		fieldName:                   m.field,
		"range":                     m.numbers,
		pythonFilter:                m.json,
		meteredPrefix + "list":      m.list,
		meteredPrefix + "fromjson":  m.fromJSON,
		meteredPrefix + "from_json": m.fromJSON,
		meteredPrefix + "split":     m.split,
		meteredPrefix + "replace":   m.replace,
		meteredPrefix + "join":      m.join,
		meteredPrefix + "indent":    m.indent,
		meteredPrefix + "format":    m.format,
		meteredPrefix + "append":    m.method(`{% set r = v.append(a) %}`, 1),
		meteredPrefix + "insert":    m.method(`{% set r = v.insert(a, b) %}`, 2),
		meteredPrefix + "update":    m.method(`{% set r = v.update(a) %}`, 1),
	} {
		variables[name] = jinja.NewCallable(name, f)
	}
}

func (m *meter) spend(text, steps int) error {
	m.text -= text
	m.steps -= steps
	switch {
	case m.err != nil:
	case m.text < 0:
		m.err = errLong
	case m.steps < 0:
		m.err = errSteps
	case m.steps%32 < steps && time.Now().After(m.end): // reading the clock takes as long as a step
		m.err = errSlow
	}
	return m.err
}

// step is met after every tag: with the text that follows, which it prints, and
// with the values that the tag has set.
func (m *meter) step(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	steps := 1
	for _, v := range args[1:] {
		_, values, err := m.size(v)
		if err != nil {
			return jinja.Undefined(), err
		}
		steps += values
	}
	return args[0], m.spend(len(args[0].AsString()), steps)
}

func (m *meter) print(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	n, values, err := m.size(args[0])
	if err != nil {
		return jinja.Undefined(), err
	}
	if args[0].IsString() {
		return args[0], m.spend(n, values)
	}
	text := m.printed(args[0])
	if err := m.makeBytes(len(text)); err != nil {
		return jinja.Undefined(), err
	}
	return jinja.NewString(text), m.spend(max(n, len(text)), values)
}

func (m *meter) enter([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	if m.depth--; m.depth < 0 {
		m.err = errDeep
	}
	return jinja.Undefined(), m.spend(0, 1)
}

func (m *meter) leave([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	m.depth++
	return jinja.Undefined(), m.spend(0, 1)
}

// look sees a value that is about to be worked on: all of it, and the result will
// be a list or text as long.
func (m *meter) look(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	n, values, err := m.size(args[0])
	if err != nil {
		return jinja.Undefined(), err
	}
	if err := m.make(args[0]); err != nil {
		return jinja.Undefined(), err
	}
	return args[0], m.work(n, values)
}

// written is the text of a value, which will be part of another.
func (m *meter) written(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	n, values, err := m.size(args[0])
	if err != nil {
		return jinja.Undefined(), err
	}
	text := m.printed(args[0])
	if err := m.makeBytes(max(n, len(text))); err != nil {
		return jinja.Undefined(), err
	}
	return jinja.NewString(text), m.work(n, values)
}

// copied sees what a method returned, and nothing within it.
func (m *meter) copied(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	return args[0], m.make(args[0])
}

// within sees what something is looked for in. In an object that takes no time.
func (m *meter) within(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if args[0].IsDict() {
		return args[0], m.err
	}
	n, values, err := m.size(args[0])
	if err != nil {
		return jinja.Undefined(), err
	}
	return args[0], m.work(n, values)
}

// items sees what a loop goes through. Of a text the engine makes a list.
func (m *meter) items(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if args[0].IsString() {
		return args[0], m.makeBytes(itemBytes * len(args[0].AsString()))
	}
	return args[0], m.make(args[0])
}

// itemBytes is what an item of a list takes, about: the list's own word for it,
// and a short text.
const itemBytes = 64

// make counts what a copy of v takes, its items not copied.
func (m *meter) make(v jinja.Value) error {
	switch {
	case v.IsString():
		return m.makeBytes(len(v.AsString()))
	case v.IsList():
		return m.makeBytes(itemBytes / 2 * v.AsList().Len())
	case v.IsDict():
		return m.makeBytes(2 * itemBytes * v.AsDict().Len())
	}
	return m.err
}

func (m *meter) makeBytes(n int) error {
	m.made -= n
	switch {
	case m.err != nil:
	case m.made < 0:
		m.err = errLong
	case n >= 1<<16 && time.Now().After(m.end):
		m.err = errSlow
	}
	return m.err
}

// lookDivisor is how many values are seen, or how many times 64 bytes, in the time
// of a step.
const lookDivisor = 16

// work counts what is done with n bytes in so many values. It costs little, as
// templates look at all messages again for each.
func (m *meter) work(n, values int) error {
	if steps := values/lookDivisor + n/(64*lookDivisor); steps > 0 {
		return m.spend(0, steps)
	}
	return m.err
}

// pass is met by each item that a loop leaves out or takes.
func (m *meter) pass(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	return args[0], m.spend(0, 1)
}

// size is about how long v is when it is printed, and of how many values it
// consists. An error says that it holds too much, or itself.
func (m *meter) size(v jinja.Value) (n, values int, err error) {
	err = m.measure(v, &n, &values, 0)
	return n, values, err
}

func (m *meter) measure(v jinja.Value, n, values *int, depth int) error {
	if depth > maxNesting+10 {
		m.err = errDeep
	}
	switch {
	case m.err != nil:
	case v.IsString():
		*n += len(v.AsString())
	case v.IsList():
		for _, item := range v.AsList().Items {
			if err := m.measure(item, n, values, depth+1); err != nil {
				return err
			}
		}
	case v.IsDict():
		d := v.AsDict()
		for _, key := range d.Keys {
			*n += len(key)
			if err := m.measure(d.Data[key], n, values, depth+1); err != nil {
				return err
			}
		}
	}
	*values++
	if *n += 8; *n > m.longest && m.err == nil {
		m.err = errLong
	}
	return m.err
}
