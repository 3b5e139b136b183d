package engines

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// processor is what the machine's processor calls itself.
func processor() string {
	if name, err := unix.Sysctl("machdep.cpu.brand_string"); err == nil && name != "" {
		return name
	}
	return runtime.GOARCH
}
