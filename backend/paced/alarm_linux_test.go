package paced

import (
	"testing"
	"time"
)

// TestAlarm: it rings when it is made to, however long it was set for, and a
// ring of before does not count once it is set again.
func TestAlarm(t *testing.T) {
	a := newAlarm()
	if a == nil {
		t.Skip("this system grants no timer")
	}
	a.set(time.Hour)
	rung := make(chan struct{})
	go func() {
		a.wait()
		close(rung)
	}()
	a.ring()
	<-rung
	a.ring()
	time.Sleep(time.Millisecond)
	start := time.Now()
	a.set(5 * time.Millisecond)
	a.wait()
	if passed := time.Since(start); passed < 5*time.Millisecond {
		t.Errorf("rang after %v, want no less than 5ms: an old ring counted", passed)
	}
	a.set(time.Hour)
	go a.close()
	a.wait()
	a.ring() // of no use any more, but allowed
}
