package dtmc

import (
	"slices"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

func mustTune(t testing.TB, cfg Config, opt TuneOptions) *Tuning {
	t.Helper()
	tuning, err := Tune(cfg, opt)
	if err != nil {
		t.Fatal(err)
	}
	return tuning
}

func TestTuneSaysWhetherBMatters(t *testing.T) {
	rare := mustTune(t, ratio427(.02, 1, 8), TuneOptions{})
	if rare.Matters || !strings.HasPrefix(rare.Verdict, "B hardly matters") || rare.WorstLoss < .3 {
		t.Errorf("p .02: %s", rare.Verdict)
	}
	often := mustTune(t, ratio427(.4, 1, 8), TuneOptions{})
	if !often.Matters || !strings.HasPrefix(often.Verdict, "B matters") {
		t.Errorf("p .4: %s", often.Verdict)
	}
	if len(often.Points) != 8 || often.Method != "full" {
		t.Errorf("tried %d vectors by %s search, want 8 by full", len(often.Points), often.Method)
	}
	for i, x := range often.Around(1) {
		if x.B[1] != i+1 {
			t.Fatalf("the curve is not in order of B: %v at %d", x.B, i)
		}
		near(t, "point", x.ThroughputTokPerS, mustPredict(t, ratio427(.4, 1, 8, x.B...)).ThroughputTokPerS, 1e-12)
	}
}

// One vector of a tie is as good as another: the smaller thresholds win. With
// one user every vector is clamped to 1.
func TestTies(t *testing.T) {
	one := mustTune(t, ratio427(.4, 1, 1), TuneOptions{Search: SearchAll})
	if !slices.Equal(one.Best.B, []int{1, 1}) || len(one.Points) != 1 || one.Gain != 0 {
		t.Errorf("one user: %v of %d, gain %v", one.Best.B, len(one.Points), one.Gain)
	}
	never := mustTune(t, ratio427(0, 1, 6), TuneOptions{})
	if !slices.Equal(never.Best.B, []int{1, 1}) || never.Matters {
		t.Errorf("p 0: %v, %s", never.Best.B, never.Verdict)
	}
}

func TestSearchOne(t *testing.T) {
	cfg := ratio427(.4, 1, 8, 2, 5)
	tuning := mustTune(t, cfg, TuneOptions{Search: SearchOne, Model: 0})
	for _, x := range tuning.Points[1:] {
		if x.B[1] != 5 {
			t.Errorf("searching model 0 moved the threshold of model 1: %v", x.B)
		}
	}
	if len(tuning.Points) != 1+4 {
		t.Errorf("%d points, want B = 1 and [1 5] to [4 5]", len(tuning.Points))
	}
}

// The search along coordinates is only used where trying all takes too long; on
// systems where both can be done it loses less than the tolerance of a tie to
// trying all. Nothing proves that it always will.
func TestCoordinateSearchAgainstAll(t *testing.T) {
	three := Config{
		Models:  []Model{{Time: linear{base: 4}}, {Time: linear{base: 12}}, {Time: linear{base: 32}}},
		Routing: [][]float64{{.5, .25, .25}, {.6, .3, .1}, {.7, .1, .2}},
		Users:   6,
		Rule:    scheduler.Delayed{},
	}
	cells := []Config{three}
	for _, p := range []float64{.05, .2, .4, .6} {
		for _, back := range []float64{1, .35} {
			cells = append(cells, ratio427(p, back, 9))
		}
	}
	for _, cfg := range cells {
		all := mustTune(t, cfg, TuneOptions{Search: SearchAll})
		p, err := newPredictor(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		s := newSearch(p, &TuneOptions{Search: SearchAll})
		ones := make([]int, len(cfg.Models))
		for m := range ones {
			ones[m] = 1
		}
		if err := s.climbTwice(ones); err != nil {
			t.Fatal(err)
		}
		highest := 0.0
		for _, x := range s.points {
			highest = max(highest, x.ThroughputTokPerS)
		}
		near(t, "coordinate search", highest, all.Best.ThroughputTokPerS, 2*tie)
		if len(s.points) >= len(all.Points) {
			t.Errorf("coordinate search tried %d of %d vectors", len(s.points), len(all.Points))
		}
	}
}

// Every row of the table is the best for that number of users.
func TestTableOverLive(t *testing.T) {
	cfg := ratio427(.4, 1, 7)
	opt := TuneOptions{Table: true, MinPerUserTokPerS: 60}
	tuning := mustTune(t, cfg, opt)
	if len(tuning.Thresholds) != 7 || len(tuning.Table) != 7 {
		t.Fatalf("%d rows, %d points, want 7", len(tuning.Thresholds), len(tuning.Table))
	}
	if err := tuning.Thresholds.Validate(2); err != nil {
		t.Error(err)
	}
	most := 0
	for i, row := range tuning.Table {
		part := cfg
		part.Users = i + 1
		best := mustTune(t, part, TuneOptions{}).Best
		if !slices.Equal(best.B, row.B) || !slices.Equal(tuning.Thresholds[i], row.B) {
			t.Errorf("%d live: row %v, thresholds %v, alone %v", i+1, row.B, tuning.Thresholds[i], best.B)
		}
		if row.Users != i+1 {
			t.Errorf("row %d is of %d users", i+1, row.Users)
		}
		if row.KeepsLimits != (row.PerUserTokPerS >= 60) {
			t.Errorf("%d live: %v tok/s a user keeps the limit of 60: %v", i+1, row.PerUserTokPerS, row.KeepsLimits)
		}
		if row.KeepsLimits {
			most = i + 1
		}
	}
	if tuning.MostUsers != most || most == 0 || most == 7 {
		t.Errorf("MostUsers is %d, the table says %d, and the limit should fall inside it", tuning.MostUsers, most)
	}
}

// What is asked beside the best thresholds changes nothing of what is predicted
// for some, and that is what Predict says of them.
func TestTuneSaysWhatPredictSays(t *testing.T) {
	cfg := Config{ // no whole quanta: the unit of time is a choice
		Models:  []Model{{Time: linear{base: 4.0123, perRequest: .0507}}, {Time: linear{base: 31.987, perRequest: .1013}}},
		Routing: [][]float64{{.8, .2}, {1, 0}},
		Users:   8,
		Rule:    scheduler.Delayed{},
	}
	for _, opt := range []TuneOptions{{}, {Table: true, MaxMeanTPOTMs: 100}, {Search: SearchAll}, {Search: SearchOne, Model: 1}} {
		tuning := mustTune(t, cfg, opt)
		for _, x := range []Point{tuning.Best, tuning.Base, tuning.Worst} {
			told := cfg
			told.Thresholds = scheduler.Thresholds{x.B}
			p, err := Predict(told)
			if err != nil {
				t.Fatal(err)
			}
			if x.ThroughputTokPerS != p.ThroughputTokPerS || x.MeanTPOTMs != p.MeanTPOTMs {
				t.Errorf("%+v: B = %v: %g token/s by Tune, %g by Predict", opt, x.B, x.ThroughputTokPerS, p.ThroughputTokPerS)
			}
		}
		for i, row := range tuning.Table {
			part := cfg
			part.Users, part.Thresholds = i+1, scheduler.Thresholds{row.B}
			if p, err := Predict(part); err != nil || p.ThroughputTokPerS != row.ThroughputTokPerS {
				t.Errorf("%d users: %v, %g token/s by Tune", i+1, err, row.ThroughputTokPerS)
			}
		}
	}
}
