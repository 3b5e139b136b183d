package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/internal/asktest"
)

// server is the program in a process of its own.
type server struct {
	t     *testing.T
	cmd   *exec.Cmd
	where chan string // its URL once it is ready; closed when it has ended
	url   string
	said  words // on standard error; all of it when where is closed
}

// words are written by one goroutine and read by others.
type words struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *words) WriteString(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.WriteString(s)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// awaitWords waits until the server has said something.
func (s *server) awaitWords(want string) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); !strings.Contains(s.said.String(), want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("in 30 s it has not said %q but: %s", want, s.said.String())
		}
	}
}

// launch starts it at a free port. Processes of one system are ready together.
func launch(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{t: t, where: make(chan string, 1), cmd: exec.Command("tokenrouter", append([]string{"serve", "--port", "0"}, args...)...)}
	pipe, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		in := bufio.NewScanner(pipe)
		for in.Scan() {
			s.said.WriteString(in.Text() + "\n")
			if _, at, ok := strings.Cut(in.Text(), " at http://"); ok {
				s.where <- "http://" + at
			}
		}
		close(s.where)
	}()
	t.Cleanup(func() { s.end(syscall.SIGKILL) })
	return s
}

// ready waits until clients may come.
func (s *server) ready() *server {
	s.t.Helper()
	select {
	case url, ok := <-s.where:
		if !ok {
			s.t.Fatalf("serve did not start: %s", s.said.String())
		}
		s.url = url
	case <-time.After(30 * time.Second):
		s.t.Fatal("serve is not ready after 30 s")
	}
	return s
}

