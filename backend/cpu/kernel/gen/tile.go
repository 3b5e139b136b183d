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

// strided addresses the rows of a matrix by one register and multiples of its
// row stride in bytes.
type strided struct {
	base, step, step3, step5 reg.Register
}

func newStrided(base, stride reg.Register, shift uint64, rows int) strided {
	s := strided{base: base, step: stride}
	SHLQ(Imm(shift), s.step)
	if rows > 3 {
		s.step3 = GP64()
		LEAQ(Mem{Base: s.step, Index: s.step, Scale: 2}, s.step3)
	}
	if rows > 5 {
		s.step5 = GP64()
		LEAQ(Mem{Base: s.step, Index: s.step, Scale: 4}, s.step5)
	}
	return s
}

// at is the address of a byte in a row, from a pointer into row 0.
func (s strided) at(pointer reg.Register, row, disp int) Mem {
	m := Mem{Base: pointer, Disp: disp}
	switch row {
	case 0:
	case 1, 2, 4:
		m.Index, m.Scale = s.step, uint8(row)
	case 3:
		m.Index, m.Scale = s.step3, 1
	case 5:
		m.Index, m.Scale = s.step5, 1
	case 6:
		m.Index, m.Scale = s.step3, 2
	default:
		panic("row beyond the tile")
	}
	return m
}

// panel emits a function that computes all n columns of the tile's rows:
//
//	y[r·yStride+j] = Σ_i x[r·xStride+i]·w[j·wStride+i]
//
// over blocks·32 values of i and, if xEnd is not nil, over 32 more that stand row
// after row, without gaps, at xEnd and wEnd.
func (t tile) panel() {
	function(fmt.Sprintf("rows%d%s%s", t.rows, t.format.name, t.level.name), fmt.Sprintf(
		"func(y *float32, yStride int, x *float32, xStride int, w *%s, wStride int, blocks, n int, xEnd *float32, wEnd *%[1]s)",
		t.goType))
	y := newStrided(Load(Param("y"), GP64()), Load(Param("yStride"), GP64()), 2, t.rows)
	x := newStrided(Load(Param("x"), GP64()), Load(Param("xStride"), GP64()), 2, t.rows)
	w := newStrided(Load(Param("w"), GP64()), Load(Param("wStride"), GP64()), uint64(t.format.bytes/2), t.columns)
	n := Load(Param("n"), GP64())
	wEnd := Load(Param("wEnd"), GP64())
	var spill Mem
	if t.passes > 1 {
		spill = AllocLocal((t.passes - 1) * t.rows * t.columns * lanes / t.passes * 4)
	}
	label := func(name string, columns int) string { return fmt.Sprintf("%s%d", name, columns) }
	for _, columns := range []int{t.columns, 1} {
		if columns == 1 && t.columns == 1 {
			break
		}
		t.columnLoop(columns, label, y, x, w, n, wEnd, spill)
	}
	if t.columns == 1 {
		t.columnLoop(1, label, y, x, w, n, wEnd, spill)
	}
	VZEROUPPER()
	RET()
}

// columnLoop goes through the columns of w by so many at a time, as long as so
// many are left.
func (t tile) columnLoop(columns int, label func(string, int) string, y, x, w strided, n, wEnd reg.Register, spill Mem) {
	t.columns = columns
	Label(label("columns", columns))
	CMPQ(n, U32(columns))
	JL(LabelRef(label("done", columns)))
	for pass := range t.passes {
		t.pass(pass, x, w, wEnd)
		if pass < t.passes-1 {
			t.save(spill)
		}
	}
	t.store(y, spill)
	for range columns {
		ADDQ(w.step, w.base)
	}
	ADDQ(U32(columns*lanes*t.format.bytes), wEnd)
	ADDQ(U32(4*columns), y.base)
	SUBQ(U32(columns), n)
	JMP(LabelRef(label("columns", columns)))
	Label(label("done", columns))
}

// steps is the number of vectors in a pass's share of the lanes.
func (t tile) steps() int { return lanes / t.passes / t.width }

func (t tile) sum(row, column, step int) reg.VecPhysical {
	return t.sums[(row*t.columns+column)*t.steps()+step]
}

// pass computes its share of the lanes of all outputs.
func (t tile) pass(pass int, x, w strided, wEnd reg.Register) {
	for _, s := range t.sums[:t.rows*t.columns*t.steps()] {
		VXORPS(s.AsX(), s.AsX(), s.AsX())
	}
	name := fmt.Sprintf("%dpass%d", t.columns, pass)
	xNow, wNow, left, xEnd := GP64(), GP64(), GP64(), GP64()
	MOVQ(x.base, xNow)
	MOVQ(w.base, wNow)
	Load(Param("blocks"), left)
	TESTQ(left, left)
	JZ(LabelRef("end" + name))
	Label("block" + name)
	t.block(pass,
		func(row, disp int) Mem { return x.at(xNow, row, disp) },
		func(column, disp int) Mem { return w.at(wNow, column, disp) })
	ADDQ(U32(lanes*4), xNow)
	ADDQ(U32(lanes*t.format.bytes), wNow)
	DECQ(left)
	JNZ(LabelRef("block" + name))
	Label("end" + name)
	Load(Param("xEnd"), xEnd)
	TESTQ(xEnd, xEnd)
	JZ(LabelRef("summed" + name))
	t.block(pass,
		func(row, disp int) Mem { return Mem{Base: xEnd, Disp: row*lanes*4 + disp} },
		func(column, disp int) Mem { return Mem{Base: wEnd, Disp: column*lanes*t.format.bytes + disp} })
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

// save keeps the sums of a pass for store.
func (t tile) save(spill Mem) {
	for i, s := range t.sums[:t.rows*t.columns*t.steps()] {
		VMOVUPS(s, spill.Offset(4*t.width*i))
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

// quad adds lanes until four are left, which it puts into out.
func (t tile) quad(row, column int, temp reg.VecPhysical, spill Mem) reg.Register {
	s := make([]reg.VecPhysical, t.steps())
	for i := range s {
		s[i] = t.sum(row, column, i)
	}
	if t.passes > 1 { // lanes l and l+16 stand in two passes
		for i := range s {
			VADDPS(spill.Offset(4*t.width*((row*t.columns+column)*t.steps()+i)), s[i], s[i])
		}
	}
	if t.passes == 1 {
		for i := range len(s) / 2 {
			VADDPS(s[i+len(s)/2], s[i], s[i])
		}
		s = s[:len(s)/2]
	}
	if len(s) == 2 {
		VADDPS(s[1], s[0], s[0])
	} else {
		VEXTRACTF64X4(Imm(1), s[0], temp.AsY())
		VADDPS(temp.AsY(), s[0].AsY(), s[0].AsY())
	}
	if t.width == 8 {
		VEXTRACTF128(Imm(1), s[0], temp.AsX())
	} else {
		VEXTRACTF32X4(Imm(1), s[0].AsY(), temp.AsX())
	}
	VADDPS(s[0].AsX(), temp.AsX(), temp.AsX())
	return temp.AsX()
}
