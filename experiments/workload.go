package experiments

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// Workload kinds.
const (
	KindSteady  = "steady"  // n requests that never end
	KindClosed  = "closed"  // n users, each sends the next request when one ends
	KindPoisson = "poisson" // requests come at random, at a mean rate
	KindBursty  = "bursty"  // the same in bursts
	KindTrace   = "trace"   // requests come as a file says
	KindScript  = "script"  // requests whose every token is written down
)

var workloadKinds = []string{KindSteady, KindClosed, KindPoisson, KindBursty, KindTrace, KindScript}

// IsOpen reports whether requests come whatever becomes of the others.
func IsOpen(kind string) bool {
	return kind == KindPoisson || kind == KindBursty || kind == KindTrace
}

// Workload says what is asked of the system. Fields that the kind does not read
// are zero.
type Workload struct {
	Kind         string
	Concurrency  int
	Requests     int    // 0: DurationS decides, or the end of a trace
	PromptTokens Length // of the first class; of the file where one gives them
	OutputTokens Length
	DurationS    float64 // 0: no end but that of the requests
	WarmupS      float64
	Arrivals     workload.Arrivals // open kinds
	Mix          *workload.Mix     // what requests look like; nil for steady and script
	Assumed      []string          // what named lengths rest on
	Digest       string            // of the files that are read; "" for none
}

// Classes names the classes of requests where there are several.
func (w *Workload) Classes() []string {
	if w.Mix == nil || len(w.Mix.Classes) < 2 {
		return nil
	}
	var names []string
	for _, c := range w.Mix.Classes {
		names = append(names, c.Name)
	}
	return names
}

// context is that of a request half-way, averaged over all classes.
func (w *Workload) context() int {
	half := func(prompt, output Length) int { return int(prompt.Mean()) + int(output.Mean())/2 }
	if len(w.Classes()) == 0 || w.Kind == KindTrace {
		return half(w.PromptTokens, w.OutputTokens)
	}
	sum, tokens := 0.0, 0.0
	for _, c := range w.Mix.Classes {
		sum += c.Share
		tokens += c.Share * float64(half(c.Lengths.Prompt, c.Lengths.Output))
	}
	return int(tokens / sum)
}

// longestPrompt is what every pool must hold. Of a file that is its shortest
// prompt: a trace may hold a few requests that a pool refuses.
func (w *Workload) longestPrompt() int {
	longest := 0
	lengths := []Length{w.PromptTokens}
	if len(w.Classes()) > 0 && w.Kind != KindTrace {
		lengths = nil
		for _, c := range w.Mix.Classes {
			lengths = append(lengths, c.Lengths.Prompt)
		}
	}
	for _, l := range lengths {
		if l.Values != nil {
			longest = max(longest, l.Min)
		} else {
			longest = max(longest, l.Max)
		}
	}
	return longest
}

// readers lists which kinds read a workload key; a key that is not here is read
// by all. Keys below a table go by the table's name.
var readers = []struct {
	path  string
	kinds []string
}{
	{"workload.concurrency", []string{KindSteady, KindClosed}},
	{"workload.requests", []string{KindClosed, KindPoisson, KindBursty, KindTrace}},
	{"workload.rate_per_s", []string{KindPoisson, KindBursty}},
	{"workload.arrival_cv", []string{KindBursty}},
	{"workload.burst_requests", []string{KindBursty}},
	{"workload.trace", []string{KindTrace}},
	{"workload.repeat", []string{KindTrace}},
	{"workload.speedup", []string{KindTrace}},
	{"workload.prompt_tokens", []string{KindSteady, KindClosed, KindPoisson, KindBursty, KindScript}},
	{"workload.output_tokens", []string{KindSteady, KindClosed, KindPoisson, KindBursty}},
	{"workload.lengths", []string{KindSteady, KindClosed, KindPoisson, KindBursty}},
	{"workload.duration_s", []string{KindSteady, KindClosed, KindPoisson, KindBursty, KindTrace}},
	{"workload.warmup_s", []string{KindSteady, KindClosed, KindPoisson, KindBursty, KindTrace}},
	{"workload.prefix", []string{KindClosed, KindPoisson, KindBursty, KindTrace}},
	{"workload.limits", []string{KindClosed, KindPoisson, KindBursty, KindTrace}},
	{"workload.classes", []string{KindClosed, KindPoisson, KindBursty, KindTrace}},
}

// readersOf is who reads the key at path; nil stands for all.
func readersOf(path string) []string {
	for _, r := range readers {
		if path == r.path || strings.HasPrefix(path, r.path+".") {
			return r.kinds
		}
	}
	return nil
}

