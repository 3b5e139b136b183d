package serving

import (
	"strings"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/backend/frontdoor"
)

// crowded is a site whose only places are taken for the rest of the test, by
// requests for both models.
func crowded(t *testing.T, p plan, waiting int) *site {
	p.texts, p.maxRunning = []string{strings.Repeat("0123456789", 400)}, 1
	s := p.open(t)
	for m, name := range names {
		for range 1 + waiting {
			go s.try(t.Context(), textPath, `{"prompt":"go on:","seed":0,"max_tokens":4000,"model":"`+name+`"}`)
		}
		s.until("all wait but one", func() bool { return s.service.Stats()[m].Waiting == waiting })
	}
	return s
}

// Models that write are healthy, however many requests wait before that of the
// probe, and even if there is no place left to wait.
func TestHealthUnderLoad(t *testing.T) {
	const slow = 20 * time.Millisecond // thousands of such steps outlast all patience
	for name, p := range map[string]plan{"waiting": {}, "queue full": {queueLimit: 2}} {
		t.Run(name, func(t *testing.T) {
			p.delay, p.door = [2]time.Duration{slow, slow}, frontdoor.Options{ProbeWait: 2 * time.Second}
			s := crowded(t, p, 2)
			if status, text := s.get("/health_generate"); status != 200 {
				t.Errorf("%d: %s", status, text)
			}
		})
	}
}

// A model whose step does not end is not, whether a probe gets in or not.
func TestHealthOfAModelThatHangs(t *testing.T) {
	for name, p := range map[string]plan{"waiting": {}, "queue full": {queueLimit: 2}} {
		t.Run(name, func(t *testing.T) {
			p.hold, p.door = make(chan struct{}), frontdoor.Options{ProbeWait: 50 * time.Millisecond}
			s := crowded(t, p, 2)
			status, text := s.get("/health_generate")
			close(p.hold)
			if status != 503 || !strings.Contains(text, "model small does not write") {
				t.Errorf("%d: %s", status, text)
			}
		})
	}
}
