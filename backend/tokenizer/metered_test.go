package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/ardanlabs/jinja"
)

func renderSource(t *testing.T, source, messages string) (string, error) {
	t.Helper()
	var tok Tokenizer
	tok.setTemplate("default", source)
	return tok.Chat(json.RawMessage(messages), ChatOptions{})
}

const hello = `[{"role":"user","content":"Hello"}]`

// Each of these would take the memory or the time of the machine, or end the
// program.
var greedy = map[string]string{
	"range":        `{% for m in range(10**12) %}x{% endfor %}`,
	"nested loops": `{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}`,
	"text in loop": `{% for a in range(9999) %}` + strings.Repeat("text ", 10000) + `{% endfor %}`,
	"behind comment": `{% for a in range(9999) %}{# c #}` + strings.Repeat("text ", 10000) +
		`{% endfor %}`,
	"behind print": `{% for a in range(9999) %}{{ '' }}` + strings.Repeat("text ", 10000) + `{% endfor %}`,
	"doubling":     `{% set a = 'xxxx' %}` + strings.Repeat(`{% set a = a ~ a %}`, 60) + `{{ a }}`,
	"doubled list": `{% set a = [1] %}` + strings.Repeat(`{% set a = a + a %}`, 60),
	"namespace":    `{% set n = namespace(a='xxxx') %}{% for i in range(60) %}{% set n.a = n.a + n.a %}{% endfor %}`,
	"block":        `{% set a = 'xxxx' %}{% for i in range(60) %}{% set a %}{{ a }}{{ a }}{% endset %}{% endfor %}` + strings.Repeat(`{% set a %}{{ a }}{{ a }}{% endset %}`, 60),
	"recursion":    `{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`,
	"in lines":     "{% macro f(a,\n b) %}{{ f() }}{% endmacro %}{{ f() }}",
	"behind raw":   "{% raw %}{%\u00a0endraw0 %}{% for m in range(10**9) %}{% for m in range(10**9) %}x{% endfor %}{% endfor %}",
	"two calls":    `{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}`,
	"argument":     `{% macro f(a) %}{{ f(a ~ a) }}{% endmacro %}{{ f('xxxx') }}`,
	"repeat":       `{{ 'x' * 10000000000 }}`,
	"repeat count": `{% set n = 999999999 %}{{ 'x' * n }}`,
	"repeat twice": `{{ 'x' * 99 * 99 * 99 * 99 * 99 * 99 }}`,
	"indent":       `{{ 'a\nb'|indent(10000000000) }}`,
	"indent width": `{% set n = 999999999 %}{{ 'a\nb'|indent(width=n) }}`,
	"hidden name":  `{% set n = 999999999 %}{{ 'a\nb'|;indent(n) }}`,
	"builtin name": `{{ __filter_indent('a\nb', 999999999) }}`,
	"replace":      `{% set a = range(9999)|string %}{{ a|replace('', a) }}`,
	"method":       `{% set a = range(9999)|string %}{{ a.replace('', a) }}`,
	"method value": `{% set a = range(9999)|string %}{% set f = a.replace %}{{ f('', a) }}`,
	"format":       `{% set a = '{0}'|indent(1000, true) %}{{ a.format(a.replace(' ', '{1}'), a.replace(' ', '{2}'), a.replace(' ', '{3}'), a) }}`,
	"join":         `{% set a = range(9999)|string %}{{ range(9999)|join(a) }}`,
	"many of one":  `{% set a = range(9999)|string %}{% set l = [] %}{% for i in range(9999) %}{% set _ = l.append(a) %}{% endfor %}{{ l }}`,
	"in itself":    `{% set l = [] %}{% set _ = l.append(l) %}{{ l }}`,
	"its own key":  `{% set d = {} %}{% set _ = d.update({'d': d}) %}{{ d }}`,
	"own variable": `{% set n = namespace() %}{% set n.a = n %}{{ n }}`,
	"nested lists": `{% set n = namespace(a=[]) %}{% for i in range(9999) %}{% set n.a = [n.a] %}{% endfor %}{{ n.a|tojson }}`,
	"escapes":      `{{ '"'` + strings.Repeat("|tojson", 60) + ` }}`,
	"stride":       `{{ messages[0:999999999999:2] }}`,
	"brackets":     `{{ ` + strings.Repeat("(", 100_000) + ` }}`,
	"long":         strings.Repeat("{{ 1 }}", 100_000),
	"its meter":    `{% set metered_step = 1 %}`,

	"text in raw":    `{% for a in range(9999) %}{% raw %}` + strings.Repeat("text ", 10000) + `{% endraw %}{% endfor %}`,
	"behind raw too": `{% for a in range(9999) %}{% raw %}{% endraw %}` + strings.Repeat("text ", 10000) + `{% endfor %}`,
	"count in text":  `{{ 'x' * 9|replace('9', '99999999')|int }}`,
	"key that is 0":  `{% set d = {'0': 'xxxx'} %}{% set n = 99999999 %}{{ d.0 * n }}`,
	"repeats within": `{{ (((('x' * 99) * 99) * 99) * 99) * 99 }}`,
	"filter block":   strings.Repeat(`{% filter tojson %}`, 60) + `"` + strings.Repeat(`{% endfilter %}`, 60),
	"code in quotes": `{% set n = namespace() %}{% set n.b"= 'a'.replace or " %}{{ n['b"']('a', 'aa') }}`,
	"default":        `{% macro f(a='1,b='a'.replace,') %}{{ b('a', 'aa') }}{% endmacro %}{{ f() }}`,
	"own default":    `{% macro f(a=f()) %}{% endmacro %}{{ f() }}`,
	"filter default": `{% macro f(a='x'|f) %}{% endmacro %}{{ f() }}`,
	"cycler":         `{% set l = [] %}{% set c = cycler(0, l) %}{% set _ = l.append(c) %}{% set _ = c.next() %}{{ l|string }}`,
	"shared memory": `{% set l = [1, 2, 3] %}{% set _ = l.append(4) %}{% set a = l|map %}{% set _ = a.append(0) %}{% set _ = l.append(a) %}` +
		`{{ a|string }}`,
	"caller": `{% set n = namespace() %}{% macro m() %}{% set n.c = caller %}{% endmacro %}` +
		`{% call m() %}{{ n.c() }}{% endcall %}{{ n.c() }}`,
	"long sums":    `{% macro f() %}{{ f() ` + strings.Repeat("-1", 100_000) + ` }}{% endmacro %}{{ f() }}`,
	"many blocks":  `{% macro f() %}` + strings.Repeat(`{% if 1 %}`, 9999) + `{{ f() }}` + strings.Repeat(`{% endif %}`, 9999) + `{% endmacro %}{{ f() }}`,
	"lost error":   `{% set n = namespace() %}{% macro f() %}{% set n.a = n %}{% endmacro %}{{ [messages[f():], n|string] }}`,
	"filtered for": `{% for x in range(999999) if range(999)|length > x %}{% endfor %}`,
	"sums of text": `{% set a = range(9999)|string %}{% set a = a ~ a ~ a ~ a %}{% for i in range(9999) %}{{ (a ~ a ~ a ~ a ~ a)|length }}{% endfor %}`,
	"all at once": `{% macro f() %}` + strings.Repeat(`{% if 1 %}`, 98) + `{{ ` + strings.Repeat("not ", 190) + `f() }}` + strings.Repeat(`{% endif %}`, 98) +
		`{% endmacro %}{{ f() }}`,
	"message": `{% set l = [] %}{% set c = cycler(0, l) %}{% set _ = l.append(c) %}{% set _ = c.next() %}{{ raise_exception(l) }}`,
	"sort":    `{% set a = range(99999)|string|list %}{% for i in range(99) %}{{ a|sort|length }}{% endfor %}`,
}

