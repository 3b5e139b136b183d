package dtmc

import (
	"fmt"
	"math/bits"
)

// layout packs a state into 64 bits: for every model its waiting requests, its
// requests in flight and the quanta that its step still takes; then, for rules
// that take turns, one more than the model that ran last. Where requests are
// told apart, the remaining quanta of an idle model are instead how many of its
// waiting requests go on there. A busy one has none of them: they were ready
// before its step started and are in it.
type layout struct {
	models    int
	waiting   [maxModels]field
	inFlight  [maxModels]field
	remaining [maxModels]field
	last      field // width 0 unless the rule needs it
}

type field struct{ shift, width uint }

func (f field) mask() uint64            { return 1<<f.width - 1 }
func (f field) get(key uint64) int      { return int(key >> f.shift & f.mask()) }
func (f field) clear(key uint64) uint64 { return key &^ (f.mask() << f.shift) }
func (f field) add(x int) uint64        { return uint64(x) << f.shift }

func newLayout(models, users int, maxQuanta []int, turns bool, toldApart []bool) (layout, error) {
	l := layout{models: models}
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
	if turns {
		l.last = place(models)
	}
	if at > 64 {
		return l, fmt.Errorf("dtmc: %w: a state of %d models, %d users and up to %v quanta a step takes %d bits, at most 64; use a larger QuantumNs",
			ErrTooLarge, models, users, maxQuanta, at)
	}
	return l, nil
}
