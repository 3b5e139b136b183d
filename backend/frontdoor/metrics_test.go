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
	for _, f := range must {
		if !slices.Contains(families, f) {
			t.Errorf("no %s", f)
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
	prompt, tokens, n := 0.0, 0.0, 0.0
	before := map[string]float64{}
	for i, c := range []struct{ path, model, more string }{
		{chatPath, "routed", ``}, {textPath, "small", `,"max_tokens":3`}, {textPath, "org/large", `,"n":3`}, {chatPath, "routed", `,"stop":"cd"`}, {textPath, "alias/routed", ``},
	} {
		r := s.post(c.path, order{Say: "abcdefg", Chunk: 1 + i}.body(c.path, `"model":"`+c.model+`"`+c.more))
		prompt += number64(t, value(t, r.body, "usage", "prompt_tokens"))
		tokens += number64(t, value(t, r.body, "usage", "completion_tokens"))
		n += float64(len(value(t, r.body, "choices").([]any)))
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
		"vllm:request_params_n_count": 5,
		"vllm:num_requests_running":   0, "vllm:num_requests_waiting": 0,
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
