package dtmc

import "math"

// krylov solves (I - T) d = r, T known only by its products, by GMRES (Saad and
// Schultz 1986): it minimises the residual over r, Tr, T²r, …
//
// The chain's slow modes are few but lie all round the unit circle: while the
// slow model never idles, the phase of the fast one against it turns by the
// same angle at every completion. Averaging or relaxing sweeps damps such modes
// slowly; a residual polynomial needs about one degree for each.
type krylov struct {
	basis    [][]float64 // orthonormal; a stock that is reused
	columns  [][]float64 // upper triangle after rotations
	cos, sin []float64
	rhs      []float64
	work     []float64
	done     bool
}

// krylovDegree bounds the polynomial before a restart. The cells of the tests
// need at most 30.
const krylovDegree = 40

// krylovFloor is the residual, in probability, below which rounding decides.
const krylovFloor = 1e-15

// begin starts from residual r.
func (k *krylov) begin(r []float64) {
	beta := norm(r)
	k.columns = k.columns[:0]
	k.cos, k.sin = k.cos[:0], k.sin[:0]
	k.rhs = append(k.rhs[:0], beta)
	k.work = resize(k.work, len(r))
	k.done = beta <= krylovFloor
	if !k.done {
		k.push(0, r, beta)
	}
}

// direction is the vector whose product with T extend wants next.
func (k *krylov) direction() []float64 { return k.basis[len(k.columns)] }

// extend takes product = T·direction.
func (k *krylov) extend(product []float64) {
	j := len(k.columns)
	w := k.work
	for i, x := range k.basis[j] {
		w[i] = x - product[i]
	}
	column := k.column(j)
	for i := range j + 1 {
		v := k.basis[i]
		d := 0.0
		for t, x := range v {
			d += x * w[t]
		}
		column[i] = d
		for t, x := range v {
			w[t] -= d * x
		}
	}
	left := norm(w)
	for i := range j {
		a, b := column[i], column[i+1]
		column[i] = k.cos[i]*a + k.sin[i]*b
		column[i+1] = k.cos[i]*b - k.sin[i]*a
	}
	length := math.Hypot(column[j], left)
	if length == 0 { // I - T vanishes on the space: nothing more to gain
		k.columns = k.columns[:j]
		k.done = true
		return
	}
	cos, sin := column[j]/length, left/length
	column[j] = length
	k.cos, k.sin = append(k.cos, cos), append(k.sin, sin)
	k.rhs = append(k.rhs, -sin*k.rhs[j])
	k.rhs[j] *= cos
	k.done = math.Abs(k.rhs[j+1]) <= krylovFloor || j+1 == krylovDegree
	if !k.done {
		k.push(j+1, w, left)
	}
}

// apply adds the solution to z.
func (k *krylov) apply(z []float64) {
	j := len(k.columns)
	y := k.rhs[:j]
	for i := j - 1; i >= 0; i-- {
		for t := i + 1; t < j; t++ {
			y[i] -= k.columns[t][i] * y[t]
		}
		y[i] /= k.columns[i][i]
		for t, x := range k.basis[i] {
			z[t] += y[i] * x
		}
	}
}

func (k *krylov) push(at int, v []float64, length float64) {
	if at == len(k.basis) {
		k.basis = append(k.basis, nil)
	}
	u := resize(k.basis[at], len(v))
	for i, x := range v {
		u[i] = x / length
	}
	k.basis[at] = u
}

// column appends a column of j+2 entries, from the stock if it has one.
func (k *krylov) column(j int) []float64 {
	if j < cap(k.columns) {
		k.columns = k.columns[:j+1]
	} else {
		k.columns = append(k.columns, nil)
	}
	k.columns[j] = resize(k.columns[j], j+2)
	return k.columns[j]
}

func norm(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x * x
	}
	return math.Sqrt(s)
}
