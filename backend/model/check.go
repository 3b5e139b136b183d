package model

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// checkChunk is how many bytes of a tensor one thread looks through at a time.
const checkChunk = 4 << 20

// Check looks at every weight, on all cores, for NaN and infinities, which
// training that diverged and broken conversions leave: they turn every logit
// into NaN. Its error names the first such tensor and the place in it. Progress,
// if not nil, is told how many bytes of how many are done, by one goroutine at a
// time. A cancelled context ends it with the context's error.
func (m *Model) Check(ctx context.Context, progress func(done, total int64)) error {
	return check(ctx, m.Tensors(), progress)
}

// piece is a range of a tensor's bytes.
type piece struct {
	tensor   *Tensor
	from, to int
}

func check(ctx context.Context, tensors []*Tensor, progress func(done, total int64)) error {
	var pieces []piece
	total := int64(0)
	for _, t := range tensors {
		size := int(t.Bytes())
		total += int64(size)
		for from := 0; from < size; from += checkChunk {
			pieces = append(pieces, piece{t, from, min(from+checkChunk, size)})
		}
	}
	var next, first atomic.Int64
	first.Store(int64(len(pieces))) // the lowest piece with a fault: the error must not depend on threads
	var telling sync.Mutex
	done := int64(0)
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(pieces)) {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < first.Load() && ctx.Err() == nil; i = next.Add(1) - 1 {
				p := pieces[i]
				if !finite(p.tensor.raw()[p.from:p.to], p.tensor.Dtype) {
					lower(&first, i)
				}
				if progress != nil {
					telling.Lock()
					done += int64(p.to - p.from)
					progress(done, total)
					telling.Unlock()
				}
			}
		})
	}
	wait.Wait()
	if i := first.Load(); i < int64(len(pieces)) {
		return fault(pieces[i])
	}
	return ctx.Err()
}

func lower(v *atomic.Int64, to int64) {
	for old := v.Load(); to < old && !v.CompareAndSwap(old, to); old = v.Load() {
	}
}

// finite tests whole words: a lane whose exponent bits are all set overflows
// into its sign bit when the lowest exponent bit is added, and into no other
// lane.
func finite(data []byte, dtype Dtype) bool {
	exponent, lowest := exponentLanes(dtype)
	overflow := uint64(0)
	for len(data) >= 32 {
		a, b := binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:])
		c, d := binary.LittleEndian.Uint64(data[16:]), binary.LittleEndian.Uint64(data[24:])
		overflow |= (a&exponent + lowest) | (b&exponent + lowest) | (c&exponent + lowest) | (d&exponent + lowest)
		data = data[32:]
	}
	var last [32]byte
	copy(last[:], data)
	for i := 0; i < 32; i += 8 {
		overflow |= binary.LittleEndian.Uint64(last[i:])&exponent + lowest
	}
	return overflow&(exponent+lowest) == 0
}

// exponentLanes gives, for every number in a word, the bits of its exponent and
// the lowest of them.
func exponentLanes(dtype Dtype) (exponent, lowest uint64) {
	switch dtype {
	case BF16:
		return 0x7f80_7f80_7f80_7f80, 0x0080_0080_0080_0080
	case F16:
		return 0x7c00_7c00_7c00_7c00, 0x0400_0400_0400_0400
	case F32:
		return 0x7f80_0000_7f80_0000, 0x0080_0000_0080_0000
	}
	panic("model: weights of no dtype")
}

// fault describes the first weight of a piece that is not finite.
func fault(p piece) error {
	t := p.tensor
	var v [1]float32
	at := p.from / t.Dtype.Size()
	for ; at < p.to/t.Dtype.Size(); at++ {
		t.Floats(v[:], at)
		if f := float64(v[0]); math.IsNaN(f) || math.IsInf(f, 0) {
			break
		}
	}
	return fmt.Errorf("%s: tensor %s is %v at index %d of shape %s: the checkpoint is broken, download or convert it again",
		t.path, t.Name, v[0], at, shapeText(t.Shape))
}
