package frontdoor

import "math"

// measure is something of which a histogram tells.
type measure uint8

const (
	firstToken    measure = iota // seconds from the request to its first token
	nextToken                    // seconds from one token to the next
	meanToken                    // their mean, by answer
	wholeAnswer                  // seconds from the request to its end
	reading                      // seconds until it was handed over
	queueing                     // seconds from there to the first step on it
	prefilling                   // seconds from there to the first token
	decoding                     // seconds from there to the last
	inferring                    // both together
	promptSize                   // tokens of a prompt
	answerSize                   // tokens of an answer
	longestAnswer                // tokens of the longest answer to a prompt
	allowedSize                  // tokens that an answer might have had
	answersAsked                 // answers to a prompt
	lostKV                       // times that a request lost its KV
	measures
)

// Buckets are those of the two servers, so that their dashboards fit. Seconds, if
// nothing else is said.
var (
	ttftBuckets = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	tpotBuckets = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	e2eBuckets  = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	nBuckets    = []float64{1, 2, 5, 10, 20} // answers

	sglangTTFTBuckets  = []float64{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}
	sglangE2EBuckets   = []float64{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400}
	sglangITLBuckets   = []float64{.002, .004, .006, .008, .01, .015, .02, .025, .03, .035, .04, .06, .08, .1, .2, .4, .6, .8, 1, 2, 4, 6, 8}
	sglangQueueBuckets = []float64{0, .001, .005, .01, .05, .1, .2, .5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100, 200, 300, 400, 500,
		600, 700, 800, 900, 1000, 1200, 1400, 1600, 1800, 2000, 2500, 3000}
	sglangStageBuckets  = exponential(.001, 1.62, 30)
	sglangPromptBuckets = []float64{100, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 12000, 15000, 20000, 22000,
		25000, 30000, 35000, 40000} // tokens
	sglangAnswerBuckets = []float64{100, 300, 500, 1000, 1200, 1500, 1700, 2000, 2500, 3000, 3500, 4000, 4500, 5000, 6000, 7000, 8000, 9000, 10000} // tokens
	sglangLostBuckets   = []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 75, 100}                                              // times
)

// exponential are n bounds, each a factor above the one before, rounded to six
// digits: as sums of binary fractions they would be hard to read.
func exponential(start, factor float64, n int) []float64 {
	var bounds []float64
	for i := range n {
		x := start * math.Pow(factor, float64(i))
		digits := math.Pow(10, 5-math.Floor(math.Log10(x)))
		bounds = append(bounds, math.Round(x*digits)/digits)
	}
	return bounds
}

// oneTwoFive are the bounds 1, 2, 5, 10 … up to most.
func oneTwoFive(most int) []float64 {
	var bounds []float64
	for scale := 1; ; scale *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*scale > most {
				return bounds
			}
			bounds = append(bounds, float64(m*scale))
		}
	}
}

// families are all histograms of what clients got, under the names of both
// servers. Those of one name, which a stage tells apart, follow each other.
var families = [...]struct {
	name   string
	of     measure
	bounds []float64 // nil: sizes up to that of the context
	help   string
	stage  string // of a request's life, as SGLang calls it
}{
	{name: "vllm:time_to_first_token_seconds", of: firstToken, bounds: ttftBuckets, help: "From the request to the first token."},
	{name: "vllm:inter_token_latency_seconds", of: nextToken, bounds: tpotBuckets, help: "From one token to the next."},
	{name: "vllm:time_per_output_token_seconds", of: nextToken, bounds: tpotBuckets, help: "From one token to the next."},
	{name: "vllm:request_time_per_output_token_seconds", of: meanToken, bounds: tpotBuckets, help: "Mean time from one token to the next, by answer."},
	{name: "vllm:e2e_request_latency_seconds", of: wholeAnswer, bounds: e2eBuckets, help: "From the request to the end of the answer."},
	{name: "vllm:request_queue_time_seconds", of: queueing, bounds: e2eBuckets, help: "Until the first step on a request began."},
	{name: "vllm:request_prefill_time_seconds", of: prefilling, bounds: e2eBuckets, help: "From the first step on a request to its first token."},
	{name: "vllm:request_decode_time_seconds", of: decoding, bounds: e2eBuckets, help: "From the first token to the last."},
	{name: "vllm:request_inference_time_seconds", of: inferring, bounds: e2eBuckets, help: "From the first step on a request to its last token."},
	{name: "vllm:request_prompt_tokens", of: promptSize, help: "Tokens of a prompt."},
	{name: "vllm:request_generation_tokens", of: answerSize, help: "Tokens of an answer."},
	{name: "vllm:request_max_num_generation_tokens", of: longestAnswer, help: "Tokens of the longest answer to a prompt."},
	{name: "vllm:request_params_max_tokens", of: allowedSize, help: "Tokens that an answer might have had."},
	{name: "vllm:request_params_n", of: answersAsked, bounds: nBuckets, help: "Answers that a request asks for."},
	{name: "sglang:time_to_first_token_seconds", of: firstToken, bounds: sglangTTFTBuckets, help: "From the request to the first token."},
	{name: "sglang:inter_token_latency_seconds", of: nextToken, bounds: sglangITLBuckets, help: "From one token to the next."},
	{name: "sglang:e2e_request_latency_seconds", of: wholeAnswer, bounds: sglangE2EBuckets, help: "From the request to the end of the answer."},
	{name: "sglang:queue_time_seconds", of: queueing, bounds: sglangQueueBuckets, help: "Until the first step on a request began."},
	{name: stageFamily, of: reading, bounds: sglangStageBuckets, help: stageHelp, stage: "request_process"},
	{name: stageFamily, of: queueing, bounds: sglangStageBuckets, help: stageHelp, stage: "prefill_waiting"},
	{name: stageFamily, of: prefilling, bounds: sglangStageBuckets, help: stageHelp, stage: "prefill_forward"},
	{name: stageFamily, of: decoding, bounds: sglangStageBuckets, help: stageHelp, stage: "decode_loop"},
	{name: "sglang:prompt_tokens_histogram", of: promptSize, bounds: sglangPromptBuckets, help: "Tokens of a prompt."},
	{name: "sglang:generation_tokens_histogram", of: answerSize, bounds: sglangAnswerBuckets, help: "Tokens of an answer."},
	{name: "sglang:num_retractions", of: lostKV, bounds: sglangLostBuckets, help: "Times that a request lost its KV where it entered."},
}

const (
	stageFamily = "sglang:per_stage_req_latency_seconds"
	stageHelp   = "Time that a request spent in each part of its life."
)
