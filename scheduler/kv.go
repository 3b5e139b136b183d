package scheduler

import (
	"fmt"
	"slices"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// kvPool keeps the books of one subserver's paged KV memory. It knows block
// numbers and, with reuse, which tokens the finished blocks hold; the memory
// itself belongs to the engine.
//
// A block is free, held (someone has a reference) or cached (nobody has one,
// but its KV is still there under its tokens and can be found again). A block
// that has one owner and cannot be found is private; publish makes it findable.
//
// Published blocks form a forest: a block's parent is the block of the tokens
// just before it. A block is looked up by (parent, tokens), and tokens and
// parent are compared, not a digest of them, so no collision can hand out the
// KV of another text. A parent's number is a safe key because of the rule that
// everything here rests on: a block leaves the cache before its parent does.
//
// Why the rule holds. Everyone who holds a published block holds its parent:
// match takes chains from the root, publish extends the caller's own chain (it
// swaps a duplicate for the published block, see there), and release gives up
// the deepest first. So when a block's last reference goes, none of its
// children is held: each is in the LRU list already, or gone. It enters the
// list behind them. A child can get ahead of its parent in recency only by
// being held, which takes the parent out of the list too, and the parent comes
// back last. Eviction takes from the front, so it meets the children first.
type kvPool struct {
	blockTokens int
	reuse       bool

	blocks []kvBlock
	fresh  int32 // blocks from here on were never used and are on no list
	free   int32 // top of the stack of used and freed blocks, kvNone if empty
	nFree  int   // free blocks, fresh ones included
	nIdle  int   // cached blocks

	lruFirst, lruLast int32 // cached blocks, the next to be evicted first

	// Only with reuse, and only from the first publish on.
	buckets []int32            // 1 + first block of the bucket, 0 = empty
	tokens  []algorithms.Token // [blocks × blockTokens], by block number

	tally  []int32 // scratch of check
	claims []int32 // scratch of claim
}

// kvBlock is 32 bytes, two to a cache line. Its zero value is a free block, so
// that a pool of a million blocks costs nothing until they are used.
type kvBlock struct {
	refs       int32  // references held by requests
	parent     int32  // published: the block before it, kvNone at the root
	kids       int32  // published: published blocks whose parent this is
	bucket     uint32 // published: where it hangs in buckets
	chain      int32  // published: 1 + next block of the bucket, 0 = last
	prev, next int32  // cached: neighbours in the LRU list; free: next only
	state      kvState
}

type kvState uint8

const (
	kvFree kvState = iota
	kvPrivate
	kvPublished // held while refs > 0, else cached
)

const kvNone int32 = -1

// newKVPool returns a pool of free blocks of blockTokens tokens each. Without
// reuse nothing is ever cached and match finds nothing.
func newKVPool(blocks, blockTokens int, reuse bool) *kvPool {
	if blocks < 1 || blocks > 1<<30 || blockTokens < 1 {
		panic(fmt.Sprintf("scheduler: kv pool of %d blocks of %d tokens", blocks, blockTokens))
	}
	return &kvPool{
		blockTokens: blockTokens,
		reuse:       reuse,
		blocks:      make([]kvBlock, blocks),
		free:        kvNone,
		nFree:       blocks,
		lruFirst:    kvNone,
		lruLast:     kvNone,
	}
}

// blocksFor returns how many blocks hold that many tokens.
func (p *kvPool) blocksFor(tokens int) int {
	return (max(tokens, 0) + p.blockTokens - 1) / p.blockTokens
}

// available returns how many blocks alloc could give now: the free ones and
// the cached ones, all of which can be evicted.
func (p *kvPool) available() int { return p.nFree + p.nIdle }

// match appends to dst the longest chain of published full blocks that is a
// prefix of ids and takes a reference on each. Pass ids without the last
// token: at least one row must be fed to get a next token.
func (p *kvPool) match(dst []int32, ids []algorithms.Token) []int32 {
	if p.buckets == nil {
		return dst
	}
	parent := kvNone
	for ; len(ids) >= p.blockTokens; ids = ids[p.blockTokens:] {
		key := ids[:p.blockTokens]
		b := p.find(p.bucketOf(parent, key), parent, key)
		if b == kvNone {
			break
		}
		p.hold(b)
		dst = append(dst, b)
		parent = b
	}
	return dst
}

// alloc appends n private blocks to dst: free ones, then the least recently
// used of the cached ones. With fewer than n available it returns dst, false
// and has changed nothing.
func (p *kvPool) alloc(dst []int32, n int) ([]int32, bool) {
	if n > p.available() {
		return dst, false
	}
	for ; n > 0; n-- {
		if p.nFree == 0 {
			p.evict()
		}
		b := p.free
		if b != kvNone {
			p.free = p.blocks[b].next
		} else {
			b = p.fresh
			p.fresh++
		}
		p.nFree--
		blk := &p.blocks[b]
		blk.refs, blk.state = 1, kvPrivate
		dst = append(dst, b)
	}
	return dst, true
}

// publish makes the full blocks of the caller's chain findable, from the index
// from on: blocks[i] holds the KV of ids[i·blockTokens:][:blockTokens]. A
// published block must not be written again.
//
// Where an equal block is already published (two requests fed the same prompt
// in one step), the caller's copy is freed and blocks[i] becomes the published
// one: the KV is the same. So blocks must be the caller's own list, not a copy.
// Keeping the duplicate and hanging the rest of the chain under a block that
// the caller does not hold would break the rule at kvPool, and pinning that
// block would let a request occupy twice what it was admitted for.
func (p *kvPool) publish(ids []algorithms.Token, blocks []int32, from int) {
	full := min(len(ids)/p.blockTokens, len(blocks))
	if !p.reuse || from >= full {
		return
	}
	if p.buckets == nil {
		p.buckets = make([]int32, ceilPow2(len(p.blocks)))
		p.tokens = make([]algorithms.Token, len(p.blocks)*p.blockTokens)
	}
	for from > 0 && p.blocks[blocks[from-1]].state != kvPublished {
		from-- // a chain is published from its root without gaps
	}
	parent := kvNone
	if from > 0 {
		parent = blocks[from-1]
	}
	for i := from; i < full; i++ {
		b := blocks[i]
		if p.blocks[b].state != kvPublished {
			key := ids[i*p.blockTokens:][:p.blockTokens]
			bucket := p.bucketOf(parent, key)
			twin := kvNone
			if parent == kvNone || p.blocks[parent].kids > 0 {
				twin = p.find(bucket, parent, key)
			}
			if twin != kvNone {
				p.hold(twin)
				p.drop(b)
				b, blocks[i] = twin, twin
			} else {
				p.insert(b, bucket, parent, key)
			}
		}
		if p.blocks[b].parent != parent {
			panic(fmt.Sprintf("scheduler: kv block %d published under %d, want %d", b, p.blocks[b].parent, parent))
		}
		parent = b
	}
}

// release drops one reference on each block: a whole chain or the tail of one,
// in its order. Private blocks become free; published ones that nobody else
// holds become cached, the deepest as the first to go.
func (p *kvPool) release(blocks []int32) {
	for _, b := range slices.Backward(blocks) {
		p.drop(b)
	}
}

// hold takes a reference on a published block.
func (p *kvPool) hold(b int32) {
	blk := &p.blocks[b]
	if blk.refs == 0 {
		p.unlinkLRU(blk)
		p.nIdle--
	}
	blk.refs++
}

// drop gives a reference up.
func (p *kvPool) drop(b int32) {
	blk := &p.blocks[b]
	if blk.refs <= 0 {
		panic(fmt.Sprintf("scheduler: kv block %d released but not held", b))
	}
	blk.refs--
	switch {
	case blk.refs > 0:
	case blk.state == kvPrivate:
		p.putFree(b)
	default:
		p.appendLRU(b)
		p.nIdle++
	}
}

// evict frees the least recently used cached block.
func (p *kvPool) evict() {
	b := p.lruFirst
	blk := &p.blocks[b]
	if blk.kids != 0 {
		panic(fmt.Sprintf("scheduler: kv block %d evicted before its %d children", b, blk.kids))
	}
	p.unlinkLRU(blk)
	p.nIdle--
	p.remove(b)
	p.putFree(b)
}

// flush frees all cached blocks.
func (p *kvPool) flush() {
	for p.nIdle > 0 {
		p.evict()
	}
}

func (p *kvPool) putFree(b int32) {
	p.blocks[b] = kvBlock{next: p.free}
	p.free = b
	p.nFree++
}

func (p *kvPool) appendLRU(b int32) {
	blk := &p.blocks[b]
	blk.prev, blk.next = p.lruLast, kvNone
	if p.lruLast == kvNone {
		p.lruFirst = b
	} else {
		p.blocks[p.lruLast].next = b
	}
	p.lruLast = b
}

func (p *kvPool) unlinkLRU(blk *kvBlock) {
	if blk.prev == kvNone {
		p.lruFirst = blk.next
	} else {
		p.blocks[blk.prev].next = blk.next
	}
	if blk.next == kvNone {
		p.lruLast = blk.prev
	} else {
		p.blocks[blk.next].prev = blk.prev
	}
}

// insert publishes a private block.
func (p *kvPool) insert(b int32, bucket uint32, parent int32, key []algorithms.Token) {
	blk := &p.blocks[b]
	blk.state, blk.parent, blk.kids = kvPublished, parent, 0
	blk.bucket, blk.chain = bucket, p.buckets[bucket]
	p.buckets[bucket] = b + 1
	copy(p.tokensOf(b), key)
	if parent != kvNone {
		p.blocks[parent].kids++
	}
}

// remove takes a published block out of its bucket and from its parent.
func (p *kvPool) remove(b int32) {
	blk := &p.blocks[b]
	link := &p.buckets[blk.bucket]
	for *link != b+1 {
		link = &p.blocks[*link-1].chain
	}
	*link = blk.chain
	if blk.parent != kvNone {
		p.blocks[blk.parent].kids--
	}
}

// find returns the published block with these tokens under parent, or kvNone.
func (p *kvPool) find(bucket uint32, parent int32, key []algorithms.Token) int32 {
	for b := p.buckets[bucket] - 1; b != kvNone; b = p.blocks[b].chain - 1 {
		if p.blocks[b].parent == parent && slices.Equal(p.tokensOf(b), key) {
			return b
		}
	}
	return kvNone
}

func (p *kvPool) tokensOf(b int32) []algorithms.Token {
	return p.tokens[int(b)*p.blockTokens:][:p.blockTokens]
}

// bucketOf hashes a key to its bucket. The multiplier is 2^64 divided by the
// golden ratio (Knuth, The Art of Computer Programming 3, 6.4); the shift
// brings the well-mixed high bits down. Only speed depends on its quality.
func (p *kvPool) bucketOf(parent int32, key []algorithms.Token) uint32 {
	const golden = 0x9e3779b97f4a7c15
	h := (uint64(uint32(parent)) + 1) * golden
	// Two tokens at a time: each multiplication waits for the one before.
	for ; len(key) >= 2; key = key[2:] {
		h = (h ^ h>>32 ^ uint64(uint32(key[0])) ^ uint64(uint32(key[1]))<<32) * golden
	}
	if len(key) == 1 {
		h = (h ^ h>>32 ^ uint64(uint32(key[0]))) * golden
	}
	return uint32(h>>32) & uint32(len(p.buckets)-1)
}

func ceilPow2(n int) int {
	size := 1
	for size < n {
		size *= 2
	}
	return size
}
