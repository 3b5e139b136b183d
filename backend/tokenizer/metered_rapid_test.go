package tokenizer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ardanlabs/jinja"
	"pgregory.net/rapid"
)

// drawn draws templates by the grammar that the engine knows, in all its ranks of
// operators and kinds of white space. Brackets come where they are drawn, so that
// both readers must agree on who belongs to whom.
type drawn struct {
	t    *rapid.T
	loop bool // within a loop, from whose rounds the engine lets variables out
}

func (d drawn) one(choices ...string) string { return rapid.SampledFrom(choices).Draw(d.t, "one") }

func (d drawn) upTo(n int) int { return rapid.IntRange(0, n).Draw(d.t, "n") }

func (d drawn) atom() string {
	return d.one("a", "s", "l", "o", "n", "messages", "missing", "f(s)", "f(x=l)", "f", "range(3)", "range(a, 9, 2)", "loop.index", "loop.last",
		"loop.cycle(1, s)", "loop.previtem", "caller", "1000", "1", "0", "-2", "2.5", "'x'", `"it's"`, "'}}'", `'\n"\'\\'`,
		"true", "none", "False", "[]", "{}", "(1, )", "' a b '", "'{%'", "'-%}'", "'é,=x'")
}

func (d drawn) expression(depth int) string {
	if depth == 0 {
		return d.atom()
	}
	sub := func() string { return d.expression(depth - 1) }
	switch d.upTo(13) {
	case 0:
		return d.atom()
	case 1, 2, 3:
		blank := d.one(" ", "", "\n")
		operator := d.one("+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">", "<=", ">=")
		return sub() + blank + operator + blank + sub()
	case 4:
		return sub() + d.one(" and ", " or ", " in ", " not in ") + sub()
	case 5:
		return d.one("not ", "-", "+", "- ") + sub()
	case 6:
		if d.upTo(1) == 0 {
			return sub() + " if " + sub()
		}
		return sub() + " if " + sub() + " else " + sub()
	case 7:
		return "(" + sub() + ")"
	case 8:
		return sub() + d.one(".role", ".a", "['content']", "[0]", "[-1]", "[1:]", "[:-1]", "[1:2]", "[::-1]", "[ : ]", "."+d.atom(), "["+d.atom()+"]",
			"["+d.atom()+":"+d.atom()+"]")
	case 9:
		return sub() + d.one("|", " | ") + d.one("upper", "trim", "length", "default('d')", "default(l, true)", "string", "replace('x', 'yy')",
			"replace("+d.atom()+", "+d.atom()+")", "indent(2)", "indent(1, first=true)", "items", "int", "float", "round", "abs", "sum", "wordcount",
			"dictsort", "capitalize", "replace('x', '', "+d.atom()+")", "replace(' ', '_', count="+d.atom()+")", "indent("+d.atom()+", "+d.atom()+")",
			"round(1)", "lower", "default(a, boolean=true)", "title", "d("+d.atom()+")")
	case 10: // the engine knows these of lists
		return d.one("l", "messages", "[]", "[1, 'x', [2]]", "(1, )") + d.one("|", " | ") + d.one("list", "join(', ')", "join", "first", "last", "reverse", "sort",
			"unique", "select('defined')", "selectattr('role', 'equalto', 'user')", "batch(2)", "min", "max", "join(d=', ')", "batch("+d.atom()+")",
			"sort(reverse=true)", "select", "reject('none')", "rejectattr('a')")
	case 11:
		return sub() + d.one(" is ", " is not ") + d.one("defined", "none", "string", "mapping", "number", "eq(1)", "in(l)", "odd", "true")
	case 12:
		return sub() + d.one(".strip()", ".upper()", ".startswith('x')", ".get('a')", ".get('b', 1)", ".items()", ".keys()", ".replace('x', '')",
			".find('x')", ".format(1, s)", ".append(1)", ".update({'a': 2})", ".pop()", ".insert(0, 'i')", ".format", ".rstrip('x')",
			".append()", ".insert("+d.atom()+", 1)", ".replace('x', 'y', "+d.atom()+")", ".format("+d.atom()+", 2)", ".count('x')", ".values()", ".pop(0)",
			".endswith("+d.atom()+")", ".title()", ".lstrip("+d.atom()+")", ".get("+d.atom()+", 1)", "[a:]", ".upper")
	}
	if d.upTo(1) == 0 {
		return "[" + sub() + ", " + sub() + d.one("", ",") + "]"
	}
	return "{ 'a': " + sub() + ", " + d.one("'b'", "1", "s") + ": " + sub() + " }"
}

func (d drawn) statement(code string) string {
	return d.one("{% ", "{%- ", "{%", "{%-\t") + code + d.one(" %}", " -%}", "%}", "\n%}")
}

func (d drawn) text() string { return d.one("", " ", "\n", "x", "\n\n  ", " y\n ", "}}", "é", "#}") }

func (d drawn) template(depth int) string {
	var out strings.Builder
	for range 1 + d.upTo(2) {
		out.WriteString(d.text())
		out.WriteString(d.piece(depth))
	}
	return out.String() + d.text()
}

func (d drawn) piece(depth int) string {
	within := func(d drawn) string {
		if depth == 0 {
			return d.text()
		}
		return d.template(depth - 1)
	}
	body := func() string { return within(d) }
	round := func() string { return within(drawn{d.t, true}) }
	e := func() string { return d.expression(d.upTo(3)) }
	choice := d.upTo(11)
	if d.loop && (choice == 5 || choice == 6) {
		choice = 11
	}
	switch choice {
	case 0:
		return d.one("{# c #}", "{#- ' -#}", "{# {{ #}")
	case 1:
		return d.statement("if "+e()) + body() + d.statement("endif")
	case 2:
		return d.statement("if "+e()) + body() + d.statement("elif "+e()) + body() + d.statement("else") + body() + d.statement("endif")
	case 3:
		filter := d.one("", " if "+e(), " if loop is defined")
		return d.statement("for "+d.one("a", "s", "k, a")+" in "+e()+filter) + round() + d.one("", d.statement("break")) + d.statement("endfor")
	case 4:
		return d.statement("for a in l") + round() + d.statement("if a == 1") + d.statement("continue") + d.statement("endif") + d.statement("else") +
			round() + d.statement("endfor")
	case 5:
		return d.statement("set " + d.one("a", "s", "l", "n.a", "o.b") + d.one(" = ", "=") + e())
	case 6:
		return d.statement("set "+d.one("a", "s")) + body() + d.statement("endset")
	case 7:
		return d.statement("macro f("+d.one("", "a", "s='d'", "a, s=1", "a, s=-1 if a else 2")+")") + body() + d.statement("endmacro")
	case 8:
		return d.statement("macro g(a)") + "{{ caller(a) }}" + d.statement("endmacro") + d.statement("call"+d.one("", "(s)")+" g("+e()+")") + body() +
			d.statement("endcall")
	case 9:
		return d.statement("raw") + d.one("{{ x }}", "{% if %}", " z \n") + d.statement("endraw")
	case 10:
		return d.statement("filter "+d.one("upper", "trim")) + body() + d.statement("endfilter")
	}
	return d.one("{{ ", "{{- ", "{{") + e() + d.one(" }}", " -}}", "\n}}")
}

// What is read and written anew prints what it printed.
func TestMeteredTemplatesPrintTheSame(t *testing.T) {
	compared, drawings := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		source := "{% set n = namespace(a=1) %}{% macro f(x) %}<{{ x }}>{% endmacro %}" + drawn{t: rt}.template(2)
		same, err := sameWithMeter(source, false)
		if err != nil {
			rt.Fatal(err)
		}
		drawings++
		if same {
			compared++
		}
	})
	if compared*10 < drawings {
		t.Errorf("only %d of %d templates could be compared", compared, drawings)
	}
}

