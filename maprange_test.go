package tokenrouter_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// Go walks a map in an order that changes from run to run. In the core and the
// simulator such a walk is an error, unless a comment "// order: REASON" on its
// line or the line above says why the order decides nothing.
const orderMark = "// order: "

var orderedFolders = []string{"scheduler/...", "sim/..."}

// checkMapOrder type-checks the ordered folders, since syntax alone does not
// tell a map from a slice.
func checkMapOrder(all []*source) (problems []string) {
	pkgs := packages{byDir: map[string][]*source{}, done: map[string]*types.Package{}, std: importer.Default()}
	var dirs []string
	for _, s := range all {
		if s.test {
			continue
		}
		pkgs.byDir[s.dir] = append(pkgs.byDir[s.dir], s)
		if withinAny(s.dir, orderedFolders) && !slices.Contains(dirs, s.dir) {
			dirs = append(dirs, s.dir)
		}
	}
	for _, dir := range dirs {
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		pkgs.check(dir, info)
		for _, s := range pkgs.byDir[dir] {
			problems = append(problems, mapWalks(s, info)...)
		}
	}
	return problems
}

func mapWalks(s *source, info *types.Info) (problems []string) {
	excused := excusedLines(s)
	report := func(pos token.Pos, what string) {
		if !excused[fset.Position(pos).Line] {
			problems = append(problems, s.problem(pos, "%s: the order differs from run to run (sort, or say why not: %s…)", what, orderMark))
		}
	}
	sorted := map[ast.Node]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			switch t := info.Types[n.X].Type; {
			case t == nil || t == types.Typ[types.Invalid]:
				report(n.Pos(), "range over what may be a map")
			case isMap(t):
				report(n.Pos(), "range over a map")
			}
		case *ast.CallExpr:
			switch pkg, name := qualified(n.Fun); {
			case pkg == "slices" && strings.HasPrefix(name, "Sorted") && len(n.Args) > 0:
				sorted[n.Args[0]] = true
			case pkg == "maps" && slices.Contains([]string{"All", "Keys", "Values"}, name) && !sorted[n]:
				report(n.Pos(), "maps."+name)
			}
		}
		return true
	})
	return problems
}

func isMap(t types.Type) bool {
	if param, ok := t.(*types.TypeParam); ok {
		return strings.Contains(param.Constraint().Underlying().String(), "map[")
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

// qualified splits a call of the form pkg.Name, with or without type arguments.
func qualified(fun ast.Expr) (pkg, name string) {
	switch f := fun.(type) {
	case *ast.IndexExpr:
		return qualified(f.X)
	case *ast.IndexListExpr:
		return qualified(f.X)
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name, f.Sel.Name
		}
	}
	return "", ""
}

// excusedLines are the lines with a mark and a reason, and the ones below.
func excusedLines(s *source) map[int]bool {
	lines := map[int]bool{}
	for i, line := range strings.Split(s.text, "\n") {
		if _, reason, ok := strings.Cut(line, orderMark); ok && len(strings.TrimSpace(reason)) > 0 {
			lines[i+1], lines[i+2] = true, true
		}
	}
	return lines
}

// packages is an importer: our packages from the parsed tree, standard ones
// from the toolchain, and third-party ones not at all, which leaves their
// types unknown and a range over them suspect.
type packages struct {
	byDir map[string][]*source
	done  map[string]*types.Package
	std   types.Importer
}

func (p packages) Import(path string) (*types.Package, error) {
	if dir, ok := ours(path); ok {
		if p.done[dir] == nil {
			p.done[dir] = p.check(dir, nil)
		}
		return p.done[dir], nil
	}
	if isStandard(path) {
		return p.std.Import(path)
	}
	return nil, fmt.Errorf("%s is not looked at", path)
}

func (p packages) check(dir string, info *types.Info) *types.Package {
	conf := types.Config{Importer: p, Error: func(error) {}} // unknown types are expected
	var files []*ast.File
	for _, s := range p.byDir[dir] {
		files = append(files, s.file)
	}
	pkg, _ := conf.Check(module+"/"+dir, fset, files, info)
	return pkg
}

func TestMapOrder(t *testing.T) { eachProblem(t, checkMapOrder) }

func TestMapOrderCatches(t *testing.T) {
	inCore := func(imports, body string) map[string]string {
		return one("scheduler/core.go", function("scheduler", imports, body))
	}
	runBadCases(t, checkMapOrder, []badCase{
		{"map", inCore("", "m := map[int]int{}; for range m {}"), "range over a map"},
		{"named map in another package", map[string]string{
			"algorithms/set.go": "package algorithms\ntype Set map[int]bool",
			"scheduler/core.go": function("scheduler", `"`+module+`/algorithms"`, "var s algorithms.Set; for range s {}"),
		}, "range over a map"},
		{"map field", one("sim/run.go", "package sim\ntype w struct{ m map[int]int }\nfunc (x *w) f() { for range x.m {} }"), "range over a map"},
		{"map from a function", inCore(`"maps"`, "m := maps.Clone(map[int]int{}); for range m {}"), "range over a map"},
		{"keys", inCore(`"maps"`, "for range maps.Keys(map[int]int{}) {}"), "maps.Keys"},
		{"unknown", inCore(`"example.com/x"`, "for range x.Y() {}"), "may be a map"},
		{"type parameter", one("scheduler/core.go", "package scheduler\nfunc f[M ~map[int]int](m M) { for range m {} }"), "range over a map"},
		{"mark without reason", inCore("", "m := map[int]int{}\n// order: \nfor range m {}"), "range over a map"},
		{"mark", inCore("", "m := map[int]int{}\n// order: summed\nfor range m {}"), ""},
		{"sorted", inCore("\"maps\"; import \"slices\"", "for range slices.Sorted(maps.Keys(map[int]int{})) {}"), ""},
		{"slice, number, function", inCore(`"slices"`, "var s []int; for range s {}; for range 3 {}; for range slices.Backward(s) {}"), ""},
		{"elsewhere", one("internal/report/html.go", function("report", "", "m := map[int]int{}; for range m {}")), ""},
	})
}
