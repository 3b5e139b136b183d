package metrics

import "math"

// Limits are what requests of a class are promised, milliseconds; 0 promises
// nothing.
type Limits struct{ TTFTMs, TPOTMs float64 }

func (l Limits) any() bool { return l.TTFTMs > 0 || l.TPOTMs > 0 }

// kept reports whether a request that ended kept them. NaN is a figure that it
// does not have, such as the TPOT of a single token.
func (l Limits) kept(ttftMs, tpotMs float64) bool {
	return !(l.TTFTMs > 0 && ttftMs > l.TTFTMs) && !(l.TPOTMs > 0 && tpotMs > l.TPOTMs)
}

// ClassSummary is what the requests of one class saw, in the units and by the
// definitions of Summary.
type ClassSummary struct {
	Requests, Aborted, Tokens    int64
	ThroughputTokPerS            float64
	GoodputReqPerS, GoodShare    float64 // NaN for a class without limits
	TTFTMs, TPOTMs, ITLMs, E2EMs Quantiles
}

// classRecord gathers one class.
type classRecord struct {
	limits                          Limits
	requests, aborted, tokens, good int64
	ttft, tpot, e2e                 sample
	itl                             histogram
}

// SetClasses says which classes there are; RequestTimes.Class counts among
// them. Without it all requests are of one class without limits.
func (r *Recorder) SetClasses(limits []Limits) {
	r.classes = make([]classRecord, len(limits))
	for i, l := range limits {
		r.classes[i].limits = l
		r.promised = r.promised || l.any()
	}
}

// classed is where a request's figures go beside the sums over all; nil if there
// is one class only.
func (r *Recorder) classed(class int) *classRecord {
	if len(r.classes) < 2 {
		return nil
	}
	return &r.classes[class]
}

// EmittedByClass records for one of several classes what EmittedBy records for
// all: n of the requests are of the class.
func (r *Recorder) EmittedByClass(class, n int, atNs, gapNs int64) {
	if c := r.classed(class); c != nil && n > 0 && atNs > r.warmupNs {
		c.itl.add(gapNs, int64(n))
		c.tokens += int64(n)
	}
}

// endedIn records the end of a request that was not aborted.
func (r *Recorder) endedIn(t *RequestTimes, e2eMs, tpotMs float64) {
	good := !r.promised || r.classes[t.Class].limits.kept(float64(t.FirstNs-t.ArrivedNs)/1e6, tpotMs)
	if good {
		r.good++
	}
	c := r.classed(t.Class)
	if c == nil {
		return
	}
	c.requests++
	if good {
		c.good++
	}
	c.e2e = append(c.e2e, e2eMs)
	if !math.IsNaN(tpotMs) {
		c.tpot = append(c.tpot, tpotMs)
	}
}

// goodput is the rate and the share of requests that kept their limits.
func goodput(promised bool, good, requests, aborted int64, windowS float64) (perS, share float64) {
	if !promised {
		return math.NaN(), math.NaN()
	}
	return float64(good) / windowS, ratio(float64(good), float64(requests+aborted))
}

func (c *classRecord) summary(windowS float64) ClassSummary {
	s := ClassSummary{
		Requests: c.requests, Aborted: c.aborted, Tokens: c.tokens, ThroughputTokPerS: float64(c.tokens) / windowS,
		TTFTMs: c.ttft.quantiles(), TPOTMs: c.tpot.quantiles(), ITLMs: c.itl.quantilesMs(), E2EMs: c.e2e.quantiles(),
	}
	s.GoodputReqPerS, s.GoodShare = goodput(c.limits.any(), c.good, c.requests, c.aborted, windowS)
	return s
}

// CountGPUs works out what the tokens cost on that many GPUs.
func (s *Summary) CountGPUs(gpus int) {
	s.GPUSecondsPer1kTok = float64(gpus) * 1000 / s.ThroughputTokPerS
	if s.ThroughputTokPerS == 0 {
		s.GPUSecondsPer1kTok = math.NaN()
	}
}
