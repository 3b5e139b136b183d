package frontdoor

import (
	"encoding/json"
	"slices"
	"time"
)

// generateForm is SGLang's own /generate. In its streams everything is told
// from the start each time; clients cut off what they know.
type generateForm struct{}

func (generateForm) idPrefix() string    { return "" }
func (generateForm) promptField() string { return "text" }

type generated struct {
	Text      string   `json:"text"`
	OutputIDs []Token  `json:"output_ids"`
	Meta      metaInfo `json:"meta_info"`
	Index     *int     `json:"index,omitempty"`
	Writers   []string `json:"writers,omitempty"`
}

type metaInfo struct {
	ID               string   `json:"id"`
	FinishReason     any      `json:"finish_reason"`
	PromptTokens     int      `json:"prompt_tokens"`
	CompletionTokens int      `json:"completion_tokens"`
	CachedTokens     int      `json:"cached_tokens"`
	WeightVersion    string   `json:"weight_version"`
	Latency          *float64 `json:"e2e_latency,omitempty"`
	Logprobs         [][3]any `json:"output_token_logprobs,omitempty"`
	TopLogprobs      [][]any  `json:"output_top_logprobs,omitempty"`
}

type generateStop struct {
	Type    string `json:"type"`
	Matched any    `json:"matched"`
}

type generateLength struct {
	Type   string `json:"type"`
	Length int    `json:"length"`
}

type generateAbort struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Status  int    `json:"status_code"`
}

func (c *choice) generated(now time.Time) *generated {
	a := c.ask
	g := &generated{Text: c.text.String(), OutputIDs: c.tokens, Writers: a.extras(nil, c.writers).Writers}
	if g.OutputIDs == nil {
		g.OutputIDs = []Token{}
	}
	if a.stream && (a.list || a.n > 1) {
		g.Index = &c.index
	}
	g.Meta = metaInfo{ID: a.rid(c.prompt), PromptTokens: len(c.request.Prompt), CompletionTokens: len(c.tokens), CachedTokens: c.cached, WeightVersion: weightVersion}
	if c.request.Logprobs >= 0 {
		for i := range c.top {
			r := &c.top[i]
			g.Meta.Logprobs = append(g.Meta.Logprobs, c.triple(r.Token, r.Logprob))
			var most []any
			for _, t := range r.Top {
				most = append(most, c.triple(t.Token, t.Logprob))
			}
			if c.request.Logprobs > 0 {
				g.Meta.TopLogprobs = append(g.Meta.TopLogprobs, most)
			}
		}
	}
	if !c.over {
		return g
	}
	latency := now.Sub(time.Unix(0, a.startNs)).Seconds()
	g.Meta.Latency = &latency
	switch c.finish {
	case finishLength:
		g.Meta.FinishReason = generateLength{finishLength, len(c.tokens)}
	case finishAbort:
		g.Meta.FinishReason = generateAbort{finishAbort, errAborted.Error(), 500}
	default:
		matched := c.stop
		if matched == nil && len(c.tokens) > 0 { // SGLang tells of EOS too
			matched = c.tokens[len(c.tokens)-1]
		}
		g.Meta.FinishReason = generateStop{finishStop, matched}
	}
	return g
}

func (c *choice) triple(t Token, logprob float64) [3]any {
	o := [3]any{finite(logprob), t, nil}
	if c.ask.idTexts {
		o[2] = c.ask.house.Tokenizer.TokenText(t)
	}
	return o
}

// weightVersion is what SGLang calls weights that were never replaced.
const weightVersion = "default"

func (generateForm) opening(*choice) any { return nil }

func (generateForm) piece(c *choice, ch *Chunk) any {
	if len(ch.Tokens) == 0 && ch.Text == "" {
		return nil
	}
	return c.generated(time.Time{})
}

func (generateForm) closing(c *choice) any { return c.generated(time.Now()) }

func (generateForm) tail(*ask, []*choice) any { return nil }

