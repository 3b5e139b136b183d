package dtmc

import (
	"math"

	"gonum.org/v1/gonum/dsp/fourier"
)

// A rowLaw is the distribution of the rows that a request feeds in the first
// step of a stay at a model: everything written since it last fed a row there.
type rowLaw struct {
	p []float64 // by rows
	// What lies beyond p is one atom that keeps the mean exact.
	beyond, beyondRows float64
	// missing is the mean context that a row lacks against Config.ContextTokens:
	// what reads a prompt in chunks has read little of it at first.
	missing float64
}

// lawTail is the mass at which a law is cut off, lawMost the rows. No step
// feeds as many rows as lawMost, so the shape beyond does not matter.
const (
	lawTail = 1e-12
	lawMost = 1 << 14
)

// gapLaw follows a request that has just left model i with the given number of
// unseen rows, until it comes back: moves.to and moves.stay of the models in
// between, with the row that each step adds. mean is the law's own, known from
// the matrix, for the tail that is cut.
func gapLaw(m *moves, i int, mean float64) *rowLaw {
	k := len(m.stay)
	law := &rowLaw{}
	add := func(rows int, p float64) {
		for len(law.p) <= rows {
			law.p = append(law.p, 0)
		}
		law.p[rows] += p
	}
	// The last token that i itself wrote is unseen as well, if it is visible.
	here, next := make([]float64, k), make([]float64, k)
	own := m.written[i]
	leaves := 0.0
	for j, p := range m.to[i] {
		if j != i {
			leaves += p
		}
	}
	for j, p := range m.to[i] {
		if j != i {
			here[j] = p / leaves
		}
	}
	left := 1.0
	for rows := own; left > lawTail && rows < lawMost; rows++ {
		if i != m.home && m.written[m.home] == 0 { // leaving home writes nothing
			for j, p := range m.to[m.home] {
				here[j] += here[m.home] * p
			}
			left -= here[i]
			add(rows, here[i])
			here[i] = 0
		}
		clear(next)
		for j, x := range here {
			if j == i || x == 0 {
				continue
			}
			next[j] += x * m.stay[j]
			if j == m.home && m.written[j] == 0 {
				continue
			}
			for l, p := range m.to[j] {
				next[l] += x * p
			}
		}
		left -= next[i]
		add(rows+1, next[i])
		next[i] = 0
		here, next = next, here
	}
	sum, total := 0.0, 0.0
	for rows, p := range law.p {
		sum += p
		total += p * float64(rows)
	}
	if law.beyond = max(0, 1-sum); law.beyond > 0 {
		law.beyondRows = max(float64(len(law.p)), (mean-total)/law.beyond)
	}
	return law
}

// moments are the mean and the standard deviation.
func (w *rowLaw) moments() (mean, deviation float64) {
	square := 0.0
	for rows, p := range w.p {
		mean += p * float64(rows)
		square += p * float64(rows) * float64(rows)
	}
	mean += w.beyond * w.beyondRows
	square += w.beyond * w.beyondRows * w.beyondRows
	return mean, math.Sqrt(max(0, square-mean*mean))
}

// certain reports whether only one number of rows can occur.
func (w *rowLaw) certain() (rows int, ok bool) {
	at := -1
	for rows, p := range w.p {
		if p > 0 {
			if at >= 0 {
				return 0, false
			}
			at = rows
		}
	}
	return at, at >= 0 && w.beyond <= 1e-9
}

// atom is a number of rows, the mean of a group, with the group's probability.
type atom struct{ p, rows float64 }

// lawAtoms is how many groups stand for a sum, alike in the mean of their shares
// of probability and of rows, so that neither the usual nor the rare long ones
// share few groups. Step times are straight between a few kinks, so that only
// groups with a kink inside are not exact.
const lawAtoms = 48

const (
	lawGrid     = 4096 // points of a sum's distribution
	normalReach = 6    // standard deviations of a sum, and
	slowReach   = 21   // of one term, where an exponential tail ends
)

// sums returns the distribution of the sum of f independent terms, for f from 0
// to most, as atoms. Sums are powers of the Fourier transform.
func (w *rowLaw) sums(most int) [][]atom {
	out := make([][]atom, most+1)
	out[0] = []atom{{1, 0}}
	if rows, ok := w.certain(); ok {
		for f := 1; f <= most; f++ {
			out[f] = []atom{{1, float64(f * rows)}}
		}
		return out
	}
	mean, deviation := w.moments()
	n := float64(most)
	span := n*mean + (normalReach*math.Sqrt(n)+slowReach)*deviation
	if w.beyond == 0 {
		span = min(span, n*float64(len(w.p)-1))
	}
	points, step := 64, 1.0
	for points < lawGrid && float64(points) <= span+1 {
		points *= 2
	}
	if float64(points) <= span+1 {
		step = math.Ceil((span + 2) / float64(points))
	}
	one := make([]complex128, points)
	for rows, p := range w.p {
		spreadOver(one, float64(rows)/step, p)
	}
	spreadOver(one, w.beyondRows/step, w.beyond)
	fft := fourier.NewCmplxFFT(points)
	one = fft.Coefficients(nil, one)
	power := append([]complex128(nil), one...)
	sum := make([]complex128, points)
	for f := 1; f <= most; f++ {
		if f > 1 {
			for i, x := range one {
				power[i] *= x
			}
		}
		sum = fft.Sequence(sum, power)
		out[f] = group(sum, step, 1/float64(points), mean*float64(f))
	}
	return out
}

// spreadOver puts p at a point between two of the grid so that the mean is
// exact. What lies beyond the grid is put on its last point.
func spreadOver(grid []complex128, at, p float64) {
	at = min(at, float64(len(grid)-1))
	i := int(at)
	above := at - float64(i)
	grid[i] += complex(p*(1-above), 0)
	if above > 0 {
		grid[i+1] += complex(p*above, 0)
	}
}

// group cuts a distribution into atoms.
func group(dist []complex128, step, scale, mean float64) []atom {
	var out []atom
	var p, rows, done, doneRows float64
	for i, x := range dist {
		q := max(0, real(x)*scale)
		p += q
		rows += q * float64(i) * step
		share := (done + p + (doneRows+rows)/mean) / 2
		if share >= float64(len(out)+1)/lawAtoms && len(out) < lawAtoms-1 || i == len(dist)-1 {
			if p > 0 {
				out = append(out, atom{p, rows / p})
			}
			done += p
			doneRows += rows
			p, rows = 0, 0
		}
	}
	for i := range out {
		out[i].p /= done
	}
	return out
}
