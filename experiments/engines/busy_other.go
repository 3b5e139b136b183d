//go:build !linux

package engines

// Busy is not known here: below 0.
func Busy() float64 { return -1 }
