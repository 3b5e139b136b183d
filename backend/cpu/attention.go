package cpu

import "github.com/tokenrouter/tokenrouter/backend/cpu/kernel"

// cache is the pool of KV blocks:
// [layer][block][K, V][KV head][position in the block][dimension of a head].
// A head's keys in a block are thus a matrix of their own.
type cache struct {
	data        []float32
	blocks      int
	blockTokens int
	kvHeads     int
	headDim     int
}

func newCache(s *shape, blocks, blockTokens int) cache {
	c := cache{blocks: blocks, blockTokens: blockTokens, kvHeads: s.kvHeads, headDim: s.headDim}
	c.data = make([]float32, s.layers*blocks*c.blockSize())
	return c
}

func (c *cache) headSize() int  { return c.blockTokens * c.headDim }
func (c *cache) blockSize() int { return 2 * c.kvHeads * c.headSize() }

func (c *cache) bytesPerToken() int64 {
	return 4 * int64(len(c.data)) / int64(c.blocks) / int64(c.blockTokens)
}

// of returns the keys and the values of one head in a block, [position][dimension].
func (c *cache) of(layer int, block int32, head int) (keys, values []float32) {
	size := c.headSize()
	at := (layer*c.blocks+int(block))*c.blockSize() + head*size
	keys = c.data[at : at+size]
	at += c.kvHeads * size
	return keys, c.data[at : at+size]
}

// at returns where the key and the value of a position are.
func (c *cache) at(layer int, block int32, head, slot int) (key, value []float32) {
	keys, values := c.of(layer, block, head)
	from, to := slot*c.headDim, (slot+1)*c.headDim
	return keys[from:to], values[from:to]
}

// A tile is a few rows of one sequence that follow each other. They share what
// attention reads from the cache.
type tile struct {
	first, rows int // rows of the pass
	position    int // of the first
	blocks      []int32
}

// tileQueries bounds the queries of a tile, a query being a row and a head:
// enough that reading a key costs little beside the work on it, few enough that
// their sums stay in the first-level cache (32 × 128 × 4 bytes are 16 KiB).
const tileQueries = 32

// attention is one thread's scratch.
type attention struct {
	queries []float32 // [query][dimension]
	sums    []float32 // [query][dimension]
	scores  []float32 // [query][position], stride apart
	stride  int
}

func newAttention(s *shape, maxContext int) attention {
	queries := s.tileRows() * s.group()
	// An odd number of cache lines: columns of scores then fall into different
	// sets of the cache.
	const line = 16
	stride := ((maxContext+line-1)/line | 1) * line
	return attention{
		queries: make([]float32, queries*s.headDim),
		sums:    make([]float32, queries*s.headDim),
		scores:  make([]float32, queries*stride),
		stride:  stride,
	}
}

// attend computes softmax(q·Kᵀ)·V for the query heads of one KV head over a
// tile. A query's scores, its softmax and its sum over the positions 0, 1, … up
// to its own have one order each, which blocks and tiles only cut: the result is
// the same for every tiling and block size.
func (e *Engine) attend(thread, item int) {
	tiles := len(e.pass.tiles)
	head, t := item/tiles, &e.pass.tiles[item%tiles]
	a := &e.attention[thread]
	group, d, bt := e.group(), e.headDim, e.cache.blockTokens
	width := group * d // of a row's queries for this head
	queries := t.rows * group

	for r := range t.rows {
		copy(a.queries[r*width:(r+1)*width], e.q[(t.first+r)*e.heads*d+head*width:])
	}
	context := t.position + t.rows
	for b, from := 0, 0; from < context; b, from = b+1, from+bt {
		keys, _ := e.cache.of(e.layer, t.blocks[b], head)
		kernel.Dots(a.scores[from:], a.queries, keys, queries, d, min(bt, context-from), a.stride, d)
	}
	for q := range queries {
		kernel.Softmax(a.scores[q*a.stride:][:t.position+q/group+1])
	}
	clear(a.sums[:queries*d])
	for b, from := 0, 0; from < context; b, from = b+1, from+bt {
		_, values := e.cache.of(e.layer, t.blocks[b], head)
		if from+bt <= t.position+1 { // all rows see the whole block
			kernel.WeightedSum(a.sums, a.scores[from:], values, queries, d, bt, a.stride, d)
			continue
		}
		for r := range t.rows {
			seen := min(bt, t.position+r+1-from)
			if seen > 0 {
				kernel.WeightedSum(a.sums[r*width:], a.scores[r*group*a.stride+from:], values, group, d, seen, a.stride, d)
			}
		}
	}
	for r := range t.rows {
		copy(e.attended[(t.first+r)*e.heads*d+head*width:][:width], a.sums[r*width:])
	}
}
