package experiments

import (
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
)

// Spec is one fully resolved set of settings: what an evaluator needs besides
// system, place and seed. Models are named by index, counted from 0.
type Spec struct {
	Models    []Model
	Home      int
	Routing   Routing
	HandoffMs float64
	Workload  Workload
	Scheduler Scheduler
	DTMC      DTMC
	Measure   Measure

	ColocationFactor float64 // by which steps of models that share a GPU stretch; 0: see Sharing
	Official         Official
	Dispatcher       Dispatcher
	QueryLargeShare  float64
}

// Model is one model of an experiment. One of Profile, Roofline and StepMs says
// how long its steps take; none need do so for a model that runs on this machine.
type Model struct {
	Name        string
	Profile     string             // a shipped one, or a file as the experiment names it
	Roofline    *steptime.Roofline // the same
	StepMs      *StepMs
	CPU         *CPUModel // nil: it does not run on this machine
	GPUs        []int
	Stretch     float64 // by which its steps stretch beside a model on the same GPU; 0: see Sharing
	B           Threshold
	KVTokens    int
	MaxRunning  int
	ChunkTokens int
	BlockTokens int
	EagerMs     float64 // a step without CUDA graphs takes no less; 0: not known
	Prices      *Prices // what Profile or Roofline says; nil with StepMs
}

// StepMs is a linear step time, in milliseconds.
type StepMs struct{ Base, PerRequest, PerRow float64 }

// Routing says who decides where a request goes. Fields that the algorithm
// does not read are zero.
type Routing struct {
	Algorithm    string
	Matrix       [][]float64 // [from][to]; rows sum to 1
	KeepToken    bool        // the token sampled when a request leaves home
	Small, Large int         // the pair, by index
	Threshold    *float64
	Weights      []float64
	MeanGap      float64
	GapCV        float64
	GapLag1      float64
	ReturnProb   float64 // 0: always
	Scripts      []string
}

// Scheduler holds settings of the scheduler that all models share.
type Scheduler struct {
	MaxDelayMs    float64 // 0: no bound, unless MaxDelaySteps gives one
	MaxDelaySteps float64 // the same, in steps of one request of the model itself
	QueueLimit    int
	PrefixReuse   bool
}

// openDelaySteps is how many steps of one request an idle model waits for B at
// most where requests come by themselves: traffic that is never routed must not
// starve a request that is.
const openDelaySteps = 10

// Official holds settings of the system of that name.
type Official struct{ Visits string }

// Dispatcher says what a submission costs in standard serving.
type Dispatcher struct{ Ms, MsPer1kTokens float64 }

// DTMC holds settings of the Markov chain.
type DTMC struct{ QuantumMs float64 } // 0: chosen by the step times

// Plot holds hints for the plot of an experiment; each may be empty.
type Plot struct{ X, Y, Series, Facet, Kind string }

// Published are figures that somebody else reported, to print beside ours.
type Published struct {
	Source   string
	Figure   string             // a name as in Figures; "" is that of the plot
	BySystem map[string]float64 // systems without a figure are left out
}

// settings are checked values by path.
type settings map[string]any

func get[T any](s settings, path string) T {
	v, _ := s[path].(T)
	return v
}

// build turns checked values into a Spec. It expects defaults to be filled in.
func build(s settings, models []string, w *Workload) *Spec {
	spec := &Spec{
		HandoffMs: get[float64](s, "handoff.ms"),
		Routing:   buildRouting(s, models),
		Workload:  *w,
		Scheduler: Scheduler{
			MaxDelayMs:  get[float64](s, "scheduler.max_delay_ms"),
			QueueLimit:  get[int](s, "scheduler.queue_limit"),
			PrefixReuse: get[bool](s, "scheduler.prefix_reuse"),
		},
		Measure:          Measure{get[float64](s, "measure.duration_s"), get[float64](s, "measure.warmup_s")},
		DTMC:             DTMC{QuantumMs: get[float64](s, "dtmc.quantum_ms")},
		ColocationFactor: get[float64](s, "colocation.factor"),
		Official:         Official{Visits: get[string](s, "official.visits")},
		Dispatcher:       Dispatcher{get[float64](s, "dispatcher.ms"), get[float64](s, "dispatcher.ms_per_1k_tokens")},
		QueryLargeShare:  get[float64](s, "query.large_share"),
	}
	if s["scheduler.max_delay_ms"] == nil {
		spec.Scheduler.MaxDelaySteps = openDelaySteps
	}
	spec.Home = slices.Index(models, get[string](s, "home"))
	for _, name := range models {
		spec.Models = append(spec.Models, buildModel(s, name))
	}
	return spec
}

