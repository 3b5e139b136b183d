package scheduler

import (
	"fmt"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// BenchmarkKV runs the same lives through the pool and its slow twin: 64
// requests hold 16 blocks each and take turns to leave and come back with a
// shared prefix of 8 blocks and new tokens.
func BenchmarkKV(b *testing.B) {
	const users, chain, shared, blockTokens = 64, 16, 8, 16
	ids := make([]algorithms.Token, chain*blockTokens)
	prompt := func(i int) []algorithms.Token {
		for j := shared * blockTokens; j < len(ids); j++ {
			ids[j] = algorithms.Token(i ^ j)
		}
		return ids
	}
	for _, reuse := range []bool{false, true} {
		b.Run(fmt.Sprintf("fast/reuse=%v", reuse), func(b *testing.B) {
			p := newKVPool(users*chain+100, blockTokens, reuse)
			var held [users][]int32
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h := &held[i%users]
				p.release(*h)
				ids := prompt(i)
				*h = p.match((*h)[:0], ids[:len(ids)-1])
				have := len(*h)
				*h, _ = p.alloc(*h, chain-have)
				p.publish(ids, *h, have)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*chain), "ns/block")
		})
		b.Run(fmt.Sprintf("slow/reuse=%v", reuse), func(b *testing.B) {
			p := newSlowKV(users*chain+100, blockTokens, reuse)
			var held [users][]int32
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h := &held[i%users]
				p.release(*h)
				ids := prompt(i)
				*h = p.match(ids[:len(ids)-1])
				got, _ := p.alloc(chain - len(*h))
				*h = append(*h, got...)
				p.publish(ids, *h)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*chain), "ns/block")
		})
	}
	b.Run("construct/blocks=1M", func(b *testing.B) {
		for b.Loop() {
			newKVPool(1<<20, 16, true)
		}
	})
}
