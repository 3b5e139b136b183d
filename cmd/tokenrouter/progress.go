package main

import (
	"io"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progressAfter is how long a run must take before a bar is worth its flicker.
const progressAfter = 2 * time.Second

// progress shows a bar on a terminal; elsewhere mpb writes nothing.
type progress struct {
	out   io.Writer
	since time.Time
	pool  *mpb.Progress
	bar   *mpb.Bar
}

func newProgress(out io.Writer) *progress { return &progress{out: out, since: time.Now()} }

// update is called by one goroutine.
func (p *progress) update(done, total int) {
	if p.pool == nil {
		if time.Since(p.since) < progressAfter || done == total {
			return
		}
		p.pool = mpb.New(mpb.WithOutput(p.out), mpb.WithWidth(40))
		p.bar = p.pool.AddBar(int64(total),
			mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.CountersNoUnit("%d / %d runs ")),
			mpb.AppendDecorators(decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO), "")),
		)
		p.bar.DecoratorAverageAdjust(p.since)
	}
	p.bar.SetCurrent(int64(done))
}

// stop takes the bar away, so that what is printed next starts on a clean line.
func (p *progress) stop() {
	if p.pool != nil {
		p.bar.Abort(true)
		p.pool.Wait()
	}
}
