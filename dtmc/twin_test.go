package dtmc

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tokenrouter/tokenrouter/scheduler"
)

// twin is the slow twin of the chain: the same system event by event, each
// request on its own, time in whole nanoseconds. It shares no code with the
// chain, only the scheduler's rules.
type twin struct {
	cfg      *Config
	b        []int
	rows     []float64 // rows of a step per request, for the step times
	rng      *rand.Rand
	nowNs    int64
	endNs    []int64 // of the step in flight, by model
	inFlight []int   // requests in it, 0 = idle
	ready    []int
	lastRan  int

	tokens  int64
	steps   []int64
	batches []int64
	busyNs  []int64
	waitNs  float64 // request-nanoseconds of waiting
}

type twinResult struct {
	throughput, relSE float64 // tokens per second; standard error by batch means
	utilisation       []float64
	meanBatch         []float64
	waitingMs         float64 // per token
}

func newTwin(cfg *Config, rows []float64, seed uint64) *twin {
	k := len(cfg.Models)
	t := &twin{cfg: cfg, rows: rows, rng: rand.New(rand.NewPCG(seed, 1)), lastRan: -1}
	asked, limits := make([]int, k), make([]int, k)
	for m := range k {
		asked[m], limits[m] = 1, cfg.Models[m].MaxRunning
		if cfg.Thresholds != nil {
			asked[m] = cfg.Thresholds.For(cfg.Users)[m]
		}
	}
	t.b = scheduler.Clamp(nil, asked, limits, cfg.Users)
	t.endNs, t.inFlight, t.ready = make([]int64, k), make([]int, k), make([]int, k)
	t.steps, t.batches, t.busyNs = make([]int64, k), make([]int64, k), make([]int64, k)
	t.ready[cfg.Home] = cfg.Users
	t.launch()
	return t
}

func (t *twin) launch() {
	k := len(t.ready)
	peers := make([]scheduler.PeerLoad, k)
	for m := range k {
		peers[m] = scheduler.PeerLoad{Busy: t.inFlight[m] > 0, Ready: t.ready[m]}
	}
	for m := range k {
		if peers[m].Busy {
			continue
		}
		load := scheduler.Load{Model: m, Ready: peers[m].Ready, Live: t.cfg.Users, B: t.b[m], NowNs: t.nowNs, Peers: peers, LastRan: t.lastRan}
		if !t.cfg.Rule.Launch(&load) {
			continue
		}
		n := t.ready[m]
		if limit := t.cfg.Models[m].MaxRunning; limit > 0 {
			n = min(n, limit)
		}
		t.ready[m] -= n
		t.inFlight[m] = n
		rows := max(n, int(float64(n)*t.rows[m]+.5+1e-9))
		t.endNs[m] = t.nowNs + t.cfg.Models[m].Time.Ns(n, rows, n*(t.cfg.PromptTokens+t.cfg.OutputTokens/2))
	}
}

// next handles every completion of the next instant, then launches.
func (t *twin) next() {
	at := int64(math.MaxInt64)
	for m, n := range t.inFlight {
		if n > 0 {
			at = min(at, t.endNs[m])
		}
	}
	for m, n := range t.inFlight {
		t.waitNs += float64(t.ready[m]) * float64(at-t.nowNs)
		if n > 0 {
			t.busyNs[m] += at - t.nowNs
		}
	}
	t.nowNs = at
	arrivals := make([]int, len(t.ready))
	for m, n := range t.inFlight {
		if n == 0 || t.endNs[m] != at {
			continue
		}
		t.steps[m]++
		t.batches[m] += int64(n)
		for range n {
			to := t.route(m)
			arrivals[to]++
			if m != t.cfg.Home || to == m || t.cfg.RoutedKept {
				t.tokens++
			}
		}
		t.inFlight[m] = 0
		t.lastRan = m
	}
	for m, n := range arrivals {
		t.ready[m] += n
	}
	t.launch()
}

func (t *twin) route(from int) int {
	u := t.rng.Float64()
	for to, p := range t.cfg.Routing[from] {
		if u < p {
			return to
		}
		u -= p
	}
	return from
}

