//go:build !linux && !darwin

package experiments

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// lockFile holds the number of the process that writes to the folder.
const lockFile = "run.lock"

// lock keeps other runs out of the folder of a log until release, and reports
// false if one is there already. The file of a process that is gone counts for
// nothing, where the system can say so.
func lock(log *os.File) (release func(), free bool) {
	path := filepath.Join(filepath.Dir(log.Name()), lockFile)
	for range 2 {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err == nil {
			fmt.Fprintln(f, os.Getpid())
			f.Close()
			return func() { os.Remove(path) }, true
		}
		if !errors.Is(err, fs.ErrExist) || !gone(path) {
			return func() {}, !errors.Is(err, fs.ErrExist)
		}
		os.Remove(path)
	}
	return func() {}, false
}

// gone reports whether the process that wrote a lock file has ended.
func gone(path string) bool {
	pid := 0
	text, err := os.ReadFile(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		return false // it is being written
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	p.Release()
	return false
}
