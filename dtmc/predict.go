package dtmc

import (
	"fmt"
	"math"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Prediction is what the chain says of a steady system. Slices are indexed by
// model.
type Prediction struct {
	ThroughputTokPerS float64 // visible output tokens per second
	PerUserTokPerS    float64 // the same over Users
	MeanTPOTMs        float64 // milliseconds per visible token of one user

	MeanBatch   []float64 // requests per step; NaN for a model that never steps
	MeanRows    []float64 // rows per step; NaN for a model that never steps
	Utilisation []float64 // share of time with a step in flight
	TokenShare  []float64 // share of the visible tokens
	StepsPerS   []float64 // steps that end, per second

	// The time that requests spend waiting, milliseconds per visible token: for
	// the step in flight, for the threshold, for another model (rules that take
	// turns).
	WaitingStepMs, WaitingThresholdMs, WaitingPeerMs float64

	RowsPerRequest []float64 // mean rows of one request's step, r(i); 1 if never visited
	ContextTokens  int       // context of every request

	// PrefillRows are the rows with which first visits of one request read its
	// prompt and, away from home, what is written by then: added to the steps of
	// a closed system; 0 in a steady one.
	PrefillRows []float64

	// Added says in sentences what a closed system adds to the steady one, and
	// what else is more than the matrix and the step times; empty if nothing is.
	Added []string

	BInForce   []int     // thresholds after Clamp, whether or not the rule reads them
	DurationNs [][]int64 // mean step time by model and batch; [0] unused; shared, not to be written
	QuantumNs  int64

	States, Transitions int     // of the recurrent part that was solved
	Method              string  // "gth", "gauss-seidel" or "gauss-seidel+gmres"
	Iterations          int     // sweeps; 0 for gth
	StartGap            float64 // relative difference of the two starts' throughputs
	Residual            float64 // |πP - π|₁
}

// Predict solves the chain of cfg. Errors: NotApplicable, ErrTooLarge and
// ErrSlowMixing (use errors.As and errors.Is), or a mistake in cfg.
func Predict(cfg Config) (*Prediction, error) {
	p, err := newPredictor(&cfg)
	if err != nil {
		return nil, err
	}
	return p.predict(cfg.inForce(nil))
}

// predictor solves one system for any number of threshold vectors, reusing what
// does not depend on them.
type predictor struct {
	cfg        *Config
	visits     visits
	durations  *durations
	chain      chain
	flow       flow
	solver     solver
	components components
	classFlow  flow // scratch for further closed classes
}

func newPredictor(cfg *Config) (*predictor, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := &predictor{cfg: cfg, visits: newVisits(cfg)}
	var err error
	if p.durations, err = newDurations(cfg, &p.visits); err != nil {
		return nil, err
	}
	if err := p.durations.checkHandoff(cfg, p.visits.moves); err != nil {
		return nil, err
	}
	quantumNs := cfg.QuantumNs
	if quantumNs == 0 {
		if quantumNs, err = p.chooseQuantum(); err != nil {
			return nil, err
		}
	} else if least := p.durations.shortest(); quantumNs > least {
		return nil, fmt.Errorf("dtmc: QuantumNs is %d but the shortest step takes %d ns: want at most that, or 0", quantumNs, least)
	}
	return p, p.setQuantum(quantumNs)
}

// setQuantum prepares the chain for explorations in that unit of time.
func (p *predictor) setQuantum(quantumNs int64) error {
	k := len(p.cfg.Models)
	c := &p.chain
	c.home, c.users, c.rule = p.cfg.Home, p.cfg.Users, p.cfg.Rule
	c.turns = c.rule.NeedsPeers()
	c.maxStates = p.cfg.MaxStates
	if c.maxStates == 0 {
		c.maxStates = defaultMaxStates
	}
	c.maxTransitions = min(transitionsPerState*c.maxStates, math.MaxInt32) // flow counts them in 32 bits
	c.peers = make([]scheduler.PeerLoad, k)
	c.maxBatch = make([]int, k)
	for m := range k {
		c.maxBatch[m] = p.cfg.maxBatch(m)
	}
	c.quanta = newQuanta(p.durations, quantumNs, p.cfg.Closed)
	c.toldApart = p.durations.toldApart
	c.stretch = stretches(p.cfg.Interference)
	c.transit = newTransit(p.cfg, p.visits.moves, quantumNs)
	var err error
	if c.layout, err = newLayout(k, c.users, c.quanta.largest, c.turns, c.toldApart, c.transit); err != nil {
		return err
	}
	c.splits = newSplits(&c.layout, p.visits.moves, c.maxBatch, c.users, c.toldApart)
	return nil
}

// farthest is the model at which the second start puts every request: of those
// that requests keep visiting, other than home, the one with the longest steps.
func (p *predictor) farthest() int {
	far := p.cfg.Home
	for m, share := range p.visits.share {
		if m != p.cfg.Home && share > 0 && (far == p.cfg.Home || p.chain.quanta.largest[m] > p.chain.quanta.largest[far]) {
			far = m
		}
	}
	return far
}

func (p *predictor) predict(inForce []int) (*Prediction, error) {
	sol, err := p.stationary(inForce)
	if err != nil {
		return nil, err
	}
	return p.describe(&sol), nil
}

// stationary explores and solves for one threshold vector. The solution belongs
// to p.flow.
func (p *predictor) stationary(inForce []int) (solution, error) {
	if err := p.arrange(inForce); err != nil {
		return solution{}, err
	}
	return p.solver.solve(&p.flow)
}

// arrange explores for one threshold vector and puts the recurrent states into
// p.flow.
func (p *predictor) arrange(inForce []int) error {
	c := &p.chain
	c.inForce = append(c.inForce[:0], inForce...)
	if !c.turns {
		c.decideOnce()
	}
	if err := c.explore(p.farthest()); err != nil {
		return err
	}
	classes := p.components.find(c)
	if len(classes) > 1 {
		if err := p.compareClasses(classes); err != nil {
			return err
		}
	}
	p.flow.arrange(c, classes[0], &p.visits)
	return nil
}

// compareClasses refuses a system that never forgets its start, as happens when
// every move is certain, unless all its closed classes give one throughput.
func (p *predictor) compareClasses(classes [][]int32) error {
	low, high := math.Inf(1), math.Inf(-1)
	for _, class := range classes {
		p.classFlow.arrange(&p.chain, class, &p.visits)
		sol, err := p.solver.solve(&p.classFlow)
		if err != nil {
			return err
		}
		tokens, quanta := 0.0, 0.0
		for i, x := range sol.pi {
			tokens += x * p.classFlow.tokens[i]
			quanta += x * p.classFlow.quanta[i]
		}
		low, high = min(low, tokens/quanta), max(high, tokens/quanta)
	}
	if gap := high/low - 1; !(gap <= acceptedGap) {
		return fmt.Errorf("dtmc: %w: it never forgets its start: %d closed classes of states, whose throughputs differ by up to %.1e (want %.0e)",
			ErrSlowMixing, len(classes), gap, acceptedGap)
	}
	return nil
}

// describe turns the solution of p.flow into figures.
func (p *predictor) describe(sol *solution) *Prediction {
	f, c := &p.flow, &p.chain
	l, k := &c.layout, len(p.cfg.Models)
	steps, batch, busy := make([]float64, k), make([]float64, k), make([]float64, k)
	var tokens, quanta, forStep, forThreshold, forPeer float64
	for i, x := range sol.pi {
		key, dt := f.keys[i], f.quanta[i]
		next := c.ahead(key)
		tokens += x * f.tokens[i]
		quanta += x * dt
		for m := range k {
			waited := x * dt * float64(l.waiting[m].get(key))
			b := l.inFlight[m].get(key)
			switch {
			case b > 0:
				forStep += waited
				busy[m] += x * dt
				ended := x * next.left[m].ends()
				steps[m] += ended
				batch[m] += ended * float64(b)
			case c.turns:
				forPeer += waited
			default:
				forThreshold += waited
			}
		}
	}
	seconds := quanta * float64(c.quanta.quantumNs) / 1e9
	perToken := float64(c.quanta.quantumNs) / 1e6 / tokens
	out := &Prediction{
		ThroughputTokPerS:  tokens / seconds,
		PerUserTokPerS:     tokens / seconds / float64(c.users),
		MeanTPOTMs:         1e3 * float64(c.users) * seconds / tokens,
		WaitingStepMs:      forStep * perToken,
		WaitingThresholdMs: forThreshold * perToken,
		WaitingPeerMs:      forPeer * perToken,
		RowsPerRequest:     append([]float64(nil), p.visits.rows...),
		PrefillRows:        append([]float64(nil), p.visits.prefill...),
		Added:              p.added(),
		ContextTokens:      p.cfg.contextTokens(),
		BInForce:           append([]int(nil), c.inForce...),
		DurationNs:         p.durations.mean,
		QuantumNs:          c.quanta.quantumNs,
		States:             len(f.keys),
		Transitions:        len(f.col),
		Method:             sol.method,
		Iterations:         sol.sweeps,
		StartGap:           sol.startGap,
		Residual:           sol.residual,
	}
	for m := range k {
		out.MeanBatch = append(out.MeanBatch, batch[m]/steps[m])
		out.MeanRows = append(out.MeanRows, batch[m]/steps[m]*p.visits.rows[m])
		out.Utilisation = append(out.Utilisation, busy[m]/quanta)
		out.TokenShare = append(out.TokenShare, batch[m]*p.visits.tokens[m]/tokens)
		out.StepsPerS = append(out.StepsPerS, steps[m]/seconds)
	}
	return out
}

func (p *predictor) added() (out []string) {
	c := p.cfg
	if c.Closed {
		out = append(out, fmt.Sprintf("every visible token ends its request with probability 1 / %d, and the next one comes to %s", c.OutputTokens, c.names([][]int{{c.Home}})))
		for m, rows := range p.visits.prefill {
			if rows > 0 {
				out = append(out, fmt.Sprintf("prefill: first visits to %s feed %.1f rows a request, spread over all of its steps there", c.names([][]int{{m}}), rows))
			}
		}
	}
	if c.HandoffNs > 0 {
		out = append(out, fmt.Sprintf("hand-offs are under way for %d ns", c.HandoffNs))
	}
	if p.chain.stretch != nil {
		out = append(out, "steps stretch while those of other models overlap them")
	}
	return out
}
