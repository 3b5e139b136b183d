package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const lanes = 32

// format is how a matrix is stored.
type format struct {
	name, goType string
	bytes        int
}

var (
	f32  = format{"F32", "float32", 4}
	bf16 = format{"BF16", "uint16", 2}
	f16  = format{"F16", "uint16", 2}
)

// load widens a vector of values to float32.
func (f format) load(from Mem, to reg.VecPhysical) {
	switch f {
	case f32:
		VMOVUPS(from, to)
	case bf16:
		VPMOVZXWD(from, to)
		VPSLLD(Imm(16), to, to)
	case f16:
		VCVTPH2PS(from, to)
	}
}

// tile is a block of rows × columns outputs whose sums are held in registers.
// Where the registers don't hold all lanes of all outputs, the operands are
// walked in several passes, each over its share of the lanes, and the sums of the
// other passes wait on the stack.
type tile struct {
	level
	format
	rows, columns, passes int
}

// strided addresses up to four rows of a matrix by one register and multiples of
// the row stride in bytes.
type strided struct {
	base, step, step3 reg.Register
}

func newStrided(name string, bytes int) strided {
	s := strided{Load(Param(name), GP64()), Load(Param(name+"Stride"), GP64()), GP64()}
	SHLQ(U8(bytes/2), s.step)
	LEAQ(Mem{Base: s.step, Index: s.step, Scale: 2}, s.step3)
	return s
}

// at is the address of a byte in a row, from a pointer into row 0.
func (s strided) at(pointer reg.Register, row, disp int) Mem {
	m := Mem{Base: pointer, Disp: disp}
	switch row {
	case 0:
	case 1, 2:
		m.Index, m.Scale = s.step, uint8(row)
	case 3:
		m.Index, m.Scale = s.step3, 1
	default:
		panic("row beyond the tile")
	}
	return m
}

const (
	// From so many blocks on, a single row of x takes the columns of w one by one:
	// memory is read fastest in order. Shorter rows are taken several at once, since
	// adding the lanes takes as long as a few blocks.
	longRow = 16
	// prefetchBytes is how far ahead of the next tile weights are fetched into the
	// second-level cache. Fetching into the first or less far ahead is slower, and
	// so is fetching each row of the tile ahead of itself.
	prefetchBytes = 4096
	// pieceBlocks are walked by all passes in turn: so much of the tile's rows of x
	// and w stays in the first-level cache (32 KB) from pass to pass, even if a row
	// is a multiple of 4 KB long, so that all of them compete for the same lines.
	pieceBlocks = 16
)

// products emits a function that computes n columns of up to four rows:
//
//	y[r·yStride+j] = Σ_i x[r·xStride+i]·w[j·wStride+i]
//
// over blocks·32 values of i and, if xEnd is not nil, over 32 more that stand row
// after row, without gaps, at xEnd and wEnd. The tiles are for 1, 2, 3, 4 rows.
func products(tiles [4]tile) {
	f := tiles[0].format
	function(fmt.Sprintf("product%s%s", f.name, tiles[0].level.name), fmt.Sprintf(
		"func(y *float32, yStride int, x *float32, xStride int, w *%s, wStride int, rows, blocks, n int, xEnd *float32, wEnd *%[1]s)", f.goType))
	o := operands{
		y: newStrided("y", 4), x: newStrided("x", 4), w: newStrided("w", f.bytes),
		n: argument("n"), wEnd: argument("wEnd"),
	}
	bytes := 0
	for _, t := range tiles {
		bytes = max(bytes, t.keptBytes())
	}
	if bytes > 0 {
		o.left, o.ahead, o.kept = AllocLocal(8), AllocLocal(8), AllocLocal(bytes)
	}
	for i := len(tiles) - 1; i > 0; i-- {
		CMPQ(argument("rows"), U32(i+1))
		JEQ(LabelRef(tiles[i].label("columns")))
	}
	for _, t := range tiles {
		if t.rows == 1 && t.columns > 1 {
			CMPQ(argument("blocks"), U32(longRow))
			JGE(LabelRef(tile{rows: 1, columns: 1}.label("columns")))
		}
		t.columnLoop(o)
		if t.columns > 1 {
			t.columns = 1
			t.columnLoop(o)
		}
		VZEROUPPER()
		RET()
	}
}

// operands are what outlives a tile: registers, and memory where they run out.
type operands struct {
	y, x, w strided
	n, wEnd Mem
	left    Mem // blocks after this piece, if there are several passes
	ahead   Mem // where the first of them began to fetch
	kept    Mem // sums of all passes, if there are several
}

// argument is where an argument lies.
func argument(name string) Mem {
	basic, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return basic.Addr
}

