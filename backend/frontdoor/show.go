package frontdoor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// healthy says why the server is not, nil if it is.
func (d *Door) healthy(h *House) error {
	switch {
	case h == nil:
		return unavailable("the server is starting: its models are not there yet")
	case d.isDraining():
		return unavailable("the server is shutting down")
	}
	if err := h.Service.Err(); err != nil {
		return unavailable("a model is lost: %v", err)
	}
	return nil
}

func (d *Door) health(h *House, w http.ResponseWriter, _ *http.Request) {
	if err := d.healthy(h); err != nil {
		writeError(w, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// healthGenerate sees every model of this process make a step.
func (d *Door) healthGenerate(h *House, w http.ResponseWriter, r *http.Request) {
	if err := d.healthy(h); err != nil {
		writeError(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), d.options.ProbeWait)
	defer cancel()
	for m := range h.Models {
		if !h.Models[m].Here {
			continue
		}
		if err := h.steps(ctx, m); err != nil {
			writeError(w, unavailable("model %s does not write: %v", h.Models[m].Name, err))
			return
		}
	}
	w.WriteHeader(http.StatusOK)
}

// steps returns nil once the model has made a step, for whomever: under load a
// request of our own would wait for its turn, or find the queue full, while
// others are answered. An idle model has nothing else to do, so it is asked.
func (h *House) steps(ctx context.Context, model int) error {
	before := h.Service.Stats()[model].Steps
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // what was asked is of no use any more
	asked := make(chan error, 1)
	go func() { asked <- h.probe(ctx, model) }()
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	failed := errors.New("it has made no step")
	for {
		if h.Service.Stats()[model].Steps > before {
			return nil
		}
		select {
		case err := <-asked:
			switch {
			case err == nil:
				return nil
			case !errors.Is(err, ErrQueueFull) && ctx.Err() == nil:
				return err
			case ctx.Err() == nil:
				failed = err // but those before us in the queue may be served
			}
		case <-tick.C:
		case <-ctx.Done():
			return failed
		}
	}
}

const probeEvery = 20 * time.Millisecond

// probe has a model write one token.
func (h *House) probe(ctx context.Context, model int) error {
	r := &Request{Model: model, Prompt: []Token{0}, MaxTokens: 1, Logprobs: -1}
	r.Text = h.text(r, true)
	s, err := h.Service.Submit(ctx, r)
	for err == nil {
		_, err = s.Next(ctx)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// card is a model as /v1/models shows it, with what either server has.
type card struct {
	ID         string `json:"id"`
	Object     string `json:"object"`
	Created    int64  `json:"created"`
	OwnedBy    string `json:"owned_by"`
	Root       string `json:"root"`
	Parent     any    `json:"parent"`
	MaxLength  int    `json:"max_model_len"`
	Permission []any  `json:"permission"`
}

func (h *House) card(name string) card {
	return card{name, "model", startedAt.Unix(), "tokenrouter", name, nil, h.Context, []any{}}
}

// startedAt is when this program began.
var startedAt = time.Now()

func (d *Door) models(h *House, w http.ResponseWriter, _ *http.Request) {
	cards := []card{}
	for _, name := range h.Served() {
		cards = append(cards, h.card(name))
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": cards})
}

// model shows one; its name may hold slashes.
func (d *Door) model(h *House, w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, modelsPath)
	if _, ok := h.find(name); !ok {
		writeError(w, h.unknown(name))
		return
	}
	writeJSON(w, http.StatusOK, h.card(name))
}

func (d *Door) modelInfo(h *House, w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"model_path": h.Path, "tokenizer_path": h.Path, "is_generation": true, "preferred_sampling_params": nil,
		"weight_version": weightVersion, "has_image_understanding": false, "has_audio_understanding": false,
		"model_type": h.Kind, "architectures": []string{h.Class}, "served_model_name": h.Served()[0],
	})
}

func (d *Door) serverInfo(h *House, w http.ResponseWriter, _ *http.Request) {
	info := map[string]any{}
	for name, value := range h.Settings { // order: into another map
		info[name] = value
	}
	states, total := []any{}, 0
	for _, m := range d.look(h).Models {
		states = append(states, internalState{m, m.TokensPerS})
		total += m.KVTotal
	}
	info["internal_states"], info["max_total_num_tokens"] = states, total
	info["version"], info["startup_time"], info["model_path"], info["served_model_name"] = h.Version, startedAt.Unix(), h.Path, h.Served()[0]
	info["kv_events"] = nil
	writeJSON(w, http.StatusOK, info)
}

// internalState is how a model stands, with the figure that SGLang's benchmarks
// look for.
type internalState struct {
	ModelStatus
	Throughput float64 `json:"last_gen_throughput"` // tokens a second
}

func (d *Door) version(h *House, w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": h.Version})
}

func (d *Door) load(_ *House, w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	open := d.open
	d.mu.Unlock()
	writeJSON(w, http.StatusOK, map[string]int{"server_load": open})
}

// loadOf is what SGLang tells dispatchers of each of its schedulers.
type loadOf struct {
	Rank    int `json:"dp_rank"`
	Open    int `json:"num_reqs"` // those that wait among them
	Waiting int `json:"num_waiting_reqs"`
	Tokens  int `json:"num_tokens"` // of KV that requests hold
}

// loads tells of one scheduler: who sends requests here has no choice of models.
func (d *Door) loads(h *House, w http.ResponseWriter, _ *http.Request) {
	o := loadOf{}
	for _, st := range h.Service.Stats() {
		o.Waiting += st.Waiting
		o.Tokens += st.KVHeld
	}
	d.mu.Lock()
	o.Open = d.open
	d.mu.Unlock()
	writeJSON(w, http.StatusOK, []loadOf{o})
}

// flush drops cached prefixes, if nothing runs or waits. As long as something
// does it waits for the seconds of the query timeout; a moment without one, since
// a request is not gone everywhere when its client has the last token.
func (d *Door) flush(h *House, w http.ResponseWriter, r *http.Request) {
	wait := flushWait
	if text := r.URL.Query().Get("timeout"); text != "" {
		s, err := strconv.ParseFloat(text, 64)
		if err != nil || !(s >= 0 && s <= flushMaxS) {
			writeError(w, badRequest("timeout", "timeout is %s, want seconds from 0 to %d", quote(text), flushMaxS))
			return
		}
		wait = max(wait, time.Duration(s*float64(time.Second)))
	}
	end := time.Now().Add(wait)
	err := h.Service.Flush()
	for err != nil && time.Now().Before(end) && r.Context().Err() == nil {
		time.Sleep(flushWait / 20)
		err = h.Service.Flush()
	}
	if err != nil {
		writeError(w, badRequest("", "the cache is not flushed: %v", err))
		return
	}
	io.WriteString(w, "Cache flushed.\nWhen there are pending or running requests, the operation will not be performed.\n")
}

const (
	flushWait = 100 * time.Millisecond
	flushMaxS = 600
)

// abort ends one request, or all.
func (d *Door) abort(_ *House, w http.ResponseWriter, r *http.Request) {
	var id string
	var all bool
	ok := d.read(w, r, func(f *fields) { id, all = f.text("rid"), f.flag("abort_all", false) })
	if !ok {
		return
	}
	d.mu.Lock()
	// order: each is told for itself.
	for open, o := range d.inFlight {
		if all || id == open || id == o.prefix+open {
			o.cancel(errAborted)
		}
	}
	d.mu.Unlock()
	w.WriteHeader(http.StatusOK)
}

func (d *Door) tokenize(h *House, w http.ResponseWriter, r *http.Request) {
	a, strings := &ask{form: textForm{}, house: h}, false
	ok := d.read(w, r, func(f *fields) {
		a.choose(f)
		h.readTokenize(a, f)
		strings = f.flag("return_token_strs", false)
	})
	if !ok {
		return
	}
	writeJSON(w, http.StatusOK, a.tokenized(strings))
}

// tokenizeMax bounds the tokens of a text that is to become nothing but tokens.
const tokenizeMax = 1 << 20

// readTokenize reads what is to become tokens.
func (h *House) readTokenize(a *ask, f *fields) {
	most := max(h.Context, tokenizeMax)
	switch {
	case f.has("prompt") == f.has("messages"):
		f.fail("prompt", "and messages: want one of them")
	case f.has("messages"):
		prompt, err := h.chatPrompt(f, most)
		if err != nil && f.err == nil {
			f.err = badRequest("messages", "messages: %v", err)
		}
		a.prompts = [][]Token{prompt}
	default:
		special := f.flag("add_special_tokens", true)
		texts := f.texts("prompt", promptsMax)
		a.list = string(f.raw["prompt"])[0] == '['
		for _, text := range texts {
			if n := h.Tokenizer.FewestTokens(text); n > most {
				f.fail("prompt", "has at least %d tokens, at most %d are taken", n, most)
			}
			if f.err != nil {
				return
			}
			a.prompts = append(a.prompts, h.Tokenizer.Encode(text, special))
		}
	}
}

// tokenized lists tokens and counts, of one prompt or of each.
func (a *ask) tokenized(strings bool) map[string]any {
	tokens, counts, texts := [][]Token{}, []int{}, [][]string{}
	for _, p := range a.prompts {
		list := []string{}
		for _, t := range p {
			list = append(list, a.house.Tokenizer.TokenText(t))
		}
		if p == nil {
			p = []Token{}
		}
		tokens, counts, texts = append(tokens, p), append(counts, len(p)), append(texts, list)
	}
	o := map[string]any{"max_model_len": a.house.Context, "token_strs": nil}
	if a.list {
		o["tokens"], o["count"] = tokens, counts
		if strings {
			o["token_strs"] = texts
		}
		return o
	}
	o["tokens"], o["count"] = tokens[0], counts[0]
	if strings {
		o["token_strs"] = texts[0]
	}
	return o
}

func (d *Door) detokenize(h *House, w http.ResponseWriter, r *http.Request) {
	var text any // or a list of texts
	ok := d.read(w, r, func(f *fields) { text = h.readDetokenize(f) })
	if !ok {
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"prompt": text, "text": text})
}

// readDetokenize turns a list of tokens into text, or a list of lists into texts.
func (h *House) readDetokenize(f *fields) any {
	if !f.has("tokens") {
		f.fail("tokens", "is missing, want a list of token ids")
	}
	skip := f.flag("skip_special_tokens", true)
	raw, _ := f.take("tokens")
	var nested []json.RawMessage
	if json.Unmarshal(raw, &nested) == nil && len(nested) > 0 && nested[0][0] == '[' {
		texts := []string{}
		for _, one := range nested {
			texts = append(texts, h.Tokenizer.Decode(f.tokenList("tokens", one, h.Vocab), skip))
		}
		return texts
	}
	return h.Tokenizer.Decode(f.tokens("tokens", h.Vocab), skip)
}
