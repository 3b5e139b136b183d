package frontdoor

import (
	"net/http"
	"strings"
	"time"
)

// showMetrics writes all series, those of vLLM and of SGLang and a few of our
// own. All of them are there from the start, so that rates have a beginning.
func (d *Door) showMetrics(h *House, w http.ResponseWriter, _ *http.Request) {
	e := new(exposition)
	stats := h.Service.Stats()
	m := d.metrics
	m.mu.Lock()
	m.gauges(e, stats)
	m.counters(e)
	m.histograms(e)
	m.steps(e, stats)
	m.engines(e, stats)
	m.own(e, stats)
	m.mu.Unlock()
	d.exchanges.write(e)
	w.Header().Set("Content-Type", expositionType)
	w.Write(e.b.Bytes())
}

func (s *served) vllm() []label { return []label{{"model_name", s.name}, {"engine", s.engine}} }

func (s *served) sglang() []label {
	return []label{{"model_name", s.name}, {"engine_type", "unified"}, {"tp_rank", "0"}, {"pp_rank", "0"}}
}

// stand is how requests and KV of a served name stand.
type stand struct {
	running, waiting, kvHeld, kvTotal, retired, lostKV, entered, cached float64
}

func (s *stand) usage() float64 {
	if s.kvTotal == 0 {
		return 0
	}
	return s.kvHeld / s.kvTotal
}

// stand of a single model is what its subserver says, whoever asked. That of the
// routed name is what its clients have: sums over models would count a request at
// each of them, and again when it comes back. Only the KV is all of it.
func (m *metrics) stand(s *served, stats []Stats) (out stand) {
	if model, _ := m.house.find(s.name); model != Routed {
		st := &stats[model]
		return stand{running: float64(st.Running), waiting: float64(st.Waiting), kvHeld: float64(st.KVHeld), kvTotal: float64(st.KVTotal),
			retired: float64(st.Retired), lostKV: float64(st.LostKV), entered: float64(st.Entered), cached: float64(st.Cached)}
	}
	out = stand{running: float64(s.running), waiting: float64(s.waiting), retired: s.lostKV, entered: s.prefix.asked, cached: s.prefix.cached}
	for i := range stats {
		out.kvHeld += float64(stats[i].KVHeld)
		out.kvTotal += float64(stats[i].KVTotal)
		out.lostKV += float64(stats[i].LostKV)
	}
	return out
}

// each writes a family with one series for each served name.
func (m *metrics) each(e *exposition, name, kind, help string, labels func(*served) []label, value func(*served) float64) {
	e.family(name, kind, help)
	for _, s := range m.names {
		e.sample(name, value(s), labels(s))
	}
}

const (
	gauge   = "gauge"
	counter = "counter"
	hist    = "histogram"
)

