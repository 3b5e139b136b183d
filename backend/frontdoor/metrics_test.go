package frontdoor

import (
	"bufio"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// must are the families that the first release has to have.
var must = []string{
	"vllm:num_requests_running gauge", "vllm:num_requests_waiting gauge", "vllm:kv_cache_usage_perc gauge", "vllm:gpu_cache_usage_perc gauge",
	"vllm:prompt_tokens_total counter", "vllm:generation_tokens_total counter", "vllm:time_to_first_token_seconds histogram",
	"vllm:inter_token_latency_seconds histogram", "vllm:time_per_output_token_seconds histogram", "vllm:e2e_request_latency_seconds histogram",
	"vllm:request_success_total counter", "vllm:request_prompt_tokens histogram", "vllm:request_generation_tokens histogram",
	"sglang:num_running_reqs gauge", "sglang:num_queue_reqs gauge", "sglang:token_usage gauge", "sglang:num_used_tokens gauge",
	"sglang:max_total_num_tokens gauge", "sglang:prompt_tokens_total counter", "sglang:generation_tokens_total counter", "sglang:gen_throughput gauge",
	"sglang:time_to_first_token_seconds histogram", "sglang:inter_token_latency_seconds histogram", "sglang:e2e_request_latency_seconds histogram",
	"sglang:num_requests_total counter", "sglang:num_aborted_requests_total counter",
}

// should are those that it ought to have.
var should = []string{
	"vllm:request_time_per_output_token_seconds histogram", "vllm:request_queue_time_seconds histogram", "vllm:request_prefill_time_seconds histogram",
	"vllm:request_decode_time_seconds histogram", "vllm:request_inference_time_seconds histogram", "sglang:queue_time_seconds histogram",
	"sglang:per_stage_req_latency_seconds histogram", "vllm:prefix_cache_queries_total counter", "vllm:prefix_cache_hits_total counter",
	"sglang:cache_hit_rate gauge", "sglang:cached_tokens_total counter", "vllm:num_preemptions_total counter", "sglang:num_retracted_reqs gauge",
	"sglang:num_retracted_requests_total counter", "sglang:num_retractions histogram", "vllm:request_params_n histogram",
	"vllm:request_params_max_tokens histogram", "vllm:request_max_num_generation_tokens histogram", "vllm:iteration_tokens_total histogram",
	"sglang:prompt_tokens_histogram histogram", "sglang:generation_tokens_histogram histogram", "vllm:cache_config_info gauge",
	"sglang:cache_config_info gauge", "sglang:is_cuda_graph gauge", "sglang:cuda_graph_passes_total counter",
	"http_requests_total counter", "http_request_duration_seconds histogram",
}

// ofEngines are families that only names of single models have.
var ofEngines = []string{"vllm:iteration_tokens_total", "vllm:cache_config_info", "sglang:cache_config_info", "sglang:is_cuda_graph", "sglang:cuda_graph_passes_total"}

var sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-z_]+="(?:[^"\\\n]|\\.)*"(?:,[a-z_]+="(?:[^"\\\n]|\\.)*")*\})? (\S+)$`)

// scrape reads /metrics as strictly as Prometheus: each family once, with its
// type before its samples, no sample twice.
func (s *site) scrape() (families []string, samples map[string]float64) {
	s.t.Helper()
	r := s.get("/metrics")
	if got := r.header.Get("Content-Type"); got != expositionType {
		s.t.Fatalf("Content-Type %q", got)
	}
	samples = map[string]float64{}
	name, kind := "", ""
	lines := bufio.NewScanner(strings.NewReader(r.body))
	for lines.Scan() {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, "# TYPE "); ok {
			if slices.Contains(families, text) {
				s.t.Errorf("family %s comes twice", text)
			}
			families = append(families, text)
			name, kind, _ = strings.Cut(text, " ")
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			s.t.Fatalf("no sample: %q", line)
		}
		base := m[1]
		if kind == hist {
			base = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(base, "_bucket"), "_sum"), "_count")
		}
		// vLLM calls one histogram as if it were a counter.
		if base != name || strings.HasSuffix(name, "_total") != (kind == counter || name == "vllm:iteration_tokens_total") {
			s.t.Errorf("%s is in the family %s, a %s", m[1], name, kind)
		}
		x, err := strconv.ParseFloat(m[3], 64)
		if err != nil || !(x >= 0) {
			s.t.Errorf("the value of %s: %v", line, err)
		}
		if _, twice := samples[m[1]+m[2]]; twice {
			s.t.Errorf("%s comes twice", m[1]+m[2])
		}
		samples[m[1]+m[2]] = x
	}
	return families, samples
}

func TestMetricsAreThereFromTheStart(t *testing.T) {
	s := open(t, Options{})
	families, samples := s.scrape()
	for _, f := range slices.Concat(must, should) {
		if !slices.Contains(families, f) {
			t.Errorf("no %s", f)
		}
	}
	// Each name has each family, under the labels of the server whose name it bears.
	for i, name := range s.door.house.Load().Served() {
		labels := map[string]string{"vllm": fmt.Sprintf(`{model_name="%s",engine="%d"`, name, i), "sglang": `{model_name="` + name + `",engine_type="unified",tp_rank="0",pp_rank="0"`}
		for _, f := range families {
			family, kind, _ := strings.Cut(f, " ")
			server, _, theirs := strings.Cut(family, ":")
			if !theirs {
				continue
			}
			want := family + map[string]string{hist: "_bucket"}[kind] + labels[server]
			there := false
			// order: looked for
			for series := range samples {
				there = there || strings.HasPrefix(series, want)
			}
			if model, _ := s.door.house.Load().find(name); there == (model == Routed && slices.Contains(ofEngines, family)) {
				t.Errorf("%s is there: %t", want, there)
			}
		}
	}
	for series, x := range samples {
		if x != 0 && !strings.Contains(series, "max_total_num_tokens") && !strings.Contains(series, "cache_config_info") {
			t.Errorf("%s is %g before the first request", series, x)
		}
	}
}

// total adds up the series of a family.
func total(samples map[string]float64, family string) (sum float64) {
	// order: a sum of whole numbers
	for series, x := range samples {
		if strings.HasPrefix(series, family+"{") {
			sum += x
		}
	}
	return sum
}

func TestMetricsAddUp(t *testing.T) {
	s := open(t, Options{})
	prompt, tokens, n, asked, cached := 0.0, 0.0, 0.0, 0.0, 0.0
	before := map[string]float64{}
	for i, c := range []struct{ path, model, more string }{
		{chatPath, "routed", ``}, {textPath, "small", `,"max_tokens":3`}, {textPath, "org/large", `,"n":3`}, {chatPath, "routed", `,"stop":"cd"`}, {textPath, "alias/routed", ``},
		{textPath, "routed", `,"n":2`},
	} {
		r := s.post(c.path, order{Say: "abcdefg", Chunk: 1 + i, Lost: i / 4, Cached: i}.body(c.path, `"model":"`+c.model+`"`+c.more))
		prompt += number64(t, value(t, r.body, "usage", "prompt_tokens"))
		tokens += number64(t, value(t, r.body, "usage", "completion_tokens"))
		n += float64(len(value(t, r.body, "choices").([]any)))
		if strings.Contains(c.model, "routed") {
			asked += number64(t, value(t, r.body, "usage", "prompt_tokens"))
			cached += number64(t, value(t, r.body, "usage", "prompt_tokens_details", "cached_tokens"))
		}
		_, now := s.scrape()
		for series, x := range before {
			if name, _, _ := strings.Cut(series, "{"); now[series] < x && (strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_count")) {
				t.Errorf("%s fell from %g to %g", series, x, now[series])
			}
		}
		before = now
	}
	for family, want := range map[string]float64{
		"vllm:prompt_tokens_total": prompt, "sglang:prompt_tokens_total": prompt,
		"vllm:generation_tokens_total": tokens, "sglang:generation_tokens_total": tokens, "tokenrouter_written_tokens_total": tokens,
		"vllm:request_success_total": n, "sglang:num_requests_total": n, "sglang:num_aborted_requests_total": 0,
		"vllm:e2e_request_latency_seconds_count": n, "sglang:e2e_request_latency_seconds_count": n,
		"vllm:time_to_first_token_seconds_count": n, "vllm:request_generation_tokens_sum": tokens, "vllm:request_generation_tokens_count": n,
		"vllm:inter_token_latency_seconds_count": tokens - n, "sglang:inter_token_latency_seconds_count": tokens - n,
		"vllm:request_queue_time_seconds_count": n, "sglang:queue_time_seconds_count": n, "vllm:request_prefill_time_seconds_count": n,
		"vllm:request_decode_time_seconds_count": n, "vllm:request_inference_time_seconds_count": n, "sglang:per_stage_req_latency_seconds_count": 4 * n,
		"vllm:request_time_per_output_token_seconds_count": n, "sglang:generation_tokens_histogram_sum": tokens, "sglang:prompt_tokens_histogram_count": 6, "vllm:request_prompt_tokens_sum": prompt,
		"vllm:request_params_n_count": 6, "vllm:request_params_n_sum": n, "vllm:request_max_num_generation_tokens_count": 6,
		"sglang:num_retractions_count": n, "sglang:num_retractions_sum": 3,
		// The stage tells of no engine: all of it is of the routed names.
		"vllm:prefix_cache_queries_total": asked, "vllm:prefix_cache_hits_total": cached, "sglang:cached_tokens_total": cached,
		"vllm:num_preemptions_total": 3, "sglang:num_retracted_requests_total": 3,
		"vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0,
	} {
		if got := total(before, family); got != want {
			t.Errorf("%s is %g, want %g", family, got, want)
		}
	}
	if got := before[`vllm:request_success_total{model_name="small",engine="2",finished_reason="length"}`]; got != 1 {
		t.Errorf("small ended by length %g times, want 1", got)
	}
	// The status says the same.
	wants(t, s.get("/status").body, fmt.Sprint(tokens), "total", "tokens")
}

// A request's time is that of its stages, to the last bit of it.
func TestMetricsOfStages(t *testing.T) {
	m := newMetrics(onStage(&stage{}))
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	a := &ask{name: "routed", n: 2, prompts: [][]Token{{1, 2, 3}}, startNs: start.UnixNano(), house: m.house}
	var choices []*choice
	for i := range 2 {
		tokens := make([]Token, 6+i)
		choices = append(choices, &choice{ask: a, index: i, request: Request{Prompt: a.prompts[0]}, tokens: tokens, begun: at(3), first: at(7), last: at(12 + i), retracted: i, finish: finishStop})
	}
	y := m.begin(a, choices)
	y.submitted = at(1)
	y.over(choices[0], at(14))
	s := y.s
	if h := s.by[longestAnswer][0]; h.sum != 0 {
		t.Errorf("the longest answer is known to have %g tokens before all have ended", h.sum)
	}
	y.over(choices[1], at(14))
	for of, want := range map[measure]float64{ // order: each is a case of its own.
		reading: 2 * 1, queueing: 2 * 2, prefilling: 2 * 4, decoding: 5 + 6, inferring: 9 + 10, wholeAnswer: 2 * 14,
		meanToken: 1 + 1, lostKV: 1, longestAnswer: 7, answersAsked: 2, promptSize: 3, answerSize: 13,
	} {
		for _, h := range s.by[of] {
			if h.sum != want {
				t.Errorf("measure %d sums up to %g, want %g", of, h.sum, want)
			}
		}
	}
	e := new(exposition)
	m.histograms(e)
	for stage, want := range map[string]string{"request_process": "2", "prefill_waiting": "4", "prefill_forward": "8", "decode_loop": "11"} {
		if line := `sglang:per_stage_req_latency_seconds_sum{model_name="routed",engine_type="unified",tp_rank="0",pp_rank="0",stage="` + stage + `"} ` + want + "\n"; !strings.Contains(e.b.String(), line) {
			t.Errorf("no line %s", line)
		}
	}
}

// What two clocks say may differ a little, and nobody knows when work on a request
// began that the service says nothing of.
func TestMetricsOfOddTimes(t *testing.T) {
	m := newMetrics(onStage(&stage{}))
	now := time.Unix(1000, 0)
	a := &ask{name: "small", n: 1, prompts: [][]Token{{1}, {2}}, startNs: now.UnixNano(), house: m.house}
	early := &choice{ask: a, tokens: []Token{1}, begun: now.Add(-time.Microsecond), first: now, last: now, finish: finishLength}
	unknown := &choice{ask: a, index: 1, prompt: 1, tokens: []Token{1}, first: now, last: now, finish: finishLength}
	y := m.begin(a, []*choice{early, unknown})
	y.submitted = now
	y.over(early, now)
	y.over(unknown, now)
	if h := y.s.by[queueing][0]; h.sum != 0 || h.counts[0] != 1 {
		t.Errorf("waiting: %+v, want one of no time", h)
	}
	if h := y.s.by[answersAsked][0]; h.counts[0] != 2 {
		t.Errorf("prompts: %+v, want two with an answer each", h)
	}
}

// The bounds are those that dashboards of the two servers were made for.
func TestMetricsBuckets(t *testing.T) {
	s := open(t, Options{})
	body := s.get("/metrics").body
	for family, want := range map[string]string{ // order: each is a case of its own.
		"vllm:time_to_first_token_seconds":   "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160 640 2560",
		"vllm:inter_token_latency_seconds":   "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80",
		"vllm:request_queue_time_seconds":    "0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680",
		"vllm:request_prompt_tokens":         "1 2 5 10 20 50 100 200 500 1000 2000",
		"sglang:time_to_first_token_seconds": "0.1 0.2 0.4 0.6 0.8 1 2 4 6 8 10 20 40 60 80 100 200 400",
		"sglang:e2e_request_latency_seconds": "0.1 0.2 0.4 0.6 0.8 1 2 4 6 8 10 20 40 60 80 100 200 400 600 1200 1800 2400",
		"sglang:inter_token_latency_seconds": "0.002 0.004 0.006 0.008 0.01 0.015 0.02 0.025 0.03 0.035 0.04 0.06 0.08 0.1 0.2 0.4 0.6 0.8 1 2 4 6 8",
		"sglang:per_stage_req_latency_seconds": "0.001 0.00162 0.0026244 0.00425153 0.00688748 0.0111577 0.0180755 0.0292823 0.0474373 0.0768485 0.124494 0.201681 0.326723 " +
			"0.529292 0.857453 1.38907 2.2503 3.64548 5.90568 9.56721 15.4989 25.1082 40.6753 65.8939 106.748 172.932 280.15 453.843 735.225 1191.06",
	} {
		var bounds []string
		for line := range strings.SplitSeq(body, "\n") {
			if rest, ok := strings.CutPrefix(line, family+"_bucket{model_name=\"routed\","); ok {
				_, le, _ := strings.Cut(rest, `le="`)
				le, _, _ = strings.Cut(le, `"`)
				bounds = append(bounds, le)
			}
			if len(bounds) > 0 && bounds[len(bounds)-1] == "+Inf" {
				break
			}
		}
		if got := strings.Join(bounds, " "); got != want+" +Inf" {
			t.Errorf("%s has the bounds\n%s, want\n%s", family, got, want)
		}
	}
}

