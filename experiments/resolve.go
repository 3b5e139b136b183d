package experiments

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/experiments/internal/locate"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// resolve fills defaults in, checks what concerns more than one key, and
// builds the Spec of one cell.
func resolve(s settings, models []string, f *files) (*Spec, []problem) {
	withDefaults(s, models)
	var found []problem
	fail := func(path, hint, format string, args ...any) {
		p := problem{path: path, msg: fmt.Sprintf(format, args...), hint: hint}
		for _, arg := range args {
			// What is wrong inside a file has its place there.
			if e, ok := arg.(*workload.FileError); ok {
				p = problem{path: e.Field, at: &place{e.File, e.Line}, msg: e.Msg, hint: e.Hint}
			}
		}
		found = append(found, p)
	}
	w := checkWorkload(s, f, fail)
	var prices []*Prices
	for _, m := range models {
		prices = append(prices, f.pricesOf(s, m, fail))
	}
	giveGPUs(s, models, prices)
	for i, m := range models {
		checkModel(s, m, w, fail)
		checkGPUs(s, m, prices[i], fail)
	}
	if f := get[float64](s, "colocation.factor"); f > 0 && f < 1 {
		fail("colocation.factor", "1 is no slow-down", "must be 0, which derives it, or at least 1, got %s", formatFloat(f))
	}
	cpu := checkMeasure(s, models, f, fail)
	if len(found) == 0 {
		checkRouting(s, models, w, fail)
	}
	if len(found) > 0 {
		return nil, found
	}
	spec := build(s, models, w)
	for i := range spec.Models {
		spec.Models[i].Prices, spec.Models[i].CPU = prices[i], cpu[i]
	}
	checkQuantum(spec, fail)
	if asksOn(s, OnCPU) {
		checkCPU(s, spec, fail)
	}
	return spec, found
}

type failFunc func(path, hint, format string, args ...any)

// checkModel checks one model; w is nil if something is wrong with the workload.
func checkModel(s settings, model string, w *Workload, fail failFunc) {
	at := "models." + model + "."
	var given []string
	for _, way := range stepTimeKeys {
		if s[at+way] != nil || hasTable(s, model, way) {
			given = append(given, way)
		}
	}
	switch {
	case len(given) == 0 && s[at+"cpu.model"] != nil:
		// It can be run, or measured; what needs its step times says so.
	case len(given) == 0:
		fail("models."+model, "give a profile, step_ms = { base = 4.0, per_request = 0.05 } or "+
			`roofline = { gpu = "h200", config = "qwen3-8b" }`, "lacks its step times")
	case len(given) > 1:
		fail(at+given[0], "remove one of them", "step times are given twice: %s", strings.Join(given, " and "))
	case given[0] == "step_ms":
		lowest := 0.0
		for _, part := range []string{"base", "per_request", "per_row"} {
			lowest += get[float64](s, at+"step_ms."+part)
		}
		// A step lasts at least one nanosecond, so that time moves on.
		if lowest < 1e-6 {
			fail(at+"step_ms", "raise base", "a step must last at least 1 ns, got %s ms", formatFloat(lowest))
		}
	}
	chunk, running := get[int](s, at+"chunk_tokens"), get[int](s, at+"max_running")
	if chunk <= running {
		fail(at+"chunk_tokens", fmt.Sprintf("at least %d, or lower max_running", running+1),
			"must be more than max_running %d, so that prefill gets on beside a full batch, got %d", running, chunk)
	}
	steady := get[string](s, "workload.kind") == KindSteady
	users := get[int](s, "workload.concurrency")
	if steady && users > running {
		fail(at+"max_running", fmt.Sprintf("raise it to %d", users),
			"must be at least workload.concurrency %d, since steady requests all run, got %d", users, running)
	}
	kv, block := get[int](s, at+"kv_tokens"), get[int](s, at+"block_tokens")
	if kv < block {
		fail(at+"kv_tokens", "", "must hold at least one block of %d tokens, got %d", block, kv)
	} else if w == nil {
		// What it asks for is not known.
	} else if prompt := w.longestPrompt(); kv/block*block < prompt+1 {
		fail(at+"kv_tokens", "raise it, or shorten workload.prompt_tokens",
			"must hold a prompt of %d tokens and one more, got %d in blocks of %d", prompt, kv, block)
	} else if held := w.context(); steady && users*((held+block-1)/block) > kv/block {
		fail(at+"kv_tokens", "raise it, or lower workload.concurrency",
			"must hold %d steady requests of %d tokens each, got %d", users, held, kv)
	}
}

func checkRouting(s settings, models []string, w *Workload, fail failFunc) {
	const path = "routing.matrix"
	if m, given := s[path].([][]float64); given {
		if !checkMatrix(m, models, fail) {
			return
		}
	} else if len(models) == 1 && get[string](s, "routing.algorithm") == "matrix" {
		s[path] = [][]float64{{1}}
	}
	_, err := build(s, models, w).NewAlgorithm()
	var field *algorithms.FieldError
	switch {
	case err == nil:
	case errors.As(err, &field):
		at := "routing." + field.Field
		if field.Field == "models" {
			at = "routing.algorithm"
		}
		fail(at, "", "%s", field.Problem)
	default:
		fail("routing", "", "%v", err)
	}
}

// checkQuantum refuses a unit of time in which the chain could not tell the
// shortest step from none.
func checkQuantum(spec *Spec, fail failFunc) {
	if spec.DTMC.QuantumMs == 0 {
		return
	}
	quantumNs := ns(spec.DTMC.QuantumMs * 1e6)
	if quantumNs < 1 {
		fail("dtmc.quantum_ms", "", "must be at least 0.000001, a nanosecond, or 0, got %s", formatFloat(spec.DTMC.QuantumMs))
		return
	}
	for i := range spec.Models {
		t, err := spec.Models[i].StepTime()
		if untimed := (*untimedError)(nil); errors.As(err, &untimed) {
			continue
		} else if err != nil {
			fail("models."+spec.Models[i].Name, "", "%v", err)
			continue
		}
		if shortest := t.Ns(1, 1, spec.Workload.context()); quantumNs > shortest {
			fail("dtmc.quantum_ms", "0 lets the chain choose", "must be at most a step of %s, %s ms, got %s",
				spec.Models[i].Name, formatFloat(float64(shortest)/1e6), formatFloat(spec.DTMC.QuantumMs))
		}
	}
}

// rowSlack is how far a row's sum may be from 1: decimal fractions that
// people write sum to 1 within a few roundings.
const rowSlack = 1e-9

func checkMatrix(m [][]float64, models []string, fail failFunc) bool {
	const path = "routing.matrix"
	if len(m) != len(models) {
		fail(path, "", "must have one row for each of %d models, got %d rows", len(models), len(m))
		return false
	}
	ok := true
	for i, row := range m {
		at := locate.Index(path, i)
		if len(row) != len(models) {
			fail(at, "", "must have one entry for each of %d models, got %d", len(models), len(row))
			ok = false
			continue
		}
		sum := 0.0
		for _, p := range row {
			sum += p
		}
		if math.Abs(sum-1) > rowSlack {
			hint := ""
			if stay := row[i] + 1 - sum; stay >= 0 && stay <= 1 {
				hint = fmt.Sprintf("for example %s as the chance to stay at %s", formatFloat(math.Round(stay*1e9)/1e9), models[i])
			}
			fail(at, hint, "must sum to 1, got %s", formatFloat(math.Round(sum*1e12)/1e12))
			ok = false
		}
	}
	return ok
}
