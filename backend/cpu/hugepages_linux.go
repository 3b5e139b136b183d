package cpu

import (
	"syscall"
	"unsafe"
)

// preferHugePages asks for pages of 2 MB where the system gives them on request
// only. Attention jumps from block to block, and with pages of 4 KB it waits for
// page tables: at context 4096 it took a tenth longer. Refusal does no harm.
func preferHugePages(data []float32) {
	const page = 4096
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), 4*len(data))
	if skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(bytes)))) & (page - 1); skip < len(bytes) {
		_ = syscall.Madvise(bytes[skip:], syscall.MADV_HUGEPAGE)
	}
}
