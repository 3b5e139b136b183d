package loadtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// member is a member of an object that keeps the order and repeated keys.
type member struct {
	key   string
	value any // nil, bool, string, json.Number, []any or []member
}

// decode reads a value by the standard library's tokens.
func decode(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		out := []any{}
		for d.More() {
			v, err := decode(d)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		_, err = d.Token()
		return out, err
	case json.Delim('{'):
		out := []member{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decode(d)
			if err != nil {
				return nil, err
			}
			out = append(out, member{key.(string), v})
		}
		_, err = d.Token()
		return out, err
	}
	return token, nil
}

var errShape = errors.New("of another shape")

// twinChunk reads the same as parse, by the standard library.
type twinChunk struct {
	chunk
	failed bool
	err    error
}

func (c *twinChunk) parse(data []byte) {
	c.chunk = chunk{ids: -1, prompt: -1, output: -1}
	if !json.Valid(data) {
		c.err = errors.New("not JSON")
		return
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decode(d)
	if c.err = err; err != nil {
		return
	}
	c.members(v, false, func(key string, v any) {
		switch key {
		case "choices":
			for _, choice := range c.list(v) {
				c.choices = true
				c.members(choice, false, c.choice)
			}
		case "usage":
			c.members(v, true, c.usage)
		case "text":
			c.shows(v)
		case "meta_info":
			c.choices = c.choices || v != nil
			c.members(v, true, func(key string, v any) {
				if key == "finish_reason" {
					c.finished = c.finished || v != nil
				}
				c.usage(key, v)
			})
		case "error":
			c.failed = c.failed || v != nil
		case "object":
			s, ok := v.(string)
			c.shape(ok)
			c.failed = c.failed || s == "error"
		}
	})
}

func (c *twinChunk) shape(ok bool) {
	if !ok && c.err == nil {
		c.err = errShape
	}
}

func (c *twinChunk) members(v any, orNull bool, each func(string, any)) {
	all, ok := v.([]member)
	c.shape(ok || orNull && v == nil)
	for _, m := range all {
		each(m.key, m.value)
	}
}

func (c *twinChunk) list(v any) []any {
	all, ok := v.([]any)
	c.shape(ok || v == nil)
	return all
}

func (c *twinChunk) shows(v any) {
	s, ok := v.(string)
	c.shape(ok || v == nil)
	c.text = c.text || s != ""
}

func (c *twinChunk) choice(key string, v any) {
	switch key {
	case "text":
		c.shows(v)
	case "delta":
		c.members(v, true, func(key string, v any) {
			if key == "content" || key == "reasoning_content" || key == "reasoning" {
				c.shows(v)
			}
		})
	case "finish_reason":
		c.finished = c.finished || v != nil
	case "token_ids":
		if v != nil {
			c.ids = max(c.ids, 0)
		}
		for _, id := range c.list(v) {
			c.ids++
			c.shape(c.count(id) >= 0)
		}
	}
}

func (c *twinChunk) count(v any) int {
	if v == nil {
		return -1
	}
	n, ok := v.(json.Number)
	x, err := strconv.ParseUint(n.String(), 10, 31)
	c.shape(ok && err == nil)
	return int(x)
}

func (c *twinChunk) usage(key string, v any) {
	switch key {
	case "prompt_tokens":
		c.prompt = c.count(v)
	case "completion_tokens":
		c.output = c.count(v)
	}
}

var chunkSeeds = []string{
	`{}`, `[]`, `null`, ` { } `, `{"choices":[]}`, `{"choices":null,"usage":null}`, `{"choices":[{}]}`, `{"choices":[null]}`, `{"choices":{}}`,
	`{"id":"a","choices":[{"index":0,"text":" word","token_ids":[1,2,30000],"finish_reason":null,"logprobs":{"tokens":["x\u00e9\n"],"top":[-1.5e-3,0,12E+4]}}],"usage":null}`,
	`{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":9,"total_tokens":16,"prompt_tokens_details":null}}`,
	`{"choices":[{"delta":{"reasoning_content":"x"}},{"delta":null,"token_ids":null}]}`,
	`{"text":"abc","output_ids":[1,2],"meta_info":{"id":"x","finish_reason":{"type":"length","length":1},"prompt_tokens":3,"completion_tokens":2}}`,
	`{"error":{"message":"x","code":500}}`, `{"object":"error","message":"flat"}`, `{"error":null,"object":"chunk"}`,
	`{"ch\u006fices":[{"te\u0078t":"a"}]}`, `{"usage":{"completion_tokens":1.5}}`, `{"usage":{"completion_tokens":-1}}`, `{"usage":{"completion_tokens":4294967296}}`,
	`{"choices":[{"token_ids":[null]}]}`, `{"a":01}`, `{"a":1.}`, `{"a":"\x"}`, `{"a":tru}`, `{"a":1,}`, `{"a" 1}`, `{} {}`, "{\"a\":\"\t\"}", `{"text":"a","text":7}`, `{"a":[1,2,{"b":[]}],"c":true,"d":false}`,
	`{"choices":[{"text":"a"}],"choices":[{"text":""}]}`,
}

// However odd a chunk, the scanner reads what the standard library reads.
func FuzzChunk(f *testing.F) {
	for _, s := range chunkSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "[")+strings.Count(text, "{") > maxDepth {
			t.Skip("may be nested beyond the limit")
		}
		var want twinChunk
		want.parse([]byte(text))
		var got chunk
		err := got.parse([]byte(text))
		if (err == nil) != (want.err == nil) {
			t.Fatalf("%q: %v, by the standard library %v", text, err, want.err)
		}
		failed := got.err != ""
		if got.err = ""; err == nil && (got != want.chunk || failed != want.failed) {
			t.Fatalf("%q: %+v, %t; want %+v, %t", text, got, failed, want.chunk, want.failed)
		}
	})
}

