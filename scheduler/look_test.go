package scheduler

import (
	"slices"
	"testing"
)

func TestLook(t *testing.T) {
	c := busyCore(t)
	want := Counts{Queued: 2, Ready: 1, InFlight: 1, Away: 1, Admitted: 2}
	if got := c.Counts(); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	if !c.Knows(1) || !c.Knows(5) || c.Knows(9) {
		t.Error("the core does not know whom it holds")
	}
	if c.Pending(1) || c.Pending(5) || c.Pending(9) {
		t.Error("nobody is away at a peer")
	}
	ids, prompt := c.History(&c.batch[0])
	if !slices.Equal(ids, []Token{1, 2, 3}) || prompt != 3 {
		t.Errorf("history %v of prompt %d", ids, prompt)
	}
	c.Step(&Event{Kind: Aborted, Request: 1})
	c.Settle()
	if c.Knows(1) || c.Counts().InFlight != 1 {
		t.Error("a request that is over is still in the step, and no longer known")
	}
}
