package dtmc

import (
	"fmt"
	"math"
)

const (
	// gthStates is up to where elimination is as fast as iterating: 100³/3
	// multiplications take about half a millisecond.
	gthStates = 100
	// gthRescueStates is up to where elimination may take over from iterations
	// that did not converge: 2,000 states take about a second and 32 MB.
	gthRescueStates = 2000

	// agreement is the distance |πa - πb|₁ of the two starts at which the
	// iteration ends.
	agreement = 1e-10
	// goodDistance is what iterating must reach where elimination could take over.
	goodDistance = 1e-8
	// acceptedGap is the largest relative difference of the starts' throughputs,
	// and of their distributions, that is still called converged when the
	// sweeps are used up.
	acceptedGap = 1e-6

	// plainSweeps are done before any acceleration: often they are enough.
	plainSweeps = 5
	// maxSweeps bounds the iteration.
	maxSweeps = 1500
)

// Methods, as Prediction.Method names them.
const (
	methodGTH         = "gth"
	methodGaussSeidel = "gauss-seidel"
	methodAccelerated = "gauss-seidel+gmres"
)

// solution is the stationary distribution of a flow.
type solution struct {
	pi       []float64 // by state of the flow; valid until the next solve
	method   string
	sweeps   int
	startGap float64 // relative difference of the starts' throughputs
	distance float64 // |πa - πb|₁
	residual float64 // |πP - π|₁
}

// solver iterates both starts at once: they share every index and probability
// that is read, so that the second costs a quarter of the first.
type solver struct {
	arriving [][2]float64 // probability that has reached a state since its turn
	visits   [][2]float64 // of every state in the last sweep
	border   []int32      // states that some edge reaches backwards
	onBorder []bool
	krylov   [2]krylov
	z, r     [2][]float64
	pi, next []float64
	sweeps   int
}

// solve finds the stationary distribution of f: by elimination if f is small or
// if iterating fails and f is not large.
func (s *solver) solve(f *flow) (solution, error) {
	if len(f.keys) <= gthStates {
		return s.eliminate(f), nil
	}
	sol, err := s.iterate(f, maxSweeps)
	if (err != nil || sol.distance > goodDistance) && len(f.keys) <= gthRescueStates {
		return s.eliminate(f), nil
	}
	return sol, err
}

// iterate sweeps until both starts agree, or refuses when that takes more than
// limit sweeps.
func (s *solver) iterate(f *flow, limit int) (solution, error) {
	s.begin(f)
	method := methodGaussSeidel
	for range plainSweeps {
		s.sweep(f)
	}
	sol := s.assess(f)
	for !(sol.distance <= agreement && sol.residual <= agreement) && s.sweeps < limit {
		method = methodAccelerated
		s.accelerate(f)
		sol = s.assess(f)
	}
	// Written so that NaN is refused too.
	if !(sol.distance <= acceptedGap && sol.startGap <= acceptedGap && sol.residual <= agreement) {
		return solution{}, fmt.Errorf("dtmc: %w: after %d sweeps over %d states the throughputs from the two starts differ by %.1e, the distributions by %.1e (want %.0e), residual %.1e; use a larger QuantumNs or the simulator",
			ErrSlowMixing, s.sweeps, len(f.keys), sol.startGap, sol.distance, acceptedGap, sol.residual)
	}
	sol.method = method
	return sol, nil
}

// assess says how far the two starts have come. Both tests are needed: two
// starts may agree and still turn together round a periodic chain, and a small
// residual is no proof where mixing is slow.
func (s *solver) assess(f *flow) solution {
	gap, distance := s.compare(f)
	s.average()
	return solution{pi: s.pi, sweeps: s.sweeps, startGap: gap, distance: distance, residual: s.residual(f)}
}

// eliminate solves densely. Both starts then give the same answer by
// construction: f is one closed class.
func (s *solver) eliminate(f *flow) solution {
	n := len(f.keys)
	dense := make([]float64, n*n)
	for i := range n {
		for e := f.rowStart[i]; e < f.rowStart[i+1]; e++ {
			dense[i*n+int(f.col[e])] = f.val[e]
		}
	}
	s.pi = append(s.pi[:0], gth(dense, n)...)
	return solution{pi: s.pi, method: methodGTH, residual: s.residual(f)}
}