// isRead reports whether the workload of these settings reads the key at path.
func isRead(s settings, path string) bool {
	kind := get[string](s, "workload.kind")
	if kinds := readersOf(path); kinds != nil && !slices.Contains(kinds, kind) {
		return false
	}
	switch path {
	case "workload.duration_s":
		return s["workload.requests"] == nil || kind == KindSteady
	case "workload.prompt_tokens", "workload.output_tokens":
		return s["workload.lengths"] == nil
	case "workload.prefix.share", "workload.prefix.distinct":
		return s["workload.prefix.tokens"] != nil
	}
	return true
}

// checkWorkload looks at what concerns several keys of the workload and builds
// it; nil if something is wrong.
func checkWorkload(s settings, files *files, fail failFunc) *Workload {
	ok := true
	failed := func(path, hint, format string, args ...any) {
		ok = false
		fail(path, hint, format, args...)
	}
	checkReaders(s, failed)
	checkEnds(s, failed)
	kind := get[string](s, "workload.kind")
	for _, need := range []struct{ kind, path, hint string }{
		{KindPoisson, "workload.rate_per_s", "for example rate_per_s = 2.0"},
		{KindBursty, "workload.rate_per_s", "for example rate_per_s = 2.0"},
		{KindTrace, "workload.trace", `trace = "requests.csv", beside this file`},
	} {
		if kind == need.kind && s[need.path] == nil {
			failed(need.path, need.hint, "is missing: kind %q needs it", kind)
		}
	}
	if !ok {
		return nil
	}
	w := &Workload{
		Kind:         kind,
		Concurrency:  get[int](s, "workload.concurrency"),
		Requests:     get[int](s, "workload.requests"),
		PromptTokens: get[Length](s, "workload.prompt_tokens"),
		OutputTokens: get[Length](s, "workload.output_tokens"),
		DurationS:    get[float64](s, "workload.duration_s"),
		WarmupS:      get[float64](s, "workload.warmup_s"),
	}
	b := workloadBuilder{s, files, w, failed}
	b.lengths()
	b.arrivals()
	if kind != KindSteady && kind != KindScript {
		b.mix()
	}
	if kind == KindScript && !w.PromptTokens.IsFixed() {
		failed("workload.prompt_tokens", "", "must be one number: scripts need one length for all prompts")
	}
	if !ok {
		return nil
	}
	return w
}

// checkReaders refuses keys that the workload does not read.
func checkReaders(s settings, fail failFunc) {
	kind := get[string](s, "workload.kind")
	for i := range keys {
		path := keys[i].path
		if s[path] == nil || !strings.HasPrefix(path, "workload.") || isRead(s, path) {
			continue
		}
		kinds := readersOf(path)
		switch {
		case path == "workload.requests" && kind == KindSteady:
			fail(path, `remove it, or write kind = "closed"`, "has no meaning for kind %q, whose requests are not counted", kind)
		case kinds != nil && !slices.Contains(kinds, kind):
			hint := "remove it"
			if kind != KindScript {
				hint += fmt.Sprintf(", or write kind = %q", kinds[0])
			}
			fail(path, hint, "has no meaning for kind %q", kind)
		case path == "workload.duration_s":
			fail(path, "remove one of them", "the run would have two ends: workload.requests and this")
		case strings.HasPrefix(path, "workload.prefix."):
			fail(path, "for example tokens = 512", "means nothing without workload.prefix.tokens")
		default:
			fail(path, "remove one of them", "lengths are given twice: by workload.lengths and this")
		}
	}
}

func checkEnds(s settings, fail failFunc) {
	duration, timed := s["workload.duration_s"].(float64)
	if warmup := get[float64](s, "workload.warmup_s"); timed && warmup >= duration {
		fail("workload.duration_s", "lower warmup_s or raise duration_s",
			"must be more than warmup_s %s, got %s", formatFloat(warmup), formatFloat(duration))
	}
	kind := get[string](s, "workload.kind")
	if isScript := get[string](s, "routing.algorithm") == "script"; isScript != (kind == KindScript) {
		fail("workload.kind", `routing.algorithm = "script" and workload.kind = "script" go together`,
			"%q does not fit routing.algorithm %q", kind, get[string](s, "routing.algorithm"))
	}
}

// workloadBuilder fills a workload in step by step.
type workloadBuilder struct {
	s     settings
	files *files
	w     *Workload
	fail  failFunc
}

// lengths looks up lengths that go by a name or stand in a file.
func (b *workloadBuilder) lengths() {
	if l, ok := b.find("workload.lengths", get[string](b.s, "workload.lengths")); ok {
		b.w.PromptTokens, b.w.OutputTokens = l.Prompt, l.Output
	}
}

