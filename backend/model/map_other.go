//go:build !linux && !darwin

package model

import (
	"io"
	"os"
)

// mapFile reads the file, where we have no mapping.
func mapFile(f *os.File, size int) ([]byte, error) {
	data := make([]byte, size)
	_, err := io.ReadFull(f, data)
	return data, err
}

func unmapFile([]byte) error { return nil }
