package engines

import (
	"os"
	"strconv"
	"strings"
)

// Busy is how many cores were busy over the last minute, by the kernel's load
// average; below 0 if it does not say.
func Busy() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	first, _, _ := strings.Cut(string(text), " ")
	busy, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return -1
	}
	return busy
}
