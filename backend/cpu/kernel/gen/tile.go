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
// walked in several passes, each over its share of the lanes.
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
		y:    newStrided("y", 4),
		x:    newStrided("x", 4),
		w:    newStrided("w", f.bytes),
		n:    Load(Param("n"), GP64()),
		wEnd: Load(Param("wEnd"), GP64()),
	}
	bytes := 0
	for _, t := range tiles {
		bytes = max(bytes, t.spillBytes())
	}
	if bytes > 0 {
		o.spill = AllocLocal(bytes)
	}
	rows, err := Param("rows").Resolve()
	if err != nil {
		panic(err)
	}
	for i := len(tiles) - 1; i > 0; i-- {
		CMPQ(rows.Addr, U32(i+1))
		JEQ(LabelRef(tiles[i].label("columns")))
	}
	for _, t := range tiles {
		if t.rows == 1 && t.columns > 1 {
			blocks, err := Param("blocks").Resolve()
			if err != nil {
				panic(err)
			}
			CMPQ(blocks.Addr, U32(longRow))
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

// operands are the registers that outlive a tile.
type operands struct {
	y, x, w strided
	n, wEnd reg.Register
	spill   Mem // sums of finished passes
}

func (t tile) label(name string) string { return fmt.Sprintf("%s%dx%d", name, t.rows, t.columns) }

// columnLoop goes through the columns of w by a tile at a time, as long as so
// many are left.
func (t tile) columnLoop(o operands) {
	Label(t.label("columns"))
	CMPQ(o.n, U32(t.columns))
	JLT(LabelRef(t.label("done")))
	for pass := range t.passes {
		t.pass(pass, o)
		if pass < t.passes-1 {
			t.save(pass, o.spill)
		}
	}
	t.store(o.y, o.spill)
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

// spillBytes is the room for the sums of all passes but the last.
func (t tile) spillBytes() int { return (t.passes - 1) * t.rows * t.columns * lanes / t.passes * 4 }

// pass computes its share of the lanes of all outputs.
func (t tile) pass(pass int, o operands) {
	for _, s := range t.sums[:t.rows*t.columns*t.steps()] {
		VXORPS(s.AsX(), s.AsX(), s.AsX())
	}
	name := t.label(fmt.Sprintf("pass%dof", pass))
	xNow, wNow, left := GP64(), GP64(), GP64()
	MOVQ(o.x.base, xNow)
	MOVQ(o.w.base, wNow)
	Load(Param("blocks"), left)
	TESTQ(left, left)
	JZ(LabelRef("end" + name))
	ahead := GP64()
	MOVQ(o.w.base, ahead)
	for range t.columns {
		ADDQ(o.w.step, ahead)
	}
	Label("block" + name)
	if pass == 0 { // the others find the weights in the cache
		for line := 0; line < t.columns*lanes*t.format.bytes; line += 64 {
			PREFETCHT1(Mem{Base: ahead, Disp: prefetchBytes + line})
		}
		ADDQ(U32(t.columns*lanes*t.format.bytes), ahead)
	}
	t.block(pass,
		func(row, disp int) Mem { return o.x.at(xNow, row, disp) },
		func(column, disp int) Mem { return o.w.at(wNow, column, disp) })
	ADDQ(U32(lanes*4), xNow)
	ADDQ(U32(lanes*t.format.bytes), wNow)
	DECQ(left)
	JNZ(LabelRef("block" + name))
	Label("end" + name)
	xEnd := GP64()
	Load(Param("xEnd"), xEnd)
	TESTQ(xEnd, xEnd)
	JZ(LabelRef("summed" + name))
	t.block(pass,
		func(row, disp int) Mem { return Mem{Base: xEnd, Disp: row*lanes*4 + disp} },
		func(column, disp int) Mem { return Mem{Base: o.wEnd, Disp: column*lanes*t.format.bytes + disp} })
	Label("summed" + name)
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

// kept is where a sum of a finished pass is.
func (t tile) kept(spill Mem, pass, row, column, step int) Mem {
	return spill.Offset(4 * t.width * (((pass*t.rows+row)*t.columns+column)*t.steps() + step))
}

// save keeps the sums of a pass for store.
func (t tile) save(pass int, spill Mem) {
	for r := range t.rows {
		for c := range t.columns {
			for s := range t.steps() {
				VMOVUPS(t.sum(r, c, s), t.kept(spill, pass, r, c, s))
			}
		}
	}
}

// store adds the lanes of every output in their fixed order and writes y. Four
// outputs are finished together.
func (t tile) store(y strided, spill Mem) {
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
		for i, o := range group {
			quads = append(quads, t.quad(o.row, o.column, t.temps[i], spill))
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
		for i, o := range group {
			if i == 0 {
				VMOVSS(all, y.at(y.base, o.row, 4*o.column))
			} else {
				VEXTRACTPS(Imm(uint64(i)), all, y.at(y.base, o.row, 4*o.column))
			}
		}
	}
}

// quad adds lanes until four are left. It uses temp and returns where they are.
func (t tile) quad(row, column int, temp reg.VecPhysical, spill Mem) reg.Register {
	vector := func(i int) (at Op, kept bool) {
		pass, step := i/t.steps(), i%t.steps()
		if pass < t.passes-1 {
			return t.kept(spill, pass, row, column, step), true
		}
		return t.sum(row, column, step), false
	}
	half := lanes / t.width / 2
	sums := make([]reg.VecPhysical, half) // of lanes l and l+16
	for i := range sums {
		low, _ := vector(i)
		high, kept := vector(i + half)
		if kept {
			VMOVUPS(low, temp)
			sums[i], low = temp, high
		} else {
			sums[i] = high.(reg.VecPhysical)
		}
		VADDPS(low, sums[i], sums[i])
	}
	s := sums[half-1]
	if t.width == 8 {
		VADDPS(sums[0], s, s)
		VEXTRACTF128(Imm(1), s, temp.AsX())
	} else {
		VEXTRACTF64X4(Imm(1), s, temp.AsY())
		VADDPS(temp.AsY(), s.AsY(), s.AsY())
		VEXTRACTF32X4(Imm(1), s.AsY(), temp.AsX())
	}
	VADDPS(s.AsX(), temp.AsX(), temp.AsX())
	return temp.AsX()
}
