package experiments

import (
	"strings"

	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// What a visit finds of the last one, in published code.
const (
	VisitsKept   = "kept"
	VisitsReread = "reread"
)

// What becomes of the token that the home sampled when it hands a request off.
const (
	TokenDropped = "dropped"
	TokenKept    = "kept"
)

// Limits of the numbers in an experiment file: beyond what one machine
// simulates in reasonable time and memory, but small enough that no sum of
// them overflows.
const (
	maxModels   = 16
	maxRequests = 1e9
	maxUsers    = 65536
	maxTokens   = 10e6
	maxKV       = 1e9
	maxMs       = 1e6
	maxLimitMs  = 1e9 // of latencies, that are longer than steps
	maxRatePerS = 1e6
	maxRepeat   = 1e6
	maxS        = 1e6
)

// keys is the one table of all keys: type, range, default, meaning. The order
// is that of every listing. Keys that any other rule concerns are checked in
// resolve.go.
var keys = []key{
	{path: "question", kind: kindString, doc: "what the experiment answers"},
	{path: "on", kind: kindStrings, def: []string{OnChain, OnSim}, oneOf: choices(Places...), doc: "where to run: predicted, simulated, and measured on the real runtime with engines that keep a profile's times (paced) or run models (cpu)"},
	{path: "systems", kind: kindStrings, def: []string{SystemTokenRouter}, oneOf: systemNames, doc: "what to compare"},
	{path: "seeds", kind: kindInts, max: 1e15, def: []int{1}, doc: "one run each; the chain draws nothing and runs once"},
	{path: "home", kind: kindString, oneOf: modelNames, doc: "where requests enter; default: the first model"},

	{path: "models.*.name", kind: kindString, doc: "letters, digits, - and _"},
	{path: "models.*.profile", kind: kindString, oneOf: profileNames, orFile: profileFile, doc: "measured step times: a shipped profile, or a .toml file beside this one"},
	{path: "models.*.step_ms.base", kind: kindFloat, max: maxMs, doc: "instead of a profile: ms a step"},
	{path: "models.*.step_ms.per_request", kind: kindFloat, max: maxMs, doc: "and ms for each request in it"},
	{path: "models.*.step_ms.per_row", kind: kindFloat, max: maxMs, doc: "and ms for each token position fed"},
	{path: "models.*.roofline.gpu", kind: kindString, oneOf: choices(steptime.GPUs()...), doc: "instead of a profile: step times derived from the model's shape, on this GPU"},
	{path: "models.*.roofline.config", kind: kindString, doc: "the name of a known model, or the path of a config.json beside this file"},
	{path: "models.*.roofline.tp", kind: kindInt, min: 1, max: 1024, def: 1, doc: "roofline: GPUs that share the model"},
	{path: "models.*.roofline.engine", kind: kindString, def: steptime.Engines()[0], oneOf: choices(steptime.Engines()...), doc: "roofline: what runs the steps"},
	{path: "models.*.roofline.variant", kind: kindString, def: steptime.VariantGraphs, oneOf: choices(steptime.VariantGraphs, steptime.VariantEager), doc: "roofline: with CUDA graphs or without"},
	{path: "models.*.gpus", kind: kindInts, max: 4095, doc: "which it takes: as many as its profile or roofline says (tp); default: so many of its own, and one with step_ms"},
	{path: "models.*.colocation_factor", kind: kindFloat, min: 1, max: 100, doc: "by which its steps stretch while a model on the same GPU runs; default: colocation.factor"},
	{path: "models.*.B", kind: kindThreshold, min: 1, max: maxUsers, def: Threshold{1}, doc: `threshold; an array is a table over live requests; "tuned": what the chain finds best for the cell`},
	{path: "models.*.kv_tokens", kind: kindInt, min: 1, max: maxKV, def: 1_000_000, doc: "tokens of KV that fit"},
	{path: "models.*.max_running", kind: kindInt, min: 1, max: maxUsers, def: 256, doc: "requests in a step"},
	{path: "models.*.chunk_tokens", kind: kindInt, min: 2, max: maxTokens, def: 2048, doc: "rows in a step; more than max_running"},
	{path: "models.*.eager_ms", kind: kindFloat, max: maxMs, doc: "official: what a step takes at least without CUDA graphs"},
	{path: "models.*.block_tokens", kind: kindInt, min: 1, max: 4096, def: 16, doc: "tokens of a KV block"},
	{path: "models.*.cpu.model", kind: kindString, doc: "cpu: a folder with config.json and *.safetensors beside this file, random:NAME for made-up weights of a known shape, or toy:qwen3"},
	{path: "models.*.cpu.threads", kind: kindInt, min: 1, max: 1024, doc: "cpu: cores that share a step; default 1"},
	{path: "models.*.cpu.kv_tokens", kind: kindInt, min: 1, max: maxKV, doc: "cpu: tokens of KV to hold in memory; default: what the requests at once may need, at most kv_tokens"},

	{path: "routing.algorithm", kind: kindString, def: "matrix", oneOf: algorithmNames, doc: "who decides"},
	{path: "routing.matrix", kind: kindMatrix, max: 1, doc: "row i: chances that a decision at model i leads to each model"},
	{path: "routing.routed_token", kind: kindString, def: TokenDropped, oneOf: choices(TokenDropped, TokenKept), doc: "the token sampled when a request leaves home"},
	{path: "routing.small", kind: kindString, oneOf: modelNames, doc: "of a pair; default: the first model"},
	{path: "routing.large", kind: kindString, oneOf: modelNames, doc: "of a pair; default: the last model"},
	{path: "routing.threshold", kind: kindFloat, min: -1, max: 2, doc: "of the signal; default: the published one"},
	{path: "routing.weights", kind: kindFloats, max: 1, doc: "me, fusion: one for each model"},
	{path: "routing.mean_gap", kind: kindFloat, min: 1, max: maxTokens, doc: "bursty: decisions from one hand-off to the next"},
	{path: "routing.gap_cv", kind: kindFloat, max: 1000, doc: "bursty: standard deviation / mean of gaps"},
	{path: "routing.gap_lag1", kind: kindFloat, max: 1, doc: "bursty: correlation of successive gaps"},
	{path: "routing.return_probability", kind: kindFloat, above: true, max: 1, doc: "bursty: chance to return after each token; default 1"},
	{path: "routing.scripts", kind: kindStrings, doc: "script: one string for each request; S, L or a digit writes a token"},

	{path: "handoff.ms", kind: kindFloat, max: maxMs, def: 0.0, doc: "time that a request is in transit"},

	{path: "workload.kind", kind: kindString, def: KindSteady, oneOf: choices(workloadKinds...), doc: "steady: requests never end; closed: users who ask again; poisson, bursty, trace: requests come by themselves; script: routing.scripts"},
	{path: "workload.concurrency", kind: kindInt, min: 1, max: maxUsers, def: 8, doc: "users"},
	{path: "workload.requests", kind: kindInt, min: 1, max: maxRequests, doc: "end after so many, instead of duration_s; not steady, script"},
	{path: "workload.rate_per_s", kind: kindFloat, above: true, max: maxRatePerS, doc: "poisson, bursty: mean rate of arrivals"},
	{path: "workload.arrival_cv", kind: kindFloat, min: 1, max: 1000, def: 2.0, doc: "bursty: standard deviation / mean of the gaps between arrivals"},
	{path: "workload.burst_requests", kind: kindFloat, min: 1, max: 1e6, def: 10.0, doc: "bursty: mean requests in a burst; at least (arrival_cv² + 1) / 2"},
	{path: "workload.trace", kind: kindString, doc: "trace: .csv file beside this one, with the columns arrived_at (s), num_prefill_tokens, num_decode_tokens"},
	{path: "workload.repeat", kind: kindInt, min: 1, max: maxRepeat, def: 1, doc: "trace: play it so often, end to end"},
	{path: "workload.speedup", kind: kindFloat, above: true, max: 1e6, def: 1.0, doc: "trace: arrivals come so many times as fast"},
	{path: "workload.prompt_tokens", kind: kindLength, min: 1, max: maxTokens, def: workload.Fixed(100), doc: "a number, { min, max } for uniform, { mean, cv, min, max } for lognormal, or { bounds, weights }"},
	{path: "workload.output_tokens", kind: kindLength, min: 1, max: maxTokens, def: workload.Fixed(2048), doc: "the same"},
	{path: "workload.lengths", kind: kindString, doc: "instead of both: aime-low, aime-high, swe-smith, or a .csv file with num_prefill_tokens and num_decode_tokens"},
	{path: "workload.prefix.tokens", kind: kindInt, min: 1, max: maxTokens, doc: "prompts start with a text of so many tokens that others share"},
	{path: "workload.prefix.share", kind: kindFloat, above: true, max: 1, def: 1.0, doc: "of the requests that do"},
	{path: "workload.prefix.distinct", kind: kindInt, min: 1, max: maxRequests, def: 1, doc: "such texts"},
	{path: "workload.limits.ttft_ms", kind: kindFloat, above: true, max: maxLimitMs, doc: "a request is good if its TTFT is at most this"},
	{path: "workload.limits.tpot_ms", kind: kindFloat, above: true, max: maxLimitMs, doc: "and its TPOT at most this"},
	{path: "workload.classes", kind: kindClasses, doc: "[[workload.classes]]: kinds of requests, each with name, share, lengths and limits"},
	{path: "workload.duration_s", kind: kindFloat, above: true, max: maxS, def: 600.0, doc: "simulated time; a trace ends by itself"},
	{path: "workload.warmup_s", kind: kindFloat, max: maxS, def: 60.0, doc: "left out of the figures; default 0 where requests or a trace end the run"},

	{path: "measure.duration_s", kind: kindFloat, above: true, max: maxS, def: 10.0, doc: "paced, cpu: real time of a run, instead of workload.duration_s; with requests or a trace it ends by itself"},
	{path: "measure.warmup_s", kind: kindFloat, max: maxS, def: 2.0, doc: "paced, cpu: left out of the figures; default 0 where requests or a trace end the run"},

	{path: "scheduler.max_delay_ms", kind: kindFloat, max: maxMs, doc: "an idle model waits for B no longer than this; 0: no bound. Default 0; poisson, bursty, trace: 10 times its step of one request"},
	{path: "scheduler.prefix_reuse", kind: kindBool, def: true, doc: "prompts that start alike share KV"},
	{path: "scheduler.queue_limit", kind: kindInt, min: 1, max: maxUsers, def: maxUsers, doc: "requests that wait for admission"},

	{path: "colocation.factor", kind: kindFloat, max: 100, def: 0.0, doc: "by which steps stretch while a model on the same GPU runs, at least 1; 0: derived from the bandwidth that both ask for"},
	{path: "official.visits", kind: kindString, def: VisitsKept, oneOf: choices(VisitsKept, VisitsReread), doc: "official: whether a visit finds the KV of the last one"},
	{path: "dispatcher.ms", kind: kindFloat, max: maxMs, def: 5.0, doc: "std-serving: what a submission costs (assumed)"},
	{path: "dispatcher.ms_per_1k_tokens", kind: kindFloat, max: maxMs, def: 5.0, doc: "std-serving: and what 1000 tokens of its prompt add (assumed)"},
	{path: "query.large_share", kind: kindFloat, max: 1, def: 0.4, doc: "query-level: requests that the large model serves (published: about 40 %)"},

	{path: "dtmc.quantum_ms", kind: kindFloat, max: 1000, def: 0.0, doc: "the chain's unit of time; 0: chosen by the step times"},

	{path: "plot.x", kind: kindString, doc: "hints for the plot: a swept key,"},
	{path: "plot.y", kind: kindString, doc: "a figure,"},
	{path: "plot.series", kind: kindString, doc: "a swept key, or system,"},
	{path: "plot.facet", kind: kindString, doc: "the same,"},
	{path: "plot.kind", kind: kindString, oneOf: choices("line", "bar", "heat", "loss"), doc: "line, bar, heat (gain over B = 1) or loss (against the best B)"},

	{path: "published.source", kind: kindString, doc: "who published figures to print beside ours"},
	{path: "published.figure", kind: kindString, doc: "which figure; default: that of the plot"},
	{path: "published.tokenrouter", kind: kindFloat, above: true, max: 1e12, doc: "what it was there, by system"},
	{path: "published.async", kind: kindFloat, above: true, max: 1e12, doc: ""},
	{path: "published.alternate", kind: kindFloat, above: true, max: 1e12, doc: ""},
	{path: "published.lockstep", kind: kindFloat, above: true, max: 1e12, doc: ""},
	{path: "published.official", kind: kindFloat, above: true, max: 1e12, doc: ""},
	{path: "published.std-serving", kind: kindFloat, above: true, max: 1e12, doc: ""},
	{path: "published.query-level", kind: kindFloat, above: true, max: 1e12, doc: ""},
}

func modelNames(v *vocabulary) []string     { return v.models }
func profileNames(v *vocabulary) []string   { return v.profiles }
func algorithmNames(v *vocabulary) []string { return v.algorithms }

func systemNames(v *vocabulary) []string { return systemsOf(v.models) }

var keyAt = func() map[string]*key {
	at := map[string]*key{}
	for i := range keys {
		at[keys[i].path] = &keys[i]
	}
	return at
}()

// keyFor is the key that a path of an experiment names: models.large.B is
// described by models.*.B.
func keyFor(path string) *key { return keyAt[keyPattern(path)] }

// keyPattern is the path in the key table of what a path of an experiment names.
func keyPattern(path string) string {
	if rest, ok := strings.CutPrefix(path, "models."); ok {
		_, rest, _ = strings.Cut(rest, ".")
		return "models.*." + rest
	}
	return path
}

// isTable reports whether keys lie below pattern.
func isTable(pattern string) bool {
	for i := range keys {
		if strings.HasPrefix(keys[i].path, pattern+".") {
			return true
		}
	}
	return false
}

// children lists the key names directly below a table pattern, in the order of
// the table; "" is the root.
func children(pattern string) []string {
	var names []string
	prefix := pattern + "."
	if pattern == "" {
		prefix = ""
		names = append(names, "models", "sweep")
	}
	for i := range keys {
		rest, ok := strings.CutPrefix(keys[i].path, prefix)
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, ".")
		if name != "*" && (len(names) == 0 || names[len(names)-1] != name) && !(pattern == "" && name == "models") {
			names = append(names, name)
		}
	}
	return names
}