func (m *metrics) gauges(e *exposition, stats []Stats) {
	now := time.Now()
	of := func(f func(stand) float64) func(*served) float64 {
		return func(s *served) float64 { return f(m.stand(s, stats)) }
	}
	running := of(func(s stand) float64 { return s.running })
	waiting := of(func(s stand) float64 { return s.waiting })
	use := of(func(s stand) float64 { return s.usage() })
	retired := of(func(s stand) float64 { return s.retired })
	cached := of(func(s stand) float64 { return s.cached })
	v, g := (*served).vllm, (*served).sglang
	m.each(e, "vllm:num_requests_running", gauge, "Requests that are written.", v, running)
	m.each(e, "vllm:num_requests_waiting", gauge, "Requests that wait to be taken in.", v, waiting)
	m.each(e, "vllm:kv_cache_usage_perc", gauge, "Share of the KV pool in use, 0 to 1.", v, use)
	m.each(e, "vllm:gpu_cache_usage_perc", gauge, "Share of the KV pool in use, 0 to 1.", v, use)
	m.each(e, "vllm:num_preemptions_total", counter, "Requests that had to give up their KV.", v, retired)
	m.each(e, "vllm:prefix_cache_queries_total", counter, "Tokens of requests that came in.", v, of(func(s stand) float64 { return s.entered }))
	m.each(e, "vllm:prefix_cache_hits_total", counter, "Those of them whose KV was there already.", v, cached)
	m.each(e, "sglang:num_running_reqs", gauge, "Requests that are written.", g, running)
	m.each(e, "sglang:num_queue_reqs", gauge, "Requests that wait to be taken in.", g, waiting)
	m.each(e, "sglang:token_usage", gauge, "Share of the KV pool in use, 0 to 1.", g, use)
	m.each(e, "sglang:num_used_tokens", gauge, "Tokens of KV in use.", g, of(func(s stand) float64 { return s.kvHeld }))
	m.each(e, "sglang:max_total_num_tokens", gauge, "Tokens that the KV pool holds.", g, of(func(s stand) float64 { return s.kvTotal }))
	m.each(e, "sglang:cache_hit_rate", gauge, "Share of tokens that came in whose KV was there already.", g, of(func(s stand) float64 { return s.cached / max(s.entered, 1) }))
	m.each(e, "sglang:cached_tokens_total", counter, "Tokens that came in whose KV was there already.", func(s *served) []label { return append(s.sglang(), label{"cache_source", "device"}) }, cached)
	m.each(e, "sglang:num_retracted_reqs", gauge, "Requests that had to give up their KV and wait to be read again.", g, of(func(s stand) float64 { return s.lostKV }))
	m.each(e, "sglang:num_retracted_requests_total", counter, "Requests that had to give up their KV.", g, retired)
	m.each(e, "sglang:gen_throughput", gauge, "Tokens a second that clients got of late.", g, func(s *served) float64 { return s.rate.perSecond(now) })
}

func (m *metrics) counters(e *exposition) {
	v, g := (*served).vllm, (*served).sglang
	prompt := func(s *served) float64 { return s.promptTokens }
	tokens := func(s *served) float64 { return s.tokens }
	m.each(e, "vllm:prompt_tokens_total", counter, "Tokens of prompts.", v, prompt)
	m.each(e, "vllm:generation_tokens_total", counter, "Tokens that clients got, whoever wrote them.", v, tokens)
	m.each(e, "sglang:prompt_tokens_total", counter, "Tokens of prompts.", g, prompt)
	m.each(e, "sglang:generation_tokens_total", counter, "Tokens that clients got, whoever wrote them.", g, tokens)
	m.each(e, "sglang:num_requests_total", counter, "Answers that have ended.", g, func(s *served) float64 {
		return s.finished[0] + s.finished[1] + s.finished[2]
	})
	m.each(e, "sglang:num_aborted_requests_total", counter, "Answers that were broken off.", g, func(s *served) float64 { return s.finished[2] })
	const success = "vllm:request_success_total"
	e.family(success, counter, "Answers that have ended.")
	for _, s := range m.names {
		for i, why := range reasons {
			e.sample(success, s.finished[i], s.vllm(), label{"finished_reason", why})
		}
	}
}

func (m *metrics) histograms(e *exposition) {
	for i := range families {
		f := &families[i]
		if i == 0 || families[i-1].name != f.name {
			e.family(f.name, hist, f.help)
		}
		for _, s := range m.names {
			labels := s.vllm()
			if strings.HasPrefix(f.name, "sglang:") {
				labels = s.sglang()
			}
			if f.stage != "" {
				labels = append(labels, label{"stage", f.stage})
			}
			e.histogram(f.name, s.hists[i], labels)
		}
	}
}

// steps writes the sizes of steps. They belong to single models; the routed name
// has none.
func (m *metrics) steps(e *exposition, stats []Stats) {
	bounds := make([]float64, len(StepBounds))
	for i, b := range StepBounds {
		bounds[i] = float64(b)
	}
	for _, f := range []struct {
		name, help string
		counts     func(*Stats) []int64
		sum        func(*Stats) int64
	}{
		{"vllm:iteration_tokens_total", "Token positions that a step feeds.", func(s *Stats) []int64 { return s.ByRows }, func(s *Stats) int64 { return s.Rows }},
		{"tokenrouter_batch_requests", "Requests in a step.", func(s *Stats) []int64 { return s.BySize }, func(s *Stats) int64 { return s.Requests }},
	} {
		e.family(f.name, hist, f.help)
		for _, s := range m.names {
			model, _ := m.house.find(s.name)
			if model == Routed {
				continue
			}
			h := newHistogram(bounds)
			for i, n := range f.counts(&stats[model]) {
				h.counts[i] = uint64(n)
			}
			h.sum = float64(f.sum(&stats[model]))
			e.histogram(f.name, h, s.vllm())
		}
	}
}

