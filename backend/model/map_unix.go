//go:build linux || darwin

package model

import (
	"os"
	"syscall"
)

// mapFile makes a file's bytes readable without reading them. Processes that
// open the same model share the memory.
func mapFile(f *os.File, size int) ([]byte, error) {
	return syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
}

func unmapFile(data []byte) error { return syscall.Munmap(data) }
