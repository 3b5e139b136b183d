package measure

import (
	"time"

	"github.com/tokenrouter/tokenrouter/backend"
)

// clocked notes when an engine's last step really began and ended. What the
// runtime says of a step begins with the instant at which it was decided, so
// the deciding itself would not show.
//
// The step's goroutine writes and whoever is told that the step has ended reads:
// the next one begins only after that.
type clocked struct {
	backend.Engine
	epoch      time.Time // when the system's clock stood at 0
	start, end time.Time
}

func (c *clocked) Forward(step *backend.Step, results []backend.Result) error {
	c.start = time.Now()
	err := c.Engine.Forward(step, results)
	c.end = time.Now()
	return err
}

// step is the last step on the system's clock.
func (c *clocked) step() (startNs, endNs int64) {
	return c.start.Sub(c.epoch).Nanoseconds(), c.end.Sub(c.epoch).Nanoseconds()
}