// newProbeAnswer is an answer outside of a run.
func newProbeAnswer() *Answer {
	return &Answer{start: time.Now(), patience: time.Hour, progress: &Progress{}, silence: time.NewTimer(time.Hour)}
}

// Nor does a whole stream of anything do more than fail.
func FuzzStream(f *testing.F) {
	f.Add("data: {\"choices\":[{\"text\":\"a\",\"token_ids\":[1]}]}\n\ndata: {\"choices\":[],\"usage\":{\"completion_tokens\":9}}\n\ndata: [DONE]\n\n")
	f.Add("data: {\"choices\":[{\"text\":\"a\"}],\"usage\":{\"completion_tokens\":2}}\n\ndata: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"x\"}],\"usage\":{\"completion_tokens\":1}}\n\n")
	f.Add(": x\r\n\r\ndata:{\"text\":\"a\",\"meta_info\":{\"completion_tokens\":3}}\r\n\r\ndata: [DONE]\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		a := newProbeAnswer()
		defer a.silence.Stop()
		err := (&Client{}).read(strings.NewReader(text), a, 4)
		sum := 0
		for _, m := range a.moments {
			if m.tokens < 1 && err == nil {
				t.Fatalf("%q: a moment of %d tokens", text, m.tokens)
			}
			sum += int(m.tokens)
		}
		if sum != a.Tokens() {
			t.Fatalf("%q: %d tokens in moments, %d in all", text, sum, a.Tokens())
		}
		var failed *Failure
		if err != nil && !errors.As(err, &failed) {
			t.Fatalf("%q: %v is no failure", text, err)
		}
	})
}

func TestDeepNesting(t *testing.T) {
	var c chunk
	for _, open := range []string{"[", `{"a":`} {
		if err := c.parse([]byte(`{"a":` + strings.Repeat(open, 1_000_000))); err == nil {
			t.Error("nesting without end is taken")
		}
	}
}

const benchChunk = `{"id":"cmpl-123456789","object":"text_completion","created":1789000000,"model":"m","choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null,"stop_reason":null,"token_ids":[17]}],"usage":null}`

// BenchmarkChunk compares the scanner with decoding the same fields by
// reflection.
func BenchmarkChunk(b *testing.B) {
	data := []byte(benchChunk)
	type wire struct {
		Choices []struct {
			Text         string
			TokenIDs     []int32 `json:"token_ids"`
			FinishReason *string `json:"finish_reason"`
		}
		Usage *struct{}
	}
	start := time.Now()
	const rounds = 20_000
	for range rounds {
		var w wire
		if json.Unmarshal(data, &w) != nil || len(w.Choices[0].TokenIDs) != 1 {
			b.Fatal("not read")
		}
	}
	reflected := float64(time.Since(start).Nanoseconds()) / rounds
	var c chunk
	b.ReportAllocs()
	for b.Loop() {
		if c.parse(data) != nil || c.ids != 1 {
			b.Fatal("not read")
		}
	}
	own := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	b.ReportMetric(reflected/own, "times-as-fast")
}

// BenchmarkStream is what a token costs a client that reads from memory.
func BenchmarkStream(b *testing.B) {
	const tokens = 1000
	text := strings.Repeat(fmt.Sprintf("data: %s\n\n", benchChunk), tokens) + "data: [DONE]\n\n"
	b.ReportAllocs()
	for b.Loop() {
		a := newProbeAnswer()
		if err := (&Client{}).read(strings.NewReader(text), a, tokens); err != nil || a.tokens != tokens {
			b.Fatal(err)
		}
		a.silence.Stop()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tokens, "ns/token")
}