func (generateForm) whole(a *ask, choices []*choice) any {
	now := time.Now()
	list := make([]*generated, len(choices))
	for i, c := range choices {
		list[i] = c.generated(now)
	}
	if !a.list && a.n == 1 {
		return list[0]
	}
	return list
}

// readGenerate reads the body of SGLang's /generate.
func (h *House) readGenerate(f *fields) *ask {
	a := &ask{form: generateForm{}, house: h}
	a.stream = f.flag("stream", false)
	f.refuseUnbuilt()
	switch {
	case f.has("text") && f.has("input_ids"):
		f.fail("input_ids", "and text are both given, want one of them")
	case f.has("input_ids"):
		h.readPrompts(a, f, "input_ids")
	default:
		h.readPrompts(a, f, "text")
	}
	for _, name := range []string{"input_embeds", "image_data", "video_data", "audio_data", "token_ids_logprob"} {
		if raw, ok := f.take(name); ok && string(raw) != "[]" {
			f.fail(name, "is not supported; leave it out")
		}
	}
	list := a.samplingParams(f)
	if f.err != nil {
		return a
	}
	if knobs, ok := list[0].take("custom_params"); ok { // where SGLang has them
		f.raw["custom_params"] = knobs
	}
	a.choose(f)
	told := a.logprobs(f)
	if f.err != nil {
		return a
	}
	a.common.Logprobs = told[0]
	a.wishes(f, list)
	if len(told) > 1 && a.each == nil {
		a.each = slices.Repeat([]wish{a.wish}, len(told))
	}
	for i := range a.each {
		a.each[i].common.Logprobs = told[min(i, len(told)-1)]
	}
	a.idTexts = f.flag("return_text_in_logprobs", false)
	return a
}

// logprobs reads how many most probable tokens are told of, below 0 for no log
// probabilities: one number, or one for each prompt if any of the fields is a list.
func (a *ask) logprobs(f *fields) (told []int) {
	for _, one := range f.apart(len(a.prompts), "return_logprob", "top_logprobs_num", "logprob_start_len") {
		n := -1
		if one.flag("return_logprob", false) {
			n = a.top(one, "top_logprobs_num", 0)
		}
		if one.integer("logprob_start_len", -1, -1, 1<<31, "-1") != -1 {
			one.fail("logprob_start_len", "is for log probabilities of the prompt, which are not supported: leave it out or give -1")
		}
		f.adopt(one)
		told = append(told, n)
	}
	return told
}

// samplingParams reads the object that SGLang keeps them in, or a list of one
// for each prompt.
func (a *ask) samplingParams(f *fields) []*fields {
	const name = "sampling_params"
	raw, ok := f.take(name)
	if !ok {
		return []*fields{{path: name + "."}}
	}
	if raw[0] != '[' {
		return []*fields{f.object(name)}
	}
	var list []*fields
	for i, one := range f.rawList(name, raw, promptsMax, "an object or a list of objects") {
		o := &fields{path: name + "[" + decimal(i) + "]."}
		if json.Unmarshal(one, &o.raw) != nil {
			f.fail(name, "has %s in its list, want objects", quoteRaw(one))
		}
		list = append(list, o)
	}
	if len(list) != len(a.prompts) {
		f.fail(name, "has %d entries for %d prompts, want one each", len(list), len(a.prompts))
	}
	return list
}

// wishes reads how each prompt is to be answered: all alike if there is but one
// object.
func (a *ask) wishes(f *fields, list []*fields) {
	all := a.wish
	n := 0
	for i, params := range list {
		a.wish = all
		prompts := a.prompts
		if len(list) > 1 {
			prompts = a.prompts[i : i+1]
		}
		params.refuseUnbuilt()
		a.sample(params, &sglangen)
		a.length(params, &sglangen, 128, prompts...)
		if i > 0 && a.n != n {
			params.fail("n", "is %d, and %d before in the list: want the same", a.n, n)
		}
		n = a.n
		f.adopt(params)
		if len(list) > 1 {
			a.each = append(a.each, a.wish)
		}
	}
}
