package tokenizer

import (
	"encoding/json"
	"errors"
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
	if !errors.Is(err, errLong) && !errors.Is(err, errSteps) {
		t.Errorf("a loop without end: %v", err)
	}
	_, err = renderSource(t, "line\n{{ 'x' * 10000000000 }}", hello)
	if err == nil || !strings.Contains(err.Error(), "line 2: a product") {
		t.Errorf("repeated text: %v", err)
	}
	var refused *ChatError
	if errors.As(err, &refused) {
		t.Errorf("a template that does not compile is no mistake of the client: %v", err)
	}
}

// The meter must change no byte of what harmless templates print, white space
// above all.
func TestMeterChangesNothing(t *testing.T) {
	for _, source := range []string{
		"{% if true %}\n\n a {%- if true -%} \n b {% endif %}\n c {{ 1 }}\n\n{%- endif %}\n",
		"{{ bos }}\n{% for m in messages %}\n{{ m.role }}\n\n{% endfor %}\n  {# c #}\n\nend\n",
		"{% if true %}{{ 'y' }}\n\nz{% endif %}",
		"  {% set a = 1 %}\n\n{%- set n = namespace(x='%}') -%}\n {{ n.x }} {% set n.x = 'b' %}{{- n.x -}} c",
		"{% macro f(a, b='x, y') %}\n<{{ a }}{{ b }}>\n{% endmacro %}{{ f(1) }} {{ f(2, b=3) }}\n",
		"{% set s %}\n a \n{% endset %}[{{ s }}]{% raw %}{{ x }} {% if %}{% endraw %}{{ 'in' if 1 in [1, 2] else 'out' }}",
		"{{ ['a', 'b']|join(', ') }}{{ 'a-b'.replace('-', '+') }}{{ 'a-b'|replace('-', '') }}{{ 'a\nb'|indent(2) }}{{ 'a\nb'|indent(2, first=true) }}",
		"{% for i in range(3) %}{{ i }}{% if i == 1 %}{% break %}{% endif %}{% endfor %}{{ range(5, 1, -2) }}{{ messages[::-1][0].role }}",
		"{{ '{} and {}'.format('a', 'b') }}{{ {'format': 'f'}.format }}{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}{{ 2 * l[0] }}",
		"{% set d = {'a': 1} %}{% set _ = d.update({'b': [1.5, none, true]}) %}{{ d }}{{ '\\'}}' }}{{ \"{%\" }}{{ }}",
		"{% macro w() %}[{{ caller('x') }}]{% endmacro %}{% call(v) w() %}v={{ v }}{% endcall %}{% filter upper %}abc{% endfilter %}",
		"{{ [{'n': 'a'}, {'n': 'b'}]|join('/', attribute='n') }}{{- messages[0]['role'][1:] ~ 'é' }}{{ 'é' }}",
	} {
		plain, err := jinja.Compile(source)
		if err != nil {
			t.Fatalf("%q: %v", source, err)
		}
		messages, err := decodeValue([]byte(hello))
		if err != nil {
			t.Fatal(err)
		}
		want, err := plain.RenderValues(map[string]jinja.Value{"messages": messages, "tools": jinja.None()})
		if err != nil {
			t.Fatalf("%q: %v", source, err)
		}
		got, err := renderSource(t, source, hello)
		if err != nil || got != want {
			t.Errorf("%q\nprints %q, %v\nwant   %q", source, got, err, want)
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

func FuzzMetered(f *testing.F) {
	for _, source := range greedy {
		f.Add(source)
	}
	f.Add("{%- set x = a.b['c'][::-1] -%} {{ x * 2 }} {% macro f(a, b=[1, 2]) %}{% endmacro %}")
	f.Fuzz(func(t *testing.T, source string) {
		tame, err := metered(source)
		if err != nil {
			return
		}
		// What compiles without the meter compiles with it.
		if _, err := jinja.Compile(source); err == nil {
			if _, err := jinja.Compile(tame); err != nil {
				t.Errorf("%q became %q: %v", source, tame, err)
			}
		}
	})
}
