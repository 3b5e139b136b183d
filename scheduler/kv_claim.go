package scheduler

// claim counts the blocks that would come available if everybody claimed
// so far, these blocks' owner included, released. It changes nothing but its
// own marks; unclaim takes them back.
func (p *kvPool) claim(blocks []int32) (wouldFree int) {
	if p.claims == nil {
		p.claims = make([]int32, len(p.blocks))
	}
	for _, b := range blocks {
		p.claims[b]++
		if p.claims[b] == p.blocks[b].refs {
			wouldFree++
		}
	}
	return wouldFree
}

func (p *kvPool) unclaim(blocks []int32) {
	for _, b := range blocks {
		p.claims[b] = 0
	}
}
