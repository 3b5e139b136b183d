package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// weightedSum emits y[i] += Σ_j a[j]·v[j·vStride+i] for i < k and j < n, n ≥ 1.
// A piece of y stays in registers while all n rows pass by.
func weightedSum(l level) {
	function("weightedSum"+l.name, "func(y, a, v *float32, vStride, n, k int)")
	y, a, v := Load(Param("y"), GP64()), Load(Param("a"), GP64()), Load(Param("v"), GP64())
	step, n, k := Load(Param("vStride"), GP64()), Load(Param("n"), GP64()), Load(Param("k"), GP64())
	SHLQ(Imm(2), step)
	for _, values := range []int{8 * l.width, l.width, 1} {
		name := fmt.Sprint(values)
		sums := l.sums[:max(1, values/l.width)]
		Label("piece" + name)
		CMPQ(k, U32(values))
		JL(LabelRef("done" + name))
		for i, s := range sums {
			move(values, Mem{Base: y, Disp: 4 * l.width * i}, s)
		}
		aNow, vNow, left := GP64(), GP64(), GP64()
		MOVQ(a, aNow)
		MOVQ(v, vNow)
		MOVQ(n, left)
		Label("row" + name)
		scale, value := l.temps[0], l.temps[1]
		if values > 1 {
			VBROADCASTSS(Mem{Base: aNow}, scale)
		} else {
			VMOVSS(Mem{Base: aNow}, scale.AsX())
		}
		for i, s := range sums {
			move(values, Mem{Base: vNow, Disp: 4 * l.width * i}, value)
			if values > 1 {
				VFMADD231PS(value, scale, s)
			} else {
				VFMADD231SS(value.AsX(), scale.AsX(), s.AsX())
			}
		}
		ADDQ(Imm(4), aNow)
		ADDQ(step, vNow)
		DECQ(left)
		JNZ(LabelRef("row" + name))
		for i, s := range sums {
			move(values, s, Mem{Base: y, Disp: 4 * l.width * i})
		}
		ADDQ(U32(4*values), y)
		ADDQ(U32(4*values), v)
		SUBQ(U32(values), k)
		JMP(LabelRef("piece" + name))
		Label("done" + name)
	}
	VZEROUPPER()
	RET()
}

// move moves a vector, or one value, between memory and a register.
func move(values int, from, to Op) {
	if values > 1 {
		VMOVUPS(from, to)
		return
	}
	if r, ok := from.(reg.VecPhysical); ok {
		VMOVSS(r.AsX(), to)
		return
	}
	VMOVSS(from, to.(reg.VecPhysical).AsX())
}

// constant puts a number into memory, as often as the widest vector has lanes.
func constant(name string, bits uint32) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 8 {
		DATA(8*i, U64(bits)<<32|U64(bits))
	}
	return m
}

func float(name string, value float32) Mem { return constant(name, math.Float32bits(value)) }

// The numbers are those of expGo; its test compares the results.
var (
	expLeast    = float("expLeast", -104)
	expMost     = float("expMost", 89)
	log2E       = float("log2E", 1.44269504)
	minusHigh   = float("minusLn2High", -0.693359375)
	minusLow    = float("minusLn2Low", 2.12194440e-4)
	integerBits = float("integerBits", 0x1.8p23)
	bias        = constant("exponentBias", 127)
	one         = float("one", 1)
	signBit     = constant("signBit", 1<<31)

	expCoefficients = []Mem{
		float("exp0", 1.9875691500e-4), float("exp1", 1.3981999507e-3), float("exp2", 8.3334519073e-3),
		float("exp3", 4.1665795894e-2), float("exp4", 1.6666665459e-1), float("exp5", 5.0000001201e-1), one, one,
	}
)

// exp replaces x by exp(x), with three more registers at hand.
func exp(x, shifted, p, half reg.VecPhysical) {
	// The second source of VMAXPS and VMINPS wins if either is NaN: it must be x.
	VMOVUPS(expLeast, p)
	VMAXPS(x, p, x)
	VMOVUPS(expMost, p)
	VMINPS(x, p, x)
	VMOVUPS(integerBits, shifted)
	VFMADD231PS(log2E, x, shifted)
	VSUBPS(integerBits, shifted, p)
	VFMADD231PS(minusHigh, p, x)
	VFMADD231PS(minusLow, p, x)
	VMOVUPS(expCoefficients[0], p)
	for _, c := range expCoefficients[1:] {
		VFMADD213PS(c, x, p)
	}
	VPSUBD(integerBits, shifted, shifted)
	VPSRAD(Imm(1), shifted, half)
	VPSUBD(half, shifted, shifted)
	for _, power := range []reg.VecPhysical{half, shifted} {
		VPADDD(bias, power, power)
		VPSLLD(Imm(23), power, power)
		VMULPS(power, p, p)
	}
	VMOVUPS(p, x)
}

