package scheduler_test

import (
	"testing"

	"pgregory.net/rapid"

	. "github.com/tokenrouter/tokenrouter/scheduler"
)

func TestDelayed(t *testing.T) {
	for _, c := range []struct {
		name     string
		maxDelay int64
		load     Load
		want     bool
	}{
		{"nothing ready", 1, Load{Ready: 0, B: 1, NowNs: 100}, false},
		{"below B", 0, Load{Ready: 2, B: 3, NowNs: 1 << 40}, false},
		{"B reached", 0, Load{Ready: 3, B: 3}, true},
		{"B passed", 0, Load{Ready: 9, B: 3}, true},
		{"not waited enough", 50, Load{Ready: 1, B: 3, OldestReadyNs: 100, NowNs: 149}, false},
		{"waited enough", 50, Load{Ready: 1, B: 3, OldestReadyNs: 100, NowNs: 150}, true},
	} {
		if got := (Delayed{MaxDelayNs: c.maxDelay}).Launch(&c.load); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func drawPeers(t *rapid.T) []PeerLoad {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) PeerLoad {
		return PeerLoad{Busy: rapid.IntRange(0, 4).Draw(t, "busy") == 0, Ready: rapid.IntRange(0, 2).Draw(t, "ready")}
	}), 1, 5).Draw(t, "peers")
}

// ask returns who launches under a rule when all models see the same.
func ask(rule Rule, peers []PeerLoad, lastRan int) (who []int) {
	for m := range peers {
		l := Load{Model: m, Ready: peers[m].Ready, B: 1, Peers: peers, LastRan: lastRan}
		if !peers[m].Busy && rule.Launch(&l) {
			who = append(who, m)
		}
	}
	return who
}

// Alternate: one model at a time, the first with ready requests after the one
// that ran last, in list order and round again.
func TestAlternate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		peers := drawPeers(t)
		lastRan := rapid.IntRange(-1, len(peers)-1).Draw(t, "last")
		want, busy := -1, false
		for i := range peers {
			m := (lastRan + 1 + i) % len(peers)
			busy = busy || peers[m].Busy
			if want < 0 && peers[m].Ready > 0 {
				want = m
			}
		}
		who := ask(Alternate{}, peers, lastRan)
		switch {
		case busy || want < 0:
			if len(who) > 0 {
				t.Fatalf("%v launch among %v", who, peers)
			}
		case len(who) != 1 || who[0] != want:
			t.Fatalf("%v launch among %v after %d, want %d", who, peers, lastRan, want)
		}
	})
}

// Lockstep: all with ready requests, once nobody is in flight.
func TestLockstep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		peers := drawPeers(t)
		want, busy := 0, false
		for _, p := range peers {
			busy = busy || p.Busy
			if p.Ready > 0 {
				want++
			}
		}
		if busy {
			want = 0
		}
		if who := ask(Lockstep{}, peers, 0); len(who) != want {
			t.Fatalf("%v launch among %v, want %d", who, peers, want)
		}
	})
}

// Eager and Delayed look at nothing but their own model, and B 1 is Eager.
func TestEagerAndDelayedReadNoPeer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Load{Ready: rapid.IntRange(0, 5).Draw(t, "ready"), B: rapid.IntRange(1, 5).Draw(t, "B"),
			NowNs: rapid.Int64Range(0, 100).Draw(t, "now"), LastRan: -1}
		eager, delayed := (Eager{}).Launch(&l), (Delayed{MaxDelayNs: 10}).Launch(&l)
		seen := l
		seen.Peers, seen.LastRan = drawPeers(t), 0
		if (Eager{}).Launch(&seen) != eager || (Delayed{MaxDelayNs: 10}).Launch(&seen) != delayed {
			t.Fatal("peers change the decision")
		}
		l.B = 1
		if (Delayed{}).Launch(&l) != eager {
			t.Fatal("B 1 is not eager")
		}
	})
}

func TestRulesSayWhatTheyRead(t *testing.T) {
	for _, c := range []struct {
		rule        Rule
		name        string
		peers, uses bool
	}{
		{Eager{}, "eager", false, false},
		{Delayed{}, "delayed", false, true},
		{Delayed{MaxDelayNs: 5}, "delayed(max 5 ns)", false, true},
		{Alternate{}, "alternate", true, false},
		{Lockstep{}, "lockstep", true, false},
	} {
		if c.rule.String() != c.name || c.rule.NeedsPeers() != c.peers || c.rule.UsesB() != c.uses {
			t.Errorf("%v: needs peers %v, uses B %v", c.rule, c.rule.NeedsPeers(), c.rule.UsesB())
		}
	}
}

func TestThresholdsTable(t *testing.T) {
	table := Thresholds{{1, 1}, {1, 2}, {2, 3}}
	for live, want := range map[int]int{-1: 1, 0: 1, 1: 1, 2: 2, 3: 3, 99: 3} {
		if got := table.For(live)[1]; got != want {
			t.Errorf("B of %d live is %d, want %d", live, got, want)
		}
	}
	for _, c := range []struct {
		table Thresholds
		want  string
	}{
		{Thresholds{}, "thresholds: no row"},
		{Thresholds{{1, 1}, {1}}, "thresholds: row 2 has 1 entries for 2 models"},
		{Thresholds{{1, 0}}, "thresholds: row 1: B of model 2 is 0, want at least 1"},
	} {
		if err := c.table.Validate(2); err == nil || err.Error() != c.want {
			t.Errorf("%v: %v", c.table, err)
		}
	}
}
