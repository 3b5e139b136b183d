package dtmc

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// maxModels bounds the arrays that a state is decoded into. A key of 64 bits
// holds no more models than this anyway.
const maxModels = 8

// maxStations also counts the ways between models: all of four models.
const maxStations = 16

// defaultMaxStates and transitionsPerState keep one solve below about half a
// gibibyte (24 bytes a transition) and half a minute.
const (
	defaultMaxStates    = 500_000
	transitionsPerState = 40
)

// maxInterference bounds factors as the simulator does.
const maxInterference = 1000

// stochasticTolerance is how far a row of the matrix may be from summing to 1:
// enough for probabilities written with ten decimals, far below any effect.
const stochasticTolerance = 1e-9

// ErrSlowMixing says that the two starts did not agree: the chain forgets where
// it began too slowly, or never, so that no long-run throughput was found.
var ErrSlowMixing = errors.New("chain mixes too slowly")

// ErrTooLarge says that the chain has more states than Config.MaxStates, or
// than a packed state can tell apart.
var ErrTooLarge = errors.New("chain too large")

// NotApplicable says that the chain cannot describe the system at all, and why.
// It is a result, not a failure: a report prints it as one.
type NotApplicable struct{ Reason string }

func (e NotApplicable) Error() string { return "dtmc: not applicable: " + e.Reason }

// Model is one model of the system.
type Model struct {
	Name       string            // for messages only
	Time       steptime.StepTime // length of a step
	MaxRunning int               // most requests in one step; 0 = no limit

	// ChunkTokens is the most rows of one step; 0 = no limit. A request that
	// feeds more takes several steps; so many rows of several requests are one
	// step of the chain, as long as those of their chunks together.
	ChunkTokens int
}

// Config describes a steady system: Users requests that never end and that all
// entered at model Home; or, if Closed, users who each send the next request
// when the last has ended.
type Config struct {
	Models []Model
	Home   int

	// Routing[i][j] is the probability that a request goes from model i to model
	// j after a step of i; i == j stays. Rows sum to 1.
	Routing [][]float64

	// RoutedKept says that the token which home sampled before a request leaves
	// is kept, so visible. If false it is dropped.
	RoutedKept bool

	Users      int
	Rule       scheduler.Rule
	Thresholds scheduler.Thresholds // nil = 1 for every model

	// HandoffNs is how long a request is under way between two models, at most
	// the shortest step of any model that hands off.
	HandoffNs int64

	// Interference[i][j], at least 1, is how many times longer the work of a step
	// of model i takes while a step of model j is in flight; the factors of all
	// others in flight multiply. nil = none. The diagonal is not read.
	Interference [][]float64

	PromptTokens, OutputTokens int

	// ContextTokens is the context with which every request counts for step
	// times, the mean over time; 0 = PromptTokens + OutputTokens/2, right where
	// all outputs are equally long.
	ContextTokens int

	// Closed lets every visible token end its request with probability
	// 1/OutputTokens. The user's next request then enters at home, where its
	// first step feeds the prompt; its first step at each other model feeds the
	// prompt and all that is written by then.
	Closed bool

	// Outputs are equally likely output lengths of a closed system, of mean
	// OutputTokens; nil = all are OutputTokens. They decide how often a request
	// visits each model, and so reads its prompt there.
	Outputs []int

	// QuantumNs is the unit of time of the chain; 0 lets the chain choose. It
	// must not exceed the shortest step.
	QuantumNs int64

	MaxStates int // 0 = 500,000
}

// validate reports the first mistake in c, as an error that names the field.
func (c *Config) validate() error {
	k := len(c.Models)
	switch {
	case k == 0:
		return errors.New("dtmc: Models is empty: give at least one model")
	case k > maxModels:
		return fmt.Errorf("dtmc: %w: %d models, at most %d", ErrTooLarge, k, maxModels)
	case c.Home < 0 || c.Home >= k:
		return fmt.Errorf("dtmc: Home is %d: want an index into the %d models", c.Home, k)
	case c.Users < 1:
		return fmt.Errorf("dtmc: Users is %d: want at least 1", c.Users)
	case c.Rule == nil:
		return errors.New("dtmc: Rule is nil: give one, e.g. scheduler.Delayed{}")
	case c.PromptTokens < 0 || c.OutputTokens < 0 || c.ContextTokens < 0:
		return fmt.Errorf("dtmc: PromptTokens %d, OutputTokens %d, ContextTokens %d: want at least 0", c.PromptTokens, c.OutputTokens, c.ContextTokens)
	case c.Closed && c.OutputTokens < 1:
		return fmt.Errorf("dtmc: OutputTokens is %d: requests of a closed system end, so want at least 1", c.OutputTokens)
	case c.Closed && c.PromptTokens < 1:
		return fmt.Errorf("dtmc: PromptTokens is %d: requests of a closed system begin, so want at least 1", c.PromptTokens)
	case c.QuantumNs < 0:
		return fmt.Errorf("dtmc: QuantumNs is %d: want 0 (chosen) or more", c.QuantumNs)
	case c.HandoffNs < 0:
		return fmt.Errorf("dtmc: HandoffNs is %d: want at least 0", c.HandoffNs)
	case c.MaxStates < 0:
		return fmt.Errorf("dtmc: MaxStates is %d: want 0 (default) or more", c.MaxStates)
	}
	for i, output := range c.Outputs {
		if output < 1 {
			return fmt.Errorf("dtmc: Outputs[%d] is %d: want at least 1", i, output)
		}
	}
	for i, m := range c.Models {
		if m.Time == nil {
			return fmt.Errorf("dtmc: Models[%d] (%s): Time is nil", i, m.Name)
		}
		if m.ChunkTokens < 0 {
			return fmt.Errorf("dtmc: Models[%d] (%s): ChunkTokens is %d: want 0 (no limit) or more", i, m.Name, m.ChunkTokens)
		}
		if m.MaxRunning < 0 {
			return fmt.Errorf("dtmc: Models[%d] (%s): MaxRunning is %d: want 0 (no limit) or more", i, m.Name, m.MaxRunning)
		}
	}
	if err := validateRouting(c.Routing, k); err != nil {
		return err
	}
	if err := validateInterference(c.Interference, k); err != nil {
		return err
	}
	if c.Thresholds != nil {
		if err := c.Thresholds.Validate(k); err != nil {
			return fmt.Errorf("dtmc: %w", err)
		}
	}
	return c.applicable()
}

