package kernel

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// inParallel runs part(i) for all i < n at the same time and returns how long
// the last one took.
func inParallel(n int, part func(i int)) time.Duration {
	start := time.Now()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { part(i) })
	}
	all.Wait()
	return time.Since(start)
}

// BenchmarkStreaming multiplies by weights that no cache holds, as a decode step
// does, and reads as much memory in the same run. It reports the share of the
// read bandwidth that a step of one row reaches (bw-share), and what steps of
// 4 and 16 rows cost in steps of one.
func BenchmarkStreaming(b *testing.B) {
	const totalBytes = 512 << 20 // the largest caches hold 32 MB a core or so
	weights := make([]float32, totalBytes/4)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range weights {
		weights[i] = r.Float32() - 0.5
	}
	w16 := asBF16(weights)
	for _, size := range []struct{ k, n int }{{1024, 3072}, {4096, 4096}} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("k=%d,n=%d,threads=%d", size.k, size.n, threads), func(b *testing.B) {
				streaming(b, weights, w16, size.k, size.n, threads)
			})
		}
	}
}

func streaming(b *testing.B, weights []float32, w16 []uint16, k, n, threads int) {
	rows := []int{1, 4, 8, 16}
	x, y := make([]float32, 16*k), make([]float32, 16*n)
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	matrices := len(w16) / (k * n)
	best := make([]time.Duration, len(rows)+1)
	keep := func(i int, t time.Duration) {
		if best[i] == 0 || t < best[i] {
			best[i] = t
		}
	}
	for b.Loop() {
		part := matrices * k * n / 2 / threads
		keep(len(rows), inParallel(threads, func(i int) { ReadThrough(weights[i*part:][:part]) }))
		for i, rows := range rows {
			var t time.Duration
			for m := range matrices {
				w := w16[m*k*n:][:k*n]
				t += inParallel(threads, func(i int) {
					MatMulBF16(y, x, w, rows, k, n, i*n/threads, (i+1)*n/threads)
				})
			}
			keep(i, t)
		}
	}
	bytes := float64(matrices * k * n * 2)
	gb := func(t time.Duration) float64 { return bytes / float64(t.Nanoseconds()) }
	b.ReportMetric(gb(best[len(rows)]), "read-GB/s")
	b.ReportMetric(gb(best[0]), "row-GB/s")
	b.ReportMetric(float64(best[len(rows)])/float64(best[0]), "bw-share")
	for i, r := range rows[1:] {
		b.ReportMetric(float64(best[i+1])/float64(best[0]), fmt.Sprintf("%d-rows/1", r))
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPrefill reports how fast a chunk of a prompt goes through weights that
// the cache holds, in units of what one row alone reaches.
func BenchmarkPrefill(b *testing.B) {
	for _, k := range []int{1024, 4096} {
		for _, format := range []string{"f32", "bf16", "f16"} {
			b.Run(fmt.Sprintf("k=%d,%s", k, format), func(b *testing.B) { prefill(b, k, format) })
		}
	}
}

func prefill(b *testing.B, k int, format string) {
	const n, rows = 1024, 64
	w := make([]float32, n*k)
	for i := range w {
		w[i] = float32(i%9)*0.1 - 0.4
	}
	x, y := w[:rows*k], make([]float32, rows*n)
	w16 := asBF16(w[:n*k/2])
	multiply := func(rows int) time.Duration {
		start := time.Now()
		switch format {
		case "f32":
			MatMulF32(y, x, w, rows, k, n, 0, n)
		case "bf16":
			MatMulBF16(y, x, w16, rows, k, n, 0, n)
		case "f16":
			MatMulF16(y, x, w16, rows, k, n, 0, n)
		}
		return time.Since(start)
	}
	one, many := time.Hour, time.Hour
	for b.Loop() {
		one, many = min(one, multiply(1)), min(many, multiply(rows))
	}
	flops := float64(2 * n * k)
	b.ReportMetric(rows*flops/float64(many.Nanoseconds()), "GFLOP/s")
	b.ReportMetric(rows*float64(one)/float64(many), "rows/row")
	b.ReportMetric(0, "ns/op")
}

// asBF16 takes the bits of x for twice as many bfloat16 numbers.
func asBF16(x []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(&x[0])), 2*len(x))
}

// BenchmarkLevels reports how much faster each kernel in assembly is than its
// twin in plain Go, and what an element costs.
func BenchmarkLevels(b *testing.B) {
	const k, n = 128, 512 // a head's keys or values at 512 positions
	x, y, v := make([]float32, k*n), make([]float32, k*n), make([]float32, k*n)
	for i := range x {
		x[i], v[i] = float32(i%13)-6, float32(i%7)-3
	}
	for _, c := range []struct {
		name string
		call func()
	}{
		{"MatMulF32", func() { MatMulF32(y, x, v, 1, k, n, 0, n) }},
		{"Dots", func() { Dots(y, x, v, 1, k, n, n, k) }},
		{"Dots, 4 heads", func() { Dots(y, x, v, 4, k, n/4, n, k) }},
		{"WeightedSum", func() { WeightedSum(y, x, v, 1, k, n, n, k) }},
		{"SiLUMul", func() { SiLUMul(y, x, v) }},
		{"Softmax", func() { copy(y, x); Softmax(y) }},
		{"RMSNorm", func() { RMSNorm(y, x, v, 1e-6) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			best := Level()
			defer mustSet(b, best)
			var least [2]time.Duration
			for b.Loop() {
				for i, level := range []string{"go", best} {
					mustSet(b, level)
					start := time.Now()
					c.call()
					if t := time.Since(start); least[i] == 0 || t < least[i] {
						least[i] = t
					}
				}
			}
			b.ReportMetric(float64(least[0])/(k*n), "go-ns/element")
			b.ReportMetric(float64(least[1])/(k*n), "ns/element")
			b.ReportMetric(float64(least[0])/float64(least[1]), "faster")
			b.ReportMetric(0, "ns/op")
		})
	}
}