// The KV pool is told of in blocks.
func TestMetricsOfEngines(t *testing.T) {
	s := closed(t, Options{})
	h := onStage(s.stage)
	h.Service = &busy{stage: s.stage}
	s.door.Open(h)
	s.listen(time.Second)
	_, samples := s.scrape()
	for series, want := range map[string]float64{ // order: each is a case of its own.
		`vllm:cache_config_info{model_name="small",engine="2",block_size="20",num_gpu_blocks="50",kv_cache_size_tokens="1000"}`:     1,
		`sglang:cache_config_info{model_name="small",engine_type="unified",tp_rank="0",pp_rank="0",page_size="20",num_pages="50"}`:  1,
		`sglang:cuda_graph_passes_total{model_name="small",engine_type="unified",tp_rank="0",pp_rank="0",mode="decode_none"}`:       1,
		`sglang:cuda_graph_passes_total{model_name="small",engine_type="unified",tp_rank="0",pp_rank="0",mode="prefill_none"}`:      2,
		`sglang:cuda_graph_passes_total{model_name="small",engine_type="unified",tp_rank="0",pp_rank="0",mode="decode_cuda_graph"}`: 0,
		`sglang:num_retracted_reqs{model_name="small",engine_type="unified",tp_rank="0",pp_rank="0"}`:                               4,
		`sglang:num_retracted_reqs{model_name="routed",engine_type="unified",tp_rank="0",pp_rank="0"}`:                              8,
	} {
		if got, there := samples[series]; got != want || !there {
			t.Errorf("%s is %g, want %g", series, got, want)
		}
	}
}

