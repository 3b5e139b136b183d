// Command gen writes the kernels in assembly. It is a module of its own, so that
// the assembler library stays out of the main one. After a change run
//
//	go generate ./backend/cpu/kernel
//
// and commit what it wrote; a test compares both.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

// level is an instruction set: the width of its vectors in float32 values, and
// its registers. Registers are named one by one because VHADDPS, which ends
// every sum, knows only the first sixteen.
type level struct {
	name  string
	width int
	temps []reg.VecPhysical // the first ones
	sums  []reg.VecPhysical
}

var (
	avx512 = level{"AVX512", 16, zmm[:8], zmm[8:]}
	avx2   = level{"AVX2", 8, ymm[:4], ymm[4:]}
)

var (
	zmm = []reg.VecPhysical{
		reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
		reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
		reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
	}
	ymm = []reg.VecPhysical{
		reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7,
		reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15,
	}
)

func main() {
	for _, f := range []format{f32, bf16, f16} {
		products([4]tile{{avx512, f, 1, 4, 1}, {avx512, f, 2, 4, 1}, {avx512, f, 3, 4, 1}, {avx512, f, 4, 3, 1}})
		products([4]tile{{avx2, f, 1, 3, 1}, {avx2, f, 2, 3, 2}, {avx2, f, 3, 2, 2}, {avx2, f, 4, 3, 4}})
	}
	for _, l := range []level{avx512, avx2} {
		weightedSum(l)
		expSum(l)
		siluMul(l)
		readThrough(l)
		largest(l)
		scale(l, false)
		scale(l, true)
	}
	Generate()
}

// function begins a function that keeps none of its pointers.
func function(name, signature string) {
	TEXT(name, 0, signature)
	Pragma("noescape")
}
