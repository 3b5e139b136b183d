package engines

import (
	"os"
	"strconv"
	"strings"
)

// memory reads what the kernel says of the machine's memory, in bytes; 0 for
// what it does not say.
func memory() (total, available int64) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		name, rest, _ := strings.Cut(line, ":")
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "MemTotal":
			total = kib << 10
		case "MemAvailable":
			available = kib << 10
		}
	}
	return total, available
}
