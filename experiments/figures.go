package experiments

import (
	"math"
	"strings"

	"github.com/tokenrouter/tokenrouter/internal/metrics"
)

// Figure is one number that a run shows.
type Figure struct {
	// Name is its path in results.jsonl: ttft_ms.p50, mean_batch.small.
	Name string
	// Column is its name in results.csv, with the unit last: ttft_p50_ms.
	Column string
}

// quantileNames are the inner names of a distribution.
var quantileNames = []string{"mean", "p50", "p95", "p99"}

// Figures lists what every run of an experiment with these models shows, in
// the order of the values in a Record. classes names the classes of requests
// where there are several; measured adds what only places in real time show.
func Figures(models, classes []string, measured bool) []Figure {
	var out []Figure
	add := func(name, column string) { out = append(out, Figure{name, column}) }
	perModel := func(name string) {
		for _, m := range models {
			add(name+"."+m, name+"_"+m)
		}
	}
	add("throughput_tok_per_s", "throughput_tok_per_s")
	add("per_user_tok_per_s", "per_user_tok_per_s")
	for _, name := range []string{"ttft", "tpot", "itl", "e2e"} {
		for _, q := range quantileNames {
			add(name+"_ms."+q, name+"_"+q+"_ms")
		}
	}
	perModel("mean_batch")
	perModel("utilisation")
	for c := range metrics.Causes {
		add("waiting_ms_by_cause."+c.String(), "waiting_"+c.String()+"_ms")
	}
	add("large_token_share", "large_token_share")
	perModel("b_in_force")
	add("throughput_rel_se", "throughput_rel_se")
	add("tokens", "tokens")
	add("requests", "requests")
	add("aborted", "aborted")
	add("goodput_req_per_s", "goodput_req_per_s")
	add("good_request_share", "good_request_share")
	add("gpu_s_per_1k_tok", "gpu_s_per_1k_tok")
	for _, class := range classes {
		// class_chat.ttft_p99_ms is a member of an object in JSON.
		of := func(name string) { add("class_"+class+"."+name, "class_"+class+"_"+name) }
		for _, name := range []string{"ttft", "tpot", "itl", "e2e"} {
			for _, q := range quantileNames {
				of(name + "_" + q + "_ms")
			}
		}
		for _, name := range []string{"throughput_tok_per_s", "tokens", "requests", "aborted", "goodput_req_per_s", "good_request_share"} {
			of(name)
		}
	}
	if measured {
		add("overhead_us.p50", "overhead_p50_us")
		add("overhead_us.p99", "overhead_p99_us")
		for _, m := range models {
			add("mean_step_ms."+m, "mean_step_"+m+"_ms")
		}
	}
	return out
}

// measuredValues lists the values of what plans with places in real time show
// beside what all do.
func measuredValues(o *Outcome, models int) []float64 {
	out := []float64{o.OverheadUs.P50, o.OverheadUs.P99}
	for m := range models {
		stepMs := math.NaN()
		if m < len(o.Summary.Steps) && o.Summary.Steps[m] > 0 {
			stepMs = 1e3 * at(o.Summary.Utilisation, m) * o.Summary.WindowS / float64(o.Summary.Steps[m])
		}
		out = append(out, stepMs)
	}
	return out
}

// Figures lists what the cells of the plan show.
func (p *Plan) Figures() []Figure { return Figures(p.ModelNames(), p.Classes(), p.Measures()) }

// otherFigures counts what they would show if they were measured, or were not.
func (p *Plan) otherFigures() int { return len(Figures(p.ModelNames(), p.Classes(), !p.Measures())) }

// figureValues lists the values of a summary in the order of Figures; NaN is
// what was not observed. large is the model whose share of tokens is given.
func figureValues(s *metrics.Summary, models, classes, large int) []float64 {
	out := []float64{s.ThroughputTokPerS, s.PerUserTokPerS}
	for _, q := range []metrics.Quantiles{s.TTFTMs, s.TPOTMs, s.ITLMs, s.E2EMs} {
		out = append(out, q.Mean, q.P50, q.P95, q.P99)
	}
	perModel := func(values []float64) {
		for m := range models {
			out = append(out, at(values, m))
		}
	}
	perModel(s.MeanBatch)
	perModel(s.Utilisation)
	out = append(out, s.WaitingMs[:]...)
	out = append(out, at(s.TokenShare, large))
	perModel(s.BInForce)
	out = append(out, s.ThroughputRelSE, count(s.Tokens), count(s.Requests), count(s.Aborted),
		s.GoodputReqPerS, s.GoodShare, s.GPUSecondsPer1kTok)
	for i := range classes {
		c := unobservedClass()
		if i < len(s.Classes) {
			c = s.Classes[i]
		}
		for _, q := range []metrics.Quantiles{c.TTFTMs, c.TPOTMs, c.ITLMs, c.E2EMs} {
			out = append(out, q.Mean, q.P50, q.P95, q.P99)
		}
		out = append(out, c.ThroughputTokPerS, count(c.Tokens), count(c.Requests), count(c.Aborted), c.GoodputReqPerS, c.GoodShare)
	}
	return out
}

func unobservedClass() metrics.ClassSummary {
	nan, none := math.NaN(), metrics.QuantilesOf(nil)
	return metrics.ClassSummary{Requests: -1, Aborted: -1, Tokens: -1, ThroughputTokPerS: nan,
		GoodputReqPerS: nan, GoodShare: nan, TTFTMs: none, TPOTMs: none, ITLMs: none, E2EMs: none}
}

// unobserved is a Summary in which nothing was observed: an evaluator fills
// what it knows.
func unobserved() metrics.Summary {
	nan, none := math.NaN(), metrics.QuantilesOf(nil)
	s := metrics.Summary{
		WindowS: nan, Requests: -1, Aborted: -1, Tokens: -1,
		ThroughputTokPerS: nan, ThroughputRelSE: nan, PerUserTokPerS: nan,
		TTFTMs: none, TPOTMs: none, ITLMs: none, E2EMs: none,
		GoodputReqPerS: nan, GoodShare: nan, GPUSecondsPer1kTok: nan,
	}
	for c := range s.WaitingMs {
		s.WaitingMs[c] = nan
	}
	return s
}

func at(values []float64, i int) float64 {
	if i < len(values) {
		return values[i]
	}
	return math.NaN()
}

// count is an integer figure; -1 stands for one that was not observed.
func count(n int64) float64 {
	if n < 0 {
		return math.NaN()
	}
	return float64(n)
}

// appendFigures writes values as the members of a JSON object, without its
// braces: a name with a dot becomes a member of an inner object. NaN is null.
func appendFigures(dst []byte, figures []Figure, values []float64) []byte {
	open := ""
	for i, f := range figures {
		outer, inner, nested := strings.Cut(f.Name, ".")
		if open != "" && (!nested || outer != open) {
			dst = append(dst, '}')
			open = ""
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		if nested && open == "" {
			dst = append(appendString(dst, outer), ":{"...)
			open = outer
		}
		name := outer
		if nested {
			name = inner
		}
		dst = appendString(dst, name)
		dst = appendNumber(append(dst, ':'), values[i])
	}
	if open != "" {
		dst = append(dst, '}')
	}
	return dst
}
