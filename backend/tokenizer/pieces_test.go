package tokenizer

import "testing"

// What each template prints was printed by transformers 5.24.0 with jinja2 3.1.6.
func TestTemplatesPrintWhatPythonPrints(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"<{{ messages[0].role }}>\n {{ messages[0].content }}{% if 0 %}{% else %}!{% endif %}", "<user>\n Hello!"},
		{"a\n{{ messages[0].role }}{%- if 1 %} b {% endif %}", "a\nuser b "},
		{"{% if 1 %}{{ 'y' }}\n\nz{% endif %}", "y\n\nz"},
		{"{{ 1 }}\n", "1"},
		{"{{ 1 }}\n\n", "1\n"},
		{"a\r\nb\r{% if 1 %}\r\n  c{% endif %}", "a\nb\n  c"},
		{"x{% raw %}\n{% endraw %}{% if 1 %}y{% endif %}", "x\ny"},
		{"{% raw -%} {{ x }} {%- endraw %}\n z", "{{ x }} z"},
		{"  {% set a = 1 %}\n  {% set b = 2 %}\n {{ a }} {% set a = 3 %} {{ b }}", " 1  2"},
		{"a  {%+ if 1 %}\n b{% endif +%}\n c", "a   b\n c"},
		{"a \n {# c -#}\n  b {#- d #}\n c", "a \nb c"},
		{"\n  {% for i in range(2) %} \n {{ i }}\n  {%- endfor %} \n end", "\n \n 0 \n 1 \n end"},
		{"{{ {'a': {'b': {}}}}}|{{ {'}}': '%}'}['}}'] }}", "{'a': {'b': {}}}|%}"},
		{"a\u00a0{%- if 1 -%}\u3000b\u00a0 {% endif %}", "ab\u00a0 "},
		{"{{ none }} {{ 1.0 }} {{ true }} {{ missing }} {{ [1.0, none, 'a\\n', \"it's\", '\\'\"', {'k': 1.0e20}] }}", "None 1.0 True  [1.0, None, 'a\\n', \"it's\", '\\'\"', {'k': 1e+20}]"},
		{"{{ none ~ 1.0 ~ [none] ~ missing }} {{ [none, 2.5, 'x']|join('-') }} {{ 1.0e16|string }}", "None1.0[None] None-2.5-x 1e+16"},
		{"{{ 'one ' 'text ' \"in parts\" }} {{ '\\x41\\u00e9\\r\\n\\q'|tojson }}", "one text in parts \"A\u00e9\\r\\n\\\\q\""},
		{"{{ '%s and %d%%'|format('x', 3) }} {{ {'b': 1, 'a': 2}|map('tojson')|join(', ') }}", "x and 3% \"b\", \"a\""},
		{"{{ ' \u00a0\\t x \\x1c'.strip() }}|{{ '--x-'.lstrip('-') }}|{{ 'x \\x0b'.rstrip() }}|{{ 'xyx'|trim('x') }}|", "x|x-|x|y|"},
		{"{{ [1] + [2] }} {{ 1 + true }} {{ 1 + 0.5 }} {{ 'a' + 'b' ~ 1 }}", "[1, 2] 2 1.5 ab1"},
		{"{% set a = 1 %}{% for i in [1, 2] %}{{ a }}{{ b }}{% set a = 2 %}{% if i == 1 %}{% set b = 5 %}{% endif %}{{ a }}{% endfor %}{{ a }}{{ b }}", "12121"},
		{"{% for i in [1, 2] %}{% set i = i + 1 %}{{ i }}{% for k in [7, 8] %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{% set x = 0 %}{% endfor %}", "222333"},
		{"{% for i in [1, 2] %}{% macro f() %}{% set a = 1 %}{{ a }}{% endmacro %}{{ f() }}{{ a }}{% set s %}<{{ s }}>{% endset %}{{ s }}{% endfor %}", "1<>1<>"},
		{"{{ '<'|safe + '<' + 'x'|safe + \"'\" }} {{ '<' ~ '<'|safe ~ '<' }} {{ ('<'|e) + '\"' }} {{ [1]|safe }}", "<&lt;x&#39; <<< &lt;&#34; [1]"},
		{"{{ missing is iterable }} {{ messages[0].content is sequence }} {{ messages[0] is sequence }} {{ none is iterable }} {{ 1 is not sequence }}", "True True True False True"},
		{"{{ {'b': 1, 'a': 2}|first }} {{ {'b': 1}|list }} {{ 'xy'|last }} {{ missing|list }} {{ {'b': 1, 'a': 2}|sort }} {{ 'aba'|unique|list }}", "b ['b'] y [] ['a', 'b'] ['a', 'b']"},
	} {
		got, err := renderSource(t, c.source, hello)
		if err != nil || got != c.want {
			t.Errorf("%q\nprints %q, %v\nwant   %q", c.source, got, err, c.want)
		}
	}
}

// Python refuses these, and so a template that says so was not written for what
// it was given.
func TestTemplatesRefuseWhatPythonRefuses(t *testing.T) {
	for _, source := range []string{
		`{{ 'a' + 1 }}`, `{{ 'a' + none }}`, `{{ 'a' + messages }}`, `{{ 'a' + messages[0] }}`, `{{ [1] + 'a' }}`, `{{ 'a' + missing }}`,
		`{{ messages.strip() }}`, `{{ missing.strip() }}`, `{{ '%s'|format }}`, `{{ ''|format(1) }}`, `{{ '%d'|format('x') }}`, `{{ '\u00g0' }}`,
		`{% raw %}`, `{% if 1 %}`, `{{ 1`, `{# c`, `{% for a in [] %}{% endif %}`,
	} {
		if got, err := renderSource(t, source, hello); err == nil {
			t.Errorf("%s\nprints %q", source, got)
		}
	}
}
