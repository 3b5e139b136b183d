package main

import (
	"math/bits"
	"sync"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend/frontdoor"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/dtmc"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// forecast asks the chain what the models of a server should write. It answers
// from what it has solved; what it was not asked before it solves meanwhile, one
// load at a time, so that it takes no more than one core from the models.
type forecast struct {
	config  dtmc.Config                 // but for users and context
	context func(live int) int          // tokens of a request, about
	solve   func(dtmc.Config) []float64 // nil: the chain cannot say

	mu    sync.Mutex
	known map[forecastLoad][]float64
	busy  bool // something is being solved
}

// forecastLoad is what a prediction depends on.
type forecastLoad struct{ live, context int }

const (
	forecastLive  = 64   // beyond it the chain takes a second or more, or gives up
	forecastKnown = 4096 // loads that are kept
)

// newForecast is nil where the chain cannot predict: it needs step times, and an
// algorithm whose hand-offs are a matter of probabilities.
func newForecast(c *subserver.Config, home int, times []steptime.StepTime, service frontdoor.Service) *forecast {
	f := &forecast{known: map[forecastLoad][]float64{}, solve: solveForecast}
	f.config = dtmc.Config{Home: home, Rule: c.Rule, Thresholds: c.Thresholds, PromptTokens: 1, OutputTokens: 1}
	if _, ok := c.Rule.(scheduler.Delayed); ok {
		f.config.Rule = scheduler.Delayed{} // the chain knows no longest wait
	}
	switch a := c.Algorithm.(type) {
	case *algorithms.Bursty: // its stays are no geometric ones
		return nil
	case algorithms.MatrixSource:
		f.config.Routing = a.RoutingMatrix()
	case algorithms.Never:
		for i := range c.Models {
			row := make([]float64, len(c.Models))
			row[i] = 1
			f.config.Routing = append(f.config.Routing, row)
		}
	default:
		return nil
	}
	if len(c.Models) > 1 {
		f.config.RoutedKept = c.Algorithm.Send(algorithms.Departure{From: home, To: (home + 1) % len(c.Models), Home: home}, &algorithms.PeerReq{})
	}
	for i, m := range c.Models {
		if times[i] == nil {
			return nil
		}
		f.config.Models = append(f.config.Models, dtmc.Model{Name: m.Name, Time: times[i], MaxRunning: m.MaxRunning, ChunkTokens: m.ChunkTokens})
	}
	// A request keeps its KV at home while it is away, and so that says how long
	// it is. Powers of two are near enough, and few.
	f.context = func(live int) int {
		return 1 << bits.Len(uint(service.Stats()[home].KVHeld/live))
	}
	return f
}

func solveForecast(c dtmc.Config) []float64 {
	p, err := dtmc.Predict(c)
	if err != nil {
		return nil
	}
	rates := make([]float64, len(c.Models))
	for i, share := range p.TokenShare {
		rates[i] = share * p.ThroughputTokPerS
	}
	return rates
}

// predict implements frontdoor.House's Predict.
func (f *forecast) predict(live int) []float64 {
	if live < 1 || live > forecastLive {
		return nil
	}
	load := forecastLoad{live, f.context(live)}
	f.mu.Lock()
	defer f.mu.Unlock()
	rates, ok := f.known[load]
	if !ok && !f.busy {
		f.busy = true
		go f.learn(load)
	}
	return rates
}

func (f *forecast) learn(load forecastLoad) {
	c := f.config
	c.Users, c.ContextTokens = load.live, load.context
	rates := f.solve(c)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) >= forecastKnown {
		clear(f.known)
	}
	f.known[load], f.busy = rates, false
}