// sameWithMeter returns an error if source compiles only without the meter, or
// prints something else with it, unless what it prints is mended. It tells whether
// it could compare.
func sameWithMeter(source string, mended bool) (compared bool, err error) {
	tame, err := metered(source)
	if err != nil {
		return false, nil
	}
	if _, err := jinja.Compile(tame); err != nil {
		if _, err := jinja.Compile(source); err == nil {
			return false, fmt.Errorf("%q became %q: %v", source, tame, err)
		}
		return false, nil
	}
	if mended {
		return false, nil
	}
	// What the meter lets pass does little, so it may run without one too.
	m := newMeter(0)
	m.text, m.steps, m.made, m.longest = 1<<14, 1<<12, 1<<20, 1<<14
	m.printed = printedByEngine
	variables := someVariables()
	m.addTo(variables)
	got, err := renderPlain(tame, variables)
	if err != nil || m.err != nil {
		return false, nil
	}
	want, err := renderPlain(spelledOut(source), someVariables())
	if err != nil {
		return false, nil
	}
	if got != want {
		return true, fmt.Errorf("%q\nbecame %q\nand prints %q\nwant       %q", source, tame, got, want)
	}
	return true, nil
}

// spelledOut is source with its text in tags of their own, where no engine changes
// white space.
func spelledOut(source string) string {
	pieces, err := cutSource(source)
	if err != nil {
		panic("tokenizer: " + err.Error())
	}
	var out strings.Builder
	for _, p := range pieces {
		switch p.open {
		case '%':
			out.WriteString("{% " + p.code + " %}\n")
		case '{':
			out.WriteString("{{ " + p.code + " }}")
		}
		out.WriteString("{{ " + quoted(p.text) + " }}")
	}
	return out.String()
}

func printedByEngine(v jinja.Value) string {
	text, err := runEngine("{{ v }}", v)
	if err != nil {
		panic("tokenizer: " + err.Error())
	}
	return text.AsString()
}

func someVariables() map[string]jinja.Value {
	variables := map[string]jinja.Value{"tools": jinja.None()}
	for name, text := range map[string]string{"messages": hello, "a": `1`, "s": `"x y\nz"`, "l": `[1, "x", 2]`, "o": `{"a": {"b": 1}, "c": [null]}`} {
		v, err := decodeValue([]byte(text))
		if err != nil {
			panic("tokenizer: " + err.Error())
		}
		variables[name] = v
	}
	return variables
}
