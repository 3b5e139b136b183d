package dtmc

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A stepLaw is the distribution of one kind of step.
type stepLaw struct {
	meanNs, deviationNs float64
	atoms               []timed // ascending; nil if certain
}

type timed struct{ p, ns float64 }

// durations holds the nanoseconds of every step. Where rows cost time
// and requests of both kinds occur, a step's length depends on how many of its
// requests go on, with one row each, and how many came since and feed what they
// have not seen; the chain then keeps count of them ("told apart"). Otherwise
// all requests count as came.
type durations struct {
	steps     [][][]stepLaw // by model, requests that go on, requests that came
	toldApart []bool        // by model
	mean      [][]int64     // by model and batch; [0] unused
	decodeNs  []float64     // longest step in which every request feeds one row
}

const (
	// apartUsers is up to where requests are told apart: the table grows with
	// the square of the batch.
	apartUsers = 128
	// apartLeast is the relative difference of step times that is worth it.
	apartLeast = 1e-4
	// roundedAway is the squared variation of a step that is left out.
	roundedAway = 1e-5
)

func newDurations(c *Config, v *visits) (*durations, error) {
	k := len(c.Models)
	d := &durations{steps: make([][][]stepLaw, k), toldApart: make([]bool, k), mean: make([][]int64, k), decodeNs: make([]float64, k)}
	for m := range k {
		t := timer{c: c, model: m}
		most := c.maxBatch(m)
		stay, law := v.stay[m], v.laws[m]
		if law == nil || !t.rowsMatter(most) {
			law = &rowLaw{p: []float64{0, 1}}
			stay = 0
		}
		t.missing = law.missing
		mixes := [][]stepLaw{make([]stepLaw, most+1)}
		mixed := law.mixedWith(stay).sums(most)
		d.mean[m] = make([]int64, most+1)
		for b := 1; b <= most; b++ {
			mixes[0][b] = t.law(b, 0, mixed[b])
			d.decodeNs[m] = max(d.decodeNs[m], t.ns(b, b))
			d.mean[m][b] = int64(math.Round(mixes[0][b].meanNs))
		}
		if stay > 0 && most == c.Users && most <= apartUsers {
			if apart := t.apart(law.sums(most)); differ(apart) {
				mixes, d.toldApart[m] = apart, true
			}
		}
		d.steps[m] = mixes
		if t.zeroAt > 0 {
			return nil, fmt.Errorf("dtmc: Models[%d] (%s): a step of %d requests takes %d ns: want at least 1", m, c.Models[m].Name, t.zeroAt, t.zeroNs)
		}
	}
	return d, nil
}

// timer reads the step times of one model at the context of the workload.
type timer struct {
	c       *Config
	model   int
	missing float64 // context that a row beyond one a request lacks
	zeroAt  int     // a batch whose step takes less than 1 ns; 0 = none
	zeroNs  int64
}

func (t *timer) ns(requests, rows int) float64 {
	rows = max(rows, requests)
	chunk := max(t.c.Models[t.model].ChunkTokens, requests)
	if t.c.Models[t.model].ChunkTokens == 0 || rows <= chunk {
		return t.stepNs(requests, rows)
	}
	decode := t.stepNs(requests, requests)
	further := (rows - 1) / chunk
	return float64(further)*(t.stepNs(requests, chunk)-ridesAlong*decode) + t.stepNs(1, rows-further*chunk)
}

// ridesAlong is the part of a decode step by which a further chunk is cheaper
// because others write a token in it, which the chain gives a step of its own.
// Where prefills queue up there are few of them: of prompts of 2000 tokens with
// 256 to 2048 of output, 0 was up to 3.0 % slower than the simulator, 1 up to
// 5.9 % and this up to 2.2 % faster.
const ridesAlong = 0.25

