package dtmc

import "math/bits"

// stateTable numbers packed states in the order in which they are first seen.
// Open addressing with linear probing; a packed state is never 0, so key 0
// marks an empty slot.
type stateTable struct {
	slots []slot
	shift uint
	used  int
}

type slot struct {
	key uint64
	id  int32
}

// spread is 2^64 divided by the golden ratio, odd: multiplying by it moves the
// difference between neighbouring keys into the high bits (Knuth, TAOCP 6.4).
const spread = 0x9e3779b97f4a7c15

const minSlots = 1 << 10

// reset empties the table and keeps its storage.
func (t *stateTable) reset() {
	if t.slots == nil {
		t.slots = make([]slot, minSlots)
	} else {
		clear(t.slots)
	}
	t.shift = uint(64 - bits.Len(uint(len(t.slots))-1))
	t.used = 0
}

// number returns the number of key; fresh reports that next was given to it
// just now.
func (t *stateTable) number(key uint64, next int32) (id int32, fresh bool) {
	mask := uint64(len(t.slots) - 1)
	for i := key * spread >> t.shift; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.key == key {
			return s.id, false
		}
		if s.key == 0 {
			*s = slot{key, next}
			t.used++
			if 2*t.used > len(t.slots) {
				t.grow()
			}
			return next, true
		}
	}
}

func (t *stateTable) grow() {
	old := t.slots
	t.slots = make([]slot, 2*len(old))
	t.shift--
	mask := uint64(len(t.slots) - 1)
	for _, s := range old {
		if s.key == 0 {
			continue
		}
		i := s.key * spread >> t.shift
		for t.slots[i].key != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = s
	}
}
