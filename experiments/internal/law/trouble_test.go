package law

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// trouble is what goes wrong in a cell.
type trouble struct {
	leaves bool // a third of the clients

	// The engine of the model broken fails in its fails-th step (0: never), once
	// or for good; late: it has done the step, and only then says so.
	fails, broken int
	once, late    bool

	// The connection between the models near and far breaks at its cuts-th frame
	// (0: never), in the middle of it or before. Or far is mute from then on.
	cuts, near, far int
	halfway, mute   bool
}

func (x *trouble) String() string {
	var of []string
	if x.leaves {
		of = append(of, "clients leave")
	}
	if x.fails > 0 {
		of = append(of, fmt.Sprintf("the engine of model %d fails in step %d, once %t, late %t", x.broken, x.fails, x.once, x.late))
	}
	if x.cuts > 0 {
		of = append(of, fmt.Sprintf("models %d and %d are parted at frame %d, halfway %t, mute %t", x.near, x.far, x.cuts, x.halfway, x.mute))
	}
	return strings.Join(of, ", ")
}

// troubled draws what goes wrong in a cell of the grid.
func (c cell) troubled() cell {
	rng := rand.New(rand.NewPCG(uint64(c.number), 12))
	models, x := c.source.params.Models, new(trouble)
	kinds := [][3]bool{{true, false, false}, {false, true, false}, {true, true, false}} // clients, engine, connection
	if c.tcp {
		kinds = append(kinds, [][3]bool{{false, false, true}, {true, false, true}, {true, true, true}}...)
	}
	kind := kinds[rng.IntN(len(kinds))]
	x.leaves = kind[0]
	if kind[1] {
		x.fails, x.broken = 1+rng.IntN(4<<rng.IntN(6)), rng.IntN(models)
		x.once, x.late = rng.IntN(2) == 0, rng.IntN(2) == 0
	}
	if kind[2] {
		x.cuts, x.near = 1+rng.IntN(8<<rng.IntN(6)), rng.IntN(models-1)
		x.far = x.near + 1 + rng.IntN(models-1-x.near)
		x.halfway, x.mute = rng.IntN(2) == 0, rng.IntN(6) == 0
	}
	c.trouble = x
	return c
}

// tally counts by name.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (y *tally) add(name string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.n == nil {
		y.n = map[string]int{}
	}
	y.n[name] += n
}

func (y *tally) String() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(y.n)) {
		lines = append(lines, fmt.Sprintf("%s %d", name, y.n[name]))
	}
	return strings.Join(lines, ", ")
}

// What comes of trouble, beside the moments at which clients leave.
const (
	engineFailed    = "engine failed"
	connectionBroke = "connection broke"
	requestCanceled = "request canceled"
	requestFailed   = "request failed"
	requestWhole    = "request whole though something failed"
)

// TestLongTrouble holds the law when clients leave, engines fail and connections
// break, over the cells of the grid: what a client gets is the oracle's up to
// where its request ends, and whose may end early is ruled (see mayFail). LONG,
// LAW_SEED and LAW_CELL are as for TestLongLaw.
func TestLongTrouble(t *testing.T) {
	var cells []cell
	for _, c := range chosen(t, 100) {
		cells = append(cells, c.troubled())
	}
	f := hold(t, cells)
	t.Log(&f.troubles)
	for _, name := range append(momentNames[:], engineFailed, connectionBroke, requestCanceled, requestFailed, requestWhole) {
		if f.troubles.n[name] == 0 && len(cells) >= 100 {
			t.Errorf("%s: never, the cells do not reach it", name)
		}
	}
	nobodyIsLeft(t)
}

// nobodyIsLeft fails unless all goroutines of systems and engines end.
func nobodyIsLeft(t *testing.T) {
	buffer := make([]byte, 1<<20)
	for left := patience; ; left -= time.Millisecond {
		var ours []string
		for g := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
			if strings.Contains(g, "/backend/subserver.") || strings.Contains(g, "/backend/cpu.") {
				ours = append(ours, g)
			}
		}
		if len(ours) == 0 {
			return
		}
		if left < 0 {
			t.Errorf("%d goroutines are left, the first:\n%s", len(ours), ours[0])
			return
		}
		time.Sleep(time.Millisecond)
	}
}