// run observes the given number of batches of equal length after one of
// warm-up.
func (t *twin) run(batches int, batchNs int64) twinResult {
	for t.nowNs < batchNs {
		t.next()
	}
	from := *t
	from.steps, from.batches, from.busyNs = clone(t.steps), clone(t.batches), clone(t.busyNs)
	startNs, startTokens := t.nowNs, t.tokens
	var sum, squares float64
	for range batches {
		beginNs, begin := t.nowNs, t.tokens
		for t.nowNs < beginNs+batchNs {
			t.next()
		}
		x := float64(t.tokens-begin) / float64(t.nowNs-beginNs) * 1e9
		sum += x
		squares += x * x
	}
	n := float64(batches)
	mean := sum / n
	r := twinResult{throughput: float64(t.tokens-startTokens) / float64(t.nowNs-startNs) * 1e9}
	r.relSE = math.Sqrt(max(0, squares/n-mean*mean)/(n-1)) / mean
	for m := range t.steps {
		r.utilisation = append(r.utilisation, float64(t.busyNs[m]-from.busyNs[m])/float64(t.nowNs-startNs))
		r.meanBatch = append(r.meanBatch, float64(t.batches[m]-from.batches[m])/float64(t.steps[m]-from.steps[m]))
	}
	r.waitingMs = (t.waitNs - from.waitNs) / 1e6 / float64(t.tokens-startTokens)
	return r
}

func clone(s []int64) []int64 { return append([]int64(nil), s...) }

// twinCells covers rules, kinds of routing, thresholds and limits; durations
// are whole quanta, so that chain and twin are the same process.
func twinCells() map[string]Config {
	cells := map[string]Config{}
	for i, rule := range rules {
		for j, back := range []float64{1, .35} {
			for _, kept := range []bool{false, true} {
				n := 4 + 4*((i+j)%2)
				for _, b := range []int{1, n / 4, n / 2, n} {
					if !rule.UsesB() && b > 1 {
						continue
					}
					cfg := ratio427([]float64{.05, .1, .2, .4}[(i+2*j)%4], back, n, 1, b)
					cfg.Rule, cfg.RoutedKept = rule, kept
					cells[fmt.Sprintf("%v back %v kept %v n %d B %d", rule, back, kept, n, b)] = cfg
				}
			}
		}
	}
	cells["batch-dependent"] = pair(linear{base: 3, perRequest: 1}, linear{base: 20, perRequest: 2}, .2, .35, 6, 2, 3)
	limited := ratio427(.5, 1, 9, 3, 6)
	limited.Models[0].MaxRunning, limited.Models[1].MaxRunning = 4, 3
	cells["limited batches"] = limited
	rows := pair(linear{base: 3, perRow: 1}, linear{base: 20, perRow: 1}, .25, .5, 4, 1, 2)
	cells["rows"] = rows
	for _, rule := range rules {
		three := Config{
			Models:     []Model{{Time: linear{base: 12}}, {Time: linear{base: 4}}, {Time: linear{base: 32}}},
			Routing:    [][]float64{{.4, .5, .1}, {.1, .8, .1}, {.3, .3, .4}},
			Home:       1,
			Users:      5,
			Rule:       rule,
			Thresholds: scheduler.Thresholds{{2, 1, 2}},
		}
		cells["three "+rule.String()] = three
	}
	return cells
}

// The tolerance against the twin is four of its standard errors; twice that for
// figures whose own error was not measured.
func TestChainAgainstTwin(t *testing.T) {
	for name, cfg := range twinCells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := mustPredict(t, cfg)
			v := newVisits(&cfg)
			want := newTwin(&cfg, v.rows, 11).run(80, 50e9)
			tolerance := 4*want.relSE + 1e-4
			if want.relSE > .003 {
				t.Errorf("the twin ran too short: standard error %.2f %%", 100*want.relSE)
			}
			near(t, "throughput", got.ThroughputTokPerS, want.throughput, tolerance)
			for m := range cfg.Models {
				near(t, fmt.Sprint("utilisation ", m), got.Utilisation[m], want.utilisation[m], 2*tolerance)
				near(t, fmt.Sprint("mean batch ", m), got.MeanBatch[m], want.meanBatch[m], 2*tolerance)
			}
			if want.waitingMs > .1 {
				near(t, "waiting", got.WaitingStepMs+got.WaitingThresholdMs+got.WaitingPeerMs, want.waitingMs, 2*tolerance)
			}
		})
	}
}