func TestGreedyTemplatesAreRefused(t *testing.T) {
	for name, source := range greedy {
		text, err := renderSource(t, source, hello)
		if err == nil {
			t.Errorf("%s: no error, and %d bytes", name, len(text))
		}
	}
}

func TestRefusalSaysWhy(t *testing.T) {
	_, err := renderSource(t, greedy["range"], hello)
	if !errors.Is(err, errLong) && !errors.Is(err, errSteps) && !errors.Is(err, errSlow) { // whatever a busy machine meets first
		t.Errorf("a loop without end: %v", err)
	}
	_, err = renderSource(t, "line\n{{ 'x' * 10000000000 }}", hello)
	if err == nil || !strings.Contains(err.Error(), "line 2: the number") {
		t.Errorf("repeated text: %v", err)
	}
	var refused *ChatError
	if errors.As(err, &refused) {
		t.Errorf("a template that does not compile is no mistake of the client: %v", err)
	}
}

// The meter must change no byte of what harmless templates print.
func TestMeterChangesNothing(t *testing.T) {
	for _, source := range harmless {
		want, err := renderPlain(spelledOut(source), helloVariables(t))
		if err != nil {
			t.Fatalf("%q: %v", source, err)
		}
		got, err := renderSource(t, source, hello)
		if err != nil || got != want {
			t.Errorf("%q\nprints %q, %v\nwant   %q", source, got, err, want)
		}
	}
}

