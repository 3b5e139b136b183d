//go:build !linux

package paced

import "time"

// alarm is nil here: timers have to do.
type alarm struct{}

func newAlarm() *alarm { return nil }

func (*alarm) set(time.Duration) {}
func (*alarm) wait()             {}
func (*alarm) ring()             {}
func (*alarm) close() error      { return nil }
