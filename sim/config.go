// Package sim is the discrete-event simulator: a driver that gives the
// scheduler's cores virtual time. One core per model runs exactly the code
// that the real runtime runs; only the forward step is replaced by the time
// that a profile says it takes, and signals by a routing algorithm that needs
// none or a source that the caller hands in.
package sim

import (
	"errors"
	"fmt"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/internal/workload"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Model is one subserver to simulate.
type Model struct {
	Name        string
	Time        steptime.StepTime
	MaxRunning  int // requests in a step at most
	ChunkTokens int // rows in a step at most; more than MaxRunning
	KVTokens    int
	BlockTokens int
	Rule        scheduler.Rule // nil: that of the Config
}

// Config is one run. The same Config gives the same Result, bit for bit.
type Config struct {
	Models     []Model
	Algorithm  algorithms.Algorithm
	Source     Source // nil: no signals, tokens made up from seed and position
	Rule       scheduler.Rule
	Thresholds scheduler.Thresholds
	HandoffNs  int64 // transit of a hand-off between two models, either way
	Workload   Workload
	Seed       uint64
	Static     bool // admit nobody until all who were admitted have ended
	Reread     bool // every visit extends the whole request again
	// Dispatcher, if not nil, makes this standard serving: one Eager server a
	// model that knows no other, behind a program that submits token by token.
	Dispatcher *Dispatcher
	// QueryShare, if not nil, makes this query-level routing: each request is
	// served by one model alone, drawn with these chances, one a model.
	QueryShare []float64
	// Interference[i][j] is the factor, at least 1, by which steps of model i
	// stretch while a step of model j is in flight; nil means none.
	Interference [][]float64
	NoReuse      bool     // equal prompts do not share KV
	QueueLimit   int      // arrivals that may wait at a home; 0 means 1,000,000
	Observer     Observer // nil: nobody watches
	EveryStep    bool     // play every step by itself: the same results, slower

	hooks     hooks // for this package's tests
	stretched bool  // for tests: several steps may be one though hooks watch
}

// hooks let tests reach into a run: watch the cores, play the events of an
// instant in any order, and plant faults.
type hooks interface {
	began(w *world)
	// pick moves the event to be stepped next to the front of those of this
	// instant, and may change the order in which cores are asked.
	pick(rest []due)
	// stepping sees an event, and may change it, before a core steps it.
	stepping(m int, ev scheduler.Event) scheduler.Event
	called(m int)
	// shipped says when what is on its way arrives, and how often.
	shipped(from, to int, ev scheduler.Event) (arrives scheduler.Event, copies int)
}

// Source stands in for a model's forward: it sets v.Token and the signals that
// the algorithm needs. It must be a function of v alone.
type Source interface {
	Sample(v *algorithms.View)
}

// Kind is a kind of workload: package workload says what each does. In a Steady
// one each request counts, for step times and KV, with prompt + output/2 tokens
// of context, as in the Markov chain.
type Kind = workload.Kind

const (
	Steady = workload.Steady
	Closed = workload.Closed
	Listed = workload.Listed
	Open   = workload.Open
)

// Workload says which requests arrive when. A run ends at DurationNs, or when
// all requests of a workload that ends have ended.
type Workload struct {
	Kind     Kind
	Home     int // model where requests enter; Listed requests name their own
	Users    int
	Arrivals workload.Arrivals // Open
	Requests int               // Closed, Open: in all; 0 means no end but DurationNs or that of a trace
	// Mix says what requests look like. Closed, Open; nil means one class with
	// the lengths below.
	Mix        *workload.Mix
	PromptMin  int // Closed: prompt tokens are drawn uniformly from PromptMin
	PromptMax  int // to PromptMax, output tokens likewise; Steady uses the
	OutputMin  int // means
	OutputMax  int
	List       []Request
	DurationNs int64 // 0 means no end but the workload's own
	WarmupNs   int64 // figures count what happens later
}

// Request is one request of a Listed workload.
type Request struct {
	ArrivalNs    int64
	Home         int
	PromptTokens int
	OutputTokens int
	Seed         uint64
	Class        int    // of those in Workload.Mix
	Shared       int    // tokens at the start of the prompt that SharedSeed makes up
	SharedSeed   uint64 // instead of Seed
}

// Observer sees a run as it goes. Its slices are valid during the call only. If
// it has a method Enough() bool too, the run ends when that says so.
type Observer interface {
	// Stepped tells of a step that ended: the requests in it, how many rows
	// they fed, and the threshold in force when it started.
	Stepped(model int, startNs, endNs int64, batch *scheduler.Batch, threshold int)
	// Event and Messages tell what went into a core and came out of it.
	Event(model int, ev *scheduler.Event)
	Messages(model int, atNs int64, out []scheduler.Message)
}

const defaultQueueLimit = 1_000_000

func (c *Config) validate() error {
	if len(c.Models) == 0 || c.Algorithm == nil || c.Rule == nil {
		return errors.New("sim: Models, Algorithm and Rule must be set")
	}
	if c.HandoffNs < 0 {
		return errors.New("sim: HandoffNs must not be negative")
	}
	for i, m := range c.Models {
		if m.Time == nil {
			return fmt.Errorf("sim: model %d has no step time", i)
		}
	}
	if err := c.validateSystem(); err != nil {
		return err
	}
	return c.Workload.validate(c.Models)
}

func (c *Config) validateSystem() error {
	steady := c.Workload.Kind == Steady
	if c.Dispatcher != nil {
		_, ok := c.Algorithm.(algorithms.StaySource)
		switch {
		case !ok || c.Source != nil:
			return errors.New("sim: standard serving needs an algorithm that decides without signals")
		case steady:
			return errors.New("sim: standard serving reads all tokens again and again, so requests must end: not a steady workload")
		case c.Dispatcher.FixedNs < 0 || c.Dispatcher.NsPerToken < 0:
			return errors.New("sim: a dispatcher's cost must not be negative")
		}
	}
	if c.Reread && steady {
		return errors.New("sim: Reread reads all tokens again and again, so requests must end: not a steady workload")
	}
	if c.QueryShare != nil && len(c.QueryShare) != len(c.Models) {
		return fmt.Errorf("sim: QueryShare has %d entries for %d models", len(c.QueryShare), len(c.Models))
	}
	if c.Interference == nil {
		return nil
	}
	if len(c.Interference) != len(c.Models) {
		return fmt.Errorf("sim: Interference has %d rows for %d models", len(c.Interference), len(c.Models))
	}
	for i, row := range c.Interference {
		if len(row) != len(c.Models) {
			return fmt.Errorf("sim: Interference row %d has %d entries for %d models", i, len(row), len(c.Models))
		}
		for _, f := range row {
			if !(f >= 1 && f <= 1000) {
				return fmt.Errorf("sim: Interference row %d has %g, want 1 to 1000", i, f)
			}
		}
	}
	return nil
}

func (w *Workload) validate(models []Model) error {
	switch {
	case w.WarmupNs < 0 || w.DurationNs < 0 || w.DurationNs > 0 && w.DurationNs <= w.WarmupNs:
		return errors.New("sim: DurationNs must be longer than WarmupNs")
	case w.Kind == Listed:
		return w.validateList(models)
	case w.Home < 0 || w.Home >= len(models):
		return fmt.Errorf("sim: Home is %d of %d models", w.Home, len(models))
	case w.Kind == Open:
		return w.validateOpen()
	case w.Users < 1:
		return errors.New("sim: Users must be at least 1")
	case w.Mix != nil && w.Kind == Closed:
		if err := w.Mix.Validate(false); err != nil {
			return fmt.Errorf("sim: %w", err)
		}
	case w.PromptMin < 1 || w.PromptMax < w.PromptMin || w.OutputMin < 1 || w.OutputMax < w.OutputMin:
		return errors.New("sim: PromptMin and OutputMin must be at least 1, PromptMax and OutputMax at least those")
	}
	if w.DurationNs == 0 && (w.Kind == Steady || w.Requests == 0) {
		return errors.New("sim: a workload without end needs a DurationNs")
	}
	if w.Kind == Steady {
		return w.validateSteady(models)
	}
	return nil
}

func (w *Workload) validateList(models []Model) error {
	classes := 1
	if w.Mix != nil {
		classes = len(w.Mix.Classes)
	}
	for i, r := range w.List {
		if r.Home < 0 || r.Home >= len(models) || r.PromptTokens < 1 || r.OutputTokens < 1 || r.ArrivalNs < 0 ||
			r.Class < 0 || r.Class >= classes || r.Shared < 0 || r.Shared > r.PromptTokens {
			return fmt.Errorf("sim: request %d of the list: home, prompt, output, arrival, class or shared tokens out of range", i)
		}
	}
	return nil
}

func (w *Workload) validateOpen() error {
	if w.Mix == nil {
		return errors.New("sim: an open workload needs a Mix")
	}
	recorded := w.Arrivals.Process == workload.Recorded
	if err := errors.Join(w.Arrivals.Validate(), w.Mix.Validate(recorded)); err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	if w.DurationNs == 0 && w.Requests == 0 && !recorded {
		return errors.New("sim: a workload without end needs a DurationNs")
	}
	return nil
}

// validateSteady makes sure that no request waits for KV or a place, since the
// workload stands for n requests that all run.
func (w *Workload) validateSteady(models []Model) error {
	for _, m := range models {
		if w.Users > m.MaxRunning {
			return fmt.Errorf("sim: steady workload: %d users, but max_running of %s is %d", w.Users, m.Name, m.MaxRunning)
		}
		blocks := (w.holdContext() + m.BlockTokens - 1) / m.BlockTokens
		if w.Users*blocks > m.KVTokens/m.BlockTokens {
			return fmt.Errorf("sim: steady workload: %d users of %d tokens exceed kv_tokens of %s, %d",
				w.Users, w.holdContext(), m.Name, m.KVTokens)
		}
	}
	return nil
}

// holdContext is the context that a steady request counts with, else 0.
func (w *Workload) holdContext() int {
	if w.Kind != Steady {
		return 0
	}
	return (w.PromptMin+w.PromptMax)/2 + (w.OutputMin+w.OutputMax)/4
}