// end sends a signal, waits for the process and returns its exit code, -1 if the
// signal killed it.
func (s *server) end(how syscall.Signal) int {
	s.cmd.Process.Signal(how)
	for range s.where { // the pipe is read to its end before Wait closes it
	}
	s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// written is an answer to a completion.
type written struct {
	Text    string
	IDs     []int `json:"token_ids"`
	Writers []string
	Finish  string `json:"finish_reason"`
}

// complete asks for a completion and wants it.
func (s *server) complete(more string) written {
	s.t.Helper()
	status, body, err := s.try(s.t.Context(), "/v1/completions", `{"return_token_ids":true,"custom_params":{"return_writers":true},`+more+`}`)
	var a struct{ Choices []written }
	if err != nil || status != 200 || json.Unmarshal([]byte(body), &a) != nil || len(a.Choices) != 1 {
		s.t.Fatalf("%d %v: %s", status, err, body)
	}
	return a.Choices[0]
}

func (s *server) try(ctx context.Context, path, body string) (status int, text string, err error) {
	return asktest.Post(ctx, s.url+path, body)
}

func (s *server) get(path string) (status int, text string) {
	s.t.Helper()
	status, text, err := asktest.Get(s.t.Context(), s.url+path)
	if err != nil {
		s.t.Fatal(err)
	}
	return status, text
}

func alike(a, b written) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

func TestServeAtOnce(t *testing.T) {
	s := serve(t)
	for _, path := range []string{"/health", "/v1/models", "/model_info", "/metrics", "/status", "/health_generate"} {
		if status, text := s.get(path); status != 200 {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	status, text, err := s.try(t.Context(), "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"max_tokens":5,"stream":true}`)
	if err != nil || status != 200 || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("%d %v: %s", status, err, text)
	}
	if code := s.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
}

func serve(t *testing.T, args ...string) *server {
	t.Helper()
	return launch(t, args...).ready()
}

func TestServeReadsAFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "serve.toml")
	text := "small = \"toy:llama\"\nlarge = \"toy:qwen3\"\nserved-model-name = [\"one\", \"two\"]\nb = [1, 2]\nthreshold = 0.25\napi-key = \"k\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, file, "--served-model-name", "three", "--api-key", "")
	if _, text := s.get("/v1/models"); !strings.Contains(text, `"id":"three"`) || strings.Contains(text, `"id":"one"`) {
		t.Errorf("a flag does not go before the file: %s", text)
	}
	if _, text := s.get("/server_info"); !strings.Contains(text, `"threshold":0.25`) || !strings.Contains(text, `"b":[1,2]`) || !strings.Contains(text, `"small":"toy:llama"`) {
		t.Errorf("the file is not obeyed: %s", text)
	}
	for wrong, says := range map[string]string{"smal = \"x\"": "serve.toml:1: there is no setting smal\n  fix: did you mean small?",
		"port = 0\n\nserved_model_name = \"x\"": "serve.toml:3: there is no setting served_model_name\n  fix: did you mean served-model-name",
		"port = 0\n[door]\nhost = 1":            "serve.toml:2: there is no setting door", "\n\"kv-tokens\" = \"x\"": "serve.toml:2: --kv-tokens must be a whole number", "b = \"x\"": "b", "threshold =": "serve.toml:1", "port = 99999": "port", "port = [1, 2]": "port is one value", "b = []": "b is an empty list"} {
		if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("tokenrouter", "serve", file).CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != exitUsage || !strings.Contains(string(out), says) {
			t.Errorf("%s: %v: %s", wrong, err, out)
		}
	}
}

func TestServeRefusesWhatCannotBe(t *testing.T) {
	for _, args := range [][]string{
		{"--large", "toy:llama"}, {"--small", "no/such/folder"}, {"--on", "gpu"}, {"--rule", "lazy"}, {"--b", "1"}, {"--algorithm", "magic"},
		{"--processes", "a:1"}, {"--processes", "a:1,b:2", "--own", "c:3"}, {"--context", "100000"}, {"--threshold", "7"}, {"--profiles", "nothing", "--on", "paced"},
	} {
		out, err := exec.Command("tokenrouter", append([]string{"serve", "--port", "0"}, args...)...).CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != exitUsage {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
}

// R1: never routed is the small model alone, always routed the large one.
func TestServeNeverAndAlways(t *testing.T) {
	s := serve(t)
	ask := func(model, knobs string) written {
		return s.complete(`"prompt":"the same for all","max_tokens":40,"ignore_eos":true,"temperature":0.8,"seed":5,"model":"` + model + `","vllm_xargs":{` + knobs + `}`)
	}
	small, large := ask("toy:qwen3", ""), ask("toy:llama", "")
	if got := ask("tokenrouter", `"threshold":-1`); fmt.Sprint(got.IDs) != fmt.Sprint(small.IDs) {
		t.Errorf("never routed: %v, small alone %v", got.IDs, small.IDs)
	}
	if got := ask("tokenrouter", `"threshold":2`); fmt.Sprint(got.IDs) != fmt.Sprint(large.IDs) {
		t.Errorf("always routed: %v, large alone %v", got.IDs, large.IDs)
	}
	if fmt.Sprint(small.IDs) == fmt.Sprint(large.IDs) {
		t.Error("both models write the same: the test shows nothing")
	}
}

// Rows 12, 13, 24, 25 and R2: the same tokens alone and among others, cold and
// from cache, with any B, and with so little memory that requests lose theirs.
func TestServeTheSameWhateverGoesOn(t *testing.T) {
	ask := func(s *server, i int) written {
		sampling := []string{`"temperature":0`, `"temperature":0.9,"top_p":0.95`, `"temperature":1,"top_k":20,"presence_penalty":0.5`}[i%3]
		return s.complete(fmt.Sprintf(`"prompt":"shared beginning of all prompts, number %d","max_tokens":48,"ignore_eos":true,"seed":%d,%s`, i, i, sampling))
	}
	const requests = 9
	var want [requests]written
	for round, args := range [][]string{
		{"--threshold", "0.2"},
		{"--threshold", "0.2", "--b", "2,3"},
		{"--threshold", "0.2", "--kv-tokens", "320", "--chunk-tokens", "70"},
		{"--threshold", "0.2", "--rule", "alternate"},
	} {
		s := serve(t, args...)
		for i := range requests {
			got := ask(s, i)
			if round == 0 {
				want[i] = got
			}
			if !alike(got, want[i]) {
				t.Errorf("%v: request %d alone: got %+v, want %+v", args, i, got, want[i])
			}
		}
		var users sync.WaitGroup
		for i := range requests {
			users.Go(func() {
				if got := ask(s, i); !alike(got, want[i]) {
					t.Errorf("%v: request %d among others: got %+v, want %+v", args, i, got, want[i])
				}
			})
		}
		users.Wait()
		if status, text := s.get("/flush_cache"); status != 200 || !strings.HasPrefix(text, "Cache flushed") {
			t.Errorf("%v: %d %s", args, status, text)
		}
		if got := ask(s, 0); !alike(got, want[0]) {
			t.Errorf("%v: request 0 from a cold cache: got %+v, want %+v", args, got, want[0])
		}
		s.end(syscall.SIGTERM)
	}
	if small := strings.Count(fmt.Sprint(want), "toy:qwen3"); small == 0 || small == requests*48 {
		t.Error("nothing was routed: the test shows nothing")
	}
}

func TestServePaced(t *testing.T) {
	s := serve(t, "--on", "paced", "--profiles", "none", "--context", "100000")
	got := s.complete(`"prompt":"hello","max_tokens":20,"ignore_eos":true`)
	if len(got.IDs) != 20 || !strings.Contains(strings.Join(got.Writers, " "), "toy:llama") {
		t.Errorf("got %+v", got)
	}
}

// freeAddress is one that nobody listens on.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A process that waits for the others tells so, and ends when it is asked to.
func TestServeWaitsForTheOthers(t *testing.T) {
	a, b := freeAddress(t), freeAddress(t)
	at := freeAddress(t)
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	s := launch(t, "--processes", a+","+b, "--own", a, "--port", port)
	s.url = "http://" + at
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		status, _, err := asktest.Get(t.Context(), s.url+"/health")
		if err == nil {
			if status != 503 {
				t.Errorf("health is %d while a process is missing", status)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if code := s.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d: %s", code, s.said.String())
	}
}

// R6: two processes write what one does, and when the peer dies under load
// streams end, with a reason, and health tells.
func TestServeInTwoProcesses(t *testing.T) {
	alone := serve(t, "--threshold", "0.2")
	const more = `"prompt":"two processes","max_tokens":48,"ignore_eos":true,"seed":1`
	want := alone.complete(more)
	alone.end(syscall.SIGTERM)

	a, b := freeAddress(t), freeAddress(t)
	home := launch(t, "--threshold", "0.2", "--processes", a+","+b, "--own", a, "--context", "4000", "--on-lost", "stay")
	peer := launch(t, "--threshold", "0.2", "--processes", a+","+b, "--own", b, "--context", "4000")
	home.ready()
	peer.ready()
	if got := home.complete(more); !alike(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// A request's own threshold goes along to the other process.
	for threshold, writer := range map[string]string{"-1": "toy:qwen3", "2": "toy:llama"} {
		got := home.complete(more + `,"vllm_xargs":{"threshold":` + threshold + `}`)
		if n := strings.Count(strings.Join(got.Writers, " "), writer); n != 48 {
			t.Errorf("threshold %s: %s wrote %d tokens of 48", threshold, writer, n)
		}
	}
	if status, text := peer.get("/v1/models"); status != 200 || strings.Contains(text, "tokenrouter\",\"object") || !strings.Contains(text, "toy:llama") {
		t.Errorf("the peer serves %s", text)
	}
	type answer struct {
		status int
		text   string
		err    error
	}
	answers := make(chan answer, 16)
	for i := range cap(answers) {
		go func() {
			status, text, err := home.try(t.Context(), "/v1/completions", fmt.Sprintf(`{"prompt":"a long one","max_tokens":3900,"ignore_eos":true,"stream":true,"seed":%d}`, i))
			answers <- answer{status, text, err}
		}()
	}
	for {
		if _, text := home.get("/status"); !strings.Contains(text, `"tokens":0,`) && !strings.Contains(text, `"running":0,"stopped"`) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	peer.end(syscall.SIGKILL)
	home.awaitWords("fix: start all processes again")
	failed := 0
	for range cap(answers) {
		r := <-answers
		switch {
		case r.err == nil && r.status == 503: // before its first token
			failed++
		case r.err != nil || r.status != 200 || !strings.HasSuffix(r.text, "data: [DONE]\n\n"):
			t.Errorf("%d %v: …%s", r.status, r.err, r.text[max(0, len(r.text)-300):])
		case strings.Contains(r.text, `data: {"error"`):
			failed++
		}
	}
	if failed == 0 {
		t.Error("no stream was broken off: the test shows nothing")
	}
	if status, text := home.get("/health"); status != 503 || !strings.Contains(text, "toy:llama") {
		t.Errorf("health: %d %s", status, text)
	}
	if code := home.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d: %s", code, home.said.String())
	}
}

// The log of a server replays, whatever its requests brought along and however
// they ended.
func TestServeWritesALogThatReplays(t *testing.T) {
	log := filepath.Join(t.TempDir(), "events.log")
	s := serve(t, "--log", log, "--b", "2,3", "--kv-tokens", "640", "--context", "400")
	ctx, leave := context.WithCancel(t.Context())
	var users sync.WaitGroup
	for i := range 12 {
		users.Go(func() {
			more := []string{``, `,"vllm_xargs":{"threshold":2}`, `,"vllm_xargs":{"threshold":0.1}`, `,"model":"toy:llama"`}[i%4]
			s.complete(fmt.Sprintf(`"prompt":"one of many","max_tokens":48,"ignore_eos":true,"temperature":1,"seed":%d%s`, i, more))
		})
	}
	users.Go(func() { // who does not wait for the end
		s.try(ctx, "/v1/completions", `{"prompt":"a long one","max_tokens":300,"ignore_eos":true}`)
	})
	time.AfterFunc(20*time.Millisecond, leave)
	users.Wait()
	if code := s.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d: %s", code, s.said.String())
	}
	out, err := exec.Command("tokenrouter", "replay", log).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "the same again") || !strings.Contains(string(out), "toy:qwen3, toy:llama") {
		t.Errorf("%v: %s", err, out)
	}
}
