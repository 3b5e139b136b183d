package frontdoor

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// begun is a request whose body is not all there yet.
type begun struct {
	t    *testing.T
	conn net.Conn
}

// begin sends the head of a request and the first bytes of its body.
func (s *site) begin(t *testing.T, path string, length int, first string) *begun {
	t.Helper()
	conn := s.dial(t)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, length, first)
	return &begun{t, conn}
}

// finish sends the rest and reads the answer.
func (b *begun) finish(rest string) reply {
	b.t.Helper()
	if _, err := io.WriteString(b.conn, rest); err != nil {
		b.t.Fatal(err)
	}
	b.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	resp, err := http.ReadResponse(bufio.NewReader(b.conn), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}

// Bodies under way hold no more than all may: one that goes beyond is refused, and
// may come again, while small ones are taken all the time.
func TestBodiesHaveACommonLimit(t *testing.T) {
	const size = 1 << 20
	s := open(t, Options{BodyMax: size, BodiesMax: size + size/2})
	body := order{Say: "ok"}.body(textPath, `"unknown":"`)
	body += strings.Repeat("x", size-len(body)-2) + `"}`
	large := s.begin(t, textPath, size, body[:size-1])
	within(t, 5*time.Second, "the large body is there", func() bool { return s.door.held.Load() == size-1-freeBytes })
	for name, length := range map[string]int64{"declared": size, "chunked": -1} { // order: each is a case of its own.
		r, err := http.NewRequest("POST", s.url+textPath, io.LimitReader(strings.NewReader(body), size))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = length
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(name, err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		refused(t, reply{resp.StatusCode, resp.Header, string(text)}, 503, "large requests")
		if resp.Header.Get("Retry-After") == "" || !resp.Close {
			t.Errorf("%s: %v, and the connection stays open: %t", name, resp.Header, !resp.Close)
		}
	}
	if r := s.post(textPath, order{Say: "ok"}.body(textPath, "")); r.status != 200 {
		t.Errorf("a small one: %d %s", r.status, r.body)
	}
	if r := large.finish(body[size-1:]); r.status != 200 {
		t.Errorf("the one that came first: %d %s", r.status, cut(r.body, 300))
	}
	if r := s.post(textPath, body); r.status != 200 {
		t.Errorf("one that comes again: %d %s", r.status, cut(r.body, 300))
	}
	if held := s.door.held.Load(); held != 0 {
		t.Errorf("%d bytes are still counted", held)
	}
}

// However a body ends, its bytes are given back.
func TestBodiesGiveTheirBytesBack(t *testing.T) {
	s := open(t, Options{BodyMax: 1 << 20, BodyWait: 2 * time.Second})
	part := `{"prompt":"` + strings.Repeat("x", 2*freeBytes)
	gone := s.begin(t, textPath, 1<<20, part)
	slow := s.begin(t, textPath, 1<<20, part)
	within(t, 5*time.Second, "both are being read", func() bool { return s.door.held.Load() > 2*freeBytes })
	gone.conn.Close()
	refused(t, slow.finish(""), 408, "did not come")
	refused(t, s.post(textPath, part), 400, "JSON")
	refused(t, s.post(textPath, part+strings.Repeat("x", 1<<20)), 413, "larger")
	within(t, 5*time.Second, "all bytes are given back", func() bool { return s.door.held.Load() == 0 })
}

// The first bytes are free, and those beyond are counted once.
func TestShareCounts(t *testing.T) {
	var held atomic.Int64
	s := &share{reader: io.NopCloser(strings.NewReader(strings.Repeat("x", 100))), held: &held, most: 60, free: 30}
	for _, c := range []struct {
		read int
		held int64
		err  error
	}{{20, 0, nil}, {20, 10, nil}, {50, 60, nil}, {1, 61, errBodies}} {
		n, err := s.Read(make([]byte, c.read))
		if n != c.read || err != c.err || held.Load() != c.held {
			t.Errorf("after %d bytes %v, and %d are held, want %v and %d", n, err, held.Load(), c.err, c.held)
		}
	}
	s.giveBack()
	s.giveBack()
	if held.Load() != 0 {
		t.Errorf("%d bytes are held by nobody", held.Load())
	}
}

// A limit for all that is less than that of one would refuse it for ever.
func TestBodiesMaxIsAtLeastABody(t *testing.T) {
	if o := New(Options{BodyMax: 100, BodiesMax: 10}).options; o.BodiesMax != 100 {
		t.Errorf("all bodies may hold %d bytes, one 100", o.BodiesMax)
	}
}
