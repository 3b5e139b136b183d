package main

import (
	"context"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenrouter/tokenrouter/backend/frontdoor"
	"github.com/tokenrouter/tokenrouter/backend/serving"
)

// watchEnd sees to the time between the end of ctx and that of the process, in
// which open requests end and other processes may need this one. The returned
// function waits until no other does, or the time to drain is up.
func (o *serveOptions) watchEnd(ctx context.Context, cmd *cobra.Command, door *frontdoor.Door, service *serving.Service) (wait func()) {
	patience, hurry := context.WithCancel(context.Background())
	alone, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(alone)
		<-ctx.Done()
		within, cancel := context.WithTimeout(patience, o.drain())
		defer cancel()
		_ = service.AwaitPeers(within) // late or not, this process ends
	}()
	go func() {
		<-ctx.Done()
		select {
		case <-over:
		case <-time.After(unsaidWait):
			o.tellOfWait(cmd, door, over, hurry)
		}
	}()
	return func() {
		<-alone
		close(over)
		hurry()
	}
}

// unsaidWait is how long the end of serve may take without a word.
const unsaidWait = 300 * time.Millisecond

// tellOfWait says what the end waits for, and how to end the wait. A signal then
// breaks off what is open, with an event for each client; a further one, in
// default handling again, ends the program at once.
func (o *serveOptions) tellOfWait(cmd *cobra.Command, door *frontdoor.Door, over <-chan struct{}, hurry func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if n := door.InFlight(); n > 0 {
		cmd.PrintErrf("waiting up to %g s for %s to end; a further interrupt breaks them off\n", o.drainS, plural(n, "request"))
	} else {
		cmd.PrintErrf("waiting up to %g s for requests of other processes, which may come here; a further interrupt ends the wait\n", o.drainS)
	}
	select {
	case <-over:
	case <-signals:
		cmd.PrintErrf("breaking off %s\n", plural(door.InFlight(), "request"))
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		signal.Stop(signals)
		door.Drain(gone)
		hurry()
	}
}

// tellOfLoss says once, on standard error, when a model is lost, and has the
// process end if it should: only a start of all makes a system whole again.
// Clients are told by /health and by their requests.
func (o *serveOptions) tellOfLoss(ctx context.Context, cmd *cobra.Command, service *serving.Service, end func()) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			err := service.Err()
			if err == nil {
				continue
			}
			cmd.PrintErrln("tokenrouter:", err)
			if o.onLost == lostExit {
				end()
				return
			}
			cmd.PrintErrln("  fix: start all processes again; this one stays for what does not need the lost one, which cannot come back to it")
			return
		}
	}
}

// plural is a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}
