package scheduler

import (
	"fmt"
	"slices"
	"strings"
)

// States describes all that the core knows, a request a line, by id.
func (c *Core) States() []string {
	var ids []RequestID
	for id := range c.byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var lines []string
	for _, id := range ids {
		r := &c.slots[c.byID[id]]
		line := fmt.Sprintf("%d %v of %d: %d tokens, %d fed, %d blocks", id, r.state, r.home, r.ids.len(), r.fed, len(r.blocks))
		if len(r.early) > 0 {
			line += fmt.Sprintf(", %d runs held", len(r.early))
		}
		lines = append(lines, line)
	}
	held, cached, free := c.KVBlocks()
	return append(lines, fmt.Sprintf("blocks %d held, %d cached, %d free; B %s of %d live",
		held, cached, free, strings.Trim(fmt.Sprint(c.inForce), "[]"), c.live))
}
