package metrics

import "math"

// Recorder takes in what happens, in order of time, and sums it up. Only what
// falls in the window that begins at the end of warm-up counts.
type Recorder struct {
	warmupNs int64
	models   []modelRecord

	ttft, tpot, e2e, perUser sample
	itl                      histogram
	slices                   batchMeans
	requests, aborted        int64
	tokens                   int64
	written                  []int64 // visible tokens by the model that wrote them
	waitedNs                 [Causes]int64

	classes  []classRecord // nil: one without limits
	promised bool          // some class has limits
	good     int64         // requests that kept theirs
}

type modelRecord struct {
	steps, requests, rows int64
	busyNs                int64
	thresholds            int64
}

// RequestTimes is what a recorder keeps of a request that has not ended: the
// driver holds it beside the request.
type RequestTimes struct {
	ArrivedNs int64
	FirstNs   int64
	LastNs    int64
	Tokens    int64
	Class     int
}

// NewRecorder returns a recorder for that many models.
func NewRecorder(models int, warmupNs int64) *Recorder {
	return &Recorder{
		warmupNs: warmupNs, models: make([]modelRecord, models), written: make([]int64, models),
		slices: newBatchMeans(warmupNs),
	}
}

// Emitted records n tokens of a request, written by one model and shown to
// the client at one instant.
func (r *Recorder) Emitted(t *RequestTimes, atNs int64, n int64, writer int) {
	counts := atNs > r.warmupNs
	class := r.classed(t.Class)
	if t.Tokens == 0 {
		t.FirstNs = atNs
		if counts {
			ttftMs := float64(atNs-t.ArrivedNs) / 1e6
			r.ttft = append(r.ttft, ttftMs)
			if class != nil {
				class.ttft = append(class.ttft, ttftMs)
			}
		}
	} else if counts {
		r.itl.add(atNs-t.LastNs, 1)
		if class != nil {
			class.itl.add(atNs-t.LastNs, 1)
		}
	}
	t.LastNs = atNs
	t.Tokens += n
	if !counts {
		return
	}
	if n > 1 {
		r.itl.add(0, n-1)
	}
	if class != nil {
		class.tokens += n
		if n > 1 {
			class.itl.add(0, n-1)
		}
	}
	r.tokens += n
	r.written[writer] += n
	r.slices.add(atNs, n)
}

// EmittedBy records that each of n requests got one token at one instant, gapNs
// after its last; Skip moves their times on.
func (r *Recorder) EmittedBy(n int, atNs, gapNs int64, writer int) {
	if atNs <= r.warmupNs {
		return
	}
	r.itl.add(gapNs, int64(n))
	r.tokens += int64(n)
	r.written[writer] += int64(n)
	r.slices.add(atNs, int64(n))
}

// Skip moves a request's times past n tokens that EmittedBy records, the last
// of them at lastNs.
func (r *Recorder) Skip(t *RequestTimes, lastNs, n int64) {
	t.LastNs = lastNs
	t.Tokens += n
}

// Ended records the end of a request, at least one token of which was shown
// unless it was aborted.
func (r *Recorder) Ended(t *RequestTimes, atNs int64, aborted bool) {
	switch {
	case atNs <= r.warmupNs:
	case aborted:
		r.aborted++
		if c := r.classed(t.Class); c != nil {
			c.aborted++
		}
	default:
		r.requests++
		e2e := float64(atNs-t.ArrivedNs) / 1e6
		r.e2e = append(r.e2e, e2e)
		r.perUser = append(r.perUser, float64(t.Tokens)/e2e*1e3)
		tpot := math.NaN()
		if t.Tokens > 1 {
			tpot = float64(atNs-t.FirstNs) / 1e6 / float64(t.Tokens-1)
			r.tpot = append(r.tpot, tpot)
		}
		r.endedIn(t, e2e, tpot)
	}
}

// Ran records a step.
func (r *Recorder) Ran(model int, startNs, endNs int64, requests, rows, threshold int) {
	if endNs <= r.warmupNs {
		return
	}
	m := &r.models[model]
	m.steps++
	m.requests += int64(requests)
	m.rows += int64(rows)
	m.busyNs += endNs - max(startNs, r.warmupNs)
	m.thresholds += int64(threshold)
}

// Waited records that a request waited for a cause, until atNs.
func (r *Recorder) Waited(cause Cause, ns, atNs int64) {
	if atNs > r.warmupNs {
		r.waitedNs[cause] += ns
	}
}

// Summary sums up at the end of the run. stillBusyNs is, per model, the part
// of the window that a step which has not ended was in flight. users is the
// number of users of a steady workload, whose requests never end, else 0.
func (r *Recorder) Summary(endNs int64, stillBusyNs []int64, users int) Summary {
	windowS := float64(endNs-r.warmupNs) / 1e9
	if windowS <= 0 {
		windowS = math.NaN() // it ended before warm-up did: nothing was observed
	}
	s := Summary{
		WindowS: windowS, Requests: r.requests, Aborted: r.aborted, Tokens: r.tokens,
		ThroughputTokPerS: float64(r.tokens) / windowS, ThroughputRelSE: r.slices.relSE(endNs),
		PerUserTokPerS: r.perUser.quantiles().Mean,
		TTFTMs:         r.ttft.quantiles(), TPOTMs: r.tpot.quantiles(),
		ITLMs: r.itl.quantilesMs(), E2EMs: r.e2e.quantiles(),
		GPUSecondsPer1kTok: math.NaN(),
	}
	s.GoodputReqPerS, s.GoodShare = goodput(r.promised, r.good, r.requests, r.aborted, windowS)
	if len(r.classes) > 1 {
		for i := range r.classes {
			s.Classes = append(s.Classes, r.classes[i].summary(windowS))
		}
	}
	if users > 0 {
		s.PerUserTokPerS = s.ThroughputTokPerS / float64(users)
		s.TPOTMs.Mean = 1e3 / s.PerUserTokPerS // no request ends, so the mean is over tokens
	}
	for i := range r.models {
		m := &r.models[i]
		steps := float64(m.steps)
		s.Steps = append(s.Steps, m.steps)
		s.MeanBatch = append(s.MeanBatch, ratio(float64(m.requests), steps))
		s.MeanRows = append(s.MeanRows, ratio(float64(m.rows), steps))
		s.BInForce = append(s.BInForce, ratio(float64(m.thresholds), steps))
		s.Utilisation = append(s.Utilisation, float64(m.busyNs+stillBusyNs[i])/1e9/windowS)
		s.TokenShare = append(s.TokenShare, ratio(float64(r.written[i]), float64(r.tokens)))
	}
	for c := range r.waitedNs {
		s.WaitingMs[c] = ratio(float64(r.waitedNs[c])/1e6, float64(r.tokens))
	}
	return s
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}
