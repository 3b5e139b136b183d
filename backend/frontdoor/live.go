package frontdoor

import (
	"net/http"
	"time"

	"github.com/tokenrouter/tokenrouter/backend/frontdoor/page"
)

// live tells the page how things stand, from before the models are there. If
// there is a key, who does not show it learns just that: names and problems are
// not for everybody, and the page would have no use for a refusal.
func (d *Door) live(r *http.Request) page.Status {
	now := time.Now()
	s := page.Status{StartedMs: startedAt.UnixMilli(), NowMs: now.UnixMilli(), State: page.Serving, KeyNeeded: d.options.APIKey != ""}
	if !d.admits(r) {
		s.State = page.Locked
		return s
	}
	h := d.house.Load()
	if h == nil {
		s.State = page.Starting
		return s
	}
	if d.isDraining() {
		s.State = page.Draining
	}
	if err := h.Service.Err(); err != nil {
		s.State, s.Problem = page.Broken, err.Error()
	}
	s.Version, s.Chat, s.Thresholds = h.Version, h.Tokenizer.HasChatTemplate(), h.Thresholds
	for _, name := range h.Served() {
		model, _ := h.find(name)
		s.Names = append(s.Names, page.Name{Name: name, Routed: model == Routed})
	}
	stats := h.Service.Stats()
	m := d.metrics
	s.TTFT, s.ITL = m.ttftLately.Percentiles(now), m.itlLately.Percentiles(now)
	m.mu.Lock()
	s.LiveS = m.alive.until(now).Seconds()
	for _, n := range m.names {
		s.Waiting, s.Running = s.Waiting+n.waiting, s.Running+n.running
	}
	for i := range stats {
		o := h.liveModel(i, &stats[i])
		o.Tokens, o.RoutedTokens = int64(m.writers[i].tokens), int64(m.writers[i].routed)
		s.Models = append(s.Models, o)
	}
	m.mu.Unlock()
	h.predict(&s, s.Waiting+s.Running)
	return s
}

// liveModel is what the page shows of a model, but for what clients got of it.
func (h *House) liveModel(i int, st *Stats) page.Model {
	o := page.Model{
		Name: h.Models[i].Name, Home: i == h.Home, Here: st.Here,
		Running: st.Running, Ready: st.Ready, Pending: st.Pending, Away: st.Away, Waiting: st.Waiting, B: st.B,
		Steps: st.Steps, Sampled: st.Sampled, BusyS: float64(st.BusyNs) / 1e9,
		KVHeld: st.KVHeld, KVCached: st.KVCached, KVTotal: st.KVTotal, Problem: st.Broken,
	}
	for _, b := range st.Batches {
		o.Batches = append(o.Batches, page.Batches(b))
	}
	return o
}

// predict adds what the models should write with so many live requests.
func (h *House) predict(s *page.Status, live int) {
	if h.Predict == nil || live == 0 {
		return
	}
	rates := h.Predict(live)
	if len(rates) != len(s.Models) {
		return
	}
	sum := 0.0
	for i := range rates {
		s.Models[i].PredictedTokPerS = &rates[i]
		sum += rates[i]
	}
	s.PredictedTokPerS = &sum
}
