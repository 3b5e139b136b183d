package cpu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/cpu/kernel"
)

func TestOptionsRefused(t *testing.T) {
	m := toys[0].model(t)
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{}, "Blocks of the engine for qwen3 is 0; want 1 to"},
		{Options{Blocks: -1}, "Blocks of the engine for qwen3 is -1"},
		{Options{Name: "small", Blocks: 1, Threads: -2}, "Threads of the engine for small is -2; want 1 to 1024"},
		{Options{Blocks: 1, BlockTokens: -1}, "BlockTokens"},
		{Options{Blocks: 1, MaxRows: 1 << 20}, "MaxRows"},
		{Options{Blocks: 1 << 30, BlockTokens: 1 << 30}, "tokens of KV"},
		{Options{Blocks: 1 << 31, BlockTokens: 1}, "are too much memory for qwen3"},
		{Options{Blocks: 2, BlockTokens: 8, MaxContext: 17}, "MaxContext of the engine for qwen3 is 17; want 1 to 16"},
		{Options{Blocks: 1, BlockTokens: 8192, MaxContext: 4097}, "want 1 to 4096, the smaller of its max_position_embeddings, 4096"},
	} {
		_, err := New(m, c.options)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.options, err, c.want)
		}
	}
}

func TestBrokenStepPanics(t *testing.T) {
	e := newEngine(t, toys[0].model(t), Options{Threads: 1, Blocks: 4, BlockTokens: 4, MaxContext: 10})
	good := func() backend.Sequence {
		return backend.Sequence{Start: 2, Tokens: []backend.Token{1, 2, 511}, Blocks: []int32{0, 3}}
	}
	for _, c := range []struct {
		want   string
		mangle func(*backend.Step, *backend.Sequence)
	}{
		{"", func(*backend.Step, *backend.Sequence) {}},
		{"sequence 0: no tokens", func(_ *backend.Step, s *backend.Sequence) { s.Tokens = nil }},
		{"starts at -1", func(_ *backend.Step, s *backend.Sequence) { s.Start = -1 }},
		{"9 positions in 2 blocks of 4", func(_ *backend.Step, s *backend.Sequence) { s.Start = 6 }},
		{"11 positions, at most 10", func(_ *backend.Step, s *backend.Sequence) { s.Start, s.Blocks = 8, []int32{0, 1, 2} }},
		{"token 512 in a vocabulary of 512", func(_ *backend.Step, s *backend.Sequence) { s.Tokens[1] = 512 }},
		{"token -1", func(_ *backend.Step, s *backend.Sequence) { s.Tokens[1] = -1 }},
		{"block 4 of 4", func(_ *backend.Step, s *backend.Sequence) { s.Blocks[1] = 4 }},
		{"block -1 of 4", func(_ *backend.Step, s *backend.Sequence) { s.Blocks[0] = -1 }},
		{"cannot compute router_score", func(step *backend.Step, _ *backend.Sequence) { step.Needs = algorithms.NeedRouterScore }},
		{"1 results for 2 sequences", func(step *backend.Step, s *backend.Sequence) {
			step.Sequences = append(step.Sequences, *s)
		}},
	} {
		step := &backend.Step{Sequences: []backend.Sequence{good()}}
		c.mangle(step, &step.Sequences[0])
		got := func() (got string) {
			defer func() {
				if p := recover(); p != nil {
					got = fmt.Sprint(p)
				}
			}()
			if err := e.Forward(step, make([]backend.Result, 1)); err != nil {
				t.Error(err)
			}
			return ""
		}()
		if c.want == "" && got != "" || !strings.Contains(got, c.want) || got != "" && !strings.HasPrefix(got, "cpu: ") {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestNaNIsAnError breaks one row of the embedding, which only the sequence that
// feeds its token must notice.
func TestNaNIsAnError(t *testing.T) {
	m := toys[2].model(t)
	m.Embed.U16[7*m.Config.Hidden] = 0x7fc0
	e := newEngine(t, m, Options{Threads: 2, Blocks: 4, BlockTokens: 4})
	part := func(block int32, tokens ...backend.Token) backend.Sequence {
		return backend.Sequence{Tokens: tokens, Blocks: []int32{block}, Samples: true}
	}
	forward(t, e, part(0, 1, 2, 3), part(1, 6, 8))
	step := &backend.Step{Sequences: []backend.Sequence{part(0, 1, 2, 3), part(1, 6, 7, 8)}}
	err := e.Forward(step, make([]backend.Result, 2))
	if err == nil || !strings.Contains(err.Error(), "cpu: model llama, sequence 1 of the step") ||
		!strings.Contains(err.Error(), "position 3") || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("got error %v", err)
	}
	if again := e.Forward(&backend.Step{Sequences: []backend.Sequence{part(0, 1)}}, make([]backend.Result, 1)); again != err {
		t.Errorf("a lost engine answers %v", again)
	}
}

// TestSharedPrefix lets two sequences read the same blocks of a common prefix,
// one of which another sequence wrote.
func TestSharedPrefix(t *testing.T) {
	c := &toys[1]
	s := newStories(t, c, 1, 24)[0]
	e := newEngine(t, c.model(t), Options{Threads: 2, Blocks: 8, BlockTokens: 8})
	s.blocks = []int32{5, 2, 4}
	got := outcomes(e, forward(t, e, s.part(19)))
	s.check(t, &got[0], 19)
	first, second := s.part(5), s.part(5)
	second.Blocks = []int32{5, 2, 7} // with a copy of the last block's three positions
	second.Start, second.Tokens = 16, s.tokens[16:24]
	got = outcomes(e, forward(t, e, first, second))
	s.check(t, &got[0], 5)
	if !got[1].equal(&got[0]) {
		t.Error("two sequences of equal tokens differ")
	}
}

func TestSteadyStepsAllocateNothing(t *testing.T) {
	e := newEngine(t, toys[0].model(t), Options{Threads: 2, Blocks: 20, BlockTokens: 4, MaxRows: 4})
	step := &backend.Step{Needs: e.Info().Signals, TopK: 5}
	for i := range int32(3) {
		step.Sequences = append(step.Sequences, backend.Sequence{
			Tokens: []backend.Token{1, 2, 3}[:i+1], Blocks: []int32{i, i + 3, i + 6}, Start: int(i), Samples: true,
			Seed: 1, Sampling: &backend.Sampling{Temperature: 1, TopP: 0.9, TopK: 40}, Logprobs: 4,
		})
	}
	results := make([]backend.Result, 3)
	run := func() {
		if err := e.Forward(step, results); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(50, run); n > 0 {
		t.Errorf("a step allocates %v times", n)
	}
}

// TestSameBitsOnEveryLevel compares the instruction sets that this machine has.
func TestSameBitsOnEveryLevel(t *testing.T) {
	best := kernel.Level()
	defer kernel.SetLevel(best)
	for _, c := range toys {
		m := c.model(t)
		tokens := drawTokens(3, 12, m.Config.Vocab)
		if err := kernel.SetLevel("go"); err != nil {
			t.Fatal(err)
		}
		want := alone(t, m, tokens, backend.Sequence{Logprobs: -1})
		for _, level := range []string{"avx2", "avx512"} {
			if err := kernel.SetLevel(level); err != nil {
				t.Logf("%s is not compared: %v", level, err)
				continue
			}
			for i, got := range alone(t, m, tokens, backend.Sequence{Logprobs: -1}) {
				if !got.equal(&want[i]) {
					t.Fatalf("%s, %s: position %d differs: %v and %v, …", c.name, level, i+1, got.logits[:3], want[i].logits[:3])
				}
			}
		}
	}
}
