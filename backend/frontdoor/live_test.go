package frontdoor

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/backend/frontdoor/page"
)

// live is what the page hears.
func (s *site) live() (status page.Status) {
	s.t.Helper()
	r := s.do("GET", "/page/status", "", "Authorization", "Bearer "+s.door.options.APIKey)
	if err := json.Unmarshal([]byte(r.body), &status); err != nil || r.status != 200 {
		s.t.Fatalf("%d, %v: %s", r.status, err, r.body)
	}
	return status
}

func TestPageIsThereFromTheStart(t *testing.T) {
	s := closed(t, Options{APIKey: "secret"})
	s.listen(time.Second)
	if got := s.live(); got.State != page.Starting || !got.KeyNeeded || len(got.Models) != 0 {
		t.Errorf("before the models are there the page hears %+v", got)
	}
	s.door.Open(onStage(s.stage))
	if got := s.live(); got.State != page.Serving || len(got.Models) != 2 || got.TTFT != nil || got.PredictedTokPerS != nil {
		t.Errorf("before the first request the page hears %+v", got)
	}
	for _, header := range []string{"", "Bearer wrong"} {
		r := s.do("GET", "/page/status", "", "Authorization", header)
		wants(t, r.body, "locked", "state")
		wants(t, r.body, "true", "key_needed")
		wants(t, r.body, "[]", "models")
		wants(t, r.body, "[]", "names")
		wants(t, r.body, "", "version")
	}
	r := s.get("/")
	if r.status != 200 || !strings.Contains(r.body, "<title>TokenRouter</title>") || r.header.Get("Content-Security-Policy") == "" {
		t.Errorf("the page is %d: %s", r.status, cut(r.body, 200))
	}
	if origin := r.header.Get("Access-Control-Allow-Origin"); origin != "" {
		t.Errorf("pages of %s may read this one", origin)
	}
	if r := s.get("/page/page.js"); r.status != 200 {
		t.Errorf("the page's script is %d", r.status)
	}
}

func TestPageHearsWhatIsWritten(t *testing.T) {
	s := open(t, Options{})
	// 8 tokens with EOS, by two writers in turns; and 3 that nobody routes.
	s.post(textPath, order{Say: "abcdefg"}.body(textPath, `"model":"routed","max_tokens":20`))
	s.post(textPath, order{Say: "abc", Chunk: 4}.body(textPath, `"model":"small","max_tokens":3`))
	s.settled()
	got := s.live()
	small, large := got.Models[0], got.Models[1]
	if small.RoutedTokens != 4 || large.RoutedTokens != 4 || small.Tokens+large.Tokens != 11 {
		t.Errorf("%+v and %+v, want 4 routed tokens each and 11 in all", small, large)
	}
	if !small.Home || large.Home || small.Name != "small" || !small.Here {
		t.Errorf("the models are %+v and %+v", small, large)
	}
	if got.TTFT == nil || got.TTFT.Count != 2 || got.ITL == nil || got.ITL.Count != 9 {
		t.Errorf("first tokens %+v, others %+v, want 2 and 9", got.TTFT, got.ITL)
	}
	want := []page.Name{{Name: "routed", Routed: true}, {Name: "alias/routed", Routed: true}, {Name: "small"}, {Name: "org/large"}}
	if len(got.Names) != len(want) {
		t.Fatalf("the names are %v", got.Names)
	}
	for i := range want {
		if got.Names[i] != want[i] {
			t.Errorf("name %d is %v, want %v", i, got.Names[i], want[i])
		}
	}
	if got.Running != 0 || got.Waiting != 0 {
		t.Errorf("%d run and %d wait, want none", got.Running, got.Waiting)
	}
}

func TestPageHearsThePrediction(t *testing.T) {
	s := closed(t, Options{})
	h := onStage(s.stage)
	h.Thresholds = true
	h.Predict = func(live int) []float64 { return []float64{90 * float64(live), 10} }
	s.door.Open(h)
	s.listen(time.Second)
	if got := s.live(); got.PredictedTokPerS != nil || !got.Thresholds {
		t.Errorf("before the first request the page hears %+v", got)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.post(textPath, order{Say: "abcdef", Hold: 3}.body(textPath, ""))
	}()
	within(t, 5*time.Second, "one request is predicted", func() bool { return s.live().PredictedTokPerS != nil })
	got := s.live()
	if *got.PredictedTokPerS != 100 || *got.Models[0].PredictedTokPerS != 90 || *got.Models[1].PredictedTokPerS != 10 || got.Running+got.Waiting != 1 {
		t.Errorf("the page hears %+v", got)
	}
	close(s.stage.release)
	<-ended
}

// The time of answers is that in which there were any, waiting or running.
func TestPageHearsHowLongAnswersWere(t *testing.T) {
	s := open(t, Options{})
	s.post(textPath, order{Refuse: "full"}.body(textPath, ""))
	s.settled()
	before := s.live().LiveS
	time.Sleep(20 * time.Millisecond)
	if now := s.live().LiveS; now != before {
		t.Errorf("%g s more of answers while there was none", now-before)
	}
	stream := s.startStream(order{Say: "abc", Hold: 1}.body(chatPath, `"stream":true,"n":2`))
	time.Sleep(20 * time.Millisecond)
	held := s.live().LiveS
	if held-before < 0.02 {
		t.Errorf("%g s of answers, want 20 ms", held-before)
	}
	close(s.stage.release)
	if _, err := io.ReadAll(stream); err != nil {
		t.Fatal(err)
	}
	within(t, 5*time.Second, "the answers are counted", func() bool { got := s.live(); return got.Running+got.Waiting == 0 })
	if after := s.live().LiveS; after <= held || after != s.live().LiveS {
		t.Errorf("%g s of answers after the end, %g before it", after, held)
	}
	m := &alive{}
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	m.change(at(10), 2)
	m.change(at(11), -1)
	if got := m.until(at(13)); got != 3*time.Second {
		t.Errorf("%v with one left, want 3 s", got)
	}
	m.change(at(14), -1)
	m.change(at(20), 1)
	if got := m.until(at(21)); got != 5*time.Second {
		t.Errorf("%v, want 5 s", got)
	}
}

func TestPageHearsTheEnd(t *testing.T) {
	s := open(t, Options{})
	s.stage.mu.Lock()
	s.stage.lost = errors.New("org/large is gone")
	s.stage.mu.Unlock()
	if got := s.live(); got.State != page.Broken || got.Problem != "org/large is gone" {
		t.Errorf("the page hears %+v", got)
	}
	s.stage.mu.Lock()
	s.stage.lost = nil
	s.stage.mu.Unlock()
	s.door.mu.Lock()
	s.door.draining = true
	s.door.mu.Unlock()
	if got := s.live(); got.State != page.Draining {
		t.Errorf("the page hears %+v", got)
	}
}
