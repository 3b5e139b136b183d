package tokenrouter_test

import (
	"go/ast"
	"go/build/constraint"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// callsOf lists the uses of functions of one imported package, as they are
// written: name → positions. It sees through renamed imports.
func (s *source) callsOf(pkg string) map[string][]token.Pos {
	local := ""
	for _, spec := range s.file.Imports {
		if spec.Path.Value != `"`+pkg+`"` {
			continue
		}
		local = path.Base(pkg)
		if local == "v2" { // math/rand/v2 is package rand
			local = path.Base(path.Dir(pkg))
		}
		if spec.Name != nil {
			local = spec.Name.Name
		}
	}
	uses := map[string][]token.Pos{}
	if local == "" {
		return uses
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
				uses[sel.Sel.Name] = append(uses[sel.Sel.Name], sel.Pos())
			}
		}
		return true
	})
	return uses
}

// checkOneThread keeps the core and the algorithms plain sequential code: the
// driver owns them and alone decides what runs when.
func checkOneThread(all []*source) (problems []string) {
	for _, s := range all {
		if s.test || !withinAny(s.dir, []string{"scheduler/...", "algorithms/..."}) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				problems = append(problems, s.problem(n.Pos(), "go statement in %s", s.dir))
			case *ast.SelectStmt:
				problems = append(problems, s.problem(n.Pos(), "select in %s", s.dir))
			case *ast.ChanType:
				problems = append(problems, s.problem(n.Pos(), "channel in %s", s.dir))
			}
			return true
		})
	}
	return problems
}

// clocks are the ways of package time to learn or to wait for the real time.
// Durations as a type are harmless.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

// checkVirtualTime keeps wall time out of what must be equal byte for byte.
func checkVirtualTime(all []*source) (problems []string) {
	for _, s := range all {
		if s.test || !withinAny(s.dir, []string{"sim/...", "dtmc/..."}) {
			continue
		}
		for name, uses := range s.callsOf("time") {
			if slices.Contains(clocks, name) {
				problems = append(problems, s.problem(uses[0], "time.%s in %s, whose results hold no wall time", name, s.dir))
			}
		}
	}
	return problems
}

// seeded are the names of the math/rand packages that take a seed or a source;
// every other function draws from a source that no seed decides.
var seeded = []string{
	"New", "NewPCG", "NewChaCha8", "NewSource", "NewZipf",
	"Rand", "PCG", "ChaCha8", "Source", "Source64", "Zipf",
}

// checkSeeds bans the global random source, in tests too: a failure must be
// repeatable.
func checkSeeds(all []*source) (problems []string) {
	for _, s := range all {
		for _, pkg := range []string{"math/rand", "math/rand/v2"} {
			for name, uses := range s.callsOf(pkg) {
				if !slices.Contains(seeded, name) {
					problems = append(problems, s.problem(uses[0], "rand.%s draws from the global source: use a seeded rand.New", name))
				}
			}
		}
	}
	return problems
}

// checkExits leaves it to the program to end the process.
func checkExits(all []*source) (problems []string) {
	for _, s := range all {
		if s.test || within(s.dir, "cmd/...") {
			continue
		}
		for _, pos := range s.callsOf("os")["Exit"] {
			problems = append(problems, s.problem(pos, "os.Exit outside cmd: return an error"))
		}
		for name, uses := range s.callsOf("log") {
			if strings.HasPrefix(name, "Fatal") {
				problems = append(problems, s.problem(uses[0], "log.%s outside cmd: return an error", name))
			}
		}
	}
	return problems
}

var (
	cgoFolders    = []string{"backend/cuda/...", "internal/cuda/..."}
	unsafeFolders = []string{"backend/cuda/...", "internal/cuda/...", "backend/cpu/...", "backend/model/..."} // kernels and mmap
)

// checkUnsafe keeps cgo and unsafe where the design allows them. A file with
// cgo needs the tag cuda, or the default build would need a C compiler.
func checkUnsafe(all []*source) (problems []string) {
	for _, s := range all {
		for path, pos := range s.imports() {
			switch {
			case path == "unsafe" && !withinAny(s.dir, unsafeFolders):
				problems = append(problems, s.problem(pos, "unsafe in %s", s.dir))
			case path == "C" && !withinAny(s.dir, cgoFolders):
				problems = append(problems, s.problem(pos, "cgo in %s", s.dir))
			case path == "C" && !needsTag(s, "cuda"):
				problems = append(problems, s.problem(pos, "cgo without the build tag cuda"))
			}
		}
	}
	return problems
}

// needsTag reports whether s is built only if the tag is given.
func needsTag(s *source, tag string) bool {
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if expr, err := constraint.Parse(c.Text); err == nil && c.Pos() < s.file.Package {
				return !expr.Eval(func(t string) bool { return t != tag })
			}
		}
	}
	return false
}