func buildRouting(s settings, models []string) Routing {
	r := Routing{
		Algorithm:  get[string](s, "routing.algorithm"),
		Matrix:     get[[][]float64](s, "routing.matrix"),
		KeepToken:  get[string](s, "routing.routed_token") == TokenKept,
		Large:      len(models) - 1,
		Weights:    get[[]float64](s, "routing.weights"),
		MeanGap:    get[float64](s, "routing.mean_gap"),
		GapCV:      get[float64](s, "routing.gap_cv"),
		GapLag1:    get[float64](s, "routing.gap_lag1"),
		ReturnProb: get[float64](s, "routing.return_probability"),
		Scripts:    get[[]string](s, "routing.scripts"),
	}
	if t, ok := s["routing.threshold"].(float64); ok {
		r.Threshold = &t
	}
	if i := slices.Index(models, get[string](s, "routing.small")); i >= 0 {
		r.Small = i
	}
	if i := slices.Index(models, get[string](s, "routing.large")); i >= 0 {
		r.Large = i
	}
	return r
}

func buildModel(s settings, name string) Model {
	at := "models." + name + "."
	m := Model{
		Name:        name,
		Profile:     get[string](s, at+"profile"),
		GPUs:        get[[]int](s, at+"gpus"),
		Stretch:     get[float64](s, at+"colocation_factor"),
		B:           get[Threshold](s, at+"B"),
		KVTokens:    get[int](s, at+"kv_tokens"),
		MaxRunning:  get[int](s, at+"max_running"),
		ChunkTokens: get[int](s, at+"chunk_tokens"),
		BlockTokens: get[int](s, at+"block_tokens"),
		EagerMs:     get[float64](s, at+"eager_ms"),
		Roofline:    rooflineOf(s, name),
	}
	if hasTable(s, name, "step_ms") {
		m.StepMs = &StepMs{
			Base:       get[float64](s, at+"step_ms.base"),
			PerRequest: get[float64](s, at+"step_ms.per_request"),
			PerRow:     get[float64](s, at+"step_ms.per_row"),
		}
	}
	return m
}

// hasTable reports whether any key of a model's table is given.
func hasTable(s settings, model, table string) bool {
	for path := range s {
		if strings.HasPrefix(path, "models."+model+"."+table+".") {
			return true
		}
	}
	return false
}

// list writes the settings of one cell in the order of the key table; those
// without an origin are defaults.
func (s settings) list(models []string, origins map[string]origin) []Setting {
	var out []Setting
	for i := range keys {
		for _, path := range expand(keys[i].path, models) {
			if v, ok := s[path]; ok && isSetting(path) {
				_, given := origins[path]
				out = append(out, Setting{Path: path, Value: v, Default: !given})
			}
		}
	}
	return out
}

// isSetting tells settings, which a sweep may change from cell to cell, from
// keys that concern the experiment as a whole.
func isSetting(path string) bool {
	switch path {
	case "question", "on", "systems", "seeds":
		return false
	}
	return !strings.HasPrefix(path, "plot.") && !strings.HasPrefix(path, "published.") && !(strings.HasPrefix(path, "models.") && strings.HasSuffix(path, ".name"))
}

// NewAlgorithm makes the routing algorithm. Errors are *algorithms.FieldError.
func (s *Spec) NewAlgorithm() (algorithms.Algorithm, error) {
	return algorithms.New(s.Routing.Algorithm, s.params())
}

func (s *Spec) params() algorithms.Params {
	r := &s.Routing
	return algorithms.Params{
		Models: len(s.Models), Small: r.Small, Large: r.Large,
		Threshold: r.Threshold, Weights: r.Weights,
		Matrix: r.Matrix, RoutedKept: r.KeepToken,
		MeanGap: r.MeanGap, GapCV: r.GapCV, GapLag1: r.GapLag1, ReturnProb: r.ReturnProb,
		Scripts: r.Scripts, PromptTokens: s.Workload.PromptTokens.Min,
	}
}
