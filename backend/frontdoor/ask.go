package frontdoor

import (
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
)

// ask is what one HTTP request asks for, read and checked: answers to some
// prompts, n to each.
type ask struct {
	form    form
	id      string
	ids     []string // /generate may name each prompt
	name    string   // of the model, as the client wrote it
	created int64    // seconds since 1970
	startNs int64    // when it came, since 1970
	house   *House

	prompts [][]Token
	n       int
	wish           // of all prompts
	each    []wish // in place of it, one for each prompt; nil: they are alike

	stream    bool
	usage     bool // a stream ends with what was used
	eachUsage bool // every chunk says what was used so far
	tokenIDs  bool // the answer has token ids
	asIDs     bool // log probabilities have ids for texts
	writers   bool // the answer says which model wrote each token
	list      bool // the answer of /generate is a list
	idTexts   bool // /generate shows texts beside ids of log probabilities
}

// wish is how an answer is to be written.
type wish struct {
	common Request // of all choices, but for Prompt, Seed and Text
	seed   *int64  // nil: the client does not care
	skip   bool    // special tokens are not shown
}

// spelling is how a protocol calls the fields that all have.
type spelling struct {
	maxTokens []string // the first that is given counts
	minTokens string
	seed      string
	showStop  []string // any of them
}

var (
	openAI   = spelling{[]string{"max_tokens"}, "min_tokens", "seed", []string{"include_stop_str_in_output", "no_stop_trim"}}
	chatty   = spelling{[]string{"max_completion_tokens", "max_tokens"}, "min_tokens", "seed", []string{"include_stop_str_in_output", "no_stop_trim"}}
	sglangen = spelling{[]string{"max_new_tokens"}, "min_new_tokens", "sampling_seed", []string{"no_stop_trim"}}
)

// choose reads the model and the knobs of routing.
func (a *ask) choose(f *fields) {
	a.common.Model = Routed
	a.name = a.house.Served()[0]
	if name := f.text("model"); name != "" { // as vLLM takes it
		a.name = name
	}
	model, ok := a.house.find(a.name)
	if !ok && f.err == nil {
		f.err = a.house.unknown(a.name)
	}
	a.common.Model = model
	for _, name := range []string{"custom_params", "vllm_xargs"} {
		knobs := f.object(name)
		if knobs == nil {
			continue
		}
		if knobs.has("threshold") {
			x := knobs.number("threshold", 0, -math.MaxFloat64, math.MaxFloat64, "a number")
			a.common.Threshold = &x
		}
		if knobs.has("model") {
			if model, ok := a.house.find(knobs.text("model")); ok {
				a.common.Model = model
			} else {
				knobs.fail("model", "is %s, want one of %s", quote(knobs.text("model")), a.house.nameList())
			}
		}
		a.writers = knobs.flag("return_writers", a.writers)
		knobs.only("threshold", "model", "return_writers")
		f.adopt(knobs)
	}
	if a.common.Model != Routed && a.common.Threshold != nil {
		f.fail("custom_params.threshold", "goes with the routed model %s, and %s is written by one model alone", quote(a.house.Served()[0]), quote(a.name))
	}
}

