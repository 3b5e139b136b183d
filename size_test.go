package tokenrouter_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxFunctionLines = 70
	maxFileLines     = 500
)

// documents are the pages with a limit. DESIGN.md has two pages: 120 lines of
// 120 characters, as one prints them.
var documents = []struct {
	name           string
	lines, columns int // 0 columns: any width
}{
	{"README.md", 150, 0},
	{"CONTRIBUTING.md", 80, 120},
	{"DESIGN.md", 120, 120},
}

// checkSizes holds code and tests alike to what fits a person's head.
func checkSizes(all []*source) (problems []string) {
	for _, s := range all {
		if n := countLines(s.text); n > maxFileLines {
			problems = append(problems, s.problem(s.file.Package, "%d lines, at most %d: split by subject", n, maxFileLines))
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1
			if n > maxFunctionLines {
				problems = append(problems, s.problem(f.Pos(), "%s has %d lines, at most %d", f.Name.Name, n, maxFunctionLines))
			}
		}
	}
	return problems
}

func countLines(text string) int {
	return strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1
}

// checkDocument compares a page with its limits.
func checkDocument(name, text string, lines, columns int) (problems []string) {
	if n := countLines(text); n > lines {
		problems = append(problems, fmt.Sprintf("%s: %d lines, at most %d", name, n, lines))
	}
	for i, line := range strings.Split(text, "\n") {
		if n := utf8.RuneCountInString(line); columns > 0 && n > columns {
			problems = append(problems, fmt.Sprintf("%s:%d: %d characters, at most %d", name, i+1, n, columns))
		}
	}
	return problems
}

// foreign are strings that only mean something on the machine of whoever wrote
// them: absolute folders, and hosts that another site may mirror elsewhere.
// They are spelled in two parts so that this file does not hold them.
var foreign = []string{
	"/wo" + "rk/", "/ro" + "ot/", "../sha" + "red", ".lib" + "rary/",
	"proxy.golang" + ".org", "pypi" + ".org", "pythonhosted" + ".org",
	"deb.debian" + ".org", "archive.ubuntu" + ".com", "registry.npmjs" + ".org",
}

func checkForeign(name string, text []byte) (problems []string) {
	for i, line := range bytes.Split(text, []byte("\n")) {
		for _, f := range foreign {
			if bytes.Contains(line, []byte(f)) {
				problems = append(problems, fmt.Sprintf("%s:%d: %q means nothing elsewhere", name, i+1, f))
			}
		}
	}
	return problems
}

func TestSizes(t *testing.T) { eachProblem(t, checkSizes) }

func TestDocuments(t *testing.T) {
	for _, d := range documents {
		text, err := os.ReadFile(d.name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range checkDocument(d.name, string(text), d.lines, d.columns) {
			t.Error(p)
		}
	}
}

// TestForeign reads every file that is, or is about to be, in git.
func TestForeign(t *testing.T) {
	list, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	read := 0
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // deleted but not yet committed, or a link to a folder
		}
		read++
		for _, p := range checkForeign(name, text) {
			t.Error(p)
		}
	}
	if read < 5 {
		t.Errorf("read only %d files", read)
	}
}

func TestSizesCatch(t *testing.T) {
	body := func(lines int) string { return strings.Repeat("\n", lines-1) }
	runBadCases(t, checkSizes, []badCase{
		{"function at the limit", one("sim/run.go", "package sim\nfunc f() {"+body(70)+"}\n"), ""},
		{"function over it", one("sim/run.go", "package sim\nfunc f() {"+body(71)+"}\n"), "f has 71 lines"},
		{"method in a test", one("sim/run_test.go", "package sim\nfunc (x T) g() {"+body(71)+"}\n"), "g has 71 lines"},
		{"file at the limit", one("sim/run.go", "package sim"+body(500)+"\n"), ""},
		{"file over it", one("sim/run.go", "package sim"+body(501)+"\n"), "501 lines"},
	})
}

func TestDocumentsCatch(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{
		{"ab\ncd\n", 0},
		{"ab\ncd\ne\n", 1}, // a line too many
		{"abc\n", 1},       // too wide
		{"äö\n", 0},        // characters, not bytes
	} {
		if got := checkDocument("X.md", c.text, 2, 2); len(got) != c.want {
			t.Errorf("%q: finds %q, want %d", c.text, got, c.want)
		}
	}
}

func TestForeignCatches(t *testing.T) {
	for _, f := range foreign {
		if got := checkForeign("x", []byte("a\nsee "+f+"x\n")); len(got) != 1 || !strings.HasPrefix(got[0], "x:2:") {
			t.Errorf("%q: finds %q", f, got)
		}
	}
	if got := checkForeign("x", []byte("internal/workload\nhttps://github.com/tokenrouter/tokenrouter\n")); len(got) > 0 {
		t.Errorf("finds %q in a clean text", got)
	}
}
