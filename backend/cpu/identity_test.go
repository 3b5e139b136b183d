package cpu

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/tokenrouter/tokenrouter/backend"
	"pgregory.net/rapid"
)

// story is one sequence that is run in two ways.
type story struct {
	tokens []backend.Token
	asked  backend.Sequence // Seed, Sampling
	want   []outcome        // after each token, when it runs alone

	blocks  []int32
	cached  int // positions with KV
	sampled int // outcomes checked
}

func newStories(t testing.TB, c *toy, n, length int) []*story {
	m := c.model(t)
	var all []*story
	for i := range n {
		s := &story{tokens: drawTokens(uint64(i), length-3*i, m.Config.Vocab)}
		s.asked = backend.Sequence{Seed: uint64(i), Logprobs: -1}
		if i%2 == 1 {
			s.asked.Sampling = &backend.Sampling{Temperature: 1, TopP: 0.9}
		}
		s.want = alone(t, m, s.tokens, s.asked)
		all = append(all, s)
	}
	return all
}

// part is the sequence of a step that feeds so many tokens more.
func (s *story) part(tokens int) backend.Sequence {
	q := s.asked
	q.Start, q.Tokens, q.Blocks = s.cached, s.tokens[s.cached:s.cached+tokens], s.blocks
	q.Samples = true
	return q
}

func (s *story) check(t rapid.TB, got *outcome, tokens int) {
	t.Helper()
	s.cached += tokens
	s.sampled++
	if want := &s.want[s.cached-1]; !got.equal(want) {
		t.Fatalf("seed %d at position %d: got token %d, signals %v; alone %d, %v; logits %v and %v, …", s.asked.Seed, s.cached,
			got.result.Token, got.result.Signals, want.result.Token, want.result.Signals, got.logits[:3], want.logits[:3])
	}
}

// TestSameBitsHoweverCut prefills by chunks of several sizes, with blocks of
// several sizes, in passes of several sizes, on one thread and on two, and then
// decodes.
func TestSameBitsHoweverCut(t *testing.T) {
	for _, c := range toys {
		s := newStories(t, &c, 1, 48)[0]
		m := c.model(t)
		for _, o := range []Options{
			{Threads: 1, Blocks: 3, BlockTokens: 16, MaxRows: 48},
			{Threads: 2, Blocks: 48, BlockTokens: 1, MaxRows: 48},
			{Threads: 2, Blocks: 7, BlockTokens: 7, MaxRows: 5},
			{Threads: 3, Blocks: 1, BlockTokens: 64, MaxRows: 11},
		} {
			e := newEngine(t, m, o)
			s.blocks = nil
			for b := range o.Blocks {
				s.blocks = append(s.blocks, int32(o.Blocks-1-b))
			}
			for _, chunk := range []int{1, 3, 7, 40} {
				t.Run(fmt.Sprintf("%s/threads=%d,block=%d,pass=%d/chunk=%d", c.name, o.Threads, o.BlockTokens, o.MaxRows, chunk), func(t *testing.T) {
					for s.cached = 0; s.cached < len(s.tokens); {
						n := 1
						if s.cached < 40 {
							n = min(chunk, 40-s.cached)
						}
						got := outcomes(e, forward(t, e, s.part(n)))
						s.check(t, &got[0], n)
					}
				})
			}
		}
	}
}

// TestSameBitsInAnySchedule runs several sequences together in random steps:
// decode, extend and chunks of prefill mixed, some not sampling, blocks placed
// at random, sequences evicted and prefilled again. Every outcome equals that of
// the sequence alone.
func TestSameBitsInAnySchedule(t *testing.T) {
	for _, c := range toys[1:3] {
		stories := newStories(t, &c, 4, 40)
		m := c.model(t)
		t.Run(c.name, rapid.MakeCheck(func(r *rapid.T) {
			bt := rapid.IntRange(1, 20).Draw(r, "block tokens")
			o := Options{
				Threads:     rapid.IntRange(1, 3).Draw(r, "threads"),
				BlockTokens: bt,
				Blocks:      4 * ((40 + bt - 1) / bt),
				MaxRows:     rapid.IntRange(1, 40).Draw(r, "rows of a pass"),
			}
			e, err := New(m, o)
			if err != nil {
				r.Fatal(err)
			}
			defer e.Close()
			order := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "placement"), 0)).Perm(o.Blocks)
			each := o.Blocks / 4
			for i, s := range stories {
				s.cached, s.blocks = 0, nil
				for _, b := range order[i*each : (i+1)*each] {
					s.blocks = append(s.blocks, int32(b))
				}
			}
			for range rapid.IntRange(1, 12).Draw(r, "steps") {
				randomStep(r, e, stories)
			}
		}))
		for _, s := range stories {
			if s.sampled < 20 {
				t.Errorf("sequence %d sampled only %d times", s.asked.Seed, s.sampled)
			}
		}
	}
}

func randomStep(r *rapid.T, e *Engine, stories []*story) {
	var in []*story
	var step backend.Step
	step.Needs, step.TopK = e.Info().Signals, 3
	for _, s := range stories {
		if rapid.IntRange(0, 9).Draw(r, "evict") == 0 {
			s.cached = 0
		}
		left := len(s.tokens) - s.cached
		if left == 0 || rapid.Bool().Draw(r, "sits out") {
			continue
		}
		q := s.part(rapid.IntRange(1, left).Draw(r, "tokens"))
		q.Samples = rapid.IntRange(0, 3).Draw(r, "samples") > 0
		step.Sequences = append(step.Sequences, q)
		in = append(in, s)
	}
	results := make([]backend.Result, len(in))
	var got []outcome
	e.watch = func() { got = append(got, outcomes(e, results)...) }
	if err := e.Forward(&step, results); err != nil {
		r.Fatal(err)
	}
	for i, s := range in {
		n := len(step.Sequences[i].Tokens)
		if !step.Sequences[i].Samples {
			s.cached += n
			continue
		}
		s.check(r, &got[0], n)
		got = got[1:]
	}
}

// TestSameBitsBesideAnotherEngine runs three engines on one model at the same
// time, with more threads than processors.
func TestSameBitsBesideAnotherEngine(t *testing.T) {
	c := &toys[3]
	m := c.model(t)
	tokens := drawTokens(8, 30, m.Config.Vocab)
	want := alone(t, m, tokens, backend.Sequence{Logprobs: -1})
	var wait sync.WaitGroup
	for range 3 {
		e := newEngine(t, m, Options{Threads: 2, Blocks: 4, BlockTokens: 8})
		wait.Go(func() {
			for i := range tokens {
				s := backend.Sequence{Tokens: tokens[i : i+1], Start: i, Blocks: []int32{2, 0, 3, 1}, Samples: true, Logprobs: -1}
				results := make([]backend.Result, 1)
				step := &backend.Step{Sequences: []backend.Sequence{s}, Needs: e.Info().Signals, TopK: 3}
				if err := e.Forward(step, results); err != nil {
					t.Error(err)
					return
				}
				if got := outcomes(e, results); !got[0].equal(&want[i]) {
					t.Errorf("position %d differs", i+1)
				}
			}
		})
	}
	wait.Wait()
}
