package frontdoor

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestKnobsOfRouting(t *testing.T) {
	s := open(t, Options{})
	for _, c := range []struct{ path, more, want string }{
		{textPath, `"custom_params":{"threshold":0.25}`, "0.25 -1"},
		{chatPath, `"vllm_xargs":{"threshold":0.25}`, "0.25 -1"},
		{generatePath, `"sampling_params":{"custom_params":{"threshold":0.25}}`, "0.25 -1"},
		{chatPath, `"custom_params":{"model":"org/large"}`, "none 1"},
		{chatPath, `"custom_params":null`, "none -1"},
	} {
		if r := s.post(c.path, order{Say: "x"}.body(c.path, c.more)); r.status != 200 {
			t.Fatalf("%d: %s", r.status, r.body)
		}
		r := s.stage.asked[len(s.stage.asked)-1]
		got := "none"
		if r.Threshold != nil {
			got = fmt.Sprint(*r.Threshold)
		}
		if got += fmt.Sprint(" ", r.Model); got != c.want {
			t.Errorf("%s: got %s, want %s", c.more, got, c.want)
		}
	}
}

func TestListsOfPrompts(t *testing.T) {
	s := open(t, Options{})
	a, b := order{Say: "first"}.prompt(), order{Say: "second"}.prompt()
	r := s.post(textPath, `{"prompt":[`+a+`,`+b+`],"n":2}`)
	for i, want := range []string{"first", "first", "second", "second"} {
		wants(t, r.body, want, "choices", i, "text")
		wants(t, r.body, strconv.Itoa(i), "choices", i, "index")
	}
	var texts [2]string
	json.Unmarshal([]byte(a), &texts[0])
	json.Unmarshal([]byte(b), &texts[1])
	wants(t, r.body, strconv.Itoa(len(texts[0])+len(texts[1])), "usage", "prompt_tokens")
	wants(t, r.body, strconv.Itoa(2*len("first")+2*len("second")+4), "usage", "completion_tokens")
	r = s.post(textPath, `{"prompt":[104,105],"return_token_ids":true}`)
	wants(t, r.body, "[104 105]", "choices", 0, "prompt_token_ids")
	r = s.post(textPath, `{"prompt":[[104],[105,106]],"return_token_ids":true}`)
	wants(t, r.body, "[105 106]", "choices", 1, "prompt_token_ids")
}

func TestListsOfSamplingParams(t *testing.T) {
	s := open(t, Options{})
	a, b := order{Say: "first"}.prompt(), order{Say: "second"}.prompt()
	r := s.post(generatePath, `{"text":[`+a+`,`+b+`],"sampling_params":[{"max_new_tokens":3,"sampling_seed":4},{"stop":"on","sampling_seed":9}]}`)
	wants(t, r.body, "fir", 0, "text")
	wants(t, r.body, "sec", 1, "text")
	wants(t, r.body, "on", 1, "meta_info", "finish_reason", "matched")
	if got := fmt.Sprint(s.stage.seeds); got != "[4 9]" {
		t.Errorf("seeds %s", got)
	}
	for more, says := range map[string]string{`[{}]`: "2 prompts", `[{"n":1},{"n":2}]`: "n", `[{},3]`: "list", `[{},{"top_p":3}]`: "sampling_params[1].top_p", `3`: "sampling_params"} {
		refused(t, s.post(generatePath, `{"text":["a","b"],"sampling_params":`+more+`}`), 400, says)
	}
}

// Log probabilities may be asked for prompt by prompt.
func TestGenerateListsOfLogprobs(t *testing.T) {
	s := open(t, Options{})
	say := order{Say: "ab"}.prompt()
	texts := `{"text":[` + say + `,` + say + `],`
	r := s.post(generatePath, texts+`"return_logprob":[false,true],"top_logprobs_num":[0,2],"logprob_start_len":[-1,-1]}`)
	if r.status != 200 || strings.Contains(fmt.Sprint(value(t, r.body, 0)), "logprobs") {
		t.Errorf("%d: %s", r.status, r.body)
	}
	wants(t, r.body, "[[-1.515625 97 <nil>] [-1.53125 98 <nil>]]", 1, "meta_info", "output_top_logprobs", 0)
	// A list and one value for all, and wishes of each prompt.
	r = s.post(generatePath, texts+`"return_logprob":true,"top_logprobs_num":[1,0],"sampling_params":[{"max_new_tokens":1},{"max_new_tokens":2}]}`)
	wants(t, r.body, "[[[-1.515625 97 <nil>]]]", 0, "meta_info", "output_top_logprobs")
	wants(t, r.body, "[[-1.515625 97 <nil>] [-1.53125 98 <nil>]]", 1, "meta_info", "output_token_logprobs")
	for more, says := range map[string]string{ // order: each is a case of its own.
		`"return_logprob":[true]`:                              "return_logprob has 1 entries for 2 prompts",
		`"return_logprob":[true,3]`:                            "return_logprob is 3",
		`"return_logprob":true,"top_logprobs_num":[1,-7]`:      "top_logprobs_num",
		`"return_logprob":true,"logprob_start_len":[-1,0]`:     "logprob_start_len",
		`"return_logprob":true,"top_logprobs_num":[1,2,3]`:     "top_logprobs_num has 3",
		`"return_logprob":[true,true],"top_logprobs_num":"ab"`: "top_logprobs_num",
	} {
		refused(t, s.post(generatePath, texts+more+`}`), 400, says)
	}
}

func TestAborts(t *testing.T) {
	s := open(t, Options{})
	for _, body := range []string{`{"rid":"one"}`, `{"abort_all":true}`} {
		done := make(chan reply)
		go func() { done <- s.post(generatePath, order{Say: "abc", Hold: 2}.body(generatePath, `"rid":"one"`)) }()
		within(t, 5*time.Second, "it is open", func() bool { return s.stage.Stats()[0].Running == 1 })
		if r := s.post("/abort_request", `{"rid":"another"}`); r.status != 200 {
			t.Errorf("%d", r.status)
		}
		s.post("/abort_request", body)
		r := <-done
		wants(t, r.body, "abort", "meta_info", "finish_reason", "type")
		s.settled()
	}
	// Of several answers those that have not ended end so, each once.
	stream := s.startStream(order{Say: "abc", Hold: 1}.body(chatPath, `"stream":true,"n":3,"rid":"two"`))
	s.post("/abort_request", `{"rid":"two"}`)
	rest, err := io.ReadAll(stream)
	if n := strings.Count(string(rest), `"finish_reason":"abort"`); err != nil || n != 3 || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("%d ends, %v: %s", n, err, rest)
	}
	s.settled()
}

// Two requests on one connection, the second long after the first: no deadline
// of the first may be left.
func TestConnectionsServeAgain(t *testing.T) {
	s := open(t, Options{WriteWait: 50 * time.Millisecond, BodyWait: 50 * time.Millisecond})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for range 3 {
		body := order{Say: "abc"}.body(chatPath, "")
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(body), body)
		resp, err := http.ReadResponse(reader, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v %v", resp, err)
		}
		resp.Write(new(strings.Builder)) // reads it to the end
		time.Sleep(100 * time.Millisecond)
	}
}
