package experiments

import "slices"

// Places where a cell can be evaluated.
const (
	OnChain = "dtmc"  // the Markov chain
	OnSim   = "sim"   // the event simulator
	OnPaced = "paced" // the real runtime, with engines that take as long as a profile says
	OnCPU   = "cpu"   // the real runtime, with models that run on this machine
)

// Places lists them all.
var Places = []string{OnChain, OnSim, OnPaced, OnCPU}

// IsReal reports whether a place runs in real time: its figures are
// measurements, which no two runs have in common to the last digit, and nothing
// else may run beside it.
func IsReal(place string) bool { return place == OnPaced || place == OnCPU }

// Measures reports whether any cell of the plan is measured.
func (p *Plan) Measures() bool { return slices.ContainsFunc(p.On, IsReal) }

// MeasuredRuns counts the evaluations in real time, and for how many seconds
// they run; 0 if the requests themselves end them.
func (p *Plan) MeasuredRuns() (runs int, seconds float64) { return measuredRuns(p.Cells) }

func measuredRuns(cells []Cell) (runs int, seconds float64) {
	seen := map[string]bool{}
	endless := false
	for _, c := range cells {
		key := c.Key()
		if !IsReal(c.On) || seen[key] {
			continue
		}
		seen[key] = true
		runs++
		seconds += c.Point.Spec.Measure.DurationS
		endless = endless || c.Point.Spec.Measure.DurationS == 0
	}
	if endless {
		seconds = 0
	}
	return runs, seconds
}

// Measure says for how long the places in real time are watched.
type Measure struct {
	DurationS float64 // 0: until the requests have ended
	WarmupS   float64 // at the start, left out of the figures
}

// CPUModel is a model that runs on this machine.
type CPUModel struct {
	Model    string // as engines.Open takes it; a folder is a path from here
	Threads  int
	KVTokens int // 0: what the workload may need, see engines
	Vocab    int // of its tokens
	// Positions is how many a request may have; 0: not stated.
	Positions int
	Digest    string // of its config.json and the sizes of its weights; "" for what the program carries
}

// asksReal reports whether the settings ask for a place in real time.
func asksReal(s settings) bool { return slices.ContainsFunc(listOr(s, "on"), IsReal) }

// asksOn reports whether the settings ask for a place.
func asksOn(s settings, place string) bool { return slices.Contains(listOr(s, "on"), place) }

// onlyReal reports whether a setting matters to places in real time alone.
func onlyReal(path string) bool {
	switch keyPattern(path) {
	case "measure.duration_s", "measure.warmup_s", "models.*.cpu.model", "models.*.cpu.threads", "models.*.cpu.kv_tokens":
		return true
	}
	return false
}

// checkMeasure looks at what the places in real time need.
func checkMeasure(s settings, models []string, f *files, fail failFunc) (cpu []*CPUModel) {
	duration, timed := s["measure.duration_s"].(float64)
	if warmup := get[float64](s, "measure.warmup_s"); timed && warmup >= duration {
		fail("measure.duration_s", "lower warmup_s or raise duration_s",
			"must be more than warmup_s %s, got %s", formatFloat(warmup), formatFloat(duration))
	}
	if kind := get[string](s, "workload.kind"); s["measure.duration_s"] != nil && kind == KindScript {
		fail("measure.duration_s", "remove it", "has no meaning for kind %q, which ends when it has been played", kind)
	}
	for _, m := range models {
		at := "models." + m + ".cpu."
		name := get[string](s, at+"model")
		if name == "" {
			for _, key := range []string{"threads", "kv_tokens"} {
				if s[at+key] != nil {
					fail(at+key, `for example cpu.model = "toy:qwen3"`, "means nothing without cpu.model")
				}
			}
			if asksOn(s, OnCPU) {
				fail("models."+m, `cpu.model = "toy:qwen3", or a folder with config.json and *.safetensors`, "lacks cpu.model, which it needs to run on cpu")
			}
			cpu = append(cpu, nil)
			continue
		}
		c := f.cpuModel(at+"model", name, fail)
		if c != nil {
			c.Threads, c.KVTokens = max(get[int](s, at+"threads"), 1), get[int](s, at+"kv_tokens")
			if block := get[int](s, "models."+m+".block_tokens"); c.KVTokens > 0 && c.KVTokens < block {
				fail(at+"kv_tokens", "", "must hold at least one block of %d tokens, got %d", block, c.KVTokens)
			}
		}
		cpu = append(cpu, c)
	}
	if asksOn(s, OnCPU) {
		checkMemory(models, cpu, fail)
	}
	return cpu
}
