package scheduler

import "fmt"

// check returns the first broken invariant of the pool, nil if all hold:
//
//	K1  every block is exactly one of free, held, cached, and the sums match
//	K2  no reference count is negative, a private block has exactly one
//	K3  the free stack holds every used free block once and nothing else
//	K4  the LRU list holds every cached block once, linked both ways
//	K5  every published block, and nothing else, is found under its parent and
//	    its tokens
//	K6  every parent is published, and kids counts its children
//	K7  who holds a block holds its parent: children's references sum to at
//	    most the parent's
//	K8  in the LRU list every block comes after all of its children
//
// It takes time linear in the blocks ever used.
func (p *kvPool) check() error {
	if len(p.tally) < int(p.fresh) {
		p.tally = make([]int32, len(p.blocks))
	}
	for _, part := range []func() error{p.checkStates, p.checkFree, p.checkLRU, p.checkIndex, p.checkForest, p.checkOrder} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func kvBroken(rule string, format string, args ...any) error {
	return fmt.Errorf("scheduler: kv invariant %s: %s", rule, fmt.Sprintf(format, args...))
}

func (p *kvPool) checkStates() error {
	if p.fresh < 0 || int(p.fresh) > len(p.blocks) {
		return kvBroken("K1", "%d of %d blocks used", p.fresh, len(p.blocks))
	}
	free, idle := len(p.blocks)-int(p.fresh), 0
	for b := range p.blocks[:p.fresh] {
		blk := &p.blocks[b]
		switch {
		case blk.refs < 0:
			return kvBroken("K2", "block %d has %d references", b, blk.refs)
		case blk.state == kvPrivate && blk.refs != 1:
			return kvBroken("K2", "private block %d has %d references", b, blk.refs)
		case blk.state == kvFree && blk.refs != 0:
			return kvBroken("K1", "free block %d has %d references", b, blk.refs)
		case blk.state > kvPublished || blk.state == kvPublished && !p.reuse:
			return kvBroken("K1", "block %d is in state %d", b, blk.state)
		case blk.state == kvFree:
			free++
		case blk.state == kvPublished && blk.refs == 0:
			idle++
		}
	}
	if free != p.nFree || idle != p.nIdle {
		return kvBroken("K1", "%d blocks free and %d cached, counted %d and %d", free, idle, p.nFree, p.nIdle)
	}
	return nil
}

func (p *kvPool) checkFree() error {
	n := len(p.blocks) - int(p.fresh)
	for b := p.free; b != kvNone; b = p.blocks[b].next {
		if b < 0 || b >= p.fresh || p.blocks[b].state != kvFree {
			return kvBroken("K3", "block %d is on the free stack", b)
		}
		if n++; n > p.nFree {
			return kvBroken("K3", "free stack longer than %d", p.nFree)
		}
	}
	if n != p.nFree {
		return kvBroken("K3", "free stack and unused blocks are %d, counted %d", n, p.nFree)
	}
	return nil
}

func (p *kvPool) checkLRU() error {
	n, prev := 0, kvNone
	for b := p.lruFirst; b != kvNone; b = p.blocks[b].next {
		if b < 0 || b >= p.fresh || p.blocks[b].state != kvPublished || p.blocks[b].refs != 0 {
			return kvBroken("K4", "block %d is in the LRU list", b)
		}
		if p.blocks[b].prev != prev {
			return kvBroken("K4", "block %d follows %d but points back to %d", b, prev, p.blocks[b].prev)
		}
		if n++; n > p.nIdle {
			return kvBroken("K4", "LRU list longer than %d", p.nIdle)
		}
		prev = b
	}
	if n != p.nIdle || p.lruLast != prev {
		return kvBroken("K4", "LRU list has %d blocks up to %d, counted %d up to %d", n, prev, p.nIdle, p.lruLast)
	}
	return nil
}

func (p *kvPool) checkIndex() error {
	published := 0
	for b := range p.blocks[:p.fresh] {
		if p.blocks[b].state == kvPublished {
			published++
		}
	}
	for _, head := range p.buckets {
		for b := head - 1; b != kvNone; b = p.blocks[b].chain - 1 {
			if b < 0 || b >= p.fresh || p.blocks[b].state != kvPublished {
				return kvBroken("K5", "block %d is in the index", b)
			}
			if published--; published < 0 {
				return kvBroken("K5", "more blocks in the index than published")
			}
		}
	}
	if published != 0 {
		return kvBroken("K5", "%d published blocks not in the index", published)
	}
	for b := range p.blocks[:p.fresh] {
		blk := &p.blocks[b]
		if blk.state != kvPublished {
			continue
		}
		key := p.tokensOf(int32(b))
		if bucket := p.bucketOf(blk.parent, key); bucket != blk.bucket {
			return kvBroken("K5", "block %d hangs in bucket %d, its tokens belong in %d", b, blk.bucket, bucket)
		}
		if found := p.find(blk.bucket, blk.parent, key); found != int32(b) {
			return kvBroken("K5", "looking for block %d finds %d", b, found)
		}
	}
	return nil
}

// checkForest sums over the children of every block, first their number and
// then their references.
func (p *kvPool) checkForest() error {
	clear(p.tally[:p.fresh])
	for b := range p.blocks[:p.fresh] {
		blk := &p.blocks[b]
		if blk.state != kvPublished || blk.parent == kvNone {
			continue
		}
		if blk.parent < 0 || blk.parent >= p.fresh || p.blocks[blk.parent].state != kvPublished {
			return kvBroken("K6", "block %d hangs under %d, which is not published", b, blk.parent)
		}
		p.tally[blk.parent]++
	}
	for b := range p.blocks[:p.fresh] {
		if p.blocks[b].kids != p.tally[b] {
			return kvBroken("K6", "block %d has %d children, counted %d", b, p.tally[b], p.blocks[b].kids)
		}
	}
	clear(p.tally[:p.fresh])
	for b := range p.blocks[:p.fresh] {
		if blk := &p.blocks[b]; blk.state == kvPublished && blk.parent != kvNone {
			p.tally[blk.parent] += blk.refs
		}
	}
	for b := range p.blocks[:p.fresh] {
		if p.tally[b] > p.blocks[b].refs {
			return kvBroken("K7", "block %d has %d references, its children %d", b, p.blocks[b].refs, p.tally[b])
		}
	}
	return nil
}

// checkOrder walks the LRU list counting the children met so far.
func (p *kvPool) checkOrder() error {
	clear(p.tally[:p.fresh])
	for b := p.lruFirst; b != kvNone; b = p.blocks[b].next {
		blk := &p.blocks[b]
		if p.tally[b] != blk.kids {
			return kvBroken("K8", "block %d would be evicted before %d of its children", b, blk.kids-p.tally[b])
		}
		if blk.parent != kvNone {
			p.tally[blk.parent]++
		}
	}
	return nil
}
