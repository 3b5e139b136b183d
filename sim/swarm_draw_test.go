package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/workload"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// trial is one run of the swarm: all of it is drawn from the seed.
type trial struct {
	seed  uint64
	cfg   Config
	words []due // aborts, stops and drains from outside
	// transitNs is the longest hand-off, drawn anew for each instant and pair
	// of models; 0 is none.
	transitNs int64
	lengths   bool // the client's max_tokens may end a request before its eos
	plan      string
}

// swarmTime is base + per request + per row + context/64 ticks. Ticks are few,
// so that many things happen at one instant.
type swarmTime struct{ base, request, row int64 }

func (s swarmTime) Ns(requests, rows, context int) int64 {
	return s.base + s.request*int64(requests) + s.row*int64(rows) + int64(context/64)
}

func draw(seed uint64) *trial {
	rng := rand.New(rand.NewPCG(seed, 0x5a11))
	models := 1 + rng.IntN(3)
	// Some trials are nothing but requests that wander between three models on
	// slow ways while their clients leave.
	wander := rng.IntN(5) == 0
	if wander {
		models = 3
	}
	t := &trial{seed: seed, lengths: rng.IntN(3) == 0}
	prompt := 1 + rng.IntN(24)
	t.cfg = Config{Seed: seed, Algorithm: drawAlgorithm(rng, models, prompt), Rule: drawRule(rng)}
	t.cfg.Models = drawModels(rng, models)
	t.cfg.Thresholds = drawThresholds(rng, models)
	if rng.IntN(3) == 0 {
		t.cfg.QueueLimit = 1 + rng.IntN(4)
	}
	switch rng.IntN(3) {
	case 1:
		t.cfg.HandoffNs = 1 + rng.Int64N(6)
	case 2:
		t.transitNs = 1 + rng.Int64N(40)
	}
	if rng.IntN(4) == 0 {
		t.cfg.Workload = Workload{Kind: Closed, Home: rng.IntN(models), Users: 1 + rng.IntN(6),
			PromptMin: prompt, PromptMax: prompt, OutputMin: 1 + rng.IntN(4)}
		t.cfg.Workload.OutputMax = t.cfg.Workload.OutputMin + rng.IntN(20)
		t.cfg.Workload.Requests = t.cfg.Workload.Users + rng.IntN(12)
	} else {
		t.cfg.Workload = drawList(rng, models, prompt)
	}
	if rng.IntN(5) == 0 {
		t.cfg.Workload = drawOpen(rng, t.cfg.Workload.Home, prompt)
	}
	chance := rng.IntN(3) // of 8, that a client leaves
	if wander {
		t.cfg.HandoffNs, t.transitNs, chance = 0, 200, 6
		t.cfg.Algorithm = drawWanderer(rng)
	}
	t.drawWords(rng, chance)
	t.plan = fmt.Sprintf("%d models, %s, %v, B %v, handoff %d..%d", models, t.cfg.Algorithm.Name(), t.cfg.Rule,
		t.cfg.Thresholds[0], t.cfg.HandoffNs, t.transitNs)
	return t
}

func drawRule(rng *rand.Rand) scheduler.Rule {
	switch rng.IntN(6) {
	case 0:
		return scheduler.Eager{}
	case 1:
		return scheduler.Alternate{}
	case 2:
		return scheduler.Lockstep{}
	case 3:
		return scheduler.Delayed{MaxDelayNs: 1 + rng.Int64N(50)}
	}
	return scheduler.Delayed{}
}

func drawModels(rng *rand.Rand, n int) []Model {
	models := make([]Model, n)
	for i := range models {
		running, block := 1+rng.IntN(6), 1+rng.IntN(8)
		kv := 1000
		if rng.IntN(3) > 0 {
			kv = 12 + rng.IntN(100)
		}
		models[i] = Model{
			Name: fmt.Sprint("m", i), Time: swarmTime{1 + rng.Int64N(8), rng.Int64N(2), rng.Int64N(2)},
			MaxRunning: running, ChunkTokens: running + 1 + rng.IntN(20), KVTokens: max(kv, block), BlockTokens: block,
		}
	}
	return models
}

