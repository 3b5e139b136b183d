package dtmc

// gth returns the stationary distribution of the irreducible n-state chain p,
// row-major, by the elimination of Grassmann, Taksar and Heyman. It subtracts
// nothing, so that every entry is exact to rounding however slowly the chain
// mixes, and periodic chains are like any other. It overwrites p.
func gth(p []float64, n int) []float64 {
	for e := n - 1; e > 0; e-- {
		gone := p[e*n : e*n+e]
		leave := 0.0
		for _, x := range gone {
			leave += x
		}
		if !(leave > 0) {
			panic("dtmc: GTH on a chain that is not irreducible")
		}
		for i := range e {
			x := p[i*n+e]
			if x == 0 {
				continue
			}
			x /= leave
			p[i*n+e] = x
			row := p[i*n : i*n+e]
			for j, y := range gone {
				row[j] += x * y
			}
		}
	}
	pi := make([]float64, n)
	pi[0] = 1
	sum := 1.0
	for j := 1; j < n; j++ {
		for i := range j {
			pi[j] += pi[i] * p[i*n+j]
		}
		sum += pi[j]
	}
	for i := range pi {
		pi[i] /= sum
	}
	return pi
}
