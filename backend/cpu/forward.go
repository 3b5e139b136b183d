package cpu

import (
	"github.com/tokenrouter/tokenrouter/backend/cpu/kernel"
	"github.com/tokenrouter/tokenrouter/backend/model"
)

// The phases of a pass. All items of one are done before the next begins.
const (
	phaseEmbed         = iota // an item is a row
	phaseAttentionNorm        // a row
	phaseQKV                  // columns
	phaseRotate               // a row
	phaseAttend               // a tile
	phaseOutput               // columns
	phaseMLPNorm              // a row
	phaseGateUp               // columns
	phaseDown                 // columns
	phaseHeadNorm             // a row that samples
	phaseHead                 // columns
	phaseSample               // a row that samples
	phases
)

func (e *Engine) tasks() []func(thread, item int) {
	t := make([]func(thread, item int), phases)
	t[phaseEmbed] = e.embed
	t[phaseAttentionNorm] = e.attentionNorm
	t[phaseQKV] = e.projectQKV
	t[phaseRotate] = e.rotate
	t[phaseAttend] = e.attend
	t[phaseOutput] = e.projectOutput
	t[phaseMLPNorm] = e.mlpNorm
	t[phaseGateUp] = e.gateUp
	t[phaseDown] = e.down
	t[phaseHeadNorm] = e.headNorm
	t[phaseHead] = e.head
	t[phaseSample] = e.sample
	return t
}

// activations are the rows of a pass between phases, each [row][…].
type activations struct {
	x          []float32 // [hidden], the residual stream
	normed     []float32 // [hidden]
	q          []float32 // [head][dimension]
	k, v       []float32 // [KV head][dimension]
	turns      []float32 // [headDim]: cosines, then sines
	attended   []float32 // [head][dimension]
	gated, up  []float32 // [intermediate]
	projected  []float32 // [hidden], to be added to x
	logits     []float32 // [row that samples][vocab]; grows with the most that ever did
	headInputs []float32 // [row that samples][hidden]; likewise
}

func newActivations(s *shape, rows int) activations {
	buffer := func(width int) []float32 { return make([]float32, rows*width) }
	return activations{
		x: buffer(s.hidden), normed: buffer(s.hidden), projected: buffer(s.hidden),
		q: buffer(s.heads * s.headDim), attended: buffer(s.heads * s.headDim),
		k: buffer(s.kvHeads * s.headDim), v: buffer(s.kvHeads * s.headDim),
		turns: buffer(s.headDim), gated: buffer(s.intermediate), up: buffer(s.intermediate),
	}
}

// feed runs the rows of the pass through all layers and leaves their KV in the
// cache.
func (e *Engine) feed() {
	rows := len(e.pass.rows)
	e.pool.do(phaseEmbed, rows)
	for e.layer = range e.layers {
		e.now, e.nowNorm = &e.model.Layers[e.layer], &e.norms[e.layer]
		e.pool.do(phaseAttentionNorm, rows)
		e.pool.do(phaseQKV, len(e.cuts.qkv))
		e.pool.do(phaseRotate, rows)
		e.pool.do(phaseAttend, len(e.pass.tiles))
		e.pool.do(phaseOutput, len(e.cuts.output))
		e.pool.do(phaseMLPNorm, rows)
		e.pool.do(phaseGateUp, len(e.cuts.gateUp))
		e.pool.do(phaseDown, len(e.cuts.down))
	}
}

func (e *Engine) embed(_, item int) {
	r, d := &e.pass.rows[item], e.headDim
	e.model.Embed.Floats(e.x[item*e.hidden:(item+1)*e.hidden], int(r.token)*e.hidden)
	e.model.Rope.Fill(r.position, e.turns[item*d:item*d+d/2], e.turns[item*d+d/2:(item+1)*d])
}

func (e *Engine) attentionNorm(_, row int) { e.normRow(e.normed, row, row, e.nowNorm.attention) }
func (e *Engine) mlpNorm(_, row int)       { e.normRow(e.normed, row, row, e.nowNorm.mlp) }
func (e *Engine) headNorm(_, sample int) {
	e.normRow(e.headInputs, sample, e.pass.samples[sample].row, e.final)
}

func (e *Engine) normRow(to []float32, at, row int, weight []float32) {
	h := e.hidden
	kernel.RMSNorm(to[at*h:(at+1)*h], e.x[row*h:(row+1)*h], weight, e.epsilon)
}

func (e *Engine) projectQKV(_, item int) {
	c := e.cuts.qkv[item]
	w := [...]*model.Tensor{&e.now.Q, &e.now.K, &e.now.V}[c.matrix]
	y := [...][]float32{e.q, e.k, e.v}[c.matrix]
	multiply(y, e.normed, w, len(e.pass.rows), c)
}

// rotate finishes a row's queries and keys and puts its KV into the cache.
// Queries take on the softmax's scale here.
func (e *Engine) rotate(_, item int) {
	r, d := &e.pass.rows[item], e.headDim
	turns := e.turns[item*d : (item+1)*d]
	for head := range e.heads {
		at := (item*e.heads + head) * d
		q := e.q[at : at+d]
		if e.nowNorm.query != nil {
			kernel.RMSNorm(q, q, e.nowNorm.query, e.epsilon)
		}
		turn(q, turns, e.attentionScale)
	}
	block, slot := r.blocks[r.position/e.cache.blockTokens], r.position%e.cache.blockTokens
	for head := range e.kvHeads {
		at := (item*e.kvHeads + head) * d
		k := e.k[at : at+d]
		if e.nowNorm.key != nil {
			kernel.RMSNorm(k, k, e.nowNorm.key, e.epsilon)
		}
		turn(k, turns, 1)
		key, value := e.cache.at(e.layer, block, head, slot)
		copy(key, k)
		copy(value, e.v[at:at+d])
	}
}

func (e *Engine) projectOutput(_, item int) {
	e.project(&e.now.O, e.attended, e.cuts.output[item])
}

func (e *Engine) down(_, item int) { e.project(&e.now.Down, e.gated, e.cuts.down[item]) }

// project adds columns of in·wᵀ to the residual stream.
func (e *Engine) project(w *model.Tensor, in []float32, c columns) {
	rows := len(e.pass.rows)
	multiply(e.projected, in, w, rows, c)
	for r := range rows {
		x := e.x[r*e.hidden+c.low : r*e.hidden+c.high]
		for i, p := range e.projected[r*e.hidden+c.low : r*e.hidden+c.high] {
			x[i] += p
		}
	}
}

func (e *Engine) gateUp(_, item int) {
	c, rows := e.cuts.gateUp[item], len(e.pass.rows)
	multiply(e.gated, e.normed, &e.now.Gate, rows, c)
	multiply(e.up, e.normed, &e.now.Up, rows, c)
	for r := range rows {
		from, to := r*e.intermediate+c.low, r*e.intermediate+c.high
		kernel.SiLUMul(e.gated[from:to], e.gated[from:to], e.up[from:to])
	}
}

func (e *Engine) head(_, item int) {
	multiply(e.logits, e.headInputs, &e.model.Head, len(e.pass.samples), e.cuts.head[item])
}
