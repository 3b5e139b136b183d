package page

import (
	"math"
	"sync"
	"time"
)

// Recent keeps how long things took in the last 30 seconds, in buckets that are
// 9 % wide: a percentile is right within 4.5 %. The zero value is ready for use,
// from many goroutines.
type Recent struct {
	mu      sync.Mutex
	seconds [recentSeconds]second
}

const (
	recentSeconds = 30
	octave        = 8 // buckets in which a duration doubles
	shortest      = 10 * time.Microsecond
	buckets       = 27*octave + 1 // up to 22 minutes
)

// second counts what was added in one second.
type second struct {
	unix   int64
	counts [buckets]uint32
}

// Add notes n things that took so long and ended at the instant now.
func (r *Recent) Add(now time.Time, took time.Duration, n int) {
	if n <= 0 {
		return
	}
	b := 0
	if took > shortest {
		b = min(int(math.Round(octave*math.Log2(float64(took)/float64(shortest)))), buckets-1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.seconds[now.Unix()%recentSeconds]
	if s.unix != now.Unix() {
		*s = second{unix: now.Unix()}
	}
	s.counts[b] += uint32(n)
}

// Percentiles are those of the last 30 seconds, nil if nothing was added in
// them.
func (r *Recent) Percentiles(now time.Time) *Percentiles {
	var counts [buckets]int
	p := &Percentiles{}
	r.mu.Lock()
	for i := range r.seconds {
		s := &r.seconds[i]
		if age := now.Unix() - s.unix; age < 0 || age >= recentSeconds {
			continue
		}
		for b, n := range s.counts {
			counts[b] += int(n)
			p.Count += int(n)
		}
	}
	r.mu.Unlock()
	if p.Count == 0 {
		return nil
	}
	p.P50Ms, p.P90Ms, p.P99Ms = rank(&counts, p.Count, .5), rank(&counts, p.Count, .9), rank(&counts, p.Count, .99)
	return p
}

// rank is the smallest duration, in milliseconds, that a share of all do not
// exceed.
func rank(counts *[buckets]int, total int, share float64) float64 {
	want, seen, b := int(math.Ceil(share*float64(total))), 0, 0
	for b = range counts {
		if seen += counts[b]; seen >= want {
			break
		}
	}
	return float64(shortest) / 1e6 * math.Exp2(float64(b)/octave)
}