func helloVariables(t *testing.T) map[string]jinja.Value {
	messages, err := decodeValue([]byte(hello))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]jinja.Value{"messages": messages, "tools": jinja.None()}
}

var harmless = []string{
	"{% if true %}\n\n a {%- if true -%} \n b {% endif %}\n c {{ 1 }}\n\n{%- endif %}\n",
	"{{ bos }}\n{% for m in messages %}\n{{ m.role }}\n\n{% endfor %}\n  {# c #}\n\nend\n",
	"{% if true %}{{ 'y' }}\n\nz{% endif %}",
	"  {% set a = 1 %}\n\n{%- set n = namespace(x='%}') -%}\n {{ n.x }} {% set n.x = 'b' %}{{- n.x -}} c",
	"{% macro f(a, b='x; y') %}\n<{{ a }}{{ b }}>\n{% endmacro %}{{ f(1) }} {{ f(2, b=3) }}\n",
	"{% set s %}\n a \n{% endset %}[{{ s }}]{% raw %}{{ x }} {% if %}{% endraw %}{{ 'in' if 1 in [1, 2] else 'out' }}",
	"{{ ['a', 'b']|join(', ') }}{{ 'a-b'.replace('-', '+') }}{{ 'a-b'|replace('-', '') }}{{ 'a\nb'|indent(2) }}{{ 'a\nb'|indent(2, first=true) }}",
	"{% for i in range(3) %}{{ i }}{% if i == 1 %}{% break %}{% endif %}{% endfor %}{{ range(5, 1, -2) }}{{ messages[::-1][0].role }}",
	"{{ '{} and {}'.format('a', 'b') }}{{ {'format': 'f'}.format }}{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}{{ 2 * l[0] }}",
	"{% set d = {'a': 1} %}{% set _ = d.update({'b': [1.5, none, true]}) %}{{ d }}{{ '\\'}}' }}{{ \"{%\" }}{{ }}",
	"{% macro w() %}[{{ caller('x') }}]{% endmacro %}{% call(v) w() %}v={{ v }}{% endcall %}{% filter upper %}abc{% endfilter %}",
	"{{ [{'n': 'a'}, {'n': 'b'}]|join('/', attribute='n') }}{{- messages[0]['role'][1:] ~ 'é' }}{{ 'é' }}",
}

