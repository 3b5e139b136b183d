package tokenrouter_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/tokenrouter/tokenrouter"

// source is one parsed Go file of the module.
type source struct {
	path string // from the root, with slashes
	dir  string // "." at the root
	text string
	test bool
	file *ast.File
}

// fset holds the positions of all files: the type checker wants one for all.
var fset = token.NewFileSet()

// parse builds a source from text; negative cases use it with bad text.
func parse(name, text string) (*source, error) {
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &source{
		path: name,
		dir:  path.Dir(name),
		text: text,
		test: strings.HasSuffix(name, "_test.go"),
		file: file,
	}, nil
}

// imports returns the import paths of s and where each stands.
func (s *source) imports() map[string]token.Pos {
	paths := map[string]token.Pos{}
	for _, spec := range s.file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths[p] = spec.Pos()
		}
	}
	return paths
}

// problem words a finding so that an editor can jump to it.
func (s *source) problem(pos token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.path, fset.Position(pos).Line, fmt.Sprintf(format, args...))
}

// tree is every Go file of the module, parsed once for all tests here.
var tree = sync.OnceValues(func() ([]*source, error) {
	var all []*source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			// The go command skips the same folders, and bin is ours.
			if name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) || base == "testdata" || name == "bin" {
				return fs.SkipDir
			}
			// So is a folder with a module of its own.
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && name != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(name), string(text))
		if err != nil {
			return err
		}
		all = append(all, s)
		return nil
	})
	return all, err
})

// eachProblem runs a check over the whole tree and reports what it finds.
func eachProblem(t *testing.T, check func([]*source) []string) {
	t.Helper()
	all, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 5 {
		t.Fatalf("only %d Go files found: the test looks at the wrong folder", len(all))
	}
	problems := check(all)
	slices.Sort(problems)
	for _, p := range problems {
		t.Error(p)
	}
}

// badCase is a small tree in which a check must find exactly one problem, or
// none if want is empty. Without such cases a check could pass by finding
// nothing at all.
type badCase struct {
	name  string
	files map[string]string
	want  string
}

func runBadCases(t *testing.T, check func([]*source) []string, cases []badCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var all []*source
			for name, text := range c.files {
				s, err := parse(name, text)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, s)
			}
			got := check(all)
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("finds %q, want nothing", got)
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
				t.Errorf("finds %q, want one problem with %q", got, c.want)
			}
		})
	}
}

// one is a tree of one file.
func one(name, text string) map[string]string { return map[string]string{name: text} }

// within reports whether dir is the folder pattern, or lies under it where
// pattern ends in "/...".
func within(dir, pattern string) bool {
	if under, ok := strings.CutSuffix(pattern, "/..."); ok {
		return dir == under || strings.HasPrefix(dir, under+"/")
	}
	return dir == pattern
}

func withinAny(dir string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return within(dir, p) })
}