// expSum emits: replace x by exp(x-shift) and add it to the 32 lanes of sum.
func expSum(l level) {
	function("expSum"+l.name, "func(x *float32, shift float32, blocks int, sum *float32)")
	x, sum, blocks := Load(Param("x"), GP64()), Load(Param("sum"), GP64()), Load(Param("blocks"), GP64())
	shift, err := Param("shift").Resolve()
	if err != nil {
		panic(err)
	}
	sums := l.sums[:lanes/l.width]
	by, value, spare := l.sums[4], l.temps[0], l.temps[1:4]
	VBROADCASTSS(shift.Addr, by)
	for i, s := range sums {
		VMOVUPS(Mem{Base: sum, Disp: 4 * l.width * i}, s)
	}
	Label("block")
	for i, s := range sums {
		at := Mem{Base: x, Disp: 4 * l.width * i}
		VMOVUPS(at, value)
		VSUBPS(by, value, value)
		exp(value, spare[0], spare[1], spare[2])
		VMOVUPS(value, at)
		VADDPS(value, s, s)
	}
	ADDQ(U32(4*lanes), x)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	for i, s := range sums {
		VMOVUPS(s, Mem{Base: sum, Disp: 4 * l.width * i})
	}
	VZEROUPPER()
	RET()
}

// siluMul emits y = gate/(1+exp(-gate))·up.
func siluMul(l level) {
	function("siluMul"+l.name, "func(y, gate, up *float32, blocks int)")
	y, gate, up := Load(Param("y"), GP64()), Load(Param("gate"), GP64()), Load(Param("up"), GP64())
	blocks := Load(Param("blocks"), GP64())
	value, spare, g := l.temps[0], l.temps[1:4], l.sums[0]
	Label("block")
	for i := range lanes / l.width {
		disp := 4 * l.width * i
		VMOVUPS(Mem{Base: gate, Disp: disp}, g)
		VXORPS(signBit, g, value)
		exp(value, spare[0], spare[1], spare[2])
		VADDPS(one, value, value)
		VDIVPS(value, g, g)
		VMULPS(Mem{Base: up, Disp: disp}, g, g)
		VMOVUPS(g, Mem{Base: y, Disp: disp})
	}
	for _, pointer := range []reg.Register{y, gate, up} {
		ADDQ(U32(4*lanes), pointer)
	}
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// readThrough emits the fastest read of memory: the bits of all values, XORed
// lane by lane into sum.
func readThrough(l level) {
	function("readThrough"+l.name, "func(x *float32, blocks int, sum *uint32)")
	reduce(l, "sum", VXORPS)
}

// largest emits: the largest of the values that stand 32 apart, into most, which
// holds as many already. Of a NaN it makes anything.
func largest(l level) {
	function("largest"+l.name, "func(x *float32, blocks int, most *float32)")
	reduce(l, "most", VMAXPS)
}

// reduce emits the loop that combines all of x, lane by lane, with 32 values.
func reduce(l level, into string, combine func(ops ...Op)) {
	x, blocks, result := Load(Param("x"), GP64()), Load(Param("blocks"), GP64()), Load(Param(into), GP64())
	lanesOf := l.sums[:lanes/l.width]
	for i, s := range lanesOf {
		VMOVUPS(Mem{Base: result, Disp: 4 * l.width * i}, s)
	}
	Label("block")
	for line := 0; line < 4*lanes; line += 64 {
		PREFETCHT1(Mem{Base: x, Disp: prefetchBytes + line})
	}
	for i, s := range lanesOf {
		combine(Mem{Base: x, Disp: 4 * l.width * i}, s, s)
	}
	ADDQ(U32(4*lanes), x)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	for i, s := range lanesOf {
		VMOVUPS(s, Mem{Base: result, Disp: 4 * l.width * i})
	}
	VZEROUPPER()
	RET()
}

// scale emits y = x·a, and scaleMul y = x·a·w.
func scale(l level, weighted bool) {
	name, signature := "scale", "func(y, x *float32, a float32, blocks int)"
	if weighted {
		name, signature = "scaleMul", "func(y, x *float32, a float32, w *float32, blocks int)"
	}
	function(name+l.name, signature)
	y, x, blocks := Load(Param("y"), GP64()), Load(Param("x"), GP64()), Load(Param("blocks"), GP64())
	pointers := []reg.Register{y, x}
	if weighted {
		pointers = append(pointers, Load(Param("w"), GP64()))
	}
	a, err := Param("a").Resolve()
	if err != nil {
		panic(err)
	}
	by := l.temps[0]
	VBROADCASTSS(a.Addr, by)
	Label("block")
	for i := range lanes / l.width {
		disp, value := 4*l.width*i, l.sums[i]
		VMULPS(Mem{Base: x, Disp: disp}, by, value)
		if weighted {
			VMULPS(Mem{Base: pointers[2], Disp: disp}, value, value)
		}
		VMOVUPS(value, Mem{Base: y, Disp: disp})
	}
	for _, p := range pointers {
		ADDQ(U32(4*lanes), p)
	}
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}
