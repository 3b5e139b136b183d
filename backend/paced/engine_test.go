package paced

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// fixed is a step time that looks at nothing.
type fixed time.Duration

func (f fixed) Ns(_, _, _ int) int64 { return int64(f) }

// asked is a step time that keeps what it was asked.
type asked struct{ requests, rows, contextTokens int }

func (a *asked) Ns(requests, rows, contextTokens int) int64 {
	*a = asked{requests, rows, contextTokens}
	return 1
}

// engine makes one with a step time; nil is none.
func engine(t *testing.T, o Options) *Engine {
	t.Helper()
	o.MaxContext, o.Blocks, o.BlockTokens = 4096, 8, 16
	if o.Model == "" {
		o.Model = "small"
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// decode is a sequence that feeds one token and samples the next.
func decode(seed uint64, position int) backend.Sequence {
	return backend.Sequence{Tokens: []backend.Token{1}, Start: position - 1, Context: position, Samples: true, Seed: seed, Prompt: 1, Logprobs: -1}
}

func forward(t *testing.T, e *Engine, sequences ...backend.Sequence) []backend.Result {
	t.Helper()
	results := make([]backend.Result, len(sequences))
	if err := e.Forward(&backend.Step{Sequences: sequences}, results); err != nil {
		t.Error(err)
	}
	return results
}

var _ backend.Engine = (*Engine)(nil)

func TestStepsTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		linear, err := steptime.NewLinear(6, 0.5, 0.25)
		if err != nil {
			t.Fatal(err)
		}
		e := engine(t, Options{Time: linear})
		prefill := backend.Sequence{Tokens: make([]backend.Token, 5), Context: 5}
		for range 3 {
			start := time.Now()
			forward(t, e, decode(1, 9), prefill)
			if got, want := time.Since(start), 8500*time.Microsecond; got != want {
				t.Errorf("a step took %v, want %v", got, want)
			}
			time.Sleep(time.Millisecond) // steps do not catch up with what passed between them
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestPriced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a asked
		e := engine(t, Options{Time: &a})
		held := decode(2, 50)
		held.Context = 1000 // a steady workload prices with a context that stands still
		forward(t, e, decode(1, 9), backend.Sequence{Tokens: make([]backend.Token, 5), Start: 3, Context: 8}, held)
		if want := (asked{3, 7, 1017}); a != want {
			t.Errorf("priced %+v, want %+v", a, want)
		}
	})
}

func TestNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, Options{})
		start := time.Now()
		for position := 1; position < 100; position++ {
			forward(t, e, decode(1, position))
		}
		if passed := time.Since(start); passed != 0 {
			t.Errorf("took %v", passed)
		}
	})
}

// TestAnyLength: the three ways of waiting join without a gap, for an engine
// that was made outside of the bubble too.
func TestAnyLength(t *testing.T) {
	for _, length := range []time.Duration{
		1, yieldWindow - 1, yieldWindow, yieldWindow + 1, alarmWindow, alarmWindow + 1, 7 * time.Millisecond, 90 * time.Minute,
	} {
		e := engine(t, Options{Time: fixed(length)})
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			forward(t, e, decode(1, 1))
			if passed := time.Since(start); passed != length {
				t.Errorf("a step of %v took %v", length, passed)
			}
		})
		e.Close()
	}
}

// TestNeverEarly runs on the wall's clock, where a step may be late but never
// short.
func TestNeverEarly(t *testing.T) {
	for _, length := range []time.Duration{time.Microsecond, 300 * time.Microsecond, 3 * time.Millisecond, 5 * time.Millisecond} {
		e := engine(t, Options{Time: fixed(length)})
		for range 3 {
			start := time.Now()
			forward(t, e, decode(1, 1))
			if passed := time.Since(start); passed < length {
				t.Errorf("a step of %v took %v", length, passed)
			}
		}
		e.Close()
	}
}

func TestCloseInterrupts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, Options{Time: fixed(time.Hour)})
		start := time.Now()
		ended := make(chan error, 1)
		go func() {
			s := decode(1, 1)
			ended <- e.Forward(&backend.Step{Sequences: []backend.Sequence{s}}, make([]backend.Result, 1))
		}()
		time.Sleep(time.Minute)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("interrupted: error %v", err)
		}
		if passed := time.Since(start); passed != time.Minute {
			t.Errorf("ended after %v", passed)
		}
		err := e.Forward(&backend.Step{Sequences: []backend.Sequence{decode(1, 2)}}, make([]backend.Result, 1))
		if !errors.Is(err, ErrClosed) {
			t.Errorf("a step of a closed engine: error %v", err)
		}
	})
}

