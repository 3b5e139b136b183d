//go:build unix

package kernel

import (
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// fenced returns n zeros that end where a page begins which must not be touched.
func fenced[W stored](t *testing.T, n int) []W {
	t.Helper()
	page := os.Getpagesize()
	bytes := n * int(unsafe.Sizeof(W(0)))
	whole := (bytes+page-1)/page*page + page
	memory, err := syscall.Mmap(-1, 0, whole, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(memory) })
	if err := syscall.Mprotect(memory[whole-page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return unsafe.Slice((*W)(unsafe.Pointer(&memory[whole-page-bytes])), n)
}

// TestNothingBehindTheEnd fails by a fault, which ends the test program.
func TestNothingBehindTheEnd(t *testing.T) {
	for _, level := range append(faster(t), "go") {
		mustSet(t, level)
		for _, k := range []int{1, 31, 32, 47, 64, 100} {
			for rows := 1; rows <= 6; rows++ {
				for _, n := range []int{1, 2, 3, 5, 13} {
					everyKernel(t, rows, k, n)
				}
			}
		}
	}
}

func everyKernel(t *testing.T, rows, k, n int) {
	x, w, w16 := fenced[float32](t, rows*k), fenced[float32](t, n*k), fenced[uint16](t, n*k)
	y, long := fenced[float32](t, rows*n), fenced[float32](t, rows*k)
	MatMulF32(y, x, w, rows, k, n, 0, n)
	MatMulBF16(y, x, w16, rows, k, n, 0, n)
	MatMulF16(y, x, w16, rows, k, n, 0, n)
	Dots(y, x, w, rows, k, n, n, k)
	WeightedSum(long, y, w, rows, k, n, n, k)
	Dot(long, x)
	SiLUMul(long, x, x)
	RMSNorm(long, x, x, 1)
	Softmax(long)
	ReadThrough(x)
}