// sample reads how tokens are chosen and where they end. Prompts must be there.
func (a *ask) sample(f *fields, s *spelling) {
	r, d := &a.common, a.house.defaults(a.common.Model)
	or := func(suggested *float64, otherwise float64) float64 {
		if suggested != nil {
			return *suggested
		}
		return otherwise
	}
	topK := int64(-1)
	if d.TopK != nil {
		topK = *d.TopK
	}
	r.Sampling = backend.Sampling{
		Temperature:       f.number("temperature", or(d.Temperature, 1), 0, math.MaxFloat64, "a finite number of at least 0"),
		TopP:              f.number("top_p", or(d.TopP, 1), math.SmallestNonzeroFloat64, 1, "more than 0 and at most 1"),
		TopK:              int(f.integer("top_k", topK, -1, math.MaxInt32, "a whole number of at least 1, or 0 or -1 for all")),
		MinP:              f.number("min_p", or(d.MinP, 0), 0, 1, "0 to 1"),
		RepetitionPenalty: f.number("repetition_penalty", or(d.RepetitionPenalty, 1), math.SmallestNonzeroFloat64, 2, "more than 0 and at most 2"),
		PresencePenalty:   f.number("presence_penalty", 0, -2, 2, "-2 to 2"),
		FrequencyPenalty:  f.number("frequency_penalty", 0, -2, 2, "-2 to 2"),
		LogitBias:         f.biases("logit_bias", a.house.Vocab),
	}
	if f.has(s.seed) {
		seed := f.integer(s.seed, 0, math.MinInt64, math.MaxInt64, "a whole number of 64 bits")
		a.seed = &seed
	}
	a.ends(f, s)
	a.skip = f.flag("skip_special_tokens", true)
	// The bound is on answers, since each is a request to every model.
	a.n = int(f.integer("n", 1, 1, nMax, "a whole number from 1 to "+strconv.Itoa(nMax)))
	if best := f.integer("best_of", int64(a.n), 1, math.MaxInt32, "a whole number of at least 1"); best != int64(a.n) {
		f.fail("best_of", "is %d: to choose among answers is not supported; leave it out or give n, %d", best, a.n)
	}
	most := answersMax
	if a.house.AnswersMax > 0 {
		most = min(most, a.house.AnswersMax)
	}
	switch {
	case a.n*len(a.prompts) <= most:
	case a.n == 1:
		f.fail(a.form.promptField(), "has %d prompts, and this server takes at most %d at once: send them in several requests", len(a.prompts), most)
	default:
		f.fail("n", "asks for %d answers to %d prompts, and this server takes at most %d in all at once", a.n, len(a.prompts), most)
	}
}

// Most of what one HTTP request may ask for. vLLM and SGLang have no bounds, and
// such numbers made them allocate memory until they were gone.
const (
	nMax        = 128
	promptsMax  = 2048
	answersMax  = 2048
	stopsMax    = 256
	stopMax     = 4096 // bytes of one
	stopIDsMax  = 4096
	biasesMax   = 4096
	messagesMax = 16384
)

func (a *ask) ends(f *fields, s *spelling) {
	r := &a.common
	r.Stop = f.texts("stop", stopsMax)
	for _, stop := range r.Stop {
		switch {
		case stop == "":
			f.fail("stop", "has an empty string, want text")
		case len(stop) > stopMax:
			f.fail("stop", "has a string of %d bytes, at most %d are allowed", len(stop), stopMax)
		}
	}
	for _, name := range s.showStop {
		r.ShowStop = f.flag(name, false) || r.ShowStop
	}
	r.Ends = f.tokens("stop_token_ids", a.house.Vocab)
	if len(r.Ends) > stopIDsMax {
		f.fail("stop_token_ids", "has %d ids, at most %d are allowed", len(r.Ends), stopIDsMax)
	}
	if !f.flag("ignore_eos", false) {
		r.Ends = slices.Concat(a.house.EOS, r.Ends)
	}
	slices.Sort(r.Ends)
	r.Ends = slices.Compact(r.Ends)
	r.Sampling.MinTokens = int(f.integer(s.minTokens, 0, 0, math.MaxInt32, "a whole number of at least 0"))
}

// length reads how many tokens may follow each of the prompts. Without a word of
// the client it is or; 0 stands for as many as the context holds.
func (a *ask) length(f *fields, s *spelling, or int64, prompts ...[]Token) {
	longest := 0
	for _, p := range prompts {
		longest = max(longest, len(p))
	}
	room := int64(a.house.Context - longest)
	name, want := s.maxTokens[0], or
	for _, candidate := range slices.Backward(s.maxTokens) {
		if f.has(candidate) {
			name, want = candidate, f.integer(candidate, 1, 1, math.MaxInt32, "a whole number from 1 to "+strconv.Itoa(a.house.Context))
		}
	}
	switch {
	case room < 1:
		f.fail(a.form.promptField(), "has %d tokens; the maximum context length of this model is %d tokens, and at least one more has to fit", longest, a.house.Context)
	case want == 0:
		want = room
	case want > room && f.has(name):
		f.fail(name, "is %d, and the prompt has %d tokens: together %d, which is more than the maximum context length of this model, %d tokens",
			want, longest, int64(longest)+want, a.house.Context)
	}
	a.common.MaxTokens = int(min(want, room))
	if a.common.Sampling.MinTokens > a.common.MaxTokens {
		f.fail(s.minTokens, "is %d, and %s is %d: want no more than that", a.common.Sampling.MinTokens, name, a.common.MaxTokens)
	}
}

