package main

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"
)

// twoServers starts two processes of one system.
func twoServers(t *testing.T, args ...string) (home, peer *server) {
	t.Helper()
	a, b := freeAddress(t), freeAddress(t)
	args = append([]string{"--threshold", "0.2", "--processes", a + "," + b, "--context", "4000"}, args...)
	home = launch(t, append(args, "--own", a)...)
	peer = launch(t, append(args, "--own", b)...)
	return home.ready(), peer.ready()
}

// begin asks for a long answer, and returns once it has begun.
func (s *server) begin(tokens string) (answer chan string) {
	s.t.Helper()
	answer = make(chan string, 1)
	go func() {
		_, text, err := s.try(s.t.Context(), "/v1/completions", `{"prompt":"a long one","max_tokens":`+tokens+`,"ignore_eos":true,"stream":true,"seed":1}`)
		if err != nil {
			text = err.Error()
		}
		answer <- text
	}()
	for {
		if _, text := s.get("/status"); !strings.Contains(text, `"tokens":0,`) && !strings.Contains(text, `"running":0,"stopped"`) {
			return answer
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A process that is told to end stays for as long as another needs it, even if no
// client of its own does.
func TestServeStaysForItsPeers(t *testing.T) {
	home, peer := twoServers(t)
	answer := home.begin("1500")
	if code := peer.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d: %s", code, peer.said.String())
	}
	if text := <-answer; strings.Contains(text, "error") || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("the answer was broken off: …%s", text[max(0, len(text)-300):])
	}
}

// With the time to drain up, it goes.
func TestServeDoesNotStayForEver(t *testing.T) {
	home, peer := twoServers(t, "--drain-s", "0")
	answer := home.begin("3900")
	if code := peer.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d: %s", code, peer.said.String())
	}
	if text := <-answer; !strings.Contains(text, "error") {
		t.Error("the answer was there before the end: the test shows nothing")
	}
}

// A process that has lost another ends for a supervisor to start both again.
func TestServeEndsWhenAPeerIsLost(t *testing.T) {
	home, peer := twoServers(t)
	peer.end(syscall.SIGKILL)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ended := make(chan int, 1)
	go func() { ended <- home.end(syscall.Signal(0)) }()
	select {
	case code := <-ended:
		if code != exitFailed || !strings.Contains(home.said.String(), "toy:llama is lost") || !strings.Contains(home.said.String(), "started again") {
			t.Errorf("exit code %d: %s", code, home.said.String())
		}
	case <-ctx.Done():
		t.Fatal("it goes on without its peer")
	}
}

// Whoever ends a server under load is told what it waits for, and a further
// signal breaks the answers off with an event, not with the connection.
func TestServeSaysWhatItWaitsFor(t *testing.T) {
	s := launch(t, "--on", "paced").ready()
	answer := s.begin("4000")
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.awaitWords("waiting up to 60 s for 1 request to end")
	code := s.end(syscall.SIGTERM)
	if said := s.said.String(); code != 0 || !strings.Contains(said, "breaking off 1 request") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if text := <-answer; !strings.Contains(text, "shutting down") || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("the client was told …%s", text[max(0, len(text)-300):])
	}
}
