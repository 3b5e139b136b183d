package cpu

import "github.com/tokenrouter/tokenrouter/backend/model"

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

// kvBytes is what a token's KV takes in all layers.
func kvBytes(m *model.Model) int64 {
	c := m.Config
	return int64(c.Layers) * 2 * int64(c.KVHeads) * int64(c.HeadDim) * 4
}

func newCache(s *shape, blocks, blockTokens int) cache {
	c := cache{blocks: blocks, blockTokens: blockTokens, kvHeads: s.kvHeads, headDim: s.headDim}
	c.data = make([]float32, s.layers*blocks*c.blockSize())
	preferHugePages(c.data)
	return c
}

func (c *cache) headSize() int  { return c.blockTokens * c.headDim }
func (c *cache) blockSize() int { return 2 * c.kvHeads * c.headSize() }

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
