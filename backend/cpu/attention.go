package cpu

import "github.com/tokenrouter/tokenrouter/backend/cpu/kernel"

// A tile is a part of attention's work: a few rows of one sequence that follow
// each other, and a few KV heads. Rows share what they read from the cache, and
// the heads' parts of a block lie side by side, which memory likes.
type tile struct {
	first, rows int // rows of the pass
	position    int // of the first
	blocks      []int32
	low, high   int // KV heads
}

// tileQueries bounds the queries of a tile, a query being a row and a head:
// enough that reading a key costs little beside the work on it, few enough that
// their sums stay in the first-level cache (32 × 128 × 4 bytes are 16 KiB).
const tileQueries = 32

// tile cuts the attention of neighbouring rows of a sequence into tiles: by rows
// first, since a prefill has many, and then by heads, at least one a thread.
func (e *Engine) tile(rows tile) {
	most := min(rows.rows, e.tileRows())
	heads := min(max(1, tileQueries/(most*e.group())), (e.kvHeads+e.pool.threads-1)/e.pool.threads)
	for low := 0; low < e.kvHeads; low += heads {
		for from := 0; from < rows.rows; from += most {
			e.pass.tiles = append(e.pass.tiles, tile{
				first: rows.first + from, rows: min(most, rows.rows-from),
				position: rows.position + from, blocks: rows.blocks,
				low: low, high: min(low+heads, e.kvHeads),
			})
		}
	}
}

// attention is one thread's scratch.
type attention struct {
	queries []float32 // [KV head of the tile][row][head of the group][dimension]
	sums    []float32 // likewise
	scores  []float32 // [query][position], stride apart
	stride  int
}

func newAttention(s *shape, maxContext int) attention {
	queries := max(tileQueries, s.group())
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

// attend computes softmax(q·Kᵀ)·V for a tile. A query's scores, its softmax and
// its sum over the positions 0, 1, … up to its own have one order each, which
// blocks and tiles only cut: the result is the same for every tiling and block
// size.
func (e *Engine) attend(thread, item int) {
	t, a := &e.pass.tiles[item], &e.attention[thread]
	d, bt := e.headDim, e.cache.blockTokens
	perRow := e.group() * d // queries of a row for a KV head
	queries := t.rows * e.group()
	context := t.position + t.rows

	for head := t.low; head < t.high; head++ {
		for r := range t.rows {
			copy(a.queries[((head-t.low)*t.rows+r)*perRow:][:perRow], e.q[(t.first+r)*e.heads*d+head*perRow:])
		}
	}
	for b, from := 0, 0; from < context; b, from = b+1, from+bt {
		for head := t.low; head < t.high; head++ {
			keys, _ := e.cache.of(e.layer, t.blocks[b], head)
			query := (head - t.low) * queries
			kernel.Dots(a.scores[query*a.stride+from:], a.queries[query*d:], keys, queries, d, min(bt, context-from), a.stride, d)
		}
	}
	all := (t.high - t.low) * queries
	for query := range all {
		row := query % queries / e.group()
		kernel.Softmax(a.scores[query*a.stride:][:t.position+row+1])
	}
	clear(a.sums[:all*d])
	for b, from := 0, 0; from < context; b, from = b+1, from+bt {
		for head := t.low; head < t.high; head++ {
			_, values := e.cache.of(e.layer, t.blocks[b], head)
			e.addValues(a, t, (head-t.low)*queries, from, values)
		}
	}
	for head := t.low; head < t.high; head++ {
		for r := range t.rows {
			copy(e.attended[(t.first+r)*e.heads*d+head*perRow:][:perRow], a.sums[((head-t.low)*t.rows+r)*perRow:])
		}
	}
}

// addValues adds a block's values, which start at position from, to the sums of
// a head's queries.
func (e *Engine) addValues(a *attention, t *tile, query, from int, values []float32) {
	d, bt, group := e.headDim, e.cache.blockTokens, e.group()
	if from+bt <= t.position+1 { // all rows see the whole block
		kernel.WeightedSum(a.sums[query*d:], a.scores[query*a.stride+from:], values, t.rows*group, d, bt, a.stride, d)
		return
	}
	for r := range t.rows {
		seen := min(bt, t.position+r+1-from)
		if seen > 0 {
			kernel.WeightedSum(a.sums[query*d:], a.scores[query*a.stride+from:], values, group, d, seen, a.stride, d)
		}
		query += group
	}
}
