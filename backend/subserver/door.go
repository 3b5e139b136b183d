package subserver

import (
	"context"
	"errors"
	"sync"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// door keeps the list of the requests that are open.
type door struct {
	mu     sync.Mutex
	open   map[scheduler.RequestID]*Stream
	lastID scheduler.RequestID
	shut   bool // nobody may enter
	ended  bool
	empty  chan struct{} // closed when open is empty; nil unless somebody waits
}

// enter lets a request in. One without an id gets the next of this home's:
// those of different homes differ, whichever process has them.
func (d *door) enter(r *Request, models int, cancel func(scheduler.RequestID)) (*Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		return nil, &EndError{r.ID, scheduler.ReasonDraining, ErrDraining, ""}
	}
	if r.ID == 0 {
		r.ID = d.lastID*scheduler.RequestID(models) + scheduler.RequestID(r.Home) + 1
		d.lastID++
	}
	if d.open[r.ID] != nil {
		return nil, &EndError{r.ID, scheduler.ReasonAbort, ErrDuplicate, ""}
	}
	id := r.ID
	s := newStream(id, func() { cancel(id) })
	if d.open == nil {
		d.open = map[scheduler.RequestID]*Stream{}
	}
	d.open[id] = s
	return s, nil
}

// leave notes that a request has ended and nothing is left of it.
func (d *door) leave(id scheduler.RequestID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, id)
	if len(d.open) == 0 && d.empty != nil {
		close(d.empty)
		d.empty = nil
	}
}

// busy reports whether a request is open.
func (d *door) busy() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open) > 0
}

// await waits until no request is open.
func (d *door) await(ctx context.Context) error {
	d.mu.Lock()
	if len(d.open) == 0 {
		d.mu.Unlock()
		return nil
	}
	if d.empty == nil {
		d.empty = make(chan struct{})
	}
	empty := d.empty
	d.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close lets nobody in any more.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = true
}

// end lets nobody in any more, breaks off what is open and waits until nothing
// is. It may be called once.
func (d *door) end() error {
	d.mu.Lock()
	if d.ended {
		d.mu.Unlock()
		return errors.New("subserver: closed twice")
	}
	d.ended, d.shut = true, true
	for _, s := range d.open {
		s.Cancel()
	}
	d.mu.Unlock()
	return d.await(context.Background())
}