func (t tile) label(name string) string { return fmt.Sprintf("%s%dx%d", name, t.rows, t.columns) }

// columnLoop goes through the columns of w by a tile at a time, as long as so
// many are left.
func (t tile) columnLoop(o operands) {
	Label(t.label("columns"))
	CMPQ(o.n, U32(t.columns))
	JLT(LabelRef(t.label("done")))
	t.compute(o)
	t.store(o)
	for range t.columns {
		ADDQ(o.w.step, o.w.base)
	}
	ADDQ(U32(t.columns*lanes*t.format.bytes), o.wEnd)
	ADDQ(U32(4*t.columns), o.y.base)
	SUBQ(U32(t.columns), o.n)
	JMP(LabelRef(t.label("columns")))
	Label(t.label("done"))
}

// steps is the number of vectors in a pass's share of the lanes.
func (t tile) steps() int { return lanes / t.passes / t.width }

func (t tile) sum(row, column, step int) reg.VecPhysical {
	return t.sums[(row*t.columns+column)*t.steps()+step]
}

// keptBytes is the room for the sums of all passes.
func (t tile) keptBytes() int {
	if t.passes == 1 {
		return 0
	}
	return t.rows * t.columns * lanes * 4
}

// compute leaves the sums of all lanes in registers, or if there are several
// passes, in kept.
func (t tile) compute(o operands) {
	xNow, wNow, ahead := GP64(), GP64(), GP64()
	MOVQ(o.x.base, xNow)
	MOVQ(o.w.base, wNow)
	MOVQ(o.w.base, ahead)
	for range t.columns {
		ADDQ(o.w.step, ahead)
	}
	left := GP64()
	MOVQ(argument("blocks"), left)
	if t.passes == 1 {
		t.zero()
		TESTQ(left, left)
		JZ(LabelRef(t.label("walked")))
		t.walk(0, o, xNow, wNow, left, ahead)
		Label(t.label("walked"))
	} else {
		MOVQ(left, o.left)
		TESTQ(left, left)
		JZ(LabelRef(t.label("walked")))
		Label(t.label("piece"))
		t.piece(o, xNow, wNow, ahead)
		SUBQ(U32(pieceBlocks), o.left)
		JGT(LabelRef(t.label("piece")))
		Label(t.label("walked"))
	}
	xEnd, wEnd := GP64(), GP64()
	MOVQ(argument("xEnd"), xEnd)
	TESTQ(xEnd, xEnd)
	JZ(LabelRef(t.label("summed")))
	MOVQ(o.wEnd, wEnd)
	for pass := range t.passes {
		t.resume(pass, "end", o, xNow)
		t.block(pass,
			func(row, disp int) Mem { return Mem{Base: xEnd, Disp: row*lanes*4 + disp} },
			func(column, disp int) Mem { return Mem{Base: wEnd, Disp: column*lanes*t.format.bytes + disp} })
		t.suspend(pass, o)
	}
	Label(t.label("summed"))
}

// piece lets all passes walk over the next pieceBlocks blocks, or what is left.
func (t tile) piece(o operands, xNow, wNow, ahead reg.Register) {
	x, w, count := GP64(), GP64(), GP64()
	for pass := range t.passes {
		t.resume(pass, "piece", o, xNow)
		if pass == 0 {
			MOVQ(ahead, o.ahead)
		} else {
			MOVQ(o.ahead, ahead)
		}
		MOVQ(xNow, x)
		MOVQ(wNow, w)
		MOVQ(o.left, count)
		whole := t.label(fmt.Sprintf("counted%dof", pass))
		CMPQ(count, U32(pieceBlocks))
		JLE(LabelRef(whole))
		MOVQ(U32(pieceBlocks), count)
		Label(whole)
		t.walk(pass, o, x, w, count, ahead)
		t.suspend(pass, o)
	}
	MOVQ(x, xNow)
	MOVQ(w, wNow)
}

func (t tile) zero() {
	for _, s := range t.sums[:t.rows*t.columns*t.steps()] {
		VXORPS(s.AsX(), s.AsX(), s.AsX())
	}
}

// resume takes the sums of a pass up again, or zeros where nothing was walked.
func (t tile) resume(pass int, name string, o operands, xNow reg.Register) {
	if t.passes == 1 {
		return
	}
	name = t.label(fmt.Sprintf("%s%dof", name, pass))
	CMPQ(xNow, o.x.base)
	JEQ(LabelRef("first" + name))
	t.eachSum(func(row, column, step int) { VMOVUPS(t.kept(o, pass, row, column, step), t.sum(row, column, step)) })
	JMP(LabelRef("resumed" + name))
	Label("first" + name)
	t.zero()
	Label("resumed" + name)
}

