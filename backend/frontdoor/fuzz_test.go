package frontdoor

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// offline is a door without a socket, before a stage that waits for nobody.
func offline(t testing.TB) *site {
	s := &site{t: t, stage: &stage{release: make(chan struct{})}, door: New(Options{BodyMax: 1 << 20})}
	close(s.stage.release)
	s.door.Open(onStage(s.stage))
	return s
}

// FuzzBody sends any bytes as a body: the answer is a good one, or says what is
// wrong in a form that clients read.
func FuzzBody(f *testing.F) {
	paths := []string{textPath, chatPath, generatePath, "/tokenize", "/detokenize", "/abort_request"}
	for _, m := range mistakes {
		if len(m.body) < 1000 {
			f.Add(uint8(slices.Index(paths, m.path)), m.body)
		}
	}
	for i, path := range paths[:3] {
		f.Add(uint8(i), order{Say: "grün 世界", Chunk: 2}.body(path, `"stream":true,"n":2,"logprobs":true,"top_logprobs":2`))
		f.Add(uint8(i), order{Say: "abc"}.body(path, `"sampling_params":[{"n":2,"stop":["b"]}],"rid":["a"],"return_logprob":true,"logit_bias":{"5":1}`))
	}
	f.Add(uint8(3), `{"prompt":["a","b"],"return_token_strs":true}`)
	f.Add(uint8(4), `{"tokens":[[1,2],[3]]}`)
	f.Add(uint8(5), `{"rid":"x","abort_all":true}`)
	s := offline(f)
	f.Fuzz(func(t *testing.T, path uint8, body string) {
		s.t = t
		where := paths[int(path)%len(paths)]
		r := s.post(where, body)
		switch r.status {
		case 200:
			if strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
				if events := eventsOf(t, r); events[len(events)-1] != "[DONE]" {
					t.Errorf("no end: %q", events)
				}
				return
			}
			if where != "/abort_request" && (!json.Valid([]byte(r.body)) || !utf8.ValidString(r.body)) {
				t.Errorf("no JSON: %q", r.body)
			}
		case 400, 404, 413, 503:
			refused(t, r, r.status, "")
			if len(r.body) > 3*messageMax+1000 {
				t.Errorf("an error of %d bytes", len(r.body))
			}
		default:
			t.Errorf("status %d: %s", r.status, r.body)
		}
		// A stage hears of the end by a goroutine, which busy machines may hold up.
		within(t, 30*time.Second, "nothing is open", func() bool { return s.stage.Stats()[0].Running == 0 })
	})
}

// FuzzEvents writes any bytes as tokens, in chunks of any size, with any stop
// string: what is streamed is the whole answer.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("grün 世界 🎉"), "世", uint8(3), uint8(20))
	f.Add([]byte("ABCABCABD"), "ABCABD", uint8(1), uint8(9))
	f.Add([]byte{0xe4, 0xb8, 0xff, 'x', 0xf0, 0x9f}, "", uint8(2), uint8(5))
	f.Add([]byte("\x00\u2028<>&\"\\"), "<", uint8(7), uint8(40))
	s := offline(f)
	f.Fuzz(func(t *testing.T, say []byte, stop string, chunk, most uint8) {
		s.t = t
		o := order{Chunk: int(chunk), Tokens: []Token{}}
		if len(say) > 200 || len(stop) > 200 {
			return
		}
		for _, b := range say {
			o.Tokens = append(o.Tokens, Token(b))
		}
		o.Tokens = append(o.Tokens, stageEOS)
		stops := []string{"never to be seen"}
		if stop = strings.ToValidUTF8(stop, ""); stop != "" {
			stops = append(stops, stop)
		}
		s.sameStreamed(t, o, stops, 1, 1+int(most)%100) // one, so that nothing depends on the order of goroutines
	})
}
