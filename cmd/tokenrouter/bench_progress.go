package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/tokenrouter/tokenrouter/internal/loadtest"
)

// benchTick is how often the bar moves.
const benchTick = 250 * time.Millisecond

// showBench shows a bar on a terminal while a load runs; elsewhere mpb writes
// nothing. The returned function takes it away.
func showBench(out io.Writer, p *loadtest.Progress, cfg *loadtest.Config) (stop func()) {
	start := time.Now()
	far := func() int64 { return int64(time.Since(start)) }
	total := cfg.DurationNs
	if total == 0 {
		far, total = p.Ended.Load, int64(max(cfg.Load.Limit, len(cfg.Load.List)))
	}
	pool := mpb.New(mpb.WithOutput(out), mpb.WithWidth(40))
	bar := pool.AddBar(max(total, 1), mpb.BarRemoveOnComplete(), mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
		text := fmt.Sprintf(" %d of %d requests ended, %.0f token/s", p.Ended.Load(), p.Sent.Load(), float64(p.Tokens.Load())/time.Since(start).Seconds())
		if n := p.Failed.Load(); n > 0 {
			text += fmt.Sprintf(", %d failed", n)
		}
		return text
	})))
	done := make(chan struct{})
	var ticks sync.WaitGroup
	ticks.Go(func() {
		tick := time.NewTicker(benchTick)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				bar.SetCurrent(min(far(), max(total, 1)-1)) // complete is said by stop
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		ticks.Wait()
		bar.Abort(true)
		pool.Wait()
	}
}
