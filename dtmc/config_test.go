package dtmc

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

func TestMistakesAreNamed(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*Config)
		want  string // part of the message
	}{
		{"no model", func(c *Config) { c.Models = nil }, "Models"},
		{"home", func(c *Config) { c.Home = 2 }, "Home is 2"},
		{"users", func(c *Config) { c.Users = 0 }, "Users is 0"},
		{"no rule", func(c *Config) { c.Rule = nil }, "Rule"},
		{"tokens", func(c *Config) { c.OutputTokens = -1 }, "OutputTokens -1"},
		{"quantum", func(c *Config) { c.QuantumNs = -1 }, "QuantumNs"},
		{"hand-off", func(c *Config) { c.HandoffNs = -1 }, "HandoffNs"},
		{"states", func(c *Config) { c.MaxStates = -1 }, "MaxStates"},
		{"no step time", func(c *Config) { c.Models[1].Time = nil }, "Models[1] (large)"},
		{"limit", func(c *Config) { c.Models[0].MaxRunning = -1 }, "MaxRunning is -1"},
		{"zero step", func(c *Config) { c.Models[1].Time = linear{} }, "takes 0 ns"},
		{"rows", func(c *Config) { c.Routing = c.Routing[:1] }, "Routing has 1 rows"},
		{"entries", func(c *Config) { c.Routing[1] = []float64{1} }, "Routing[1] has 1 entries"},
		{"sum", func(c *Config) { c.Routing[0] = []float64{.5, .4} }, "Routing[0] sums to 0.9"},
		{"negative", func(c *Config) { c.Routing[0] = []float64{1.5, -.5} }, "Routing[0][0] is 1.5"},
		{"NaN", func(c *Config) { c.Routing[0][1] = math.NaN() }, "Routing[0][1] is NaN"},
		{"factors", func(c *Config) { c.Interference = [][]float64{{1, 1}} }, "Interference has 1 rows"},
		{"factors of a model", func(c *Config) { c.Interference = [][]float64{{1, 1}, {1}} }, "Interference[1] has 1 entries"},
		{"factor", func(c *Config) { c.Interference = [][]float64{{1, .9}, {1, 1}} }, "Interference[0][1] is 0.9"},
		{"factor NaN", func(c *Config) { c.Interference = [][]float64{{1, 1}, {math.NaN(), 1}} }, "Interference[1][0] is NaN"},
		{"no output", func(c *Config) { c.Closed, c.PromptTokens = true, 1 }, "OutputTokens is 0"},
		{"no prompt", func(c *Config) { c.Closed, c.OutputTokens = true, 1 }, "PromptTokens is 0"},
		{"outputs", func(c *Config) { c.Outputs = []int{4, 0} }, "Outputs[1] is 0"},
		{"context", func(c *Config) { c.ContextTokens = -1 }, "ContextTokens -1"},
		{"chunk", func(c *Config) { c.Models[1].ChunkTokens = -1 }, "ChunkTokens is -1"},
		{"thresholds", func(c *Config) { c.Thresholds = scheduler.Thresholds{{1}} }, "1 entries for 2 models"},
		{"threshold", func(c *Config) { c.Thresholds = scheduler.Thresholds{{1, 0}} }, "want at least 1"},
	} {
		cfg := ratio427(.1, 1, 4, 1, 2)
		c.spoil(&cfg)
		_, err := Predict(cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a message with %q", c.name, err, c.want)
		}
		if errors.As(err, &NotApplicable{}) {
			t.Errorf("%s: a mistake was called not applicable", c.name)
		}
	}
}

func TestNotApplicable(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
	}{
		{"hand-off longer than a step", func(c *Config) { c.HandoffNs = 4_000_001 }},
		{"MaxDelay", func(c *Config) { c.Rule = scheduler.Delayed{MaxDelayNs: 1} }},
		{"MaxDelay behind a pointer", func(c *Config) { c.Rule = &scheduler.Delayed{MaxDelayNs: 1} }},
		{"two ends", func(c *Config) {
			c.Models = append(c.Models, Model{Time: linear{base: 5}})
			c.Routing = [][]float64{{.8, .1, .1}, {0, 1, 0}, {0, 0, 1}}
			c.Thresholds = nil
		}},
	} {
		cfg := ratio427(.1, 1, 4, 1, 2)
		c.change(&cfg)
		_, err := Predict(cfg)
		var reason NotApplicable
		if !errors.As(err, &reason) || reason.Reason == "" {
			t.Errorf("%s: got %v, want NotApplicable", c.name, err)
		}
	}
	_, err := Tune(func() Config { c := ratio427(.1, 1, 4); c.Rule = scheduler.Eager{}; return c }(), TuneOptions{})
	if !errors.As(err, &NotApplicable{}) {
		t.Errorf("tuning eager: got %v, want NotApplicable", err)
	}
}

// The table of thresholds is read at the number of users, and clamped.
func TestThresholdsInForce(t *testing.T) {
	cfg := ratio427(.1, 1, 4)
	cfg.Thresholds = scheduler.Thresholds{{1, 1}, {1, 2}, {1, 3}, {3, 9}, {1, 1}}
	got := mustPredict(t, cfg)
	if got.BInForce[0] != 3 || got.BInForce[1] != 2 {
		t.Errorf("in force %v, want [3 2]: {3, 9}, the largest and of equals the last cut until the sum is 4 + 2 - 1", got.BInForce)
	}
}
