package paced

import (
	"runtime"
	"time"
)

const (
	// alarmWindow is the rest of a wait that is left to the alarm: more than the
	// millisecond to which Go's poller on Linux rounds up what timers wait.
	alarmWindow = 2 * time.Millisecond
	// yieldWindow is the rest of a wait that is spent yielding: about what it
	// takes from an alarm that rings to the goroutine that runs, as measured on a
	// virtual machine of two processors.
	yieldWindow = 100 * time.Microsecond
)

// wait returns at that time, or earlier if something came from changed.
func wait(until time.Time, changed <-chan struct{}, a *alarm) {
	still := standsStill()
	for {
		left := time.Until(until)
		switch {
		case left <= 0:
			return
		case still:
			sleep(left, changed)
			return
		case left > alarmWindow && a != nil:
			if !sleep(left-alarmWindow, changed) {
				return
			}
		case left > yieldWindow && a != nil:
			a.set(left - yieldWindow)
			// Whoever sent to changed before this look is seen by it; whoever
			// sends later rings the alarm after it was set.
			if interrupted(changed) {
				return
			}
			a.wait()
		case left > yieldWindow:
			if !sleep(left-yieldWindow, changed) {
				return
			}
		default:
			runtime.Gosched()
		}
		if interrupted(changed) {
			return
		}
	}
}

// standsStill reports whether time stands still while this goroutine runs, as
// it does in a bubble of testing/synctest: nothing but a timer moves it on. Real
// clocks tick more often than once in hundreds of readings.
func standsStill() bool {
	now := time.Now()
	for range 256 {
		if time.Since(now) != 0 {
			return false
		}
	}
	return true
}

// sleep waits that long and reports whether it did: something may come from
// changed first.
func sleep(d time.Duration, changed <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-changed:
		return false
	}
}

func interrupted(changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	default:
		return false
	}
}
