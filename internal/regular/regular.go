// Package regular opens files that end. What a path leads to may be a pipe that
// nobody writes to, or a device without an end: a program that opens it waits
// where no interrupt reaches it, or fills the memory.
package regular

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrOther is within the errors about what is neither a file nor a folder.
var ErrOther = errors.New("is a pipe, a socket or a device, not a regular file")

// check returns an error if opening path might wait or reading it never end.
// What the caller's shell has opened already, as <(command) does, is taken; what
// is not there, or is a folder, is for package os to say.
func check(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() || info.IsDir() || isOpen(path) {
		return nil
	}
	return fmt.Errorf("%s %w", path, ErrOther)
}

// isOpen reports whether a path names a pipe that this process was given: its
// other end is there, so that opening it does not wait.
func isOpen(path string) bool {
	path = filepath.Clean(path)
	return path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/")
}

// Open is os.Open for files that end; ErrOther is within the error for others.
func Open(path string) (*os.File, error) {
	if err := check(path); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// ReadFile is os.ReadFile for files that end; ErrOther is within the error for
// others.
func ReadFile(path string) ([]byte, error) {
	if err := check(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
