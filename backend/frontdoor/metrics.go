package frontdoor

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tokenrouter/tokenrouter/backend/frontdoor/page"
)

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
	alive   alive
	// What the page shows of the last seconds.
	ttftLately, itlLately page.Recent
}

// served is what was served under one name.
type served struct {
	name             string
	engine           string
	waiting, running int
	promptTokens     float64
	prefix           prefix
	lostKV           float64 // times that answers lost their KV
	tokens           float64
	rate             rate
	finished         [3]float64 // as in reasons

	hists [len(families)]*histogram
	by    [measures][]*histogram // the same, by what they are of
}

// prefix counts tokens of prompts that may have been there already, and those that
// were.
type prefix struct{ asked, cached float64 }

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
		s := &served{name: name, engine: decimal(i)}
		for f := range families {
			bounds := families[f].bounds
			if bounds == nil {
				bounds = sizes
			}
			s.hists[f] = newHistogram(bounds)
			of := families[f].of
			s.by[of] = append(s.by[of], s.hists[f])
		}
		m.names = append(m.names, s)
	}
	return m
}

// observe notes a value, which clocks read at two places may have made negative.
func (s *served) observe(of measure, x float64) {
	for _, h := range s.by[of] {
		h.observe(max(x, 0))
	}
}

// tally counts one ask.
type tally struct {
	m         *metrics
	s         *served
	choices   []*choice
	prompts   []promptTally
	start     time.Time // when it came
	submitted time.Time // when it was handed over
	refused   bool      // answers without a token do not count
}

// promptTally is how far the answers to one prompt are.
type promptTally struct {
	left    int // that have not ended well
	longest int // tokens of one
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
	t := &tally{m: m, s: m.names[i], choices: choices, start: time.Unix(0, a.startNs), submitted: time.Now()}
	for range a.prompts {
		t.prompts = append(t.prompts, promptTally{left: a.n})
	}
	t.s.waiting += len(choices)
	m.alive.change(t.submitted, len(choices))
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
		s.observe(firstToken, now.Sub(t.start).Seconds())
		k--
	}
	// Tokens that came at once share the time since the last ones.
	each := time.Duration(0)
	if k > 0 && !c.last.IsZero() {
		each = now.Sub(c.last) / time.Duration(k)
	}
	m.itlLately.Add(now, each, k)
	for range k {
		s.observe(nextToken, each.Seconds())
	}
	c.last = now
}

// over counts a choice that has ended.
func (t *tally) over(c *choice, now time.Time) {
	s := t.s
	c.counted = true
	t.m.alive.change(now, -1)
	if c.first.IsZero() {
		s.waiting--
	} else {
		s.running--
	}
	s.finished[max(0, slices.Index(reasons[:], c.finish))]++
	if c.finish == finishAbort {
		return
	}
	s.observe(wholeAnswer, now.Sub(t.start).Seconds())
	s.observe(answerSize, float64(len(c.tokens)))
	s.observe(allowedSize, float64(c.request.MaxTokens))
	s.observe(lostKV, float64(c.retracted))
	s.lostKV += float64(c.retracted)
	if c.index%c.ask.n == 0 { // as in usage: the other answers to a prompt find it there
		s.prefix.asked += float64(len(c.request.Prompt))
		s.prefix.cached += float64(c.cached)
	}
	p := &t.prompts[c.prompt]
	p.left, p.longest = p.left-1, max(p.longest, len(c.tokens))
	if p.left == 0 {
		s.observe(promptSize, float64(len(c.request.Prompt)))
		s.observe(answersAsked, float64(c.ask.n))
		s.observe(longestAnswer, float64(p.longest))
	}
	if !c.first.IsZero() {
		t.stages(c)
	}
}

// stages notes where the time of an answer went.
func (t *tally) stages(c *choice) {
	s, decode := t.s, c.last.Sub(c.first).Seconds()
	s.observe(reading, t.submitted.Sub(t.start).Seconds())
	s.observe(decoding, decode)
	if n := len(c.tokens); n > 1 {
		s.observe(meanToken, decode/float64(n-1))
	}
	if c.begun.IsZero() {
		return // of a service that does not know
	}
	s.observe(queueing, c.begun.Sub(t.submitted).Seconds())
	s.observe(prefilling, c.first.Sub(c.begun).Seconds())
	s.observe(inferring, c.last.Sub(c.begun).Seconds())
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
			t.m.alive.change(now, -1)
		default:
			c.finish = finishAbort
			t.over(c, now)
		}
	}
}

// alive measures the time in which there were answers that had not ended.
type alive struct {
	open  int
	since time.Time // if there are any
	sum   time.Duration
}

// change notes that so many more are there, or fewer.
func (a *alive) change(now time.Time, n int) {
	if a.open == 0 {
		a.since = now
	}
	if a.open += n; a.open == 0 {
		a.sum += now.Sub(a.since)
	}
}

// until is the time up to an instant.
func (a *alive) until(now time.Time) time.Duration {
	if a.open == 0 {
		return a.sum
	}
	return a.sum + now.Sub(a.since)
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