// Answers of HTTP are counted, and clients cannot make series of their own.
func TestMetricsOfHTTP(t *testing.T) {
	s := open(t, Options{})
	s.post(textPath, order{Say: "abc"}.body(textPath, ""))
	s.post(textPath, order{Say: "abc"}.body(textPath, `"stream":true`))
	s.post(textPath, `{}`)
	s.post(textPath, order{Refuse: "full"}.body(textPath, ""))
	for _, path := range []string{"/nothing", "/other", "/v1/models/small", "/v1/models/none", "/", "/page/page.js", "/health"} {
		s.get(path)
	}
	s.do("BREW", "/health", "")
	_, samples := s.scrape()
	seen := map[string]float64{}
	// order: into another map
	for series, x := range samples {
		if rest, ok := strings.CutPrefix(series, "http_requests_total"); ok {
			seen[rest] = x
		}
	}
	want := map[string]float64{
		`{handler="/v1/completions",method="POST",status="2xx"}`: 2, `{handler="/v1/completions",method="POST",status="4xx"}`: 1, `{handler="/v1/completions",method="POST",status="5xx"}`: 1,
		`{handler="/v1/chat/completions",method="POST",status="2xx"}`: 0, `{handler="/generate",method="POST",status="2xx"}`: 0,
		`{handler="none",method="GET",status="4xx"}`: 2, `{handler="/v1/models/{model}",method="GET",status="2xx"}`: 1, `{handler="/v1/models/{model}",method="GET",status="4xx"}`: 1,
		`{handler="/",method="GET",status="2xx"}`: 1, `{handler="/page/{file}",method="GET",status="2xx"}`: 1,
		`{handler="/health",method="GET",status="2xx"}`: 1, `{handler="/health",method="other",status="4xx"}`: 1,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := samples[`http_request_duration_seconds_count{handler="/v1/completions",method="POST"}`]; n != 4 {
		t.Errorf("%g durations, want 4", n)
	}
}

func number64(t testing.TB, v any) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestMetricsOfWhatIsRefused(t *testing.T) {
	s := open(t, Options{})
	refused(t, s.post(textPath, order{Refuse: "full"}.body(textPath, "")), 503, "full")
	_, samples := s.scrape()
	for _, family := range []string{"vllm:time_to_first_token_seconds_count", "vllm:e2e_request_latency_seconds_count", "vllm:prompt_tokens_total", "vllm:num_requests_waiting",
		"vllm:request_success_total", "sglang:num_requests_total", "sglang:num_aborted_requests_total"} {
		if got := total(samples, family); got != 0 {
			t.Errorf("%s is %g after a refusal", family, got)
		}
	}
}

func TestHistogramBuckets(t *testing.T) {
	h := newHistogram([]float64{1, 2, 5})
	for _, x := range []float64{0, 1, 1.5, 5, 6} {
		h.observe(x)
	}
	e := new(exposition)
	e.histogram("x", h, []label{{"m", `a"b\` + "\n"}})
	want := `x_bucket{m="a\"b\\\n",le="1"} 2
x_bucket{m="a\"b\\\n",le="2"} 3
x_bucket{m="a\"b\\\n",le="5"} 4
x_bucket{m="a\"b\\\n",le="+Inf"} 5
x_sum{m="a\"b\\\n"} 13.5
x_count{m="a\"b\\\n"} 5
`
	if got := e.b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := fmt.Sprint(oneTwoFive(120)); got != "[1 2 5 10 20 50 100]" {
		t.Errorf("got %s", got)
	}
}

func TestRateOfLate(t *testing.T) {
	var r rate
	at := func(s int64) time.Time { return time.Unix(1000+s, 0) }
	if got := r.perSecond(at(0)); got != 0 {
		t.Errorf("%g before anything came", got)
	}
	for s := range int64(15) {
		r.add(at(s), 10)
	}
	if got := r.perSecond(at(15)); got != 10 {
		t.Errorf("%g a second, want 10", got)
	}
	if got := r.perSecond(at(17)); got != 0 {
		t.Errorf("%g after a silent second, want 0", got)
	}
	if got := r.perSecond(at(100000)); got != 0 {
		t.Errorf("%g after a long time, want 0", got)
	}
}
