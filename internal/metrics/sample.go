package metrics

import (
	"math"
	"slices"
)

// sample keeps every value: one per request, so that its quantiles are exact.
type sample []float64

// quantiles sorts s. A quantile is the smallest value that at least that share
// of all does not exceed. The mean is summed in sorted order, so that it does
// not depend on the order in which values came.
func (s sample) quantiles() Quantiles {
	if len(s) == 0 {
		return noQuantiles()
	}
	slices.Sort(s)
	sum := 0.0
	for _, v := range s {
		sum += v
	}
	at := func(q float64) float64 { return s[max(int(math.Ceil(q*float64(len(s)))), 1)-1] }
	return Quantiles{Mean: sum / float64(len(s)), P50: at(0.5), P95: at(0.95), P99: at(0.99)}
}

// QuantilesOf describes values, which it sorts.
func QuantilesOf(values []float64) Quantiles { return sample(values).quantiles() }

// batchMeans estimates the standard error of a rate from the counts of equal
// slices of time. It keeps between half and all of maxSlices: when they are
// full, neighbours merge and slices double, so the run's length need not be
// known. Counts may come out of order.
type batchMeans struct {
	startNs, widthNs int64
	counts           []int64
	current          int // the slice that the last count fell in, and its times
	fromNs, toNs     int64
}

const (
	maxSlices    = 128
	firstSliceNs = 1_000_000
)

func newBatchMeans(startNs int64) batchMeans {
	return batchMeans{startNs: startNs, widthNs: firstSliceNs, counts: make([]int64, maxSlices)}
}

func (b *batchMeans) add(atNs, n int64) {
	if atNs < b.fromNs || atNs >= b.toNs {
		b.find(atNs)
	}
	b.counts[b.current] += n
}

func (b *batchMeans) find(atNs int64) {
	for (atNs-b.startNs)/b.widthNs >= maxSlices {
		for i := range maxSlices / 2 {
			b.counts[i] = b.counts[2*i] + b.counts[2*i+1]
		}
		clear(b.counts[maxSlices/2:])
		b.widthNs *= 2
	}
	b.current = int((atNs - b.startNs) / b.widthNs)
	b.fromNs = b.startNs + int64(b.current)*b.widthNs
	b.toNs = b.fromNs + b.widthNs
}

// relSE is the relative standard error of the mean rate up to endNs; NaN with
// fewer than 8 whole slices.
func (b *batchMeans) relSE(endNs int64) float64 {
	if endNs <= b.startNs {
		return math.NaN()
	}
	b.find(endNs) // so that the width does not depend on the last count
	whole := b.counts[:b.current]
	n := float64(len(whole))
	if n < 8 {
		return math.NaN()
	}
	var sum, squares float64
	for _, c := range whole {
		sum += float64(c)
	}
	mean := sum / n
	for _, c := range whole {
		d := float64(c) - mean
		squares += d * d
	}
	return math.Sqrt(squares/(n-1)/n) / mean
}
