package dtmc

import (
	"fmt"
	"math/bits"
)

// layout packs a state into 64 bits: for every model its waiting requests, its
// requests in flight and the quanta that its step still takes; for every way on
// which hand-offs take time the last two, as if it were a model; then, for rules
// that take turns, one more than the model that ran last. Where requests are
// told apart, the remaining quanta of an idle model are instead how many of its
// waiting requests go on there. A busy one has none of them: they were ready
// before its step started and are in it.
type layout struct {
	models    int // and the ways behind them
	ways      []way
	waiting   [maxStations]field // of models
	inFlight  [maxStations]field
	remaining [maxStations]field
	last      field // width 0 unless the rule needs it
}

// stations is how many things can be in flight: a step of each model, and a
// hand-off on each way.
func (l *layout) stations() int { return l.models + len(l.ways) }

type field struct{ shift, width uint }

func (f field) mask() uint64            { return 1<<f.width - 1 }
func (f field) get(key uint64) int      { return int(key >> f.shift & f.mask()) }
func (f field) clear(key uint64) uint64 { return key &^ (f.mask() << f.shift) }
func (f field) add(x int) uint64        { return uint64(x) << f.shift }

func newLayout(models, users int, maxQuanta []int, turns bool, toldApart []bool, transit *transit) (layout, error) {
	l := layout{models: models, ways: transit.ways}
	at := uint(0)
	place := func(largest int) field {
		f := field{at, uint(bits.Len(uint(largest)))}
		at += f.width
		return f
	}
	for m := range models {
		l.waiting[m] = place(users)
		l.inFlight[m] = place(users)
		if toldApart[m] {
			l.remaining[m] = place(max(maxQuanta[m], users))
		} else {
			l.remaining[m] = place(maxQuanta[m])
		}
	}
	for w := range l.ways {
		l.inFlight[models+w] = place(users)
		l.remaining[models+w] = place(transit.longest())
	}
	if turns {
		l.last = place(models)
	}
	if at > 64 {
		return l, fmt.Errorf("dtmc: %w: a state of %d models, %d ways for hand-offs, %d users and up to %v quanta a step takes %d bits, at most 64; use a larger QuantumNs",
			ErrTooLarge, models, len(l.ways), users, maxQuanta, at)
	}
	return l, nil
}
