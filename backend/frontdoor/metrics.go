package frontdoor

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tokenrouter/tokenrouter/backend/frontdoor/page"
)

// Buckets of histograms, in seconds: those of the two servers, so that their
// dashboards fit.
var (
	ttftBuckets = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	tpotBuckets = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	e2eBuckets  = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}

	sglangTTFTBuckets = []float64{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}
	sglangE2EBuckets  = []float64{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400}
	sglangITLBuckets  = []float64{.002, .004, .006, .008, .01, .015, .02, .025, .03, .035, .04, .06, .08, .1, .2, .4, .6, .8, 1, 2, 4, 6, 8}

	nBuckets = []float64{1, 2, 5, 10, 20}
)

// oneTwoFive are the bounds 1, 2, 5, 10 … up to most.
func oneTwoFive(most int) []float64 {
	var bounds []float64
	for scale := 1; ; scale *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*scale > most {
				return bounds
			}
			bounds = append(bounds, float64(m*scale))
		}
	}
}

// metrics count what the door has served, by the name that clients asked for.
// The routed models together are a name too; gauges of single models come from
// the service when somebody looks.
type metrics struct {
	house *House

	mu    sync.Mutex
	names []*served
	// writers count tokens by the model that wrote them; they add up to the
	// tokens of all names.
	writers []writer
	// What the page shows of the last seconds.
	ttftLately, itlLately page.Recent
}

// served is what was served under one name.
type served struct {
	name             string
	engine           string
	waiting, running int
	promptTokens     float64
	tokens           float64
	rate             rate
	finished         [3]float64 // as in reasons

	ttft, itl, tpot, e2e, decode, inference *histogram
	sizePrompt, sizeTokens, sizeMax, n      *histogram
	sglangTTFT, sglangITL, sglangE2E        *histogram
}

var reasons = [3]string{finishStop, finishLength, finishAbort}

type writer struct {
	tokens float64
	routed float64 // those in answers of all models together
	rate   rate
}

func newMetrics(h *House) *metrics {
	m := &metrics{house: h, writers: make([]writer, len(h.Models))}
	sizes := oneTwoFive(h.Context)
	for i, name := range h.Served() {
		s := &served{name: name, engine: decimal(i), n: newHistogram(nBuckets)}
		for _, f := range []struct {
			to     []**histogram
			bounds []float64
		}{
			{[]**histogram{&s.ttft}, ttftBuckets},
			{[]**histogram{&s.itl, &s.tpot}, tpotBuckets},
			{[]**histogram{&s.e2e, &s.decode, &s.inference}, e2eBuckets},
			{[]**histogram{&s.sizePrompt, &s.sizeTokens, &s.sizeMax}, sizes},
			{[]**histogram{&s.sglangTTFT}, sglangTTFTBuckets},
			{[]**histogram{&s.sglangITL}, sglangITLBuckets},
			{[]**histogram{&s.sglangE2E}, sglangE2EBuckets},
		} {
			for _, to := range f.to {
				*to = newHistogram(f.bounds)
			}
		}
		m.names = append(m.names, s)
	}
	return m
}

// tally counts one ask.
type tally struct {
	m       *metrics
	s       *served
	choices []*choice
	start   time.Time
	refused bool // answers without a token do not count
}

// refuse tells that the service did not take the ask, if that is what went
// wrong: then it has not begun.
func (t *tally) refuse(err error) {
	var e *Error
	t.refused = errors.As(err, &e) && e != errShutdown
}

// begin notes an ask whose choices are about to be submitted.
func (m *metrics) begin(a *ask, choices []*choice) *tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.names, func(s *served) bool { return s.name == a.name })
	t := &tally{m: m, s: m.names[i], choices: choices, start: time.Unix(0, a.startNs)}
	t.s.waiting += len(choices)
	t.s.n.observe(float64(a.n))
	return t
}

