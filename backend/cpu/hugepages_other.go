//go:build !linux

package cpu

// preferHugePages asks for what only Linux has.
func preferHugePages([]float32) {}