// find is the lengths of a name or a file; false for "" and what is wrong.
func (b *workloadBuilder) find(path, name string) (l workload.Lengths, ok bool) {
	if name == "" {
		return l, false
	}
	if named, ok := workload.FindLengths(name); ok {
		if note := named.Name + ": " + named.About + "."; !slices.Contains(b.w.Assumed, note) {
			b.w.Assumed = append(b.w.Assumed, note)
		}
		return named.Lengths, true
	}
	if !strings.HasSuffix(name, ".csv") {
		var names []string
		for _, n := range workload.NamedLengths() {
			names = append(names, n.Name)
		}
		b.fail(path, offer(name, names)+", or a .csv file", "%q is not known", name)
		return l, false
	}
	read := b.files.lengths(path, name, b.fail)
	if read == nil {
		return l, false
	}
	b.w.Digest += read.digest
	return read.lengths, true
}

func (b *workloadBuilder) arrivals() {
	a := &b.w.Arrivals
	switch b.w.Kind {
	case KindPoisson:
		a.Process, a.RatePerS = workload.Poisson, get[float64](b.s, "workload.rate_per_s")
	case KindBursty:
		a.Process, a.RatePerS = workload.Bursty, get[float64](b.s, "workload.rate_per_s")
		a.CV, a.BurstRequests = get[float64](b.s, "workload.arrival_cv"), get[float64](b.s, "workload.burst_requests")
	case KindTrace:
		a.Process, a.Repeat, a.Speedup = workload.Recorded, get[int](b.s, "workload.repeat"), get[float64](b.s, "workload.speedup")
		a.Trace = b.files.trace("workload.trace", get[string](b.s, "workload.trace"), b.fail)
		if a.Trace == nil {
			return
		}
		l := a.Trace.Lengths()
		b.w.PromptTokens, b.w.OutputTokens = l.Prompt, l.Output
		b.w.Digest += a.Trace.Digest
	default:
		return
	}
	var field *workload.FieldError
	if err := a.Validate(); errors.As(err, &field) {
		b.fail("workload."+field.Field, field.Hint, "%s", field.Msg)
	}
}

// mix says what requests look like: one class of the workload's own lengths, or
// those that it lists.
func (b *workloadBuilder) mix() {
	s := b.s
	common := workload.Lengths{Prompt: b.w.PromptTokens, Output: b.w.OutputTokens,
		Paired: b.w.PromptTokens.Values != nil && b.w.OutputTokens.Values != nil}
	limits := workload.Limits{TTFTMs: get[float64](s, "workload.limits.ttft_ms"), TPOTMs: get[float64](s, "workload.limits.tpot_ms")}
	b.w.Mix = &workload.Mix{Prefix: workload.Prefix{
		Share: get[float64](s, "workload.prefix.share"), Distinct: get[int](s, "workload.prefix.distinct"),
		Tokens: get[int](s, "workload.prefix.tokens"),
	}}
	classes, _ := s["workload.classes"].(Classes)
	for i, c := range classes {
		b.w.Mix.Classes = append(b.w.Mix.Classes, b.class(i, c, common, limits))
	}
	if len(classes) == 0 {
		b.w.Mix.Classes = []workload.Class{{Name: "all", Share: 1, Lengths: common, Limits: limits}}
	}
	if first := b.w.Mix.Classes[0].Lengths; b.w.Kind != KindTrace {
		b.w.PromptTokens, b.w.OutputTokens = first.Prompt, first.Output
	}
}

func (b *workloadBuilder) class(i int, c Class, l workload.Lengths, limits workload.Limits) workload.Class {
	at := fmt.Sprintf("workload.classes[%d].", i)
	if found, ok := b.find(at+"lengths", c.Lengths); ok {
		l = found
	}
	for _, own := range []struct {
		name  string
		value *Length
		into  *Length
	}{{"prompt_tokens", c.PromptTokens, &l.Prompt}, {"output_tokens", c.OutputTokens, &l.Output}} {
		if own.value == nil {
			continue
		}
		if c.Lengths != "" {
			b.fail(at+own.name, "remove one of them", "lengths are given twice: by lengths and this")
		}
		*own.into, l.Paired = *own.value, false
	}
	if b.w.Kind == KindTrace && (c.Lengths != "" || c.PromptTokens != nil || c.OutputTokens != nil) {
		b.fail(strings.TrimSuffix(at, "."), "remove them", "lengths have no meaning here: the trace gives them")
	}
	if c.TTFTMs > 0 {
		limits.TTFTMs = c.TTFTMs
	}
	if c.TPOTMs > 0 {
		limits.TPOTMs = c.TPOTMs
	}
	return workload.Class{Name: c.Name, Share: c.Share, Lengths: l, Limits: limits}
}
