package metrics

import (
	"math"
	"slices"
)

// sample keeps every value: one per request, so that its quantiles are exact.
type sample []float64

func (s sample) mean() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range s {
		sum += v
	}
	return sum / float64(len(s))
}

// quantiles sorts s. A quantile is the smallest value that at least that share
// of all does not exceed.
func (s sample) quantiles() Quantiles {
	if len(s) == 0 {
		return noQuantiles()
	}
	mean := s.mean() // before sorting: the sum keeps its order
	slices.Sort(s)
	at := func(q float64) float64 { return s[max(int(math.Ceil(q*float64(len(s)))), 1)-1] }
	return Quantiles{Mean: mean, P50: at(0.5), P95: at(0.95), P99: at(0.99)}
}

// batchMeans estimates the standard error of a rate from the counts of equal
// slices of time. It keeps between half and all of maxSlices: when they are
// full, neighbours merge and slices double, so the run's length need not be
// known.
type batchMeans struct {
	startNs, widthNs int64
	counts           []int64
	current          int64 // count of the slice that is not over
	endNs            int64 // of that slice
}

const (
	maxSlices    = 128
	firstSliceNs = 1_000_000
)

func newBatchMeans(startNs int64) batchMeans {
	return batchMeans{startNs: startNs, widthNs: firstSliceNs, endNs: startNs + firstSliceNs}
}

func (b *batchMeans) add(atNs, n int64) {
	if atNs >= b.endNs {
		b.closeSlices(atNs)
	}
	b.current += n
}

func (b *batchMeans) closeSlices(nowNs int64) {
	for nowNs >= b.endNs {
		b.counts = append(b.counts, b.current)
		b.current = 0
		if len(b.counts) == maxSlices {
			for i := range maxSlices / 2 {
				b.counts[i] = b.counts[2*i] + b.counts[2*i+1]
			}
			b.counts = b.counts[:maxSlices/2]
			b.widthNs *= 2
		}
		b.endNs = b.startNs + int64(len(b.counts)+1)*b.widthNs
	}
}

// relSE is the relative standard error of the mean rate up to endNs; NaN with
// fewer than 8 whole slices.
func (b *batchMeans) relSE(endNs int64) float64 {
	b.closeSlices(endNs)
	n := float64(len(b.counts))
	if n < 8 {
		return math.NaN()
	}
	var sum, squares float64
	for _, c := range b.counts {
		sum += float64(c)
	}
	mean := sum / n
	for _, c := range b.counts {
		d := float64(c) - mean
		squares += d * d
	}
	return math.Sqrt(squares/(n-1)/n) / mean
}