// What the engine gets wrong without a word is mended or refused.
func TestTemplatesMeanWhatJinjaMeans(t *testing.T) {
	for source, want := range map[string]string{
		`{{ ['a', 'b']|map('upper')|join }}`:                                                          "AB",
		`{{ messages|selectattr('role')|list|length }}`:                                               "1",
		`{{ [0, 1, '']|select|list|length }}{{ [0, 1]|reject|first }}`:                                "10",
		`{{ '{"b": 1, "a": [2.0]}'|from_json|tojson }}`:                                               `{"b": 1, "a": [2.0]}`,
		`{{ 'a b c'.split(' ', 1)|tojson }}{{ ' a  b '.split()|join }}`:                               `["a", "b c"]ab`,
		`{{ 'äb'|list|tojson }}{{ [1]|list }}{{ 'ab'.split('a')|length }}`:                            `["ä", "b"][1]2`,
		`{{ dict(b=1, a=2, d=3, c=4)|tojson }}`:                                                       `{"b": 1, "a": 2, "d": 3, "c": 4}`,
		`{% set n = namespace(b=1, a=2, d=3, c=4) %}{{ n|tojson }}`:                                   `{"b": 1, "a": 2, "d": 3, "c": 4}`,
		`{{ {'a': {'b': {} } }['a']|tojson }}`:                                                        `{"b": {}}`,
		`{{ 'ab' * -1 }}{{ 'ab' * 2 * 2 }}`:                                                           "abababab",
		`{{ 'abc'[::-1] }}{{ 'äbc'[1:] }}{{ [1, 2, 3][:-1]|tojson }}`:                                 "cbabc[1, 2]",
		`{% macro f(a) %}{{ caller(a) }}{% endmacro %}{% call(x) f(1) %}-{{ x }}-{% endcall %}`:       "-1-",
		`{% for a in [1] %}{% set o = loop %}{% for b in [2] %}{{ o.index }}{% endfor %}{% endfor %}`: "1",
		`{{ 'x' if loop is defined else 'y' }}{{ (1,)|length }}{{ ()|length }}`:                       "y10",
	} {
		got, err := renderSource(t, source, hello)
		if err != nil || got != want {
			t.Errorf("%s\nprints %q, %v\nwant   %q", source, got, err, want)
		}
	}
	for _, source := range []string{
		`{{ ['a']|map(attribute) }}`, `{% filter indent(2) %}{% endfilter %}`, `{% set a, b = 1, 2 %}`, `{% for (a, b) in [] %}{% endfor %}`,
		`{% for a in [] recursive %}{% endfor %}`, `{% else if a %}`, `{% if %}{% endif %}`, `{% set a.b %}{% endset %}`, `{{ a b }}`, `{{ [a b] }}`,
		`{{ dict({'a': 1}) }}`, `{% break %}`, `{% for a in [] %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}`,
		"{% raw %}{% endraw x %}", `{{ a if }}`, `{{ in }}`, `{{ a; b }}`, `{{ 1[1:2:3] }}`, `{% endif %}`, `{% %}`, `{% if a # b %}{% endif %}`,
		`{% call a %}{% endcall %}`, `{% macro f(a, a b) %}{% endmacro %}`, `{{ 1 * none }}`, `{{ 'a'[none:] }}`, `{{ f(a=1, 2) }}`, `{{ [1] * 2 }}`,
		`{{ '{a}'.format(a=1) }}`, `{{ 'xx'|replace('x', 'y', '1') }}`, `{{ '%d' % 1 }}`, `{% set f = 'x'.replace %}{{ f('x', 'y') }}`,
	} {
		if got, err := renderSource(t, source, hello); err == nil {
			t.Errorf("%s\nprints %q", source, got)
		}
	}
}

// What a client sends counts: a long chat is no greedy one.
func TestLongChatsFit(t *testing.T) {
	content := strings.Repeat("word ", 2<<20)
	got, err := renderSource(t, `{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}{% endfor %}`,
		`[{"role":"user","content":"`+content+`"}]`)
	if err != nil || len(got) != len("<user>")+len(content)-1 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// renderPlain is what the engine makes of source without the meter. It panics on
// some mistakes.
func renderPlain(source string, variables map[string]jinja.Value) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it panics: %v", p)
		}
	}()
	plain, err := jinja.Compile(source)
	if err != nil {
		return "", err
	}
	return plain.RenderValues(variables)
}

// mended is what the engine gets wrong without a word, so that its text differs:
// the order of fields, filters and arguments that it leaves out, what filters go
// through that is no list, escapes, literals in a row, and variables of a loop's
// rounds. JSON has the engine's own
// style without the meter, and dates are those of now.
var mended = regexp.MustCompile(`dict|namespace|map|json|split|strftime|escape|safe|\|\s*e\b|\bfor\b(.|\n)*\bset\b|` +
	`\\[^nt\\'"]|['"]\s*['"]|iterable|sequence|list|join|first|last|sort|unique|min|max|batch|select|reject`)

func FuzzMetered(f *testing.F) {
	for _, source := range greedy {
		f.Add(source)
	}
	for _, source := range harmless {
		f.Add(source)
	}
	f.Add("{%- set x = a.b['c'][::-1] -%} {{ x * 2 }} {% macro f(a, b=[1, 2]) %}{% endmacro %}")
	f.Fuzz(func(t *testing.T, source string) {
		// What the engine mends is compared in no way, but has to compile.
		if _, err := sameWithMeter(source, mended.MatchString(source)); err != nil {
			t.Error(err)
		}
	})
}
