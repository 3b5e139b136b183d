package sim

import (
	"math"
	"math/bits"
)

// Steps of models that share GPUs slow each other down while they overlap:
// Config.Interference[i][j] is the factor by which steps of model i stretch
// while a step of model j is in flight; factors of several models multiply.
// What is left of a step stretches from the moment the other one starts and
// shrinks back when it ends.

// factorOne is the factor 1: factors are kept in 1024ths, so that times stay
// whole numbers and do not depend on the order of additions.
const factorOne = 1 << 10

// work is step time without interference, in 1/2^20 ns.
type work uint64

const workPerNs = 1 << 20

func workOf(ns int64) work { return work(uint64(ns) * workPerNs) }

// after is the time that the work takes under a factor, rounded up.
func (w work) after(factor uint64) int64 {
	hi, lo := bits.Mul64(uint64(w), factor)
	q, r := bits.Div64(hi, lo, workPerNs*factorOne)
	if r > 0 {
		q++
	}
	return int64(q)
}

// done is the work that gets done in that time under a factor, rounded down.
func done(ns int64, factor uint64) work {
	hi, lo := bits.Mul64(uint64(ns), workPerNs*factorOne)
	q, _ := bits.Div64(hi, lo, factor)
	return work(q)
}

// retime sets when the steps in flight end, after some have started or ended at
// this instant.
func (w *world) retime() {
	for m := range w.nodes {
		n := &w.nodes[m]
		if n.endNs == never {
			continue
		}
		factor := w.factor(m)
		if factor == n.factor {
			continue
		}
		if n.factor != 0 {
			n.left -= min(n.left, done(w.nowNs-n.sinceNs, n.factor))
		}
		n.factor, n.sinceNs = factor, w.nowNs
		n.endNs = w.nowNs + max(n.left.after(factor), 1)
		n.ends[0] = n.endNs
	}
}

// factor is by how much a step of model m stretches now.
func (w *world) factor(m int) uint64 {
	f := uint64(factorOne)
	for o := range w.nodes {
		if o != m && w.nodes[o].endNs != never {
			f = f * w.slow[m][o] / factorOne
		}
	}
	return f
}

// slowdown quantises factors, each at least 1.
func slowdown(interference [][]float64) [][]uint64 {
	var out [][]uint64
	for _, row := range interference {
		var q []uint64
		for _, f := range row {
			q = append(q, uint64(math.Round(f*factorOne)))
		}
		out = append(out, q)
	}
	return out
}
