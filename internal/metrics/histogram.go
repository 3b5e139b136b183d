package metrics

import (
	"math"
	"math/bits"
)

// histogram counts nanosecond durations in buckets 1/512 of their size wide,
// so that a quantile of any number of gaps costs constant memory and errs by
// at most 0.1 %. The mean is exact: 64 bits hold 292 years of gaps.
type histogram struct {
	counts []int64
	n      int64
	sumNs  int64
}

const subBits = 9 // 512 buckets an octave

func (h *histogram) add(ns, times int64) {
	if h.counts == nil {
		h.counts = make([]int64, (64-subBits)<<subBits)
	}
	h.counts[bucketOf(ns)] += times
	h.n += times
	h.sumNs += ns * times
}

func bucketOf(ns int64) int {
	u := uint64(ns)
	shift := bits.Len64(u) - subBits - 1
	if shift <= 0 {
		return int(u)
	}
	return shift<<subBits + int(u>>shift)
}

// middleNs is the middle of a bucket.
func middleNs(bucket int) float64 {
	if bucket < 2<<subBits {
		return float64(bucket)
	}
	shift := bucket>>subBits - 1
	low := uint64(bucket-shift<<subBits) << shift
	return float64(low) + float64(uint64(1)<<shift-1)/2
}

// quantileNs is the smallest observed duration that at least the share q of
// all does not exceed, to the width of its bucket.
func (h *histogram) quantileNs(q float64) float64 {
	rank := int64(math.Ceil(q * float64(h.n)))
	var seen int64
	for b, n := range h.counts {
		if seen += n; n > 0 && seen >= rank {
			return middleNs(b)
		}
	}
	return math.NaN()
}

func (h *histogram) quantilesMs() Quantiles {
	if h.n == 0 {
		return noQuantiles()
	}
	return Quantiles{
		Mean: float64(h.sumNs) / float64(h.n) / 1e6,
		P50:  h.quantileNs(0.5) / 1e6, P95: h.quantileNs(0.95) / 1e6, P99: h.quantileNs(0.99) / 1e6,
	}
}

func noQuantiles() Quantiles {
	nan := math.NaN()
	return Quantiles{nan, nan, nan, nan}
}
