package dtmc

import "fmt"

// A way is an ordered pair of models between which hand-offs take time. As long
// as that is no longer than any step of the model that sends, what one step
// hands off has arrived when the next one ends: so all that is under way on a
// way arrives together, and a way is like a model that starts whenever there is
// something to do.
type way struct{ from, to int }

// transit says how long hand-offs are under way. Without ways they take none.
type transit struct {
	ways    []way
	lengths []length // 0 quanta among them if hand-offs are short
}

func newTransit(c *Config, m *moves, quantumNs int64) *transit {
	t := &transit{}
	if c.HandoffNs == 0 {
		return t
	}
	for from, row := range m.to {
		for to, p := range row {
			if to != from && p > 0 {
				t.ways = append(t.ways, way{from, to})
			}
		}
	}
	q := quanta{quantumNs: quantumNs, fineUpTo: []int{0}}
	t.lengths = q.lengths(0, &stepLaw{meanNs: float64(c.HandoffNs)})
	return t
}

func (t *transit) longest() int { return t.lengths[len(t.lengths)-1].quanta }

// checkHandoff refuses hand-offs that take longer than a step of a model that
// sends them.
func (d *durations) checkHandoff(c *Config, m *moves) error {
	for from, mixes := range d.steps {
		sends := false
		for to, p := range m.to[from] {
			sends = sends || to != from && p > 0
		}
		least := shortestOf(mixes)
		if sends && float64(c.HandoffNs) > least {
			return NotApplicable{fmt.Sprintf("a hand-off of %d ns takes longer than the shortest step of %s, %.0f ns, so that those of several steps are under way at once, which the chain's state does not tell apart; use the simulator",
				c.HandoffNs, c.names([][]int{{from}}), least)}
		}
	}
	return nil
}