// engines writes what belongs to the engines of single models: how their KV is
// laid out, and whether their steps are replayed graphs of CUDA, which none is yet.
func (m *metrics) engines(e *exposition, stats []Stats) {
	const on, passes = "sglang:is_cuda_graph", "sglang:cuda_graph_passes_total"
	for _, f := range []struct {
		name, kind, help string
		write            func(name string, s *served, st *Stats)
	}{
		{"vllm:cache_config_info", gauge, "The KV pool.", func(name string, s *served, st *Stats) {
			e.sample(name, 1, s.vllm(), label{"block_size", decimal(st.KVBlock)}, label{"num_gpu_blocks", decimal(st.blocks())}, label{"kv_cache_size_tokens", decimal(st.KVTotal)})
		}},
		{"sglang:cache_config_info", gauge, "The KV pool.", func(name string, s *served, st *Stats) {
			e.sample(name, 1, s.sglang(), label{"page_size", decimal(st.KVBlock)}, label{"num_pages", decimal(st.blocks())})
		}},
		{on, gauge, "Whether steps replay a graph.", func(name string, s *served, st *Stats) { e.sample(name, 0, s.sglang()) }},
		{passes, counter, "Steps, by whether they feed prompts and whether they replay a graph.", func(name string, s *served, st *Stats) {
			e.sample(name, 0, s.sglang(), label{"mode", "decode_cuda_graph"})
			e.sample(name, float64(st.Decodes), s.sglang(), label{"mode", "decode_none"})
			e.sample(name, float64(st.Steps-st.Decodes), s.sglang(), label{"mode", "prefill_none"})
		}},
	} {
		e.family(f.name, f.kind, f.help)
		for _, s := range m.names {
			if model, _ := m.house.find(s.name); model != Routed {
				f.write(f.name, s, &stats[model])
			}
		}
	}
}

// blocks is how many blocks the KV pool has.
func (s *Stats) blocks() int { return s.KVTotal / max(s.KVBlock, 1) }

// own writes what neither vLLM nor SGLang has: how models share the work. Colons
// are for names that others chose: Prometheus wants none.
func (m *metrics) own(e *exposition, stats []Stats) {
	for _, f := range []struct {
		name, kind, help string
		of               func(i int) float64
	}{
		{"tokenrouter_written_tokens_total", counter, "Tokens that clients got, by the model that wrote them.", func(i int) float64 { return m.writers[i].tokens }},
		{"tokenrouter_ready_requests", gauge, "Requests that would run in the next step.", func(i int) float64 { return float64(stats[i].Ready) }},
		{"tokenrouter_pending_requests", gauge, "Requests of this home that are away at another model.", func(i int) float64 { return float64(stats[i].Pending) }},
		{"tokenrouter_away_requests", gauge, "Requests of other homes whose KV is kept here.", func(i int) float64 { return float64(stats[i].Away) }},
		{"tokenrouter_threshold", gauge, "Ready requests for which a step waits.", func(i int) float64 { return float64(stats[i].B) }},
		{"tokenrouter_steps_total", counter, "Forward steps.", func(i int) float64 { return float64(stats[i].Steps) }},
		{"tokenrouter_rows_total", counter, "Token positions fed by steps.", func(i int) float64 { return float64(stats[i].Rows) }},
		{"tokenrouter_sampled_tokens_total", counter, "Tokens sampled, dropped ones included.", func(i int) float64 { return float64(stats[i].Sampled) }},
		{"tokenrouter_handoffs_total", counter, "Requests sent to another model to go on there.", func(i int) float64 { return float64(stats[i].Handoffs) }},
		{"tokenrouter_busy_seconds_total", counter, "Time that steps took.", func(i int) float64 { return float64(stats[i].BusyNs) / 1e9 }},
	} {
		e.family(f.name, f.kind, f.help)
		for i := range stats {
			e.sample(f.name, f.of(i), []label{{"model_name", m.house.Models[i].Name}})
		}
	}
}
