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

// documents are the pages with a limit. Where columns is set, longer lines count
// as many times as they fill a line of that width: DESIGN.md is to be two pages
// of 60 printed lines, however it is wrapped.
var documents = []struct {
	name           string
	lines, columns int
}{
	{"README.md", 150, 0},
	{"CONTRIBUTING.md", 80, 120},
	{"DESIGN.md", 120, 120},
}

// checkSizes holds code and tests alike to what fits a person's head.
func checkSizes(all []*source) (problems []string) {
	for _, s := range all {
		if n := printedLines(s.text, 0); n > maxFileLines {
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

// printedLines counts the lines of text on a page of that many columns; 0
// stands for a page of any width.
func printedLines(text string, columns int) int {
	n := 0
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		n++
		if columns > 0 {
			n += max(utf8.RuneCountInString(line)-1, 0) / columns
		}
	}
	return n
}

// foreign are strings that only mean something on the machine of whoever wrote
// them. They are spelled in two parts so that this file does not hold them.
var foreign = []string{"/ho" + "me/", "/ro" + "ot/", "/Us" + "ers/", `C:\Us` + `ers`}

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
		if n := printedLines(string(text), d.columns); n > d.lines {
			t.Errorf("%s: %d printed lines, at most %d", d.name, n, d.lines)
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

func TestPrintedLines(t *testing.T) {
	for _, c := range []struct {
		text          string
		columns, want int
	}{
		{"ab\ncd\n", 2, 2},
		{"ab\n\ncd", 2, 3},
		{"abc\nabcde\n", 2, 5},
		{"abc\nabcde\n", 0, 2},
		{"äö\n", 2, 1}, // characters, not bytes
	} {
		if got := printedLines(c.text, c.columns); got != c.want {
			t.Errorf("printedLines(%q, %d) = %d, want %d", c.text, c.columns, got, c.want)
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