// biases reads what is added to logits, an object from token ids to numbers.
func (f *fields) biases(name string, vocab int) []backend.TokenBias {
	inner := f.object(name)
	if inner == nil {
		return nil
	}
	if len(inner.raw) > biasesMax {
		f.fail(name, "has %d entries, at most %d are allowed", len(inner.raw), biasesMax)
		return nil
	}
	var list []backend.TokenBias
	for _, key := range inner.names() {
		id, err := strconv.ParseInt(key, 10, 64)
		if err != nil || id < 0 || id >= int64(vocab) || strconv.FormatInt(id, 10) != key { // +5 would be a second 5
			f.fail(name, "has the key %s, want token ids of the vocabulary (vocab) of %d", quote(key), vocab)
			return nil
		}
		bias := inner.number(key, 0, -math.MaxFloat32, math.MaxFloat32, "a finite number")
		list = append(list, backend.TokenBias{Token: Token(id), Bias: bias})
	}
	f.adopt(inner)
	return list
}

// streaming reads whether the answer comes as a stream, and what it tells.
func (a *ask) streaming(f *fields) {
	a.stream = f.flag("stream", false)
	if o := f.object("stream_options"); o != nil {
		if !a.stream {
			f.fail("stream_options", "is for streams: set stream to true or leave it out")
		}
		a.usage = o.flag("include_usage", false)
		a.eachUsage = o.flag("continuous_usage_stats", false)
		f.adopt(o)
	}
	a.tokenIDs = f.flag("return_token_ids", false)
	a.asIDs = f.flag("return_tokens_as_token_ids", false)
}

// top reads how many most probable tokens are told of: -1 stands for all, where
// all are allowed.
func (a *ask) top(f *fields, name string, or int64) int {
	vocab, most := int64(a.house.Vocab), int64(a.house.MaxLogprobs)
	if most >= 0 && most < vocab {
		return int(f.integer(name, or, 0, most, "a whole number from 0 to "+strconv.Itoa(int(most))))
	}
	n := f.integer(name, or, -1, math.MaxInt32, "a whole number of at least 0, or -1 for all")
	if n < 0 {
		n = vocab
	}
	return int(min(n, vocab))
}

// choices lists the requests behind the ask, prompt by prompt.
func (a *ask) choices(seed uint64) []*choice {
	var list []*choice
	for p, prompt := range a.prompts {
		w := a.wish
		if a.each != nil {
			w = a.each[p]
		}
		for k := range a.n {
			r := w.common
			r.Prompt = prompt
			switch {
			case w.seed != nil:
				r.Seed = uint64(*w.seed) + uint64(k) // as vLLM does it
			case r.Sampling.Temperature == 0:
				r.Seed = greedySeed(a.house.Seed, prompt)
			default:
				r.Seed = algorithms.Bits(seed, p*a.n+k, purposeSeed)
			}
			r.Text = a.house.text(&r, w.skip)
			list = append(list, &choice{ask: a, index: p*a.n + k, prompt: p, request: r})
		}
	}
	return list
}

// greedySeed is that of a request that draws no tokens. Routing may draw for it,
// and so may an engine that makes its tokens up: equal prompts have equal seeds, so
// that they get the same answer there too.
func greedySeed(seed uint64, prompt []Token) uint64 {
	for i, t := range prompt {
		seed = algorithms.Bits(seed^uint64(t), i, purposeGreedy)
	}
	return seed
}

// rid is how /generate calls a prompt's answers.
func (a *ask) rid(prompt int) string {
	if len(a.ids) == len(a.prompts) {
		return a.ids[prompt]
	}
	if a.list {
		return a.id + "-" + strconv.Itoa(prompt)
	}
	return a.id
}

// Draws of seeds for requests that come without.
const (
	purposeSeed   algorithms.Purpose = 0xfd01
	purposeGreedy algorithms.Purpose = 0xfd02
)

// promptTokens counts each prompt once, however many answers it gets.
func (a *ask) promptTokens() int {
	n := 0
	for _, p := range a.prompts {
		n += len(p)
	}
	return n
}

func (h *House) unknown(name string) *Error {
	return &Error{Status: http.StatusNotFound, Param: "model", Code: "model_not_found",
		Message: "The model `" + cut(name, quoteMax) + "` does not exist; there is " + h.nameList()}
}
