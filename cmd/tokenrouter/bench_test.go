package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/loadtest"
	"github.com/tokenrouter/tokenrouter/internal/metrics"
)

// benchServer answers as vLLM does, a token after each millisecond: hashes of
// the prompt's length. It fails every failEvery-th stream, and all that follow
// the first failAfter ones.
type benchServer struct {
	failEvery int64
	failAfter int64
	streams   atomic.Int64
}

func (s *benchServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"served"}]}`)
		return
	}
	var q struct {
		Prompt    []int
		MaxTokens int `json:"max_tokens"`
		Stream    bool
		AsIDs     bool `json:"return_tokens_as_token_ids"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, `{"error":{"message":"a prompt of ids is wanted"}}`, http.StatusBadRequest)
		return
	}
	n := s.streams.Add(1)
	if s.failEvery > 0 && n%s.failEvery == 0 || s.failAfter > 0 && n > s.failAfter {
		http.Error(w, `{"error":{"message":"The request queue is full."}}`, http.StatusServiceUnavailable)
		return
	}
	if !q.Stream {
		time.Sleep(time.Millisecond)
		fmt.Fprintf(w, `{"choices":[{"text":"x","logprobs":{"tokens":["token_id:%d"],"token_logprobs":[-0.5],"top_logprobs":[{"x":-0.5}]}}]}`, len(q.Prompt))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range q.MaxTokens {
		time.Sleep(time.Millisecond)
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"text\":\" x\",\"token_ids\":[%d],\"finish_reason\":null}]}\n\n", i)
		if w.(http.Flusher).Flush(); r.Context().Err() != nil {
			return
		}
	}
	fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n"+
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", len(q.Prompt), q.MaxTokens)
}

// TestBenchScripts runs the verb against servers of this process: $URL and $URL2
// answer, $FULL refuses every third request, $WORN those after the first twelve, $DEAD is nobody's. The command
// streams N waits until $WATCHED has seen N streams.
func TestBenchScripts(t *testing.T) {
	watched := &benchServer{}
	var env []string
	for name, h := range map[string]http.Handler{"URL": &benchServer{}, "URL2": &benchServer{}, "FULL": &benchServer{failEvery: 3}, "WORN": &benchServer{failAfter: 12}, "WATCHED": watched} {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close) // scripts run side by side, after this function
		env = append(env, name+"="+s.URL)
	}
	dead := httptest.NewServer(watched)
	dead.Close()
	env = append(env, "DEAD="+dead.URL)
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/bench",
		Setup: func(e *testscript.Env) error { e.Vars = append(e.Vars, env...); return nil },
		// serve is there, so that it can be measured in this process.
		Condition: func(name string) (bool, error) {
			serve, _, err := newRoot(new(bool)).Find([]string{"serve"})
			return err == nil && serve.Name() == name, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"streams": func(ts *testscript.TestScript, _ bool, args []string) {
				n, err := strconv.ParseInt(args[0], 10, 64)
				ts.Check(err)
				for watched.streams.Load() < n {
					time.Sleep(time.Millisecond)
				}
			},
			"json": readsAsJSON,
		},
	})
}

// readsAsJSON wants every line of a file to be one JSON object, and prints the
// value at each path of the last one.
func readsAsJSON(ts *testscript.TestScript, _ bool, args []string) {
	var object map[string]any
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		object = nil
		ts.Check(json.Unmarshal([]byte(line), &object))
	}
	for _, path := range args[1:] {
		path, want, _ := strings.Cut(path, "=")
		var at any = object
		for name := range strings.SplitSeq(path, "/") {
			inner, ok := at.(map[string]any)
			if !ok {
				ts.Fatalf("%s is not there", path)
			}
			at = inner[name]
		}
		if got := fmt.Sprint(at); got != want {
			ts.Fatalf("%s is %s, want %s", path, got, want)
		}
	}
}

// Nothing but results goes to standard output, and no bar to what is no
// terminal.
func TestBenchIsQuiet(t *testing.T) {
	s := httptest.NewServer(&benchServer{})
	defer s.Close()
	var out, errs strings.Builder
	code := program([]string{"bench", "--base-url", s.URL, "--requests", "6", "--concurrency", "2", "--output-tokens", "5"}, os.Stdin, &out, &errs)
	if code != 0 || errs.String() != "" || !strings.Contains(out.String(), "6 of 6 requests ended well") {
		t.Errorf("exit %d\n%s\n%s", code, out.String(), errs.String())
	}
}

// Figures of a server have the names, and the order, that experiments give
// them; what only its clients see comes after.
func TestBenchFiguresAreThoseOfExperiments(t *testing.T) {
	classes := []string{"short", "long"}
	r := &loadtest.Result{}
	r.TokenShare, r.Classes = []float64{0.5, 0.5}, make([]metrics.ClassSummary, len(classes))
	known := experiments.Figures(nil, classes, false)
	var own []string
	for _, f := range benchFigures(r, classes, true) {
		if at := slices.Index(known, f.Figure); at >= 0 && own == nil {
			known = known[at+1:]
		} else {
			own = append(own, f.Name)
		}
	}
	if want := []string{"requests_per_s", "window_s", "sent", "cut", "prompt_tokens_mean", "late_max_ms"}; !slices.Equal(own, want) {
		t.Errorf("of its own, or out of order: %v, want %v", own, want)
	}
}
