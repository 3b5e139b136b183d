package dtmc

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Search says which thresholds Tune varies.
type Search int

const (
	SearchPeers Search = iota // every model but home, whose threshold stays 1
	SearchOne                 // TuneOptions.Model; the others as in Config.Thresholds
	SearchAll                 // the whole vector
)

// TuneOptions says what to look for. The zero value searches the thresholds of
// all models but home for the highest throughput.
type TuneOptions struct {
	Search Search
	Model  int // for SearchOne

	// Limits that a system must keep; 0 = none. Both are means over users that
	// are alike, so that the vector with the highest throughput also keeps them
	// best: they decide only how many users fit, see Tuning.MostUsers.
	MinPerUserTokPerS float64
	MaxMeanTPOTMs     float64

	// Table also finds the best vector for every number of live requests from 1
	// to Config.Users.
	Table bool
}

// Point is one threshold vector and what it gives.
type Point struct {
	Users             int
	B                 []int // in force, by model
	ThroughputTokPerS float64
	PerUserTokPerS    float64
	MeanTPOTMs        float64
	KeepsLimits       bool
}

// Tuning is the outcome of a search.
type Tuning struct {
	Best, Base, Worst Point       // Base is B = 1 for every model
	Prediction        *Prediction // of Best

	Gain      float64 // Best over Base, minus 1
	WorstLoss float64 // 1 - Worst over Best
	Matters   bool    // Gain is at least matteringGain
	Verdict   string  // the same in a sentence

	Points []Point // all that were solved, in the order of the search
	Method string  // "full" or "coordinate"

	// Thresholds holds Best.B, or with TuneOptions.Table one row for every
	// number of live requests.
	Thresholds scheduler.Thresholds
	Table      []Point // the best of each row; nil without TuneOptions.Table

	// MostUsers is the largest number of users in Table whose best vector keeps
	// the limits; 0 = none. More than Config.Users were not tried.
	MostUsers int
}

const (
	// matteringGain is the gain over B = 1 below which B hardly matters: the
	// simulator's seeds and the quantum move throughput by up to 2 % as well.
	matteringGain = 0.02
	// tie is the relative difference below which the smaller thresholds win:
	// they keep a request waiting for less.
	tie = 1e-4
	// fullVectors is how many vectors are all tried; above, the search moves
	// along one coordinate at a time.
	fullVectors = 200
)

// Around returns the points that differ from the best at most in the threshold
// of that model, in ascending order of it.
func (t *Tuning) Around(model int) []Point {
	var line []Point
	for _, p := range t.Points {
		same := true
		for m, b := range p.B {
			same = same && (m == model || b == t.Best.B[m])
		}
		if same {
			line = append(line, p)
		}
	}
	sortByThreshold(line, model)
	return line
}

// Tune finds the thresholds of cfg with the highest predicted throughput. The
// errors are those of Predict; a rule that reads no threshold is NotApplicable.
func Tune(cfg Config, opt TuneOptions) (*Tuning, error) {
	if err := opt.validate(&cfg); err != nil {
		return nil, err
	}
	t, err := tuneUsers(cfg, &opt)
	if err != nil || !opt.Table {
		return t, err
	}
	t.Thresholds = nil
	for users := 1; users <= cfg.Users; users++ {
		row := t.Best
		if users < cfg.Users {
			part := cfg
			part.Users = users
			one, err := tuneUsers(part, &opt)
			if err != nil {
				return nil, fmt.Errorf("%d live requests: %w", users, err)
			}
			row = one.Best
		}
		t.Table = append(t.Table, row)
		t.Thresholds = append(t.Thresholds, row.B)
		if row.KeepsLimits {
			t.MostUsers = users
		}
	}
	return t, nil
}

func (o *TuneOptions) validate(cfg *Config) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	switch {
	case !cfg.Rule.UsesB():
		return NotApplicable{"rule " + cfg.Rule.String() + " reads no threshold: there is nothing to tune"}
	case o.Search < SearchPeers || o.Search > SearchAll:
		return fmt.Errorf("dtmc: Search is %d: want SearchPeers, SearchOne or SearchAll", o.Search)
	case o.Search == SearchOne && (o.Model < 0 || o.Model >= len(cfg.Models)):
		return fmt.Errorf("dtmc: Model is %d: want an index into the %d models", o.Model, len(cfg.Models))
	case !(o.MinPerUserTokPerS >= 0) || !(o.MaxMeanTPOTMs >= 0):
		return errors.New("dtmc: limits must not be negative; 0 is none")
	}
	return nil
}

// tuneUsers searches for one number of users, in the unit of time in which Predict
// works: what is found for some thresholds is what Predict says of them.
func tuneUsers(cfg Config, opt *TuneOptions) (*Tuning, error) {
	p, err := newPredictor(&cfg)
	if err != nil {
		return nil, err
	}
	s := newSearch(p, opt)
	if err := s.run(); err != nil {
		return nil, err
	}
	t := &Tuning{Points: s.points, Method: s.method, Base: s.points[0], Best: s.points[0], Worst: s.points[0]}
	highest := 0.0
	for _, x := range s.points {
		highest = max(highest, x.ThroughputTokPerS)
		if x.ThroughputTokPerS < t.Worst.ThroughputTokPerS {
			t.Worst = x
		}
	}
	found := false
	for _, x := range s.points {
		if x.ThroughputTokPerS >= highest*(1-tie) && (!found || lessThresholds(x.B, t.Best.B)) {
			t.Best, found = x, true
		}
	}
	if t.Prediction, err = p.predict(t.Best.B); err != nil {
		return nil, err
	}
	t.Gain = t.Best.ThroughputTokPerS/t.Base.ThroughputTokPerS - 1
	t.WorstLoss = 1 - t.Worst.ThroughputTokPerS/t.Best.ThroughputTokPerS
	t.Matters = t.Gain >= matteringGain
	t.Verdict = t.verdict(&cfg)
	t.Thresholds = scheduler.Thresholds{t.Best.B}
	return t, nil
}

func (t *Tuning) verdict(cfg *Config) string {
	head := "B matters"
	if !t.Matters {
		head = "B hardly matters"
	}
	return fmt.Sprintf("%s: the best, %s, gains %.1f %% over B = 1; the worst tried, %s, loses %.1f %% against the best.",
		head, cfg.vector(t.Best.B), 100*t.Gain, cfg.vector(t.Worst.B), 100*t.WorstLoss)
}

// vector writes thresholds with the names of their models.
func (c *Config) vector(b []int) string {
	parts := make([]string, len(b))
	for m := range b {
		parts[m] = fmt.Sprintf("%s = %d", c.names([][]int{{m}}), b[m])
	}
	return "B " + strings.Join(parts, ", ")
}

// lessThresholds orders vectors by their sum, then entry by entry.
func lessThresholds(a, b []int) bool {
	sum := 0
	for m := range a {
		sum += a[m] - b[m]
	}
	if sum != 0 {
		return sum < 0
	}
	for m := range a {
		if a[m] != b[m] {
			return a[m] < b[m]
		}
	}
	return false
}
