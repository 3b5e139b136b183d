package cpu

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/cpu/kernel"
	"github.com/tokenrouter/tokenrouter/backend/model"
)

// benchModel has Qwen3-0.6B's layers, fewer of them, and a smaller vocabulary:
// 387 MB of bf16, more than any cache that it could be measured in.
var benchModel = sync.OnceValue(func() *model.Model { return makeBenchModel(1) })

func makeBenchModel(seed uint64) *model.Model {
	c := model.Toy("qwen3")
	c.Name = "qwen3-0.6b-like"
	c.Layers, c.Hidden, c.Intermediate, c.Vocab = 10, 1024, 3072, 32768
	c.Heads, c.KVHeads, c.HeadDim, c.MaxPositions = 16, 8, 128, 40960
	m, err := model.Random(context.Background(), c, model.BF16, seed)
	if err != nil {
		panic(err)
	}
	return m
}

// readThrough reads all weights of a step on so many threads, as fast as the
// kernels' plain loads can: the bandwidth that a step is held against.
func readThrough(m *model.Model, threads int) time.Duration {
	start := time.Now()
	var wait sync.WaitGroup
	for thread := range threads {
		wait.Go(func() {
			for _, t := range m.Tensors() {
				words := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(t.U16))), len(t.U16)/2)
				kernel.ReadThrough(words[thread*len(words)/threads : (thread+1)*len(words)/threads])
			}
		})
	}
	wait.Wait()
	return time.Since(start)
}

// BenchmarkStep decodes with 1 and with 4 requests, and reads the weights
// between the steps. It reports at how much of the speed of reading alone a step
// of 1 request reads weights and KV, and how much longer one of 4 requests takes.
// Minima are compared, since other programs on the machine only ever add time.
func BenchmarkStep(b *testing.B) {
	for _, threads := range []int{1, 2} {
		for _, context := range []int{64, 256, 1024, 4096} {
			b.Run(fmt.Sprintf("threads=%d/context=%d", threads, context), func(b *testing.B) {
				const blockTokens = 16
				perRequest := context/blockTokens + 1
				e := newEngine(b, benchModel(), Options{Threads: threads, Blocks: 4 * perRequest, BlockTokens: blockTokens})
				steps := [2]backend.Step{decode(1, context, perRequest), decode(4, context, perRequest)}
				results := make([]backend.Result, 4)
				least := [3]time.Duration{1 << 62, 1 << 62, 1 << 62} // reading, 1 request, 4 requests
				for b.Loop() {
					least[0] = min(least[0], readThrough(e.model, threads))
					for i := range steps {
						start := time.Now()
						if err := e.Forward(&steps[i], results); err != nil {
							b.Fatal(err)
						}
						least[1+i] = min(least[1+i], time.Since(start))
					}
				}
				b.ReportMetric(float64(e.Info().WeightBytes)/float64(least[0].Nanoseconds()), "read-GB/s")
				read := float64(e.Info().WeightBytes) + float64(context)*float64(e.Info().KVBytes)
				b.ReportMetric(read/float64(e.Info().WeightBytes)*float64(least[0])/float64(least[1]), "of-read")
				b.ReportMetric(float64(least[2])/float64(least[1]), "step4/step1")
				b.ReportMetric(float64(least[1].Nanoseconds())/1e6, "step1-ms")
				b.ReportMetric(0, "ns/op") // three things in one
			})
		}
	}
}

// BenchmarkPrefill feeds a chunk of 256 rows behind a context, and compares with
// as many steps of a row.
func BenchmarkPrefill(b *testing.B) {
	const rows, blockTokens = 256, 16
	for _, threads := range []int{1, 2} {
		for _, context := range []int{0, 4096} {
			b.Run(fmt.Sprintf("threads=%d/context=%d", threads, context), func(b *testing.B) {
				blocks := (context + rows) / blockTokens
				e := newEngine(b, benchModel(), Options{Threads: threads, Blocks: blocks, BlockTokens: blockTokens})
				one := decode(1, context, blocks)
				many := decode(1, context, blocks)
				many.Sequences[0].Tokens = drawTokens(1, rows, e.vocab)
				results := make([]backend.Result, 1)
				least := [2]time.Duration{1 << 62, 1 << 62}
				for b.Loop() {
					for i, step := range []*backend.Step{&one, &many} {
						start := time.Now()
						if err := e.Forward(step, results); err != nil {
							b.Fatal(err)
						}
						least[i] = min(least[i], time.Since(start))
					}
				}
				b.ReportMetric(rows/least[1].Seconds(), "rows/s")
				b.ReportMetric(float64(least[1])/float64(least[0]), "chunk/row")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkTwoEngines compares a step of one engine alone with one while another
// engine steps, too. With a thread each they share memory; with two each, on a
// machine of two processors, every step also has half the processors.
func BenchmarkTwoEngines(b *testing.B) {
	models := [2]*model.Model{benchModel(), makeBenchModel(2)} // one would be read from the cache for the other
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			const context, blockTokens, steps = 64, 16, 8
			var engines [2]*Engine
			for i := range engines {
				engines[i] = newEngine(b, models[i], Options{Threads: threads, Blocks: 8, BlockTokens: blockTokens})
			}
			run := func(e *Engine) {
				step, results := decode(1, context, 5), make([]backend.Result, 1)
				for range steps {
					if err := e.Forward(&step, results); err != nil {
						b.Error(err)
					}
				}
			}
			alone, both := time.Hour, time.Hour
			for b.Loop() {
				start := time.Now()
				run(engines[0])
				alone = min(alone, time.Since(start))
				start = time.Now()
				var wait sync.WaitGroup
				for _, e := range engines {
					wait.Go(func() { run(e) })
				}
				wait.Wait()
				both = min(both, time.Since(start))
			}
			b.ReportMetric(float64(alone.Nanoseconds())/1e6/steps, "alone-ms")
			b.ReportMetric(float64(both)/float64(alone), "both/alone")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// decode is a step of requests that have context tokens each.
func decode(requests, context, blocksEach int) backend.Step {
	var step backend.Step
	for i := range requests {
		s := backend.Sequence{Tokens: []backend.Token{backend.Token(i)}, Start: context, Samples: true, Logprobs: -1}
		for b := range blocksEach {
			s.Blocks = append(s.Blocks, int32(b*requests+i))
		}
		step.Sequences = append(step.Sequences, s)
	}
	return step
}
