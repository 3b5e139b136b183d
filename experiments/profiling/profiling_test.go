package profiling

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
)

// fake is an engine whose time is a formula of the step, on the clock of a
// synctest bubble or as nothing at all.
type fake struct {
	t     *testing.T
	ms    func(requests, rows, context int) float64
	sleep bool
	steps []backend.Step
}

func (f *fake) Info() backend.Info {
	return backend.Info{Model: "fake", Vocab: 100, MaxContext: 512, BlockTokens: 16, Blocks: 400}
}

func (f *fake) Close() error { return nil }

func (f *fake) Forward(step *backend.Step, results []backend.Result) error {
	seen := map[int32]bool{}
	context := 0
	for i := range step.Sequences {
		s := &step.Sequences[i]
		if s.Start < 0 || len(s.Tokens) < 1 || len(s.Blocks)*16 < s.Start+len(s.Tokens) {
			f.t.Errorf("sequence %d feeds %d tokens at %d through %d blocks", i, len(s.Tokens), s.Start, len(s.Blocks))
		}
		for _, b := range s.Blocks {
			if b < 0 || b >= 400 || seen[b] {
				f.t.Errorf("block %d is outside, or of two requests", b)
			}
			seen[b] = true
		}
		for _, token := range s.Tokens {
			if token < 0 || token >= 100 {
				f.t.Errorf("token %d", token)
			}
		}
		context += s.Start + len(s.Tokens)
	}
	if len(results) < len(step.Sequences) {
		f.t.Error("no room for results")
	}
	f.steps = append(f.steps, backend.Step{Sequences: slices.Clone(step.Sequences)})
	if f.sleep {
		time.Sleep(time.Duration(f.ms(len(step.Sequences), step.Rows(), context) * 1e6))
	}
	return nil
}

// law is a time of the kind that a profile describes exactly: what requests and
// rows cost, and attention by row and token.
func law(requests, rows, context int) float64 {
	mean := float64(context) / float64(requests)
	more := float64(rows - requests)
	return 2 + 0.1*float64(rows) + 0.001*(float64(context)+more*(mean-min(more, mean)/2))
}

// A profile made of times that follow its own law gives them back, also where
// it was not measured.
func TestProfileFollowsTheLaw(t *testing.T) {
	g := DefaultGrid(8, 64, 64)
	times := &Times{Grid: g}
	grid, heldOut := g.points()
	if len(heldOut) < 4 {
		t.Fatalf("only %d points are held out", len(heldOut))
	}
	for _, p := range append(grid, heldOut...) {
		ms := law(p.Requests, p.Rows, p.Requests*p.context())
		times.Steps = append(times.Steps, Timed{Point: p, HeldOut: slices.Contains(heldOut, p), Ms: []float64{9 * ms, ms, ms}})
	}
	p, err := times.Profile(Meta{Origin: "a test", Licence: "none", Engine: "fake", EngineVersion: "1", Machine: "here", Model: "fake"})
	if err != nil {
		t.Fatal(err)
	}
	worst, mean := Worst(times.Misses(p))
	if math.Abs(worst.Error()) > 0.01 || mean > 0.005 {
		t.Errorf("held out: %.2f %% on average, worst %+v", 100*mean, worst)
	}
	var text strings.Builder
	if err := steptime.WriteTOML(&text, p); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "held out") {
		t.Error("the notes do not say what the profile is worth")
	}
}

// Every kind of step is run as often, and none always after the same other one.
func TestMeasureInterleaves(t *testing.T) {
	f := &fake{t: t, ms: law}
	g := DefaultGrid(4, 16, 32)
	g.Repeats = 5
	last := 0
	times, err := Measure(t.Context(), f, g, func(done, total int) {
		if done != last+1 || done > total {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
	})
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]bool{}
	kind := func(s *backend.Step) string {
		return Point{len(s.Sequences), s.Rows(), s.Sequences[0].Context}.String()
	}
	for i := 1; i < len(f.steps); i++ {
		if kind(&f.steps[i]) == kind(&f.steps[0]) {
			before[kind(&f.steps[i-1])] = true
		}
	}
	if len(before) < 2 {
		t.Errorf("the first kind of step always comes after %v", before)
	}
	for i := range times.Steps {
		if n := len(times.Steps[i].Ms); n != 5 {
			t.Errorf("%v was timed %d times", times.Steps[i].Point, n)
		}
	}
}

func TestMeasureRefuses(t *testing.T) {
	f := &fake{t: t, ms: law}
	for _, c := range []struct {
		grid Grid
		want string
	}{
		{Grid{Requests: []int{2}, Contexts: []int{8}, Rows: []int{1}}, "requests must rise from 1"},
		{Grid{Requests: []int{1}, Contexts: []int{8, 8}, Rows: []int{1}}, "context must rise"},
		{Grid{Requests: []int{1}, Contexts: []int{1000}, Rows: []int{1}}, "fake has contexts up to 512"},
		{Grid{Requests: []int{1, 64}, Contexts: []int{500}, Rows: []int{1}}, "needs 2048 KV blocks, and fake has 400"},
	} {
		if _, err := Measure(t.Context(), f, c.grid, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.grid, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, f, DefaultGrid(2, 4, 16), nil); err == nil {
		t.Error("a run that was cancelled gives times")
	}
}

func TestRisingIsTheNearestList(t *testing.T) {
	for _, c := range []struct{ x, want []float64 }{
		{[]float64{1, 2, 3}, []float64{1, 2, 3}},
		{[]float64{3, 1}, []float64{2, 2}},
		{[]float64{1, 4, 3, 2, 5}, []float64{1, 3, 3, 3, 5}},
	} {
		if got := rising(c.x); !slices.Equal(got, c.want) {
			t.Errorf("%v gives %v, want %v", c.x, got, c.want)
		}
	}
}
