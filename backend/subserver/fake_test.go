package subserver

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
)

const (
	fakeVocab = 64
	fakeEOS   = algorithms.Token(0)
)

// fakeModel is a language model whose next token is a hash of everything that
// it may depend on.
type fakeModel int

// digest of a token at a position: what a slot of KV memory holds.
func digest(t algorithms.Token, position int) uint64 {
	return algorithms.Bits(uint64(t)+1, position, 1001)
}

// chain digests all of a request's KV.
func chain(slots func(position int) uint64, n int) uint64 {
	h := uint64(n)
	for p := range n {
		h = algorithms.Bits(h^slots(p), p, 1002)
	}
	return h
}

// next is the token that follows tokens whose KV digests to h, and the signals.
func (m fakeModel) next(h uint64, q *backend.Sequence, history []algorithms.Token, topK int) backend.Result {
	var s backend.Sampling
	if q.Sampling != nil {
		s = *q.Sampling
	}
	h ^= algorithms.Bits(q.Seed, q.Position(), algorithms.Purpose(2000+int(m)))
	h ^= algorithms.Bits(math.Float64bits(s.Temperature), s.TopK, 1003)
	if s.ReadsHistory() {
		h ^= chain(func(p int) uint64 { return digest(history[p], p) }, len(history)) + uint64(q.Prompt)
	}
	draw := func(i int) float64 { return algorithms.Draw(h, i, 1004) }
	res := backend.Result{Token: algorithms.Token(1 + algorithms.Bits(h, 0, 1005)%(fakeVocab-1))}
	if draw(0) < 0.01 {
		res.Token = fakeEOS
	}
	res.Signals = algorithms.Signals{Entropy: draw(1) * draw(2), MaxProb: draw(3), DeferLogit: 4*draw(4) - 3, RouterScore: draw(5)}
	for i := range topK {
		t := algorithms.Token(algorithms.Bits(h, i, 1006) % fakeVocab)
		if !slices.ContainsFunc(res.Signals.TopK, func(p algorithms.TokenProb) bool { return p.Token == t }) {
			res.Signals.TopK = append(res.Signals.TopK, algorithms.TokenProb{Token: t, Prob: draw(100 + i)})
		}
	}
	if q.Logprobs >= 0 {
		res.Logprob = -draw(6)
		for i := range q.Logprobs {
			res.Top = append(res.Top, backend.TokenLogprob{Token: algorithms.Token(i), Logprob: -draw(200 + i)})
		}
	}
	return res
}

// fakeEngine is a fakeModel with KV memory: it knows of earlier tokens only what
// it was fed through the block tables, so that a wrong block, KV that is missing
// or KV of another text changes what it says.
type fakeEngine struct {
	model   fakeModel
	info    backend.Info
	slots   []uint64
	writers []int // by block: 1 + sequence of this step that writes there
	base    time.Duration
	row     time.Duration
	fails   int // step that fails, counted from 1; 0 for none
	steps   int
	calls   chan struct{}    // holds a token while Forward runs
	told    []backend.Result // by the last call
}

var errFake = errors.New("fake engine: made to fail")

func newFakeEngine(model, blocks, blockTokens int) *fakeEngine {
	e := &fakeEngine{model: fakeModel(model), slots: make([]uint64, blocks*blockTokens), writers: make([]int, blocks),
		base: 10 * time.Millisecond, row: time.Millisecond, calls: make(chan struct{}, 1)}
	e.info = backend.Info{Model: fmt.Sprintf("fake%d", model), Vocab: fakeVocab, MaxContext: 1 << 20, BlockTokens: blockTokens, Blocks: blocks,
		Signals: algorithms.NeedEntropy | algorithms.NeedMaxProb | algorithms.NeedTopK | algorithms.NeedDeferLogit | algorithms.NeedRouterScore}
	for i := range e.slots {
		e.slots[i] = uint64(i) // what memory holds before anybody writes
	}
	return e
}

func (e *fakeEngine) Info() backend.Info { return e.info }
func (e *fakeEngine) Close() error       { return nil }

