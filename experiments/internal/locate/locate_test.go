package locate

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

// walk lists the paths of a decoded document.
func walk(path string, v any, paths *[]string) {
	if path != "" {
		*paths = append(*paths, path)
	}
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			walk(Join(path, key), inner, paths)
		}
	case []map[string]any:
		for i, inner := range v {
			walk(Index(path, i), inner, paths)
		}
	case []any:
		for i, inner := range v {
			walk(Index(path, i), inner, paths)
		}
	}
}

// agree compares the paths found with those that the decoder found.
func agree(src string) error {
	doc := map[string]any{}
	if _, err := toml.Decode(src, &doc); err != nil {
		return nil
	}
	var want []string
	walk("", doc, &want)
	sort.Strings(want)
	lines := Scan(src)
	var got []string
	for path, row := range lines.line {
		got = append(got, path)
		if rows := strings.Count(src, "\n") + 1; row < 1 || row > rows {
			return fmt.Errorf("%s: line %d of %d", path, row, rows)
		}
	}
	sort.Strings(got)
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("paths (-decoder +scanner):\n%s", diff)
	}
	return nil
}

var documents = []string{
	"",
	"a = 1",
	"# only a comment",
	"\ufeffa = 1\nb = 2\n",
	"a = 1\r\nb = \"x\"\r\n[c]\r\nd = 2\r\n",
	"a.b.c = 1\na.b.d = 2\n\"quoted.key\".'x y' = 3\n",
	"[a]\nb = 1\n[a.c]\nd = 2\n[ x . y ]\nz = 3\n",
	"[[m]]\nname = 'a'\n[[m]]\nname = 'b'\n[m.s]\nbase = 1\n[[m.t]]\nx = 1\n[[m.t]]\nx = 2\n[[m]]\n[[m.t]]\n",
	"a = [\n  1, # one\n  2,\n]\nb = 3\n",
	"a = [[1, 2],\n [3, 4]]\nb = 1\n",
	"a = [{x = 1}, {x = 2, y = {z = [1]}}]\nb = {c.d = 1, \"e.f\" = 2}\n",
	"a = \"\"\"\nb = 1\n[c]\n\\\"\"\" still\n\"\"\"\nd = 2\n",
	"a = '''\nb = 1\n'''\nc = ''''quoted''''\nd = 1",
	"a = \"# not \\\" a comment\" # b = 1\nc = 1\n",
	"d = 1979-05-27 07:32:00\nt = 07:32:00\nf = -inf\n",
	"\"\" = 1\n'' = {}\n",
	"\"\\u00e9\\\"\" = 1\n\"é\" = 2\n",
	"a = []\nb = {}\nc = [[], {}]\n",
	"[[a]]\nb = 1 # c\n\n\n[[ a ]]\n\tb = 1",
	"x = [ # [y]\n'a]', \"b,c\", '''d\n]''' ]\nz = true",
	"a = { b = 1,\n c = 2,\n}\n",
}

func TestPathsAreThoseOfTheDecoder(t *testing.T) {
	for _, src := range documents {
		if err := agree(src); err != nil {
			t.Errorf("%q: %v", src, err)
		}
	}
}

func TestLines(t *testing.T) {
	const src = `question = """
several
lines = 1
"""
on = [
  "dtmc", # [x]
  "sim",
]
[[models]]
name = "a"

[[models]]   # second
  name = "b"
  "B" = 4
  step_ms = { base = 1, per_row = 2 }
[routing]
matrix = [[0.9, 0.1],
          [1.0, 0.0]]
[sweep]
"models.b.B" = [1,
  2]
workload.concurrency = [4]
`
	lines := Scan(src)
	want := map[string]int{
		"question": 1, "on": 5, "on[0]": 6, "on[1]": 7,
		"models": 9, "models[0]": 9, "models[0].name": 10,
		"models[1]": 12, "models[1].name": 13, "models[1].B": 14,
		"models[1].step_ms": 15, "models[1].step_ms.per_row": 15,
		"routing": 16, "routing.matrix": 17, "routing.matrix[0]": 17, "routing.matrix[1]": 18, "routing.matrix[1][1]": 18,
		"sweep": 19, `sweep."models.b.B"`: 20, `sweep."models.b.B"[1]`: 21,
		"sweep.workload.concurrency": 22,
		// What is missing stands at what is around it.
		"models[1].step_ms.nope": 15, "models[0].nope": 9, "nope": 1, "routing.matrix[7]": 17,
	}
	for path, row := range want {
		if got := lines.Line(path); got != row {
			t.Errorf("%s: line %d, want %d", path, got, row)
		}
	}
	if a, b := lines.Order(`sweep."models.b.B"`), lines.Order("sweep.workload.concurrency"); a >= b {
		t.Errorf("order %d, %d: want the order of the document", a, b)
	}
}

func FuzzScan(f *testing.F) {
	for _, src := range documents {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if err := agree(src); err != nil {
			t.Fatal(err)
		}
		Scan(src) // Must end, whatever the text.
	})
}
