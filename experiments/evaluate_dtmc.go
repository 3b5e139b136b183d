package experiments

import (
	"errors"
	"fmt"
	"math"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/dtmc"
	"github.com/tokenrouter/tokenrouter/internal/metrics"
)

// predict asks the Markov chain.
func (s *setup) predict() Outcome {
	config, reason := s.chain()
	if reason != "" {
		return NotApplicable(reason)
	}
	p, err := dtmc.Predict(config)
	var cannot dtmc.NotApplicable
	switch {
	case errors.As(err, &cannot):
		return NotApplicable(cannot.Reason)
	case errors.Is(err, dtmc.ErrSlowMixing), errors.Is(err, dtmc.ErrTooLarge):
		return NotApplicable(err.Error())
	case err != nil:
		return Failed(err)
	}
	out := s.outcome(predicted(p))
	out.Warnings = append(s.chainWarnings(p), s.memoryWarnings()...)
	return out
}

// chain describes the system to the chain, or says why it cannot.
func (s *setup) chain() (config dtmc.Config, reason string) {
	w := s.spec.Workload
	switch {
	case s.dispatcher != nil:
		return config, "the chain knows no dispatcher between servers"
	case s.reread:
		return config, "the chain has no visits that read all tokens again"
	case s.queryShare != nil:
		return config, "the chain has no requests that stay at one model each"
	}
	if w.Kind != KindSteady && w.Kind != KindClosed {
		return config, "the chain has a fixed number of requests: workload.kind steady or closed, not " + w.Kind
	}
	if w.Kind == KindClosed {
		if reason := s.closedReason(); reason != "" {
			return config, reason
		}
	}
	config = dtmc.Config{
		Home:         s.home,
		RoutedKept:   s.algorithm.Send(algorithms.Departure{From: s.home, To: (s.home + 1) % len(s.models), Home: s.home}, &algorithms.PeerReq{}),
		Users:        w.Concurrency,
		Rule:         s.rule,
		Thresholds:   s.thresholds,
		Interference: s.interference(),
		HandoffNs:    ns(s.spec.HandoffMs * 1e6),
		PromptTokens: int(w.PromptTokens.Mean()),
		OutputTokens: int(w.OutputTokens.Mean()),
		Closed:       w.Kind == KindClosed,
		QuantumNs:    ns(s.spec.DTMC.QuantumMs * 1e6),
	}
	if config.Closed {
		config.ContextTokens = config.PromptTokens + meanProgress(w.OutputTokens)
		if !w.OutputTokens.IsFixed() {
			config.Outputs = outputs(w.OutputTokens, outputParts)
		}
	}
	for i, m := range s.models {
		config.Models = append(config.Models, dtmc.Model{Name: m.Name, Time: s.times[i], MaxRunning: m.MaxRunning, ChunkTokens: m.ChunkTokens})
	}
	switch a := s.algorithm.(type) {
	case *algorithms.Bursty:
		return config, "the chain has geometric gaps between hand-offs, independent of each other: simulate bursty ones"
	case algorithms.MatrixSource:
		config.Routing = a.RoutingMatrix()
	case algorithms.Never:
		for i := range config.Models {
			row := make([]float64, len(config.Models))
			row[i] = 1
			config.Routing = append(config.Routing, row)
		}
	default:
		return config, "the chain needs a routing matrix, and " + a.Name() + " states none"
	}
	return config, ""
}

// closedReason says what of a closed workload the chain does not describe.
func (s *setup) closedReason() string {
	w := &s.spec.Workload
	switch {
	case s.static:
		return "the chain lets the next request in when one has ended, not when all have: workload.kind steady, or another system"
	case len(w.Classes()) > 0:
		return "the chain has requests of one kind: no workload.classes"
	case w.Mix != nil && w.Mix.Prefix.Share > 0 && s.spec.Scheduler.PrefixReuse:
		return "the chain reads every prompt from its start: no workload.prefix, or scheduler.prefix_reuse = false"
	case w.Concurrency > s.models[s.home].MaxRunning:
		return fmt.Sprintf("the chain has no queue for admission: at most max_running of %s, %d users, not %d",
			s.models[s.home].Name, s.models[s.home].MaxRunning, w.Concurrency)
	}
	most := w.PromptTokens.Max + w.OutputTokens.Max
	for i := range s.models {
		if m := &s.models[i]; w.Concurrency*(most+m.BlockTokens) > m.KVTokens {
			return fmt.Sprintf("the chain has no KV pressure: %d users of up to %d tokens need not fit in kv_tokens of %s, %d",
				w.Concurrency, most, m.Name, m.KVTokens)
		}
	}
	return ""
}

// outputParts is how many output lengths stand for a distribution on the chain.
const outputParts = 16

// outputs are equally likely lengths.
func outputs(output Length, parts int) []int {
	out := make([]int, parts)
	for i := range out {
		out[i] = output.Quantile((float64(i) + 0.5) / float64(parts))
	}
	return out
}

// meanProgress is how many tokens a request that is under way has written, on
// average over time: the longer an output, the longer it is counted.
func meanProgress(output Length) int {
	sum, squares := 0.0, 0.0
	for _, x := range outputs(output, 1000) {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	return int(math.Round(squares / sum / 2))
}

// predicted fills in what the chain knows.
func predicted(p *dtmc.Prediction) metrics.Summary {
	sum := unobserved()
	sum.ThroughputTokPerS = p.ThroughputTokPerS
	sum.PerUserTokPerS = p.PerUserTokPerS
	sum.TPOTMs.Mean = p.MeanTPOTMs
	sum.MeanBatch = p.MeanBatch
	sum.MeanRows = p.MeanRows
	sum.Utilisation = p.Utilisation
	sum.TokenShare = p.TokenShare
	sum.WaitingMs[metrics.CauseStep] = p.WaitingStepMs
	sum.WaitingMs[metrics.CauseThreshold] = p.WaitingThresholdMs
	sum.WaitingMs[metrics.CausePeer] = p.WaitingPeerMs
	for _, b := range p.BInForce {
		sum.BInForce = append(sum.BInForce, float64(b))
	}
	return sum
}
