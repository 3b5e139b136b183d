package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// benchKeys are the flags that stand for keys of an experiment: the load is
// described, checked and explained as there.
var benchKeys = []struct{ flag, path, about string }{
	{"workload", "workload.kind", "closed, poisson, bursty, trace or script; steady is closed here (default closed)"},
	{"concurrency", "workload.concurrency", "closed: users, each of whom sends the next request when one has ended (default 8)"},
	{"requests", "workload.requests", "requests in all, in place of --duration-s"},
	{"duration-s", "workload.duration_s", "seconds to measure (default 30)"},
	{"warmup-s", "workload.warmup_s", "seconds at the start that no figure counts (default 0)"},
	{"rate-per-s", "workload.rate_per_s", "poisson, bursty: requests a second"},
	{"arrival-cv", "workload.arrival_cv", "bursty: standard deviation / mean of the gaps between arrivals"},
	{"burst-requests", "workload.burst_requests", "bursty: mean requests in a burst"},
	{"trace", "workload.trace", "trace: .csv `file` with arrived_at, num_prefill_tokens, num_decode_tokens"},
	{"repeat", "workload.repeat", "trace: play it so many times, end to end"},
	{"speedup", "workload.speedup", "trace: arrivals come so many times as fast"},
	{"prompt-tokens", "workload.prompt_tokens", "length of prompts, a number or a TOML table like '{ min = 50, max = 150 }' (default 100)"},
	{"output-tokens", "workload.output_tokens", "length of answers, a number or a table like that of --prompt-tokens (default 128)"},
	{"lengths", "workload.lengths", "instead of both: aime-low, aime-high, swe-smith, or a .csv `file`"},
	{"ttft-ms", "workload.limits.ttft_ms", "goodput: a request is good if its TTFT is at most this"},
	{"tpot-ms", "workload.limits.tpot_ms", "goodput: and its TPOT at most this"},
	{"seed", "seeds", "`seed` of the load: the same seed sends the same requests (default 1)"},
	{"algorithm", "routing.algorithm", "std-serving: matrix, bursty, script, confidence or never (default matrix)"},
	{"matrix", "routing.matrix", "std-serving: chances that a token at model i leads to each model (default [[0.9, 0.1], [1.0, 0.0]])"},
	{"threshold", "routing.threshold", "std-serving: confidence below which a token is routed"},
	{"mean-gap", "routing.mean_gap", "std-serving, bursty: small tokens from one hand-off to the next"},
	{"gap-cv", "routing.gap_cv", "std-serving, bursty: standard deviation / mean of the gaps"},
	{"gap-lag1", "routing.gap_lag1", "std-serving, bursty: correlation of successive gaps"},
}

// addBenchKeys makes the flags of benchKeys; their values are checked by the
// loader of experiments.
func addBenchKeys(f *pflag.FlagSet) {
	for _, k := range benchKeys {
		f.String(k.flag, "", k.about)
	}
}

// keySettings lists what the flags and --set ask for, as --set takes it.
func keySettings(f *pflag.FlagSet, set []string) []string {
	var out []string
	for _, k := range benchKeys {
		if !f.Changed(k.flag) {
			continue
		}
		value := f.Lookup(k.flag).Value.String()
		switch k.path {
		case "seeds":
			value = "[" + value + "]"
		case "workload.kind":
			value = asClosed(value)
		}
		out = append(out, k.path+"="+value)
	}
	return append(out, set...)
}

// asClosed is the kind of load that a server is asked in place of requests that
// never end.
func asClosed(kind string) string {
	if kind == experiments.KindSteady {
		return experiments.KindClosed
	}
	return kind
}

// benchFile is the name of the experiment that flags alone describe.
const benchFile = "bench.toml"

// benchDefaults writes that experiment, without what the settings replace or
// rule out.
func benchDefaults(set []string) []byte {
	given := map[string]string{}
	for _, s := range set {
		path, value, _ := strings.Cut(s, "=")
		given[strings.TrimSpace(path)] = strings.Trim(strings.TrimSpace(value), `"`)
	}
	kind, ok := given["workload.kind"]
	if !ok {
		kind = experiments.KindClosed
	}
	var b strings.Builder
	b.WriteString("question = \"How fast does a server answer?\"\non = [\"sim\"]\n")
	for _, name := range []string{"small", "large"} {
		fmt.Fprintf(&b, "[[models]]\nname = %q\nstep_ms = { base = 1.0 }\nkv_tokens = 1000000000\n", name)
	}
	if a := given["routing.algorithm"]; a == "" || a == "matrix" {
		b.WriteString("[routing]\nmatrix = [[0.9, 0.1], [1.0, 0.0]]\n")
	}
	fmt.Fprintf(&b, "[workload]\nkind = %q\n", kind)
	has := func(path string) bool { _, ok := given[path]; return ok }
	script, trace := kind == experiments.KindScript, kind == experiments.KindTrace
	if !script {
		b.WriteString("warmup_s = 0\n")
	}
	if !script && !trace && !has("workload.requests") {
		b.WriteString("duration_s = 30\n")
	}
	if !script && !trace && !has("workload.lengths") {
		b.WriteString("output_tokens = 128\n")
	}
	return []byte(b.String())
}

