//go:build linux || darwin

package experiments

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock keeps other runs out of a folder for as long as its log is open, and
// reports false if one is there already. The kernel forgets the lock with the
// process, however that ends. File systems that know no locks go without.
func lock(log *os.File) (release func(), free bool) {
	err := unix.Flock(int(log.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	return func() {}, !errors.Is(err, unix.EWOULDBLOCK)
}