// drawThresholds is often absurd: a B that no load can reach.
func drawThresholds(rng *rand.Rand, models int) scheduler.Thresholds {
	rows := make(scheduler.Thresholds, 1+rng.IntN(3))
	for i := range rows {
		for range models {
			b := 1 + rng.IntN(4)
			if rng.IntN(4) == 0 {
				b = 1 << rng.IntN(20)
			}
			rows[i] = append(rows[i], b)
		}
	}
	return rows
}

func drawAlgorithm(rng *rand.Rand, models, prompt int) algorithms.Algorithm {
	must := func(a algorithms.Algorithm, err error) algorithms.Algorithm {
		if err != nil {
			panic(err)
		}
		return a
	}
	kind := rng.IntN(7)
	if models == 1 && kind > 1 {
		return algorithms.Never{}
	}
	switch kind {
	case 0:
		return algorithms.Ensemble{Weights: drawShares(rng, models, -1)}
	case 1:
		return algorithms.Fusion{Weights: drawShares(rng, models, -1)}
	case 2:
		gaps := algorithms.Gaps{Mean: 3, CV: 1, Lag1: 0.1}
		return must(algorithms.NewBursty(algorithms.Pair{Small: 0, Large: models - 1}, gaps, 0.5, rng.IntN(2) == 0, models))
	case 3:
		return must(algorithms.NewScript(drawScripts(rng, models), algorithms.Pair{Small: 0, Large: models - 1}, models, prompt))
	}
	kept := rng.IntN(2) == 0
	rows := make([][]float64, models)
	for i := range rows {
		rows[i] = drawShares(rng, models, i)
	}
	m, err := algorithms.NewMatrix(rows, kept)
	must(m, err)
	if kind > 4 {
		return m
	}
	// A visit must leave a token behind: its own, or the one at the hand-off.
	least := 1
	if kept {
		least = rng.IntN(2)
	}
	return &picky{inner: m, least: least}
}

// drawWanderer hands a request on after every token or two, to peers as well.
func drawWanderer(rng *rand.Rand) algorithms.Algorithm {
	stay := []float64{0, 0.3}[rng.IntN(2)]
	rows := [][]float64{{0, 1, 1}, {1, 0, 3}, {1, 3, 0}}
	for i := range rows {
		sum := rows[i][0] + rows[i][1] + rows[i][2]
		for j := range rows[i] {
			rows[i][j] *= (1 - stay) / sum
		}
		rows[i][i] = stay
	}
	m, err := algorithms.NewMatrix(rows, rng.IntN(2) == 0)
	if err != nil {
		panic(err)
	}
	if rng.IntN(2) == 0 {
		return m
	}
	return &picky{inner: m, least: 1}
}

// drawShares sums to 1; self may get it all, or nothing.
func drawShares(rng *rand.Rand, n, self int) []float64 {
	w, sum := make([]float64, n), 0.0
	for i := range w {
		w[i] = float64(rng.IntN(5))
		if i == self {
			w[i] = float64([]int{0, 1, 5, 20}[rng.IntN(4)])
		}
		sum += w[i]
	}
	if sum == 0 {
		w[rng.IntN(n)], sum = 1, 1
	}
	for i := range w {
		w[i] /= sum
	}
	return w
}

func drawScripts(rng *rand.Rand, models int) []string {
	scripts := make([]string, 1+rng.IntN(4))
	for i := range scripts {
		for range 1 + rng.IntN(12) {
			scripts[i] += string(rune('0' + rng.IntN(models)))
		}
	}
	return scripts
}

// drawList lets requests arrive in bursts; some share their seed, and so their
// prompt and all their tokens.
func drawList(rng *rand.Rand, models, prompt int) Workload {
	w := Workload{Kind: Listed}
	at, seeds := int64(0), 1+rng.IntN(20)
	for range 1 + rng.IntN(24) {
		if rng.IntN(3) == 0 {
			at += rng.Int64N(60)
		}
		w.List = append(w.List, Request{ArrivalNs: at, Home: rng.IntN(models), PromptTokens: prompt,
			OutputTokens: 1 + rng.IntN(24), Seed: uint64(rng.IntN(seeds))})
	}
	return w
}

