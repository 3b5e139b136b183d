package frontdoor

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Waits that keep slow and silent connections from piling up.
const (
	headerWait  = 10 * time.Second
	idleWait    = 120 * time.Second
	headerBytes = 64 << 10
	closeWait   = time.Second
)

// Serve lets clients in at the listener until ctx ends. Then health checks fail
// and requests are refused, and those that are open have drain to end; what is
// left is broken off with an error event. The listener is closed.
func (d *Door) Serve(ctx context.Context, l net.Listener, drain time.Duration) error {
	server := &http.Server{Handler: d, ReadHeaderTimeout: min(headerWait, d.options.BodyWait), IdleTimeout: idleWait, MaxHeaderBytes: headerBytes}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	d.Drain(patience)
	// What is left are connections that have nothing to wait for.
	last, stop := context.WithTimeout(context.Background(), closeWait)
	defer stop()
	if err := server.Shutdown(last); err != nil {
		server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// InFlight counts the requests that are open.
func (d *Door) InFlight() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.inFlight)
}
