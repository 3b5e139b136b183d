package cpu

import (
	"fmt"
	"runtime"
	"testing"
)

// TestPool runs phases of many sizes in a row. The second task reads what the
// first wrote on other threads, so under the race detector this also tests that
// phases are ordered.
func TestPool(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		for _, processors := range []int{1, 2} {
			t.Run(fmt.Sprintf("threads=%d,processors=%d", threads, processors), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
				const most = 50
				var runs, copied [most]int
				p := newPool(threads, []func(thread, item int){
					func(_, item int) { runs[item]++ },
					func(_, item int) { copied[item] = runs[most-1-item] },
				})
				want := [most]int{}
				for phase := range 2000 {
					items := 1 + phase*7%most
					p.do(0, items)
					for item := range items {
						want[item]++
					}
					p.do(1, most)
					for item := range most {
						if copied[item] != want[most-1-item] {
							t.Fatalf("phase %d: item %d ran %d times, want %d", phase, most-1-item, copied[item], want[most-1-item])
						}
					}
				}
				p.close()
			})
		}
	}
}

// TestPoolNamesThreads checks that no two items run on one thread number at a
// time, since scratch memory is by that number.
func TestPoolNamesThreads(t *testing.T) {
	const threads = 4
	var busy [threads]bool // the race detector watches it, too
	p := newPool(threads, []func(thread, item int){func(thread, _ int) {
		if busy[thread] {
			t.Errorf("thread %d has two items at a time", thread)
		}
		busy[thread] = true
		runtime.Gosched()
		busy[thread] = false
	}})
	for range 200 {
		p.do(0, 20)
	}
	p.close()
}

// TestPoolSleeps lets all threads park between phases and wakes them.
func TestPoolSleeps(t *testing.T) {
	const threads = 3
	p := newPool(threads, []func(thread, item int){func(int, int) {}})
	for range 20 {
		for p.sleeping.Load() < threads-1 {
			runtime.Gosched()
		}
		p.do(0, 5)
	}
	p.close()
	if n := p.sleeping.Load(); n != 0 {
		t.Errorf("%d threads still wait after close", n)
	}
}
