package paced

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a kernel timer that Go's poller watches. It wakes within some ten
// microseconds and keeps no processor and no thread meanwhile. Go's own timers
// are up to a millisecond late, since the poller rounds their wait up, and a
// thread in nanosleep keeps a processor from other goroutines.
//
// A nil alarm does nothing.
type alarm struct {
	file *os.File
	conn syscall.RawConn // guards the descriptor against a Close on the side
}

// newAlarm returns nil if the system grants no timer.
func newAlarm() *alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), "timer")
	conn, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil
	}
	return &alarm{file, conn}
}

// set lets the alarm ring after d, and not when it was to ring before.
func (a *alarm) set(d time.Duration) {
	// That it fails on a closed file is for wait to see.
	a.conn.Control(func(fd uintptr) {
		unix.TimerfdSettime(int(fd), 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(d), 1))}, nil)
	})
}

// ring makes it ring at once.
func (a *alarm) ring() {
	if a != nil {
		a.set(1)
	}
}

// wait returns when the alarm has rung since it was set, or is closed.
func (a *alarm) wait() {
	var rings [8]byte
	a.file.Read(rings[:])
}

func (a *alarm) close() error {
	if a == nil {
		return nil
	}
	return a.file.Close()
}
