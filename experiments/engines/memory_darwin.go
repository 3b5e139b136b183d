package engines

import "golang.org/x/sys/unix"

// memory asks the kernel for the machine's memory, in bytes; how much of it is
// free it does not say in a word.
func memory() (total, available int64) {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0, 0
	}
	return int64(n), 0
}