// hear notes what a choice has told.
func (t *tally) hear(n *news) {
	now := time.Now()
	m, s, c := t.m, t.s, n.choice
	m.mu.Lock()
	defer m.mu.Unlock()
	if n.err != nil {
		t.over(c, now)
		return
	}
	k := len(n.chunk.Tokens)
	if k == 0 {
		return
	}
	s.tokens += float64(k)
	s.rate.add(now, k)
	m.writers[n.chunk.Writer].tokens += float64(k)
	m.writers[n.chunk.Writer].rate.add(now, k)
	if c.request.Model == Routed {
		m.writers[n.chunk.Writer].routed += float64(k)
	}
	if c.first.IsZero() {
		c.first = now
		s.waiting--
		s.running++
		if c.index%c.ask.n == 0 { // each prompt counts once
			s.promptTokens += float64(len(c.request.Prompt))
		}
		m.ttftLately.Add(now, now.Sub(t.start), 1)
		s.ttft.observe(now.Sub(t.start).Seconds())
		s.sglangTTFT.observe(now.Sub(t.start).Seconds())
		k--
	}
	// Tokens that came at once share the time since the last ones.
	if k > 0 && !c.last.IsZero() {
		each := now.Sub(c.last).Seconds() / float64(k)
		m.itlLately.Add(now, now.Sub(c.last)/time.Duration(k), k)
		for range k {
			s.itl.observe(each)
			s.sglangITL.observe(each)
		}
	} else {
		m.itlLately.Add(now, 0, k)
		for range k {
			s.itl.observe(0)
			s.sglangITL.observe(0)
		}
	}
	c.last = now
}

// over counts a choice that has ended.
func (t *tally) over(c *choice, now time.Time) {
	s := t.s
	c.counted = true
	if c.first.IsZero() {
		s.waiting--
	} else {
		s.running--
	}
	s.finished[max(0, slices.Index(reasons[:], c.finish))]++
	if c.finish == finishAbort {
		return
	}
	e2e := now.Sub(t.start).Seconds()
	s.e2e.observe(e2e)
	s.sglangE2E.observe(e2e)
	s.inference.observe(e2e)
	s.sizePrompt.observe(float64(len(c.request.Prompt)))
	s.sizeTokens.observe(float64(len(c.tokens)))
	s.sizeMax.observe(float64(c.request.MaxTokens))
	if c.first.IsZero() {
		return
	}
	decode := c.last.Sub(c.first).Seconds()
	s.decode.observe(decode)
	if n := len(c.tokens); n > 1 {
		s.tpot.observe(decode / float64(n-1))
	}
}

// end notes that the ask is over: choices that have not ended were broken off.
func (t *tally) end() {
	now := time.Now()
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	for _, c := range t.choices {
		switch {
		case c.counted:
		case t.refused && c.first.IsZero():
			t.s.waiting--
		default:
			c.finish = finishAbort
			t.over(c, now)
		}
	}
}

// rate counts by the second what came in the last ones.
type rate struct {
	seconds [rateSeconds]int
	last    int64 // second of the last count
}

const rateSeconds = 11 // ten that are over, and the present one

func (r *rate) advance(now time.Time) {
	s := now.Unix()
	for ; r.last < s; r.last++ {
		if s-r.last > rateSeconds {
			r.last = s - rateSeconds
		}
		r.seconds[(r.last+1)%rateSeconds] = 0
	}
}

func (r *rate) add(now time.Time, n int) {
	r.advance(now)
	r.seconds[r.last%rateSeconds] += n
}

// perSecond is the mean of the seconds that are over, as far back as something
// came without a second of silence.
func (r *rate) perSecond(now time.Time) float64 {
	r.advance(now)
	sum, n := 0, 0
	for i := r.last - 1; n < rateSeconds-1; i-- {
		k := r.seconds[(i%rateSeconds+rateSeconds)%rateSeconds]
		if k == 0 {
			break
		}
		sum, n = sum+k, n+1
	}
	return float64(sum) / float64(max(n, 1))
}
