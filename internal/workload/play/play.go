// Package play sends the requests of a load in real time, as the simulator does
// in virtual time. A user of a closed or steady load sends the next request when
// the last one has ended; requests of an open load, and of a list, come when they
// are due, whatever became of those before.
package play

import (
	"context"
	"sync"
	"time"

	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// Player plays one load.
type Player struct {
	Load  *workload.Load
	NowNs func() int64 // the clock of the run, by which arrivals are due
	EndNs int64        // requests of an open load that arrive later are not sent; 0: none are too late
	// Send sends the request of a number, counted from 1, and returns when it has
	// ended: false if it was refused or failed. It is called from many goroutines.
	// The arrival of r is set in open loads and lists only.
	Send func(ctx context.Context, number int, r workload.Request) (ok bool)

	sending sync.WaitGroup
}

// Run returns when all requests have ended, or when ctx has and every Send has
// returned.
func (p *Player) Run(ctx context.Context) {
	switch p.Load.Kind {
	case workload.Open:
		p.sending.Go(func() { p.open(ctx) })
	case workload.Listed:
		for i, r := range p.Load.List {
			p.sending.Go(func() {
				if p.await(ctx, r.ArrivalNs) {
					p.Send(ctx, i+1, r)
				}
			})
		}
	default:
		for user := range p.Load.Users {
			p.sending.Go(func() { p.user(ctx, user) })
		}
	}
	p.sending.Wait()
}

func (p *Player) user(ctx context.Context, user int) {
	for turn := 0; ctx.Err() == nil; turn++ {
		number, ok := p.Load.Next(user, turn)
		if !ok {
			return
		}
		if !p.Send(ctx, number, p.Load.Request(number)) {
			pause(ctx, workload.BackOffNs)
		}
	}
}

func (p *Player) open(ctx context.Context) {
	requests := p.Load.Stream()
	for {
		r, ok := requests.Next()
		if !ok || p.EndNs > 0 && r.ArrivalNs > p.EndNs || !p.await(ctx, r.ArrivalNs) {
			return
		}
		p.sending.Go(func() { p.Send(ctx, r.Index+1, r) })
	}
}

// await returns when a time of the run has come; false if ctx ended first.
func (p *Player) await(ctx context.Context, atNs int64) bool {
	return pause(ctx, time.Duration(atNs-p.NowNs()))
}

// pause waits; false if ctx ended first.
func pause(ctx context.Context, wait time.Duration) bool {
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
