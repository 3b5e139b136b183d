package law

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/cpu"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Requests are short: the law speaks of how they meet, not of how long they are.
const (
	promptMax = 24
	outputMax = 20
	againMax  = 12 // output of a second turn
	longest   = promptMax + outputMax + 1 + againMax

	// tinyKV holds the longest request in whole blocks of any size here and
	// little more, so that requests take it from each other; largeKV holds all.
	tinyKV     = 64
	largeKV    = 2048
	maxRunning = 8
)

// cell is one run of the law: a point of its grid, and what is drawn for it.
type cell struct {
	number int

	source source
	rule   scheduler.Rule
	b      int
	users  int
	warm   bool // all is asked twice, or goes on; else equal prompts share nothing
	kv     int
	tcp    bool // each model has a process of its own, with sockets between

	text        uint64 // seed of the requests
	blockTokens int
	chunk       int
	maxRows     int
	threads     int
	reread      bool
	firstToy    int                                 // model 0; the others follow
	faulty      func(backend.Engine) backend.Engine // nil: engines are left as they are
	trouble     *trouble                            // nil: nothing goes wrong
}

func (c *cell) String() string {
	text := fmt.Sprintf("cell %d: %v, %v, B %d, %d users, warm %t, KV %d in blocks of %d, TCP %t, chunks of %d, passes of %d rows, %d threads, reread %t, text %d",
		c.number, &c.source, c.rule, c.b, c.users, c.warm, c.kv, c.blockTokens, c.tcp, c.chunk, c.maxRows, c.threads, c.reread, c.text)
	if c.trouble != nil {
		text += ": " + c.trouble.String()
	}
	return text
}

var rules = []scheduler.Rule{scheduler.Eager{}, scheduler.Delayed{}, scheduler.Delayed{MaxDelayNs: 1e6}, scheduler.Alternate{}, scheduler.Lockstep{}}

// texts is how many sets of requests there are for an algorithm. It is prime, so
// that each meets every value of every axis.
const texts = 61

// grid is the law's. Its order, and so the number of a cell, is fixed.
var grid = sync.OnceValue(func() (cells []cell) {
	bools := []bool{false, true}
	for _, s := range sources {
		for _, rule := range rules {
			for _, b := range []int{1, 2, 4, 8} {
				for _, users := range []int{1, 3, 8, 16} {
					for _, warm := range bools {
						for _, kv := range []int{tinyKV, largeKV} {
							for _, tcp := range bools {
								c := cell{number: len(cells), source: s, rule: rule, b: b, users: users, warm: warm, kv: kv, tcp: tcp}
								cells = append(cells, c.drawn())
							}
						}
					}
				}
			}
		}
	}
	return cells
})

// drawn adds what the grid leaves open.
func (c cell) drawn() cell {
	rng := rand.New(rand.NewPCG(uint64(c.number), 11))
	of := func(list ...int) int { return list[rng.IntN(len(list))] }
	c.text = uint64(c.number % texts)
	c.blockTokens, c.chunk, c.maxRows, c.threads = of(4, 7, 16), maxRunning+of(1, 3, 16, 128), of(3, 16, 256), of(1, 2)
	c.reread = rng.IntN(8) == 0
	return c
}

// requests of the cell: of each kind of sampling the same number.
func (c *cell) requests() int { return max(8, c.users) }

// request draws the i-th request of a text. Prompts share beginnings, some but for
// one token.
func (c *cell) request(i int) *subserver.Request {
	rng := rand.New(rand.NewPCG(c.text, uint64(i)))
	r := &subserver.Request{ID: scheduler.RequestID(i + 1), Seed: rng.Uint64(), MaxTokens: 4 + rng.IntN(outputMax-3), Logprobs: -1}
	shared, own := rng.IntN(promptMax-7), 1+rng.IntN(8)
	for j := range shared {
		r.Prompt = append(r.Prompt, algorithms.Token(algorithms.Bits(c.text, j, 1)%vocab))
	}
	if shared > 0 && i%4 == 3 {
		r.Prompt[i/4%shared] ^= 1 // differs from the others here alone
	}
	for range own {
		r.Prompt = append(r.Prompt, algorithms.Token(rng.IntN(vocab)))
	}
	r.Sampling = sampling(rng, i)
	if rng.IntN(3) > 0 { // else ignore_eos
		for range 1 + rng.IntN(50) {
			r.EOS = append(r.EOS, algorithms.Token(rng.IntN(vocab)))
		}
	}
	if rng.IntN(3) == 0 {
		r.Stop = [][]string{{"[41"}, {"] [", "e"}, {" [3", "z", "4"}, {"7] ", "3] "}}[rng.IntN(4)]
		r.ShowStop = rng.IntN(2) == 0
	}
	if rng.IntN(2) == 0 {
		r.Sampling.MinTokens = rng.IntN(10)
	}
	if rng.IntN(4) == 0 {
		r.Logprobs = rng.IntN(5)
	}
	if c.text%3 == 0 { // they enter everywhere
		r.Home = rng.IntN(c.source.params.Models)
	}
	return r
}