// TestCloseInterruptsTheAlarm closes on the wall's clock, where the step waits
// for a timer first and for the alarm in the end.
func TestCloseInterruptsTheAlarm(t *testing.T) {
	for _, length := range []time.Duration{time.Hour, alarmWindow, yieldWindow} {
		e := engine(t, Options{Time: fixed(length)})
		ended := make(chan error, 1)
		go func() {
			results := make([]backend.Result, 1)
			for {
				if err := e.Forward(&backend.Step{Sequences: []backend.Sequence{decode(1, 1)}}, results); err != nil {
					ended <- err
					return
				}
			}
		}()
		time.Sleep(3 * time.Millisecond)
		e.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("error %v", err)
		}
	}
}

func TestStandsStill(t *testing.T) {
	if standsStill() {
		t.Error("the wall's clock stands still")
	}
	synctest.Test(t, func(t *testing.T) {
		if !standsStill() {
			t.Error("a bubble's clock moves")
		}
	})
}

func TestNewRefuses(t *testing.T) {
	good := Options{MaxContext: 1, Blocks: 1, BlockTokens: 1}
	for _, c := range []struct {
		want   string
		change func(*Options)
	}{
		{"Vocab is 1, want 2 to 1073741825", func(o *Options) { o.Vocab = 1 }},
		{"MaxContext is 0", func(o *Options) { o.MaxContext = 0 }},
		{"Blocks is -1", func(o *Options) { o.Blocks = -1 }},
		{"BlockTokens is 0", func(o *Options) { o.BlockTokens = 0 }},
		{"Place is 1 on a GPU for 1 models", func(o *Options) { o.GPU, o.Place = alone(), 1 }},
		{"Place 0 of the GPU is taken", func(o *Options) {
			o.GPU = alone()
			if _, err := New(*o); err != nil {
				t.Error(err)
			}
		}},
	} {
		o := good
		c.change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

func TestInfo(t *testing.T) {
	got := engine(t, Options{Model: "big", KVBytes: 3, WeightBytes: 4}).Info()
	want := backend.Info{Model: "big", Vocab: workload.MadeUpVocab, MaxContext: 4096, BlockTokens: 16, Blocks: 8,
		Signals: algorithms.NeedEntropy | algorithms.NeedMaxProb | algorithms.NeedTopK, WeightBytes: 4, KVBytes: 3}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestTokensAreTheSimulators: whatever the model, the batch or the cut.
func TestTokensAreTheSimulators(t *testing.T) {
	var want, small, big []backend.Token
	a, b := engine(t, Options{Model: "a"}), engine(t, Options{Model: "b"})
	for position := 5; position < 50; position++ {
		want = append(want, workload.MadeUp(7, position, workload.PurposeToken))
		small = append(small, forward(t, a, decode(7, position))[0].Token)
		long := decode(7, position)
		long.Start, long.Tokens = 0, make([]backend.Token, position)
		big = append(big, forward(t, b, decode(8, 3), long)[1].Token)
	}
	if !slices.Equal(small, want) || !slices.Equal(big, want) {
		t.Errorf("tokens %v and %v, want %v", small, big, want)
	}
}

func TestScriptedTokens(t *testing.T) {
	script := []backend.Token{0, 4, 2, 0}
	e := engine(t, Options{Vocab: 5, Token: func(_ uint64, position int) backend.Token { return script[position] }})
	for position := 1; position < len(script); position++ {
		if got := forward(t, e, decode(1, position))[0].Token; got != script[position] {
			t.Errorf("position %d: token %d, want %d", position, got, script[position])
		}
	}
	folded := engine(t, Options{Vocab: 5})
	seen := map[backend.Token]bool{}
	for position := 1; position < 200; position++ {
		seen[forward(t, folded, decode(1, position))[0].Token] = true
	}
	if len(seen) != 4 || seen[workload.EOS] || seen[5] {
		t.Errorf("a vocabulary of 5 has tokens %v", seen)
	}
}
