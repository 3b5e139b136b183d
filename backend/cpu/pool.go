package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// pool shares the items of a phase among an engine's threads. The goroutine
// that calls do is one of them, so a pool of one starts none and costs nothing.
//
// An item is claimed by adding 1 to ticket, which holds all that a claim means:
// which task, how many items, which is next. A thread that is late by a whole
// phase or by ten therefore claims an item of the current phase or none at all,
// and no phase waits for threads, only for items. What a task reads is written
// before its phase starts and not again before all its items are done.
type pool struct {
	threads int
	tasks   []func(thread, item int)

	ticket atomic.Uint64 // task<<56 | items<<28 | next
	done   atomic.Uint64 // items of this phase that are finished

	sleeping atomic.Int32  // threads that wait, or are about to, for a wake
	wake     chan struct{} // a token too many only wakes one for nothing
	waiting  atomic.Bool   // do is waiting for finished
	finished chan struct{}

	closed atomic.Bool
	exited sync.WaitGroup
}

const (
	itemBits = 28
	maxItems = 1<<itemBits - 1
)

// A phase of a real model lasts 10 to 1000 µs, and parking and waking a thread
// costs 5 to 50, or far more on a busy machine. So a thread without an item looks
// for one during spinRounds × spinLooks, about 100 µs, before it parks: it stays
// awake from phase to phase and sleeps between steps. After each round it lets
// other goroutines have the processor, so that two engines with more threads than
// processors do not wait for each other.
const (
	spinRounds = 12
	spinLooks  = 4000
)

func newPool(threads int, tasks []func(thread, item int)) *pool {
	p := &pool{
		threads:  threads,
		tasks:    tasks,
		wake:     make(chan struct{}, threads),
		finished: make(chan struct{}, 1),
	}
	for thread := 1; thread < threads; thread++ {
		p.exited.Add(1)
		go p.serve(thread)
	}
	return p
}

// do runs task for the items 0 to items-1 and returns when all are done.
func (p *pool) do(task, items int) {
	if items > maxItems {
		panic("cpu: too many items in a phase")
	}
	if p.threads == 1 || items == 1 {
		for item := range items {
			p.tasks[task](0, item)
		}
		return
	}
	p.done.Store(0)
	p.ticket.Store(uint64(task)<<(2*itemBits) | uint64(items)<<itemBits)
	for range min(p.sleeping.Load(), int32(items-1)) {
		signal(p.wake)
	}
	for p.take(0) {
	}
	allDone := func() bool { return p.done.Load() >= uint64(items) }
	for spins := 0; !allDone(); spins++ {
		if spins < spinRounds {
			look(allDone)
			continue
		}
		p.waiting.Store(true)
		if !allDone() {
			<-p.finished
		}
		p.waiting.Store(false)
	}
}

// serve is the life of a thread other than the caller's.
func (p *pool) serve(thread int) {
	defer p.exited.Done()
	for spins := 0; !p.closed.Load(); spins++ {
		switch {
		case p.take(thread):
			spins = 0
		case spins < spinRounds:
			look(p.offers)
		default:
			// The order matters: do stores the ticket and then reads sleeping,
			// so one of the two sees the other.
			p.sleeping.Add(1)
			if !p.offers() {
				<-p.wake
			}
			p.sleeping.Add(-1)
			spins = 0
		}
	}
}

// look is one round of waiting.
func look(there func() bool) {
	for range spinLooks {
		if there() {
			return
		}
	}
	runtime.Gosched()
}

// offers reports whether a thread has something to do.
func (p *pool) offers() bool {
	_, items, next := p.unpack(p.ticket.Load())
	return next < items || p.closed.Load()
}

func (p *pool) unpack(ticket uint64) (task, items, next int) {
	return int(ticket >> (2 * itemBits)), int(ticket >> itemBits & maxItems), int(ticket & maxItems)
}

// take runs one item, if any is left.
func (p *pool) take(thread int) bool {
	if _, items, next := p.unpack(p.ticket.Load()); next >= items {
		return false // do not count next up for ever
	}
	task, items, item := p.unpack(p.ticket.Add(1) - 1)
	if item >= items {
		return false
	}
	p.tasks[task](thread, item)
	if p.done.Add(1) == uint64(items) && p.waiting.Load() {
		signal(p.finished)
	}
	return true
}

// close ends the threads and waits for them.
func (p *pool) close() {
	p.closed.Store(true)
	for range p.threads {
		signal(p.wake)
	}
	p.exited.Wait()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a token is there already
	}
}