func (t tile) suspend(pass int, o operands) {
	if t.passes > 1 {
		t.eachSum(func(row, column, step int) { VMOVUPS(t.sum(row, column, step), t.kept(o, pass, row, column, step)) })
	}
}

func (t tile) eachSum(do func(row, column, step int)) {
	for r := range t.rows {
		for c := range t.columns {
			for s := range t.steps() {
				do(r, c, s)
			}
		}
	}
}

// kept is where a sum waits while other passes run.
func (t tile) kept(o operands, pass, row, column, step int) Mem {
	return o.kept.Offset(4 * t.width * (((pass*t.rows+row)*t.columns+column)*t.steps() + step))
}

// walk adds the products of left blocks to the sums, left ≥ 1, and moves on.
func (t tile) walk(pass int, o operands, x, w, left, ahead reg.Register) {
	block := t.label(fmt.Sprintf("block%dof", pass))
	Label(block)
	bytes := t.columns * lanes * t.format.bytes
	for line := 64 * pass; line < bytes; line += 64 * t.passes {
		PREFETCHT1(Mem{Base: ahead, Disp: prefetchBytes + line})
	}
	ADDQ(U32(bytes), ahead)
	t.block(pass,
		func(row, disp int) Mem { return o.x.at(x, row, disp) },
		func(column, disp int) Mem { return o.w.at(w, column, disp) })
	ADDQ(U32(lanes*4), x)
	ADDQ(U32(lanes*t.format.bytes), w)
	DECQ(left)
	JNZ(LabelRef(block))
}

// block adds the products of 32 values to the sums.
func (t tile) block(pass int, x, w func(row, disp int) Mem) {
	for step := range t.steps() {
		first := (pass*t.steps() + step) * t.width
		for c := range t.columns {
			t.load(w(c, first*t.format.bytes), t.temps[1+c%(len(t.temps)-1)])
		}
		for r := range t.rows {
			if t.columns == 1 {
				VFMADD231PS(x(r, first*4), t.temps[1], t.sum(r, 0, step))
				continue
			}
			VMOVUPS(x(r, first*4), t.temps[0])
			for c := range t.columns {
				VFMADD231PS(t.temps[1+c], t.temps[0], t.sum(r, c, step))
			}
		}
	}
}

// store adds the lanes of every output in their fixed order and writes y. Four
// outputs are finished together.
func (t tile) store(o operands) {
	y := o.y
	type output struct{ row, column int }
	var outputs []output
	for c := range t.columns {
		for r := range t.rows {
			outputs = append(outputs, output{r, c})
		}
	}
	for len(outputs) > 0 {
		group := outputs[:min(4, len(outputs))]
		outputs = outputs[len(group):]
		var quads []reg.Register
		for i, out := range group {
			quads = append(quads, t.quad(out.row, out.column, t.temps[i], o))
		}
		last := len(quads) - 1
		all, second := t.temps[0].AsX(), t.temps[0].AsX()
		VHADDPS(quads[min(1, last)], quads[0], all)
		if last >= 2 {
			second = quads[2]
			VHADDPS(quads[last], second, second)
		}
		VHADDPS(second, all, all)
		if t.rows == 1 && len(group) == 4 {
			VMOVUPS(all, Mem{Base: y.base, Disp: 4 * group[0].column})
			continue
		}
		for i, out := range group {
			if i == 0 {
				VMOVSS(all, y.at(y.base, out.row, 4*out.column))
			} else {
				VEXTRACTPS(Imm(uint64(i)), all, y.at(y.base, out.row, 4*out.column))
			}
		}
	}
}

// quad adds lanes until four are left. It uses temp and returns where they are.
func (t tile) quad(row, column int, temp reg.VecPhysical, o operands) reg.Register {
	vectors := lanes / t.width
	half := vectors / 2
	sums := t.sums // free, if there are several passes
	if t.passes == 1 {
		sums = sums[(row*t.columns+column)*vectors:]
	} else {
		for i := range vectors {
			VMOVUPS(t.kept(o, i/t.steps(), row, column, i%t.steps()), sums[i])
		}
	}
	for i := range half { // lanes l and l+16
		VADDPS(sums[i], sums[half+i], sums[half+i])
	}
	s := sums[vectors-1]
	if t.width == 8 {
		VADDPS(sums[half], s, s)
		VEXTRACTF128(Imm(1), s, temp.AsX())
	} else {
		VEXTRACTF64X4(Imm(1), s, temp.AsY())
		VADDPS(temp.AsY(), s.AsY(), s.AsY())
		VEXTRACTF32X4(Imm(1), s.AsY(), temp.AsX())
	}
	VADDPS(s.AsX(), temp.AsX(), temp.AsX())
	return temp.AsX()
}
