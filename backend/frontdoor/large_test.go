package frontdoor

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A text that cannot fit is refused for its bytes: as tokens it would take many
// times its size.
func TestLargeTextsAreNotEncoded(t *testing.T) {
	s := open(t, Options{})
	text := `"` + strings.Repeat("a", 4<<20) + `"`
	larger := `"` + strings.Repeat("a", 16<<20) + `"` // than what is taken to become nothing but tokens
	for _, c := range []struct{ path, body string }{
		{textPath, `{"prompt":` + text + `}`},
		{textPath, `{"prompt":["a",` + text + `]}`},
		{generatePath, `{"text":` + text + `}`},
		{chatPath, `{"messages":[{"role":"user","content":` + text + `}]}`},
		{"/tokenize", `{"prompt":` + larger + `}`},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := s.post(c.path, c.body)
		runtime.ReadMemStats(&after)
		refused(t, r, 400, "at least")
		// Reading and rendering a chat takes 22 times the body, counting what was
		// freed on the way; encoding it would take another 50 and more.
		if grown := (after.TotalAlloc - before.TotalAlloc) / uint64(len(c.body)); grown > 40 {
			t.Errorf("%s: took %d times the body", c.path, grown)
		}
	}
	s.healthy()
}

// Large bodies wait for each other, and small ones for none.
func TestLargeBodiesTakeTurns(t *testing.T) {
	s := open(t, Options{})
	large := `{"prompt":"` + strings.Repeat("a", 2*bulky) + `"}`
	s.door.bulk <- struct{}{} // one is under way
	done := make(chan reply, 2)
	for range 2 {
		go func() { done <- s.post(textPath, large) }()
	}
	gone := s.half(textPath, large) // waits no longer, since it has gone
	if r := gone(); r.status != statusGone {
		t.Errorf("%d: %s", r.status, cut(r.body, 300))
	}
	if r := s.post(textPath, order{Say: "ok"}.body(textPath, "")); r.status != 200 {
		t.Errorf("%d: %s", r.status, r.body)
	}
	select {
	case r := <-done:
		t.Errorf("a large body did not wait: %d", r.status)
	default:
	}
	<-s.door.bulk
	for range 2 {
		refused(t, <-done, 400, "4096 tokens")
	}
}

// half sends a whole request and closes its half of the connection; what it
// returns waits for the answer.
func (s *site) half(path, body string) func() reply {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		s.t.Fatal(err)
	}
	return func() reply {
		s.t.Helper()
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			s.t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			s.t.Fatal(err)
		}
		return reply{resp.StatusCode, resp.Header, string(text)}
	}
}

// A client that has closed its half is told that it is taken to have gone, and
// never that the server has failed.
func TestHalfClosed(t *testing.T) {
	s := open(t, Options{})
	for _, path := range []string{textPath, chatPath, generatePath} {
		for _, more := range []string{"", `"stream":true`} {
			answer := s.half(path, order{Say: "abc", Hold: 1}.body(path, more))
			r := answer()
			switch {
			case r.status == statusGone:
				refused(t, r, statusGone, "closed its connection")
			case r.status != 200 || strings.Contains(r.body, `"code":500`): // the first token may be out already
				t.Errorf("%s with %s: %d %s", path, more, r.status, cut(r.body, 300))
			}
		}
	}
	s.settled()
	if n := s.metric(`vllm:request_success_total{model_name="routed",engine="0",finished_reason="abort"}`); n != 6 {
		t.Errorf("%g aborted, want 6", n)
	}
}

// Who sends all before looking for an answer gets it.
func TestTooLargeBodyIsRead(t *testing.T) {
	s := open(t, Options{BodyMax: 1 << 20})
	for _, length := range []int64{20 << 20, -1} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		r, _ := http.NewRequest("POST", s.url+textPath, io.LimitReader(strings.NewReader(strings.Repeat(" ", 20<<20)), 20<<20))
		r.ContentLength = length
		r.Header.Set("Content-Type", "application/json")
		if err := r.Write(conn); err != nil {
			t.Fatalf("the body was not taken: %v", err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		refused(t, reply{resp.StatusCode, resp.Header, string(body)}, 413, "1048576 bytes")
	}
	s.healthy()
}
