package subserver

import (
	"bytes"
	"encoding/gob"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// wires join processes that live in one test: parcels take random times, those
// of two pairs of models overtake each other, those of one pair do not.
type wires struct {
	ends []*wireEnd
	seed uint64
}

// wireEnd is the Transport of the process that has one model.
type wireEnd struct {
	wires   *wires
	model   int
	deliver func(*Parcel)
	lost    func(int, error)
	into    []*mailbox[[]byte] // by sender
	deaf    []atomic.Bool      // to what a sender that has vanished left on the way
	running sync.WaitGroup
	gone    chan struct{}
}

func newWires(models int, seed uint64) *wires {
	w := &wires{seed: seed}
	for m := range models {
		e := &wireEnd{wires: w, model: m, gone: make(chan struct{}), deaf: make([]atomic.Bool, models)}
		for range models {
			e.into = append(e.into, newMailbox[[]byte]())
		}
		w.ends = append(w.ends, e)
	}
	return w
}

func (w *wires) end(model int) *wireEnd { return w.ends[model] }

func (e *wireEnd) Start(deliver func(*Parcel), lost func(int, error)) error {
	e.deliver, e.lost = deliver, lost
	for from := range e.into {
		e.running.Go(func() { e.carry(from) })
	}
	return nil
}

func (e *wireEnd) carry(from int) {
	rng := rand.New(rand.NewPCG(e.wires.seed, uint64(e.model*16+from)))
	for {
		texts, ok := e.into[from].take(nil)
		if !ok {
			return
		}
		for _, text := range texts {
			select {
			case <-time.After(time.Duration(rng.IntN(3)) * time.Millisecond):
			case <-e.gone:
				return
			}
			if e.deaf[from].Load() {
				continue
			}
			p := new(Parcel)
			if err := gob.NewDecoder(bytes.NewReader(text)).Decode(p); err != nil {
				panic(err)
			}
			e.deliver(p)
		}
	}
}

func (e *wireEnd) Send(p *Parcel) error {
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(p); err != nil {
		return err
	}
	e.wires.ends[p.To].into[p.From].put(text.Bytes())
	return nil
}

func (e *wireEnd) Close() error {
	close(e.gone)
	for _, m := range e.into {
		m.close()
	}
	e.running.Wait()
	return nil
}

// cut makes a process vanish. The others hear of it one after the other; what it
// has sent still comes to some of them.
func (w *wires) cut(model int, err error) {
	for m, e := range w.ends {
		if m != model {
			e.deaf[model].Store((uint64(m)+w.seed)%2 == 0)
			e.into[model].close()
			w.ends[model].into[m].close()
			go func() {
				time.Sleep(time.Duration(m) * 70 * time.Millisecond)
				e.lost(model, err)
			}()
		}
	}
}
