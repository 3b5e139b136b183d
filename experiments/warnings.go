package experiments

import (
	"fmt"
	"math"
	"slices"

	"github.com/tokenrouter/tokenrouter/dtmc"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/sim"
)

// Warning is something to know about a figure that was found all the same: how
// many of a model's steps it concerns, and what about them.
type Warning struct {
	Model string  `json:"model"` // "" where it concerns them all
	Share float64 `json:"share"` // of the model's steps; 0 where the text says which
	About string  `json:"about"`
}

func (w Warning) String() string { return w.text("") }

func (w Warning) text(most string) string {
	s := ""
	if w.Model != "" {
		s = "models." + w.Model + ": "
	}
	if w.Share > 0 {
		s += most + percentText(w.Share) + " "
	}
	return s + w.About
}

// percentText rounds a share to a whole percent, but never to none or all.
func percentText(share float64) string {
	switch percent := math.Round(100 * share); {
	case percent < 1:
		return "less than 1 %"
	case percent == 100 && share < 1:
		return "more than 99 %"
	default:
		return fmt.Sprintf("%.0f %%", percent)
	}
}

// Warnings gathers the warnings of all cells: one sentence for each thing that
// they say, with the largest share.
func (r *Results) Warnings() []string {
	type worst struct {
		Warning
		differ bool
	}
	var all []worst
	for _, record := range r.Records {
		for _, w := range record.Warnings {
			i := slices.IndexFunc(all, func(o worst) bool { return o.Model == w.Model && o.About == w.About })
			if i < 0 {
				all = append(all, worst{w, false})
				continue
			}
			all[i].differ = all[i].differ || all[i].Share != w.Share
			all[i].Share = max(all[i].Share, w.Share)
		}
	}
	var out []string
	for _, w := range all {
		most := ""
		if w.differ {
			most = "up to "
		}
		out = append(out, w.text(most))
	}
	return out
}

// counted is a step time that counts how many of the steps it is asked for lie
// outside the range of its profile. The simulator asks a second time for the
// few steps that it planned and something else then cut short.
type counted struct {
	steptime.StepTime
	valid          steptime.Range
	steps, outside int64
}

func (c *counted) Ns(requests, rows, contextTokens int) int64 {
	c.steps++
	v := &c.valid
	if requests < v.Requests[0] || requests > v.Requests[1] || rows < v.Rows[0] || rows > v.Rows[1] ||
		contextTokens < v.ContextTokens[0]*requests || contextTokens > v.ContextTokens[1]*requests {
		c.outside++
	}
	return c.StepTime.Ns(requests, rows, contextTokens)
}

// countSteps lets the simulator's step times count.
func (s *setup) countSteps(config *sim.Config) []*counted {
	all := make([]*counted, len(s.models))
	for i := range s.models {
		if p := s.profile(i); p != nil {
			all[i] = &counted{StepTime: config.Models[i].Time, valid: p.Range()}
			config.Models[i].Time = all[i]
		}
	}
	return all
}

// rangeWarnings says which models ran outside what their profiles are known for.
func (s *setup) rangeWarnings(all []*counted) []Warning {
	var out []Warning
	for i, c := range all {
		if c != nil && c.outside > 0 {
			out = append(out, Warning{s.models[i].Name, float64(c.outside) / float64(c.steps),
				"of steps lay outside " + rangeText(s.profile(i))})
		}
	}
	return out
}

// memoryWarnings says which models' weights, with those of the models beside
// them, do not fit into a GPU. KV is taken as given: see kv_tokens.
func (s *setup) memoryWarnings() []Warning {
	var out []Warning
	for i := range s.models {
		p := s.models[i].Prices
		if p == nil || p.WeightBytes == 0 {
			continue
		}
		memory, ok := steptime.MemoryBytes(p.Profile.GPU)
		if !ok {
			continue
		}
		for _, gpu := range s.models[i].GPUs {
			weights := 0.0
			for j := range s.models {
				if other := s.models[j].Prices; other != nil && slices.Contains(s.models[j].GPUs, gpu) {
					weights += float64(other.WeightBytes)
				}
			}
			if weights > memory {
				out = append(out, Warning{s.models[i].Name, 0, fmt.Sprintf("the weights on GPU %d take %.0f GB, and %s has %.0f", gpu, weights/1e9, p.Profile.GPU, memory/1e9)})
				break
			}
		}
	}
	return out
}

// chainWarnings says the same of the mean step that the chain finds: it has no
// share of steps by context and rows.
func (s *setup) chainWarnings(p *dtmc.Prediction) []Warning {
	var out []Warning
	for i := range s.models {
		profile := s.profile(i)
		if profile == nil || math.IsNaN(p.MeanBatch[i]) {
			continue
		}
		requests := max(1, int(math.Round(p.MeanBatch[i])))
		rows := max(requests, int(math.Round(p.MeanRows[i])))
		if !profile.InRange(requests, rows, requests*p.ContextTokens) {
			out = append(out, Warning{s.models[i].Name, 0, "the chain's mean step lies outside " + rangeText(profile)})
		}
	}
	return out
}

func rangeText(p *steptime.Profile) string {
	v := p.Range()
	context := fmt.Sprintf("context of %d–%d tokens", v.ContextTokens[0], v.ContextTokens[1])
	if v.ContextTokens[0] <= 1 {
		context = fmt.Sprintf("context up to %d tokens", v.ContextTokens[1])
	}
	return fmt.Sprintf("the range in which %s is known (%d–%d requests, %d–%d rows, %s); times there are extrapolated",
		p.Name, v.Requests[0], v.Requests[1], v.Rows[0], v.Rows[1], context)
}

// profile is what model i of the system takes its step times from; nil for
// step_ms.
func (s *setup) profile(i int) *steptime.Profile {
	if s.models[i].Prices == nil {
		return nil
	}
	p, _ := s.models[i].Prices.variant(s.eager)
	return p
}