// expand lists the paths of pattern for the given models.
func expand(pattern string, models []string) []string {
	before, after, perModel := strings.Cut(pattern, "*")
	if !perModel {
		return []string{pattern}
	}
	paths := make([]string, len(models))
	for i, m := range models {
		paths[i] = before + m + after
	}
	return paths
}

// withDefaults fills what values leaves out, save what the workload has no use
// for, and GPUs, which hang on profiles: see giveGPUs.
func withDefaults(values settings, models []string) {
	if values["workload.kind"] == nil {
		values["workload.kind"] = keyAt["workload.kind"].def
	}
	for i := range keys {
		if strings.HasPrefix(keys[i].path, "workload.") && !isRead(values, keys[i].path) {
			continue
		}
		for m, path := range expand(keys[i].path, models) {
			if _, given := values[path]; given {
				continue
			}
			if def := defaultOf(&keys[i], values, models, m); def != nil {
				values[path] = def
			}
		}
	}
}

// defaultOf is a key's default beside the values that are given; nil for none.
func defaultOf(k *key, values settings, models []string, model int) any {
	kind := get[string](values, "workload.kind")
	switch k.path {
	case "home":
		return models[0]
	case "models.*.roofline.tp", "models.*.roofline.engine", "models.*.roofline.variant":
		if !hasTable(values, models[model], "roofline") {
			return nil
		}
	case "measure.duration_s", "measure.warmup_s":
		return defaultWindow(k, values, kind)
	case "workload.duration_s":
		if kind == KindTrace {
			return nil // it ends by itself
		}
	case "workload.warmup_s":
		// 60 s may be the whole of a run that ends by itself.
		if values["workload.requests"] != nil || kind == KindTrace && values["workload.duration_s"] == nil {
			return 0.0
		}
	case "scheduler.max_delay_ms":
		if !IsOpen(kind) {
			return 0.0
		}
	}
	return k.def
}

// defaultWindow is for how long places in real time measure; nil if none is
// asked for, or where the requests end the run.
func defaultWindow(k *key, values settings, kind string) any {
	switch ends := values["workload.requests"] != nil || kind == KindTrace || kind == KindScript; {
	case !asksReal(values) || ends && k.path == "measure.duration_s":
		return nil
	case ends && values["measure.duration_s"] == nil:
		return 0.0
	}
	return k.def
}