func validateRouting(routing [][]float64, k int) error {
	if len(routing) != k {
		return fmt.Errorf("dtmc: Routing has %d rows for %d models", len(routing), k)
	}
	for i, row := range routing {
		if len(row) != k {
			return fmt.Errorf("dtmc: Routing[%d] has %d entries for %d models", i, len(row), k)
		}
		sum := 0.0
		for j, p := range row {
			if !(p >= 0 && p <= 1) { // also catches NaN
				return fmt.Errorf("dtmc: Routing[%d][%d] is %v: want a probability", i, j, p)
			}
			sum += p
		}
		if math.Abs(sum-1) > stochasticTolerance {
			return fmt.Errorf("dtmc: Routing[%d] sums to %v: want 1", i, sum)
		}
	}
	return nil
}

func validateInterference(factors [][]float64, k int) error {
	if factors == nil {
		return nil
	}
	if len(factors) != k {
		return fmt.Errorf("dtmc: Interference has %d rows for %d models", len(factors), k)
	}
	for i, row := range factors {
		if len(row) != k {
			return fmt.Errorf("dtmc: Interference[%d] has %d entries for %d models", i, len(row), k)
		}
		for j, f := range row {
			if i != j && !(f >= 1 && f <= maxInterference) {
				return fmt.Errorf("dtmc: Interference[%d][%d] is %v: want 1 (none) to %d", i, j, f, maxInterference)
			}
		}
	}
	return nil
}

// applicable reports what the chain's state cannot express.
func (c *Config) applicable() error {
	k := len(c.Models)
	if ways := k * (k - 1); c.HandoffNs > 0 && k+ways > maxStations {
		return NotApplicable{fmt.Sprintf("hand-offs between %d models take time: the chain's state has room for %d ways; use the simulator", k, maxStations)}
	}
	maxDelayNs := int64(0)
	switch r := c.Rule.(type) {
	case scheduler.Delayed:
		maxDelayNs = r.MaxDelayNs
	case *scheduler.Delayed:
		maxDelayNs = r.MaxDelayNs
	}
	if maxDelayNs > 0 {
		return NotApplicable{fmt.Sprintf("MaxDelay of %d ns depends on how long the oldest request has waited, which the chain's state does not hold; use the simulator", maxDelayNs)}
	}
	classes := closedClasses(newMoves(c).matrix(), c.Home)
	if len(classes) > 1 {
		return NotApplicable{"the routing matrix lets a request end up in one of several groups of models for ever (" +
			c.names(classes) + "), so its long-run throughput depends on chance"}
	}
	return nil
}

func (c *Config) names(classes [][]int) string {
	var b strings.Builder
	for i, class := range classes {
		if i > 0 {
			b.WriteString(" | ")
		}
		for j, m := range class {
			if j > 0 {
				b.WriteString(", ")
			}
			if name := c.Models[m].Name; name != "" {
				b.WriteString(name)
			} else {
				fmt.Fprintf(&b, "model %d", m)
			}
		}
	}
	return b.String()
}

// inForce returns the thresholds that the scheduler would use: the row for
// Users live requests, clamped.
func (c *Config) inForce(dst []int) []int {
	k := len(c.Models)
	asked := make([]int, k)
	maxRunning := make([]int, k)
	for i := range asked {
		asked[i] = 1
		maxRunning[i] = c.Models[i].MaxRunning
	}
	if c.Thresholds != nil {
		copy(asked, c.Thresholds.For(c.Users))
	}
	return scheduler.Clamp(dst, asked, maxRunning, c.Users)
}