func (e *fakeEngine) Forward(step *backend.Step, results []backend.Result) error {
	select {
	case e.calls <- struct{}{}:
	default:
		panic("two steps at once")
	}
	defer func() { <-e.calls }()
	if e.steps++; e.steps == e.fails {
		return errFake
	}
	if d := e.base + time.Duration(step.Rows())*e.row; d > 0 {
		time.Sleep(d)
	}
	clear(e.writers)
	for i := range e.told { // what was told is valid until now
		for j := range e.told[i].Signals.TopK {
			e.told[i].Signals.TopK[j] = algorithms.TokenProb{Token: -1}
		}
		for j := range e.told[i].Top {
			e.told[i].Top[j] = backend.TokenLogprob{Token: -1}
		}
	}
	for i := range step.Sequences {
		q := &step.Sequences[i]
		e.feed(i, q)
		if !q.Samples {
			continue
		}
		topK := 0
		if step.Needs&algorithms.NeedTopK != 0 {
			topK = step.TopK
		}
		h := chain(func(p int) uint64 { return *e.slot(q, p) }, q.Position())
		results[i] = e.model.next(h, q, q.History, topK)
	}
	e.told = append(e.told[:0], results...)
	return nil
}

func (e *fakeEngine) slot(q *backend.Sequence, position int) *uint64 {
	size := e.info.BlockTokens
	return &e.slots[int(q.Blocks[position/size])*size+position%size]
}

func (e *fakeEngine) feed(i int, q *backend.Sequence) {
	if len(q.Tokens) == 0 || len(q.Blocks)*e.info.BlockTokens < q.Position() {
		panic("a sequence without rows, or without blocks for them")
	}
	for j, t := range q.Tokens {
		p := q.Start + j
		b := q.Blocks[p/e.info.BlockTokens]
		if e.writers[b] != 0 && e.writers[b] != i+1 {
			panic("two sequences write one block")
		}
		e.writers[b] = i + 1
		*e.slot(q, p) = digest(t, p)
	}
}

// written is what a request should get.
type written struct {
	tokens  []algorithms.Token // output only
	writers []int
	tops    []backend.Result
}

// oracle is the plain one-request loop that every run must agree with.
func oracle(alg algorithms.Algorithm, r *Request) (w written) {
	ids := slices.Clone(r.Prompt)
	v := algorithms.View{Request: r.ID, Seed: r.Seed, Model: r.Home, Home: r.Home, StayStart: len(ids)}
	for len(w.tokens) < r.MaxTokens {
		topK := 0
		if alg.Needs(v.Model)&algorithms.NeedTopK != 0 {
			topK = defaultTopK
		}
		q := backend.Sequence{Tokens: ids, Seed: r.Seed, Sampling: &r.Sampling, Prompt: len(r.Prompt), Logprobs: r.Logprobs}
		res := fakeModel(v.Model).next(chain(func(p int) uint64 { return digest(ids[p], p) }, len(ids)), &q, ids, topK)
		v.Position, v.Token, v.Signals = len(ids), res.Token, res.Signals
		to := alg.Route(&v).Model()
		keep, model := true, v.Model
		if to >= 0 && to != v.Model {
			req := algorithms.PeerReq{ID: r.ID, Home: r.Home, From: v.Model, Seed: r.Seed, Extra: v.Extra}
			keep = alg.Send(algorithms.Departure{From: v.Model, To: to, Home: r.Home, Position: len(ids), Token: v.Token}, &req)
			v.Extra, v.Model, v.Hops = req.Extra, to, v.Hops+1
		}
		if keep {
			if r.Logprobs >= 0 {
				retell(&res, v.Token)
			}
			ids, w.tokens, w.writers, w.tops = append(ids, v.Token), append(w.tokens, v.Token), append(w.writers, model), append(w.tops, res)
			if slices.Contains(r.EOS, v.Token) {
				break
			}
		}
		if v.Model != model {
			v.StayStart = len(ids)
		}
	}
	return w
}
