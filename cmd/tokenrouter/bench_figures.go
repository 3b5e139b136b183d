package main

import (
	"strings"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/loadtest"
	"github.com/tokenrouter/tokenrouter/internal/metrics"
)

// benchFigure is one number under the names that experiments give it.
type benchFigure struct {
	experiments.Figure
	value float64 // NaN: not observed
}

// benchFigures lists what a run shows, as far as clients see it, in the order of
// experiments, and then what only a client of real servers sees.
func benchFigures(r *loadtest.Result, classes []string, routed bool) []benchFigure {
	var out []benchFigure
	add := func(name, column string, value float64) {
		out = append(out, benchFigure{experiments.Figure{Name: name, Column: column}, value})
	}
	plain := func(name string, value float64) { add(name, name, value) }
	quantiles := func(prefix, name string, q metrics.Quantiles) {
		for _, x := range []struct {
			name  string
			value float64
		}{{"mean", q.Mean}, {"p50", q.P50}, {"p95", q.P95}, {"p99", q.P99}} {
			if prefix == "" {
				add(name+"_ms."+x.name, name+"_"+x.name+"_ms", x.value)
				continue
			}
			member := name + "_" + x.name + "_ms"
			add(prefix+"."+member, prefix+"_"+member, x.value)
		}
	}
	plain("throughput_tok_per_s", r.ThroughputTokPerS)
	plain("per_user_tok_per_s", r.PerUserTokPerS)
	quantiles("", "ttft", r.TTFTMs)
	quantiles("", "tpot", r.TPOTMs)
	quantiles("", "itl", r.ITLMs)
	quantiles("", "e2e", r.E2EMs)
	if routed {
		plain("large_token_share", r.TokenShare[len(r.TokenShare)-1])
	}
	plain("throughput_rel_se", r.ThroughputRelSE)
	plain("tokens", float64(r.Tokens))
	plain("requests", float64(r.Requests))
	plain("aborted", float64(r.Aborted))
	plain("goodput_req_per_s", r.GoodputReqPerS)
	plain("good_request_share", r.GoodShare)
	for i, name := range classes {
		prefix, c := "class_"+name, &r.Classes[i]
		quantiles(prefix, "ttft", c.TTFTMs)
		quantiles(prefix, "tpot", c.TPOTMs)
		quantiles(prefix, "itl", c.ITLMs)
		quantiles(prefix, "e2e", c.E2EMs)
		for _, x := range []struct {
			name  string
			value float64
		}{{"throughput_tok_per_s", c.ThroughputTokPerS}, {"tokens", float64(c.Tokens)}, {"requests", float64(c.Requests)},
			{"aborted", float64(c.Aborted)}, {"goodput_req_per_s", c.GoodputReqPerS}, {"good_request_share", c.GoodShare}} {
			add(prefix+"."+x.name, prefix+"_"+x.name, x.value)
		}
	}
	plain("requests_per_s", float64(r.Requests)/r.WindowS)
	plain("window_s", r.WindowS)
	plain("sent", float64(r.Sent))
	plain("cut", float64(r.Sent-r.Ended)) // by the end of the run
	plain("prompt_tokens_mean", r.PromptTokens)
	plain("late_max_ms", r.LateMs)
	return out
}

// addBenchFigures adds figures to a JSON object: a name with a dot is that of a
// member of an inner object, as in experiments.
func addBenchFigures(o *jsonObject, figures []benchFigure) {
	for len(figures) > 0 {
		outer, _, nested := strings.Cut(figures[0].Name, ".")
		if !nested {
			o.add(outer, number(figures[0].value))
			figures = figures[1:]
			continue
		}
		var inner jsonObject
		for len(figures) > 0 {
			name, ok := strings.CutPrefix(figures[0].Name, outer+".")
			if !ok {
				break
			}
			inner.add(name, number(figures[0].value))
			figures = figures[1:]
		}
		o.add(outer, inner.text())
	}
}
