package kernel

// fma returns x·y+z, rounded once to float32. On this processor the compiler
// makes one instruction of it. The language allows that and does not promise it,
// so the tests compare it with fmaEmulated.
func fma(x, y, z float32) float32 { return x*y + z }
