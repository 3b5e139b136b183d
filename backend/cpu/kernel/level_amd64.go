package kernel

import "golang.org/x/sys/cpu"

// bestLevel counts on F16C where AVX2 is: all processors with AVX2 have it, and
// x/sys/cpu can't tell. It does tell whether the system saves wide registers.
func bestLevel() instructions {
	switch x := cpu.X86; {
	case !x.HasAVX2 || !x.HasFMA:
		return plainGo
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512DQ:
		return avx512
	}
	return avx2
}
