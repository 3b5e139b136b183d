package tokenrouter_test

import (
	"strings"
	"testing"
)

// layer says what the packages of some folders may import. DESIGN.md gives the
// reasons. The first layer that fits a folder counts, and arrows that are allowed
// one by one leave no way round, since no middleman may go further.
type layer struct {
	dir    string   // folder, or "folder/..." for all below it too
	ours   []string // our folders that it may import
	others bool     // may import third-party modules
	pure   bool     // none of the standard packages in impure
}

var layers = []layer{
	{dir: "."},
	{dir: "algorithms/...", ours: []string{"algorithms/..."}, pure: true},
	{dir: "scheduler/...", ours: []string{"scheduler/...", "algorithms"}, pure: true},
	{dir: "sim/...", ours: []string{"sim/...", "scheduler", "algorithms", "internal/..."}, others: true},
	{dir: "dtmc/...", ours: []string{"dtmc/...", "scheduler", "internal/steptime"}, others: true},

	{dir: "backend", ours: []string{"algorithms"}},
	{dir: "backend/sampling/...", ours: []string{"backend", "algorithms"}},
	{dir: "backend/cpu/...", ours: []string{"backend", "backend/cpu/...", "backend/model", "backend/sampling", "backend/router", "algorithms", "internal/..."}, others: true},
	{dir: "backend/cuda/...", ours: []string{"backend", "backend/cuda/...", "backend/model", "backend/sampling", "backend/router", "algorithms", "internal/..."}},
	{dir: "backend/paced/...", ours: []string{"backend", "backend/paced/...", "backend/sampling", "algorithms", "internal/..."}, others: true},
	{dir: "backend/model/...", ours: []string{"backend/model/...", "internal/modelconfig", "internal/regular"}, others: true},
	{dir: "backend/tokenizer/...", ours: []string{"backend/tokenizer/...", "algorithms", "internal/regular"}, others: true},
	{dir: "backend/router/...", ours: []string{"backend", "backend/router/...", "backend/model", "algorithms", "internal/..."}, others: true},
	{dir: "backend/subserver/...", ours: []string{"backend", "backend/subserver/...", "backend/model", "backend/sampling", "backend/tokenizer", "backend/router", "scheduler", "algorithms", "internal/..."}, others: true},
	// The only place that knows both the scheduler's driver and the front door.
	{dir: "backend/serving/...", ours: []string{"backend", "backend/serving/...", "backend/frontdoor", "backend/subserver", "backend/tokenizer", "scheduler", "algorithms", "internal/..."}, others: true},
	{dir: "backend/frontdoor/...", ours: []string{"backend", "backend/frontdoor/...", "backend/tokenizer", "algorithms", "internal/..."}, others: true},

	{dir: "experiments/...", ours: []string{"experiments/...", "sim/...", "dtmc/...", "backend/...", "scheduler", "algorithms", "internal/..."}, others: true},
	{dir: "cmd/...", ours: []string{"cmd/...", "experiments/...", "sim/...", "dtmc/...", "backend/...", "scheduler", "algorithms", "internal/..."}, others: true},

	// The chain and the engines import these, so they bring nothing along.
	{dir: "internal/steptime/...", ours: []string{"internal/steptime/...", "internal/modelconfig", "internal/nearest", "internal/regular"}, others: true},
	{dir: "internal/modelconfig/...", ours: []string{"internal/nearest", "internal/regular"}},
	{dir: "internal/cuda/...", ours: []string{"internal/cuda/..."}},
	// The rest serves the virtual and the real side and knows neither.
	{dir: "internal/...", ours: []string{"internal/...", "scheduler", "algorithms"}, others: true},
}

// impure is what a deterministic core must not reach: clocks, threads, the
// machine it runs on, and random sources that no seed decides.
var impure = []string{
	"time", "sync/...", "context", "os/...", "net/...", "log/...", "syscall",
	"math/rand/...", "crypto/rand", "runtime/...", "testing/...",
}

func layerOf(dir string) *layer {
	for i := range layers {
		if within(dir, layers[i].dir) {
			return &layers[i]
		}
	}
	return nil
}