// drawOpen lets requests stream in, some at one instant.
func drawOpen(rng *rand.Rand, home, prompt int) Workload {
	shape := workload.Lengths{Prompt: workload.Fixed(prompt), Output: workload.Uniform(1, 1+rng.IntN(24))}
	w := Workload{Kind: Open, Home: home, Requests: 1 + rng.IntN(24), Mix: &workload.Mix{
		Classes: []workload.Class{{Share: 1, Lengths: shape}, {Share: rng.Float64(), Lengths: shape}},
		Prefix:  workload.Prefix{Share: rng.Float64(), Distinct: 1 + rng.IntN(3), Tokens: 1 + rng.IntN(prompt)},
	}}
	rate := 1e9 / (1 + 30*rng.Float64())
	switch rng.IntN(3) {
	case 0:
		w.Arrivals = workload.Arrivals{Process: workload.Poisson, RatePerS: rate}
	case 1:
		w.Arrivals = workload.Arrivals{Process: workload.Bursty, RatePerS: rate, CV: 2, BurstRequests: 2.5 + 3*rng.Float64()}
	default:
		tr := &workload.Trace{}
		at := int64(0)
		for range 1 + rng.IntN(9) {
			tr.ArrivedNs, tr.Prompt, tr.Output = append(tr.ArrivedNs, at), append(tr.Prompt, int32(prompt)), append(tr.Output, int32(1+rng.IntN(24)))
			at += rng.Int64N(2) * rng.Int64N(60)
		}
		w.Arrivals = workload.Arrivals{Process: workload.Recorded, Trace: tr, Repeat: 1 + rng.IntN(4)}
	}
	return w
}

func (t *trial) drawWords(rng *rand.Rand, chance int) {
	say := func(model int, kind scheduler.EventKind, id scheduler.RequestID, at int64) {
		t.words = append(t.words, due{model: model, from: outside,
			event: scheduler.Event{Kind: kind, AtNs: at, Request: id}})
	}
	w := &t.cfg.Workload
	requests := max(len(w.List), w.Requests)
	for i := range requests {
		if rng.IntN(8) >= chance {
			continue
		}
		home, at := w.Home, rng.Int64N(300)
		if w.Kind == Listed {
			home, at = w.List[i].Home, w.List[i].ArrivalNs+rng.Int64N(1<<(1+rng.IntN(9)))
		}
		kinds := [][]scheduler.EventKind{{scheduler.Aborted}, {scheduler.Stop}, {scheduler.Aborted, scheduler.Stop}}
		for _, kind := range kinds[rng.IntN(len(kinds))] {
			say(home, kind, scheduler.RequestID(i+1), at)
		}
	}
	if rng.IntN(6) == 0 {
		say(rng.IntN(len(t.cfg.Models)), scheduler.Drain, 0, rng.Int64N(200))
	}
}

// picky accepts only the first tokens of a visit: how many depends on seed and
// position. It shows what a Receive of one's own must not break.
type picky struct {
	inner *algorithms.Matrix
	least int
}

func (p *picky) Name() string                                   { return "picky" }
func (p *picky) Needs(int) algorithms.Need                      { return 0 }
func (p *picky) Route(v *algorithms.View) algorithms.Dest       { return p.inner.Route(v) }
func (p *picky) Stay(v *algorithms.View) (int, algorithms.Dest) { return p.inner.Stay(v) }
func (p *picky) Send(d algorithms.Departure, req *algorithms.PeerReq) bool {
	return p.inner.Send(d, req)
}
func (p *picky) Receive(req *algorithms.PeerReq) []algorithms.Token {
	return req.Suffix[:p.accept(req.Seed, req.Start, len(req.Suffix))]
}
func (p *picky) accept(seed uint64, start, n int) int {
	return min(n, p.least+int(algorithms.Bits(seed, start, 0xacce)%uint64(n+1)))
}