func (t *timer) stepNs(requests, rows int) float64 {
	context := requests * t.c.contextTokens()
	if t.missing > 0 {
		context = max(rows, context-int(t.missing*float64(rows-requests)))
	}
	ns := t.c.Models[t.model].Time.Ns(requests, rows, context)
	if ns < 1 {
		t.zeroAt, t.zeroNs = requests, ns
	}
	return float64(ns)
}

// rowsMatter reports whether rows beyond one a request can change a step.
func (t *timer) rowsMatter(most int) bool {
	for b := 1; b <= most; b++ {
		least := t.ns(b, b)
		for extra := 1; extra <= lawMost; extra *= 16 {
			if t.ns(b, b+extra) != least {
				return true
			}
		}
	}
	return false
}

// law is the time of a step in which some requests feed one row each and the
// rest a sum of rows with that distribution.
func (t *timer) law(requests, single int, sum []atom) stepLaw {
	var out stepLaw
	square := 0.0
	for _, a := range sum {
		rows := max(float64(requests), float64(single)+a.rows)
		low := math.Floor(rows)
		ns := t.ns(requests, int(low))
		if above := rows - low; above > 0 {
			ns += above * (t.ns(requests, int(low)+1) - ns)
		}
		out.meanNs += a.p * ns
		square += a.p * ns * ns
		out.atoms = append(out.atoms, timed{a.p, ns})
	}
	out.deviationNs = math.Sqrt(max(0, square-out.meanNs*out.meanNs))
	slices.SortFunc(out.atoms, func(a, b timed) int { return cmp.Compare(a.ns, b.ns) })
	if last := out.atoms[len(out.atoms)-1]; out.atoms[0].ns == last.ns {
		// Exactly, for the sum of probabilities is 1 but for rounding: a step that
		// does not vary must not lose its whole nanoseconds, and with them the
		// common divisor of all steps.
		out.meanNs, out.deviationNs = last.ns, 0
	}
	return out
}

// apart tabulates the expected times by requests that go on and that came.
func (t *timer) apart(sums [][]atom) [][]stepLaw {
	most := len(sums) - 1
	out := make([][]stepLaw, most+1)
	for goOn := range out {
		out[goOn] = make([]stepLaw, most-goOn+1)
		for came := range out[goOn] {
			if goOn+came > 0 {
				out[goOn][came] = t.law(goOn+came, goOn, sums[came])
			}
		}
	}
	return out
}

// differ reports whether who is in a batch changes its time.
func differ(apart [][]stepLaw) bool {
	for b := 1; b < len(apart); b++ {
		least, most := math.Inf(1), 0.0
		for goOn := range b + 1 {
			ns := apart[goOn][b-goOn].meanNs
			least, most = min(least, ns), max(most, ns)
		}
		if most > least*(1+apartLeast) {
			return true
		}
	}
	return false
}

// mixedWith is the law of a request that feeds one row with probability stay.
func (w *rowLaw) mixedWith(stay float64) *rowLaw {
	if stay == 0 {
		return w
	}
	out := &rowLaw{missing: w.missing, p: make([]float64, max(2, len(w.p))), beyond: w.beyond * (1 - stay), beyondRows: w.beyondRows}
	for rows, p := range w.p {
		out.p[rows] = p * (1 - stay)
	}
	out.p[1] += stay
	return out
}

// whole reports whether every time is a whole number of nanoseconds.
func (d *durations) whole() bool {
	return !d.vary() && !d.any(func(s *stepLaw) bool { return s.meanNs != math.Trunc(s.meanNs) })
}

// vary reports whether chance decides how long some step takes.
func (d *durations) vary() bool {
	return d.any(func(s *stepLaw) bool { return s.deviationNs > 0 })
}

func (d *durations) any(is func(*stepLaw) bool) bool {
	for _, mixes := range d.steps {
		for _, row := range mixes {
			for came := range row {
				if is(&row[came]) {
					return true
				}
			}
		}
	}
	return false
}

func (s *stepLaw) leastNs() float64 {
	if s.deviationNs == 0 {
		return s.meanNs
	}
	return s.atoms[0].ns
}
