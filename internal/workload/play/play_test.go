package play

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// sent is what a server of the test has seen of a request.
type sent struct {
	number int
	at     time.Duration
}

// play plays a load in a bubble, where nothing but takes passes, and returns
// what was sent in the order of its time and number. Requests of refused
// numbers fail at once.
func play(t *testing.T, load workload.Load, end, takes time.Duration, refused ...int) (all []sent) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		p := Player{Load: &load, NowNs: func() int64 { return int64(time.Since(start)) }, EndNs: int64(end)}
		p.Send = func(ctx context.Context, number int, r workload.Request) bool {
			mu.Lock()
			all = append(all, sent{number, time.Since(start)})
			mu.Unlock()
			if r.Index != number-1 {
				t.Errorf("request %d has the index %d", number, r.Index)
			}
			return !slices.Contains(refused, number) && pause(ctx, takes)
		}
		ctx := t.Context()
		if end > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, end)
			defer cancel()
		}
		p.Run(ctx)
	})
	slices.SortFunc(all, func(a, b sent) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.number - b.number
	})
	return all
}

var short = workload.Single(workload.Lengths{Prompt: workload.Fixed(4), Output: workload.Fixed(4)})

func TestUsersTakeTurns(t *testing.T) {
	load := workload.Load{Kind: workload.Closed, Users: 2, Limit: 5, Mix: short}
	const ms = time.Millisecond
	want := []sent{{1, 0}, {2, 0}, {3, 10 * ms}, {4, 10 * ms}, {5, 20 * ms}}
	if got := play(t, load, 0, 10*ms); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("sent %v, want %v", got, want)
	}
	// Whoever is refused waits, and the numbers of the others stay theirs.
	want = []sent{{1, 0}, {2, 0}, {4, 10 * ms}, {3, time.Second}, {5, time.Second + 10*ms}}
	if got := play(t, load, 0, 10*ms, 1); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("sent %v, want %v", got, want)
	}
}

func TestArrivalsAreKept(t *testing.T) {
	load := workload.Load{Kind: workload.Open, Seed: 3, Mix: short, Arrivals: &workload.Arrivals{RatePerS: 10}}
	const end = 5 * time.Second
	var want []sent
	for stream := load.Stream(); ; {
		r, _ := stream.Next()
		if time.Duration(r.ArrivalNs) > end {
			break
		}
		want = append(want, sent{r.Index + 1, time.Duration(r.ArrivalNs)})
	}
	if got := play(t, load, end, time.Minute); fmt.Sprint(got) != fmt.Sprint(want) || len(want) < 10 {
		t.Errorf("sent %v, want %v", got, want)
	}
	list := []workload.Request{{Index: 0, ArrivalNs: 2e9}, {Index: 1, ArrivalNs: 1e9}, {Index: 2}}
	want = []sent{{3, 0}, {2, time.Second}, {1, 2 * time.Second}}
	if got := play(t, workload.Load{Kind: workload.Listed, List: list}, 0, time.Minute); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("sent %v, want %v", got, want)
	}
}

// An end cuts users and arrivals alike, and waits for what it cut.
func TestEnd(t *testing.T) {
	load := workload.Load{Kind: workload.Closed, Users: 1, Mix: short}
	if got := play(t, load, 95*time.Millisecond, 10*time.Millisecond); len(got) != 10 {
		t.Errorf("%d requests of 10 ms within 95 ms", len(got))
	}
}
