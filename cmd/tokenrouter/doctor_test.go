package main

import (
	"errors"
	"testing"
)

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestDoctorReportsAFullDiskOnce(t *testing.T) {
	for _, json := range []bool{false, true} {
		d := &doctor{w: fullDisk{}, json: json}
		d.ok("one", "fine")
		d.warn("two", "", "less fine")
		d.fail("three", "", "wrong")
		if err := d.verdict(); err == nil || err.Error() != "no space left" {
			t.Errorf("json %t: %v", json, err)
		}
	}
}