// ours returns the folder of an import path of this module.
func ours(path string) (dir string, ok bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// isStandard tells a standard package from a third-party one, whose path
// starts with a host name. "C" counts as standard: checkUnsafe looks at it.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// checkLayers judges direct imports. Tests may use test libraries and impure
// packages, but the arrows between our own packages bind them as well.
func checkLayers(all []*source) (problems []string) {
	for _, s := range all {
		l := layerOf(s.dir)
		if l == nil {
			problems = append(problems, s.problem(s.file.Package, "no layer for folder %s: add it to layers", s.dir))
			continue
		}
		for path, pos := range s.imports() {
			dir, isOurs := ours(path)
			switch {
			case isOurs && dir == s.dir: // an external test of the same package
			case isOurs && !withinAny(dir, l.ours):
				problems = append(problems, s.problem(pos, "%s must not import %s", s.dir, dir))
			case isOurs || s.test:
			case l.pure && withinAny(path, impure):
				problems = append(problems, s.problem(pos, "%s must not import %s: it decides without clock, thread, machine or chance", s.dir, path))
			case !l.others && !isStandard(path):
				problems = append(problems, s.problem(pos, "%s must not import %s: standard library only", s.dir, path))
			}
		}
	}
	return problems
}

func TestLayers(t *testing.T) { eachProblem(t, checkLayers) }

func importing(pkg string, paths ...string) string {
	text := "package " + pkg + "\n"
	for _, p := range paths {
		text += "import _ \"" + p + "\"\n"
	}
	return text
}

func TestLayersCatch(t *testing.T) {
	const core = "scheduler/core.go"
	runBadCases(t, checkLayers, []badCase{
		{"core may use algorithms", one(core, importing("scheduler", module+"/algorithms", "fmt")), ""},
		{"core reads a clock", one(core, importing("scheduler", "time")), "must not import time"},
		{"core locks", one(core, importing("scheduler", "sync/atomic")), "must not import sync/atomic"},
		{"core draws", one(core, importing("scheduler", "math/rand/v2")), "must not import math/rand/v2"},
		{"core logs", one(core, importing("scheduler", "log/slog")), "must not import log/slog"},
		{"core imports simulator", one(core, importing("scheduler", module+"/sim")), "must not import sim"},
		{"core imports profiles", one(core, importing("scheduler", module+"/internal/steptime")), "must not import internal/steptime"},
		{"core imports a module", one(core, importing("scheduler", "gonum.org/v1/gonum/mat")), "standard library only"},
		{"core's test may", one("scheduler/core_test.go", importing("scheduler", "os", "pgregory.net/rapid")), ""},
		{"core's test imports sim", one("scheduler/core_test.go", importing("scheduler_test", module+"/sim")), "must not import sim"},
		{"algorithm imports core", one("algorithms/citer.go", importing("algorithms", module+"/scheduler")), "must not import scheduler"},
		{"algorithm imports a module", one("algorithms/citer.go", importing("algorithms", "golang.org/x/exp/rand")), "standard library only"},
		{"simulator imports chain", one("sim/run.go", importing("sim", module+"/dtmc")), "must not import dtmc"},
		{"chain imports simulator", one("dtmc/solve.go", importing("dtmc", module+"/sim")), "must not import sim"},
		{"chain may", one("dtmc/solve.go", importing("dtmc", module+"/scheduler", module+"/internal/steptime", "gonum.org/v1/gonum/mat")), ""},
		{"engine imports core", one("backend/cpu/forward.go", importing("cpu", module+"/scheduler")), "must not import scheduler"},
		{"front door imports core", one("backend/frontdoor/sse.go", importing("frontdoor", module+"/scheduler")), "must not import scheduler"},
		{"subserver may import core", one("backend/subserver/decode.go", importing("subserver", module+"/scheduler", module+"/backend")), ""},
		{"subserver imports simulator", one("backend/subserver/decode.go", importing("subserver", module+"/sim")), "must not import sim"},
		{"internal imports simulator", one("internal/report/html.go", importing("report", module+"/sim")), "must not import sim"},
		{"profiles import trace", one("internal/steptime/table.go", importing("steptime", module+"/internal/trace")), "must not import internal/trace"},
		{"driver binding imports ours", one("internal/cuda/load.go", importing("cuda", module+"/algorithms")), "must not import algorithms"},
		{"experiments import the program", one("experiments/run.go", importing("experiments", module+"/cmd/tokenrouter")), "must not import cmd/tokenrouter"},
		{"the program may import all", one("cmd/tokenrouter/run.go", importing("main", module+"/experiments", module+"/dtmc")), ""},
		{"unknown folder", one("util/strings.go", importing("util")), "no layer for folder util"},
	})
}