// sampling is greedy, by temperature, truncated, and with penalties in turn.
func sampling(rng *rand.Rand, i int) backend.Sampling {
	switch i % 4 {
	case 1:
		return backend.Sampling{Temperature: 0.5 + rng.Float64()}
	case 2:
		return backend.Sampling{Temperature: 1, TopK: 2 + rng.IntN(20), TopP: 0.5 + rng.Float64()/2, MinP: rng.Float64() / 50}
	case 3:
		return backend.Sampling{Temperature: rng.Float64(), RepetitionPenalty: 1 + rng.Float64()/2, PresencePenalty: rng.Float64(),
			FrequencyPenalty: rng.Float64(), LogitBias: []backend.TokenBias{{Token: algorithms.Token(rng.IntN(vocab)), Bias: 2}}}
	}
	return backend.Sampling{}
}

// oracles keeps what the plain loop said: many cells ask the same.
var oracles sync.Map

// want is the oracle's answer to the i-th request.
func (c *cell) want(t testing.TB, i int) *outcome { return c.answer(t, c.request(i)) }

// answer is the oracle's to a request of this source; a seed means one request.
func (c *cell) answer(t testing.TB, r *subserver.Request) *outcome {
	type key struct {
		algorithm   string
		models, toy int
		seed        uint64
	}
	alg := c.source.algorithm(t)
	k := key{fmt.Sprintf("%T %+v", alg, alg), c.source.params.Models, c.firstToy, r.Seed}
	if o, ok := oracles.Load(k); ok {
		return o.(*outcome)
	}
	var engines []backend.Engine
	for m := range c.source.params.Models {
		e := open(c.firstToy+m, cpu.Options{Threads: 1, Blocks: 1, BlockTokens: longest})
		defer e.Close()
		engines = append(engines, e)
	}
	o := oracle(alg, engines, r)
	oracles.Store(k, o)
	return o
}

// secondRound is added to the ids of requests that were asked before.
const secondRound = 1000

// again is the i-th request of the second round: the same as before, or the
// next turn of its conversation, whose prompt is all that was written, with a
// token more or as it is.
func (c *cell) again(t testing.TB, i int) *subserver.Request {
	r := c.request(i)
	r.ID += secondRound
	if i/4%2 == 0 {
		return r
	}
	r.Prompt = append(r.Prompt, c.want(t, i).tokens...)
	if i%8 < 6 {
		r.Prompt = append(r.Prompt, algorithms.Token(i))
	}
	r.MaxTokens, r.Seed = min(r.MaxTokens, againMax), r.Seed+1
	return r
}

// config of the whole system; a process keeps the engines that are its own. The
// engines belong to an ordeal, if there is one.
func (c *cell) config(t testing.TB, mine *ordeal) subserver.Config {
	cfg := subserver.Config{Algorithm: c.source.algorithm(t), Params: c.source.params, Rule: c.rule, QueueLimit: 1000,
		NoReuse: !c.warm, Reread: c.reread, NewDetokenizer: newDetokenizer}
	row := []int{}
	for m := range c.source.params.Models {
		blocks := c.kv / c.blockTokens
		e := open(c.firstToy+m, cpu.Options{Threads: c.threads, Blocks: blocks, BlockTokens: c.blockTokens, MaxRows: c.maxRows})
		if c.faulty != nil {
			e = c.faulty(e)
		}
		if mine != nil {
			e = &shaken{Engine: e, ordeal: mine, model: m}
		}
		cfg.Models = append(cfg.Models, subserver.Model{Name: e.Info().Model, Engine: e, MaxRunning: maxRunning,
			ChunkTokens: c.chunk, KVTokens: blocks * c.blockTokens, BlockTokens: c.blockTokens})
		row = append(row, c.b)
	}
	cfg.Thresholds = scheduler.Thresholds{row}
	return cfg
}

// differs says how an outcome differs from what is wanted, "" if it does not.
func (o *outcome) differs(want *outcome, logprobs bool) string {
	switch {
	case !slices.Equal(o.tokens, want.tokens):
		return fmt.Sprintf("tokens\n got %v\nwant %v", o.tokens, want.tokens)
	case !slices.Equal(o.writers, want.writers):
		return fmt.Sprintf("writers\n got %v\nwant %v", o.writers, want.writers)
	case logprobs && !slices.Equal(o.logprob, want.logprob):
		return fmt.Sprintf("log probabilities\n got %v\nwant %v", o.logprob, want.logprob)
	case o.text != want.text || o.stop != want.stop || o.reason != want.reason:
		return fmt.Sprintf("text\n got %q, stopped by %q, %v\nwant %q, stopped by %q, %v", o.text, o.stop, o.reason, want.text, want.stop, want.reason)
	}
	return ""
}