// benchPlan resolves what to ask: flags over an experiment file, or over
// defaults of its own.
func benchPlan(f *pflag.FlagSet, name string, set []string) (*experiments.Plan, error) {
	set = keySettings(f, set)
	if name == "" {
		plan, err := experiments.Load(benchFile, benchDefaults(set), set...)
		return plan, namedByFlag(f, err)
	}
	plan, err := loadPlan(name, set)
	if err != nil {
		return nil, namedByFlag(f, err)
	}
	// What a simulation of minutes costs seconds, a server takes in real time.
	for _, s := range plan.Points[0].Settings {
		switch {
		case s.Path == "workload.kind" && s.Value == experiments.KindSteady:
			set = append(set, "workload.kind="+experiments.KindClosed)
		case s.Path == "workload.duration_s" && s.Default:
			set = append(set, "workload.duration_s=30")
		case s.Path == "workload.warmup_s" && s.Default:
			set = append(set, "workload.warmup_s=0")
		}
	}
	plan, err = loadPlan(name, set)
	return plan, namedByFlag(f, err)
}

// namedByFlag tells errors about a key by the flag that set it.
func namedByFlag(f *pflag.FlagSet, err error) error {
	var all experiments.SpecErrors
	if !errors.As(err, &all) {
		return err
	}
	for _, e := range all {
		for _, k := range benchKeys {
			isFlag := e.Path == k.path || strings.HasPrefix(e.Path, k.path+"[") || strings.HasPrefix(e.Path, k.path+".")
			if isFlag && (f.Changed(k.flag) && e.File == "--set" || e.File == benchFile) {
				e.File, e.Line, e.Path = "--"+k.flag, 0, strings.TrimPrefix(strings.TrimPrefix(e.Path, k.path), ".")
			}
		}
	}
	// The defaults repeat what a flag says, and with it what is wrong with it.
	return slices.CompactFunc(all, func(a, b *experiments.SpecError) bool { return *a == *b })
}

// rivals are flags of which one alone can be meant.
var rivals = [][2]string{{"base-url", "std-serving"}, {"in-process", "base-url"}, {"in-process", "std-serving"},
	{"requests", "duration-s"}, {"lengths", "prompt-tokens"}, {"lengths", "output-tokens"}}

func checkRivals(f *pflag.FlagSet) error {
	for _, r := range rivals {
		if f.Changed(r[0]) && f.Changed(r[1]) {
			return fmt.Errorf("--%s and --%s exclude each other\n  fix: remove one of them", r[0], r[1])
		}
	}
	return nil
}

// benchCell is one run against the servers.
type benchCell struct {
	point *experiments.Point
	seed  uint64
}

// settings are those that matter to a server.
func (c *benchCell) settings(routed bool) []experiments.Setting {
	var out []experiments.Setting
	for _, s := range c.point.Settings {
		if strings.HasPrefix(s.Path, "workload.") || routed && strings.HasPrefix(s.Path, "routing.") {
			out = append(out, s)
		}
	}
	return out
}

// benchCells lists the runs: points of a sweep that ask a server the same are
// one.
func benchCells(p *experiments.Plan, routed bool) []benchCell {
	var out []benchCell
	var seen []string
	for _, point := range p.Points {
		c := benchCell{point: point}
		text := ""
		for _, s := range c.settings(routed) {
			text += s.Path + " = " + s.Text() + "\n"
		}
		if slices.Contains(seen, text) {
			continue
		}
		seen = append(seen, text)
		for _, seed := range p.Seeds {
			out = append(out, benchCell{point, seed})
		}
	}
	return out
}

// load is what the cell sends.
func (c *benchCell) load() workload.Load {
	w := &c.point.Spec.Workload
	l := workload.Load{Mix: w.Mix, Limit: w.Requests, Seed: c.seed}
	switch {
	case w.Kind == experiments.KindScript:
		l.Kind, l.Mix = workload.Listed, workload.Single(workload.Lengths{Prompt: w.PromptTokens, Output: workload.Fixed(1)})
		for i, script := range c.point.Spec.Routing.Scripts {
			q := l.Mix.Request(i, c.seed)
			q.Seed, q.Output = uint64(i), len(script) // the seed is the number of the script
			l.List = append(l.List, q)
		}
	case experiments.IsOpen(w.Kind):
		l.Kind, l.Arrivals = workload.Open, &w.Arrivals
	default:
		l.Kind, l.Users = workload.Closed, w.Concurrency
	}
	return l
}
