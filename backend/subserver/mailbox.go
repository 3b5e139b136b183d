package subserver

import "sync"

// mailbox is a queue between goroutines that is never full: whoever puts never
// waits, so loops that put into each other's mailboxes cannot wait in a circle.
// What lies in one is bounded by the requests that are open. One goroutine
// takes.
type mailbox[T any] struct {
	mu     sync.Mutex
	items  []T
	closed bool
	filled chan struct{} // holds one token after a put or the close
}

func newMailbox[T any]() *mailbox[T] { return &mailbox[T]{filled: make(chan struct{}, 1)} }

// put appends items in order; after close they are dropped.
func (m *mailbox[T]) put(items ...T) {
	m.mu.Lock()
	if !m.closed {
		m.items = append(m.items, items...)
	}
	m.mu.Unlock()
	m.ring()
}

func (m *mailbox[T]) ring() {
	select {
	case m.filled <- struct{}{}:
	default:
	}
}

// take waits until something is there and returns all of it. The storage of
// spare is used for what comes next. It returns false once the mailbox is
// closed and empty.
func (m *mailbox[T]) take(spare []T) ([]T, bool) {
	for {
		items, ok := m.tryTake(spare)
		if len(items) > 0 || !ok {
			return items, ok
		}
		<-m.filled
	}
}

// tryTake is take without waiting.
func (m *mailbox[T]) tryTake(spare []T) ([]T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.items) == 0 {
		return nil, !m.closed
	}
	items := m.items
	clear(spare) // keep nothing alive that was taken
	m.items = spare[:0]
	return items, true
}

func (m *mailbox[T]) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.ring()
}
