package frontdoor

import (
	"net/http"
	"time"
)

// Status is how everything stands: what /status tells as JSON, once, or every
// half second as events if the query is stream=1.
type Status struct {
	Routed   Traffic       `json:"routed"`   // what clients asked of all models together
	Total    Traffic       `json:"total"`    // and under all names
	Models   []ModelStatus `json:"models"`   // in order
	Healthy  bool          `json:"healthy"`  //
	Problem  string        `json:"problem"`  // why not
	UptimeS  float64       `json:"uptime_s"` //
	AtUnixNs int64         `json:"at_unix_ns"`
}

// Traffic counts answers and tokens since the start.
type Traffic struct {
	Waiting      int     `json:"waiting"` // for their first token
	Running      int     `json:"running"`
	Stopped      int     `json:"stopped"`
	Length       int     `json:"length"`
	Aborted      int     `json:"aborted"`
	PromptTokens int     `json:"prompt_tokens"`
	Tokens       int     `json:"tokens"`
	TokensPerS   float64 `json:"tokens_per_s"` // of late
}

// ModelStatus is how one model stands.
type ModelStatus struct {
	Name       string  `json:"name"`
	Here       bool    `json:"here"` // in this process
	Running    int     `json:"running"`
	Waiting    int     `json:"waiting"`
	Ready      int     `json:"ready"`
	Pending    int     `json:"pending"`
	Away       int     `json:"away"`
	B          int     `json:"b"` // in force
	Batch      int     `json:"batch"`
	Steps      int64   `json:"steps"`
	Rows       int64   `json:"rows"`
	Sampled    int64   `json:"sampled"`
	BusyS      float64 `json:"busy_s"`
	MeanBatch  float64 `json:"mean_batch"`    // requests a step
	BySize     []int64 `json:"steps_by_size"` // see Stats.BySize; bounds 1, 8, 16, 32 …
	KVHeld     int     `json:"kv_held"`       // tokens
	KVCached   int     `json:"kv_cached"`
	KVTotal    int     `json:"kv_total"`
	Tokens     int     `json:"tokens"` // that clients got
	TokensPerS float64 `json:"tokens_per_s"`
	Share      float64 `json:"share"` // of all tokens that clients got
	Broken     string  `json:"broken"`
}

// look gathers the status.
func (d *Door) look(h *House) *Status {
	now := time.Now()
	s := &Status{Healthy: true, UptimeS: now.Sub(startedAt).Seconds(), AtUnixNs: now.UnixNano()}
	if err := d.healthy(h); err != nil {
		s.Healthy, s.Problem = false, err.Error()
	}
	stats := h.Service.Stats()
	m := d.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.names {
		t := Traffic{n.waiting, n.running, int(n.finished[0]), int(n.finished[1]), int(n.finished[2]), int(n.promptTokens), int(n.tokens), n.rate.perSecond(now)}
		if model, _ := h.find(n.name); model == Routed {
			s.Routed.add(&t)
		}
		s.Total.add(&t)
	}
	for i := range stats {
		st, w := &stats[i], &m.writers[i]
		o := ModelStatus{Name: h.Models[i].Name, Here: st.Here, Running: st.Running, Waiting: st.Waiting, Ready: st.Ready, Pending: st.Pending, Away: st.Away,
			B: st.B, Batch: st.Batch, Steps: st.Steps, Rows: st.Rows, Sampled: st.Sampled, BusyS: float64(st.BusyNs) / 1e9,
			KVHeld: st.KVHeld, KVCached: st.KVCached, KVTotal: st.KVTotal, Tokens: int(w.tokens), TokensPerS: w.rate.perSecond(now), Broken: st.Broken, BySize: st.BySize}
		if st.Steps > 0 {
			o.MeanBatch = float64(st.Requests) / float64(st.Steps)
		}
		if s.Total.Tokens > 0 {
			o.Share = w.tokens / float64(s.Total.Tokens)
		}
		s.Models = append(s.Models, o)
	}
	return s
}

func (t *Traffic) add(o *Traffic) {
	t.Waiting += o.Waiting
	t.Running += o.Running
	t.Stopped += o.Stopped
	t.Length += o.Length
	t.Aborted += o.Aborted
	t.PromptTokens += o.PromptTokens
	t.Tokens += o.Tokens
	t.TokensPerS += o.TokensPerS
}

const statusEvery = 500 * time.Millisecond

func (d *Door) status(h *House, w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("stream") != "1" {
		writeJSON(w, http.StatusOK, d.look(h))
		return
	}
	s := newEvents(w, d.options.WriteWait)
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for !d.isDraining() {
		s.write(d.look(h))
		if s.flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
	s.done()
}