// vague names say that nobody found the noun.
var vague = []string{"util", "utils", "helper", "helpers", "manager", "common", "misc"}

// checkNames looks at the names of folders and files, word by word.
func checkNames(all []*source) (problems []string) {
	for _, s := range all {
		words := strings.FieldsFunc(s.path, func(r rune) bool { return r == '/' || r == '_' || r == '.' || r == '-' })
		for _, word := range words {
			if slices.Contains(vague, word) {
				problems = append(problems, s.problem(s.file.Package, "%q names nothing: say what it is", word))
			}
		}
	}
	return problems
}

func TestOneThread(t *testing.T)   { eachProblem(t, checkOneThread) }
func TestVirtualTime(t *testing.T) { eachProblem(t, checkVirtualTime) }
func TestSeeds(t *testing.T)       { eachProblem(t, checkSeeds) }
func TestExits(t *testing.T)       { eachProblem(t, checkExits) }
func TestUnsafe(t *testing.T)      { eachProblem(t, checkUnsafe) }
func TestNames(t *testing.T)       { eachProblem(t, checkNames) }

// function is a file with one function of this body.
func function(pkg, imports, body string) string {
	text := "package " + pkg + "\n"
	if imports != "" {
		text += "import " + imports + "\n"
	}
	return text + "func f() { " + body + " }\n"
}

func TestOneThreadCatches(t *testing.T) {
	runBadCases(t, checkOneThread, []badCase{
		{"go", one("scheduler/core.go", function("scheduler", "", "go f()")), "go statement"},
		{"select", one("scheduler/core.go", function("scheduler", "", "select {}")), "select"},
		{"chan", one("algorithms/citer.go", function("algorithms", "", "var c <-chan int; _ = c")), "channel"},
		{"fine in a driver", one("backend/subserver/decode.go", function("subserver", "", "go f()")), ""},
		{"fine in a test", one("scheduler/core_test.go", function("scheduler", "", "go f()")), ""},
	})
}

func TestVirtualTimeCatches(t *testing.T) {
	runBadCases(t, checkVirtualTime, []badCase{
		{"now", one("sim/run.go", function("sim", `"time"`, "_ = time.Now()")), "time.Now"},
		{"renamed", one("dtmc/solve.go", function("dtmc", `clock "time"`, "_ = clock.Since")), "time.Since"},
		{"a duration", one("sim/run.go", function("sim", `"time"`, "_ = time.Second")), ""},
		{"the program may", one("cmd/tokenrouter/run.go", function("main", `"time"`, "_ = time.Now()")), ""},
	})
}

func TestSeedsCatches(t *testing.T) {
	runBadCases(t, checkSeeds, []badCase{
		{"global", one("sim/run.go", function("sim", `"math/rand/v2"`, "_ = rand.IntN(3)")), "rand.IntN"},
		{"global in a test", one("sim/run_test.go", function("sim", `"math/rand"`, "_ = rand.Intn(3)")), "rand.Intn"},
		{"seeded", one("sim/run.go", function("sim", `"math/rand/v2"`, "_ = rand.New(rand.NewPCG(1, 2)).IntN(3)")), ""},
	})
}

func TestExitsCatches(t *testing.T) {
	runBadCases(t, checkExits, []badCase{
		{"exit", one("internal/report/html.go", function("report", `"os"`, "os.Exit(1)")), "os.Exit"},
		{"fatal", one("experiments/run.go", function("experiments", `"log"`, "log.Fatalf(\"\")")), "log.Fatalf"},
		{"the program may", one("cmd/tokenrouter/main.go", function("main", `"os"`, "os.Exit(1)")), ""},
	})
}

func TestUnsafeCatches(t *testing.T) {
	runBadCases(t, checkUnsafe, []badCase{
		{"unsafe", one("sim/run.go", importing("sim", "unsafe")), "unsafe in sim"},
		{"unsafe in a test", one("sim/run_test.go", importing("sim", "unsafe")), "unsafe in sim"},
		{"mmap", one("backend/model/mmap.go", importing("model", "unsafe")), ""},
		{"cgo", one("backend/cpu/blas.go", importing("cpu", "C")), "cgo in backend/cpu"},
		{"cgo without tag", one("backend/cuda/graph.go", importing("cuda", "C")), "without the build tag"},
		{"cgo with another tag", one("backend/cuda/graph.go", "//go:build linux\n\n"+importing("cuda", "C")), "without the build tag"},
		{"cgo with tag", one("backend/cuda/graph.go", "//go:build cuda && linux\n\n"+importing("cuda", "C")), ""},
	})
}

func TestNamesCatches(t *testing.T) {
	runBadCases(t, checkNames, []badCase{
		{"folder", one("internal/util/clock.go", "package util"), `"util"`},
		{"file", one("sim/kv_manager.go", "package sim"), `"manager"`},
		{"part of a word", one("internal/metrics/utilisation.go", "package metrics"), ""},
	})
}
