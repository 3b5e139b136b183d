package engines

import (
	"os"
	"runtime"
	"strings"
)

// processor is what the machine's processor calls itself.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.SplitSeq(string(text), "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