// begin finds the border and sets the starts: one puts all probability on the
// state with the most requests at home; the other half on the one with the
// fewest, half on all states alike. The spread half matters: with a return
// probability of 1 and p = 0.999, all requests at home and all away are two
// moments of one pattern that lasts for ages before it breaks into another, and
// both starts would agree on its throughput, which is not the long run's.
func (s *solver) begin(f *flow) {
	n := len(f.keys)
	s.sweeps = 0
	s.arriving, s.visits = resize(s.arriving, n), resize(s.visits, n)
	clear(s.arriving)
	s.onBorder = resize(s.onBorder, n)
	clear(s.onBorder)
	s.border = s.border[:0]
	most, fewest := 0, 0
	for i := range n {
		for _, j := range f.col[f.rowStart[i]:f.rowStart[i+1]] {
			if int(j) < i && !s.onBorder[j] {
				s.onBorder[j] = true
				s.border = append(s.border, j)
			}
		}
		if f.atHome[i] > f.atHome[most] {
			most = i
		}
		if f.atHome[i] < f.atHome[fewest] {
			fewest = i
		}
	}
	for i := range s.arriving {
		s.arriving[i][1] = 0.5 / float64(n)
	}
	s.arriving[most][0] = 1
	s.arriving[fewest][1] += 0.5
	for a := range 2 {
		s.z[a], s.r[a] = resize(s.z[a], len(s.border)), resize(s.r[a], len(s.border))
	}
}

// sweep gives every state its turn once, in flow order: what has arrived stays
// for 1/(1-p) visits and is then handed on. That is one iteration of
// Gauss-Seidel in a form that conserves probability, so that nothing needs to
// be normalised; afterwards all of it has arrived at border states.
func (s *solver) sweep(f *flow) {
	s.sweeps++
	arriving, visits := s.arriving, s.visits
	lo := f.rowStart[0]
	for i, leave := range f.leave {
		a, b := arriving[i][0]*leave, arriving[i][1]*leave
		arriving[i] = [2]float64{}
		visits[i] = [2]float64{a, b}
		hi := f.rowStart[i+1]
		col := f.col[lo:hi]
		val := f.val[lo:hi]
		val = val[:len(col)]
		for e, j := range col {
			p := val[e]
			t := &arriving[j]
			t[0] += a * p
			t[1] += b * p
		}
		lo = hi
	}
}

// accelerate improves what has arrived at the border, z, towards T z = z, T
// being one sweep, and sweeps once more from the better z.
func (s *solver) accelerate(f *flow) {
	for a := range 2 {
		s.load(s.z[a], a)
	}
	s.sweep(f)
	for a := range 2 {
		s.load(s.r[a], a)
		for i, z := range s.z[a] {
			s.r[a][i] -= z
		}
		s.krylov[a].begin(s.r[a])
	}
	for !s.krylov[0].done || !s.krylov[1].done {
		for a := range 2 {
			if !s.krylov[a].done {
				s.store(s.krylov[a].direction(), a)
			}
		}
		s.sweep(f)
		for a := range 2 {
			if !s.krylov[a].done {
				s.load(s.r[a], a)
				s.krylov[a].extend(s.r[a])
			}
		}
	}
	for a := range 2 {
		s.krylov[a].apply(s.z[a])
		s.store(s.z[a], a)
	}
	s.sweep(f)
}

// load reads start a's border out of arriving, store writes it.
func (s *solver) load(z []float64, a int) {
	for i, j := range s.border {
		z[i] = s.arriving[j][a]
	}
}

func (s *solver) store(z []float64, a int) {
	for i, j := range s.border {
		s.arriving[j][a] = z[i]
	}
}

// compare returns the relative difference of the throughputs of the two starts,
// and the distance of their distributions.
func (s *solver) compare(f *flow) (gap, distance float64) {
	var sum, tokens, quanta [2]float64
	for i, v := range s.visits {
		for a := range 2 {
			sum[a] += v[a]
			tokens[a] += v[a] * f.tokens[i]
			quanta[a] += v[a] * f.quanta[i]
		}
	}
	for _, v := range s.visits {
		distance += math.Abs(v[0]/sum[0] - v[1]/sum[1])
	}
	return math.Abs(tokens[0]/quanta[0]/(tokens[1]/quanta[1]) - 1), distance
}

// average takes the mean of both starts' distributions: what is left of their
// errors mostly has opposite signs.
func (s *solver) average() {
	var sum [2]float64
	for _, v := range s.visits {
		sum[0] += v[0]
		sum[1] += v[1]
	}
	s.pi = s.pi[:0]
	for _, v := range s.visits {
		s.pi = append(s.pi, (v[0]/sum[0]+v[1]/sum[1])/2)
	}
}

// residual is |πP - π|₁.
func (s *solver) residual(f *flow) float64 {
	s.next = resize(s.next, len(s.pi))
	for i, x := range s.pi {
		s.next[i] = x - x/f.leave[i] // what stays
	}
	for i, x := range s.pi {
		lo, hi := f.rowStart[i], f.rowStart[i+1]
		val := f.val[lo:hi]
		for e, j := range f.col[lo:hi] {
			s.next[j] += x * val[e]
		}
	}
	sum := 0.0
	for i, x := range s.pi {
		sum += math.Abs(s.next[i] - x)
	}
	return sum
}
