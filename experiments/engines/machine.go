package engines

import (
	"fmt"
	"runtime"

	"github.com/tokenrouter/tokenrouter/backend/cpu/kernel"
)

// unknownMemory is what a machine that does not say is taken to have.
const unknownMemory = 8 << 30

// MemoryBytes is the machine's memory.
func MemoryBytes() int64 {
	if total, _ := memory(); total > 0 {
		return total
	}
	return unknownMemory
}

// Memory is the machine's memory and what of it is free, 0 for what is not
// known.
func Memory() (total, available int64) { return memory() }

// Machine names what steps are measured on: processor, cores, instructions.
func Machine() string {
	return fmt.Sprintf("%s, %d cores, %s", processor(), runtime.NumCPU(), kernel.Level())
}
