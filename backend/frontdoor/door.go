package frontdoor

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend/frontdoor/page"
)

// Options are the limits of a door. Zero values stand for the defaults.
type Options struct {
	APIKey    string        // that clients must show; "" lets everybody in
	BodyMax   int64         // bytes of a request; default 32 MiB
	BodiesMax int64         // bytes of all requests that are being read, but see freeBytes; default 8 × BodyMax
	BodyWait  time.Duration // until a request must be there, its head no later than headerWait; default 30 s
	WriteWait time.Duration // for a client to take what is written; default 60 s
	OpenMax   int           // answers that may be open at once; default 8192
	ProbeWait time.Duration // for a model to show /health_generate that it lives; default 20 s, as SGLang's
}

// Door is the HTTP handler. Until Open it answers that it is starting.
type Door struct {
	options   Options
	house     atomic.Pointer[House]
	metrics   *metrics
	exchanges *exchanges
	page      http.Handler
	asks      atomic.Uint64 // that came without a seed
	bulk      chan struct{} // holds one entry while a bulky body is read
	held      atomic.Int64  // bytes of bodies that are being read, see share

	mu       sync.Mutex
	inFlight map[string]opened // by id
	open     int               // answers
	draining bool              //
	empty    chan struct{}     // closed when nothing is open and somebody waits
}

// opened is an ask that is being answered.
type opened struct {
	cancel context.CancelCauseFunc
	prefix string // before its id in the answer
}

// New makes a door.
func New(o Options) *Door {
	if o.BodyMax == 0 {
		o.BodyMax = 32 << 20
	}
	if o.BodiesMax == 0 {
		o.BodiesMax = 8 * o.BodyMax
	}
	o.BodiesMax = max(o.BodiesMax, o.BodyMax) // or some body would never be taken
	if o.BodyWait == 0 {
		o.BodyWait = 30 * time.Second
	}
	if o.WriteWait == 0 {
		o.WriteWait = time.Minute
	}
	if o.OpenMax == 0 {
		o.OpenMax = 8192
	}
	if o.ProbeWait == 0 {
		o.ProbeWait = 20 * time.Second
	}
	d := &Door{options: o, bulk: make(chan struct{}, 1), inFlight: map[string]opened{}, exchanges: newExchanges()}
	d.page = page.Handler(d.live)
	return d
}

// Open lets clients in, once.
func (d *Door) Open(h *House) {
	if len(h.Served()) == 0 || len(h.Names) > 0 && !h.Models[h.Home].Here {
		panic("frontdoor: a house that serves nothing, or whose home is elsewhere")
	}
	d.metrics = newMetrics(h)
	if !d.house.CompareAndSwap(nil, h) {
		panic("frontdoor: opened twice")
	}
}

// endpoint answers one path. Those that are not always open need a house.
type endpoint struct {
	methods string // GET, POST …
	handle  func(d *Door, h *House, w http.ResponseWriter, r *http.Request)
	always  bool // before the house is open
	free    bool // without the key
}

// endpoints of OpenAI's protocol, of SGLang's, and what both have around them.
var endpoints = map[string]endpoint{
	"/v1/completions":      {"POST", (*Door).completions, false, false},
	"/v1/chat/completions": {"POST", (*Door).chat, false, false},
	"/generate":            {"POST PUT", (*Door).generate, false, false},
	"/abort_request":       {"POST", (*Door).abort, false, false},
	"/v1/models":           {"GET", (*Door).models, false, false},
	"/tokenize":            {"POST", (*Door).tokenize, false, false},
	"/v1/tokenize":         {"POST", (*Door).tokenize, false, false},
	"/detokenize":          {"POST", (*Door).detokenize, false, false},
	"/v1/detokenize":       {"POST", (*Door).detokenize, false, false},
	"/model_info":          {"GET", (*Door).modelInfo, false, false},
	"/get_model_info":      {"GET", (*Door).modelInfo, false, false},
	"/server_info":         {"GET", (*Door).serverInfo, false, false},
	"/get_server_info":     {"GET", (*Door).serverInfo, false, false},
	"/load":                {"GET", (*Door).load, false, false},
	"/get_load":            {"GET", (*Door).loads, false, false},
	"/status":              {"GET", (*Door).status, false, false},
	"/flush_cache":         {"GET POST", (*Door).flush, false, false},
	"/health_generate":     {"GET", (*Door).healthGenerate, false, true},
	"/version":             {"GET", (*Door).version, false, true},
	"/metrics":             {"GET", (*Door).showMetrics, false, true},
	"/health":              {"GET", (*Door).health, true, true},
	"/ping":                {"GET POST", (*Door).health, true, true},
}

const modelsPath = "/v1/models/"

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o, start := &overheard{ResponseWriter: w}, time.Now()
	d.route(o, r)
	d.exchanges.note(r, cmp.Or(o.status, http.StatusOK), time.Since(start))
}

func (d *Door) route(w http.ResponseWriter, r *http.Request) {
	// A connection that serves again would keep the deadline of its last answer.
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d.options.WriteWait))
	if r.URL.Path == page.Root || strings.HasPrefix(r.URL.Path, page.Folder) {
		d.page.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set(idHeader, newID(r))
	e, ok := endpoints[r.URL.Path]
	if !ok && strings.HasPrefix(r.URL.Path, modelsPath) {
		e, ok = endpoint{methods: "GET", handle: (*Door).model}, true
	}
	h := d.house.Load()
	switch {
	case r.Method == http.MethodOptions:
		w.Header().Set("Access-Control-Allow-Methods", "GET, POST, PUT, OPTIONS")
		w.Header().Set("Access-Control-Allow-Headers", "*, Authorization")
		w.WriteHeader(http.StatusNoContent)
	case !ok:
		writeError(w, &Error{Status: http.StatusNotFound, Message: "there is nothing at " + quote(r.URL.Path)})
	case !slices.Contains(strings.Fields(e.methods), r.Method) && (r.Method != http.MethodHead || !strings.Contains(e.methods, "GET")):
		w.Header().Set("Allow", strings.ReplaceAll(e.methods, " ", ", "))
		writeError(w, &Error{Status: http.StatusMethodNotAllowed, Message: r.URL.Path + " takes " + e.methods + ", not " + cut(r.Method, 20)})
	case !e.free && !d.admits(r):
		w.Header().Set("WWW-Authenticate", "Bearer")
		// The text is what clients of vLLM know, in a form that all can read.
		writeError(w, &Error{Status: http.StatusUnauthorized, Message: "Unauthorized"})
	case h == nil && !e.always:
		writeError(w, unavailable("the server is starting: its models are not there yet"))
	default:
		e.handle(d, h, w, r)
	}
}

func (d *Door) admits(r *http.Request) bool {
	if d.options.APIKey == "" {
		return true
	}
	// The name of a scheme has no case: RFC 9110, 11.1.
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(key), []byte(d.options.APIKey)) == 1
}

func (d *Door) completions(h *House, w http.ResponseWriter, r *http.Request) {
	d.serve(h, w, r, h.readCompletion)
}

func (d *Door) chat(h *House, w http.ResponseWriter, r *http.Request) {
	d.serve(h, w, r, h.readChat)
}

func (d *Door) generate(h *House, w http.ResponseWriter, r *http.Request) {
	d.serve(h, w, r, h.readGenerate)
}

// serve reads a request for tokens and answers it.
func (d *Door) serve(h *House, w http.ResponseWriter, r *http.Request, read func(*fields) *ask) {
	start := time.Now()
	if d.isDraining() {
		writeError(w, unavailable("the server is shutting down"))
		return
	}
	var a *ask
	ok := d.read(w, r, func(f *fields) {
		a = read(f)
		a.identify(f, r.Header.Get(idHeader), w.Header())
	})
	if !ok {
		return
	}
	a.created, a.startNs = start.Unix(), start.UnixNano()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	leave, err := d.enter(a, cancel)
	if err != nil {
		writeError(w, err)
		return
	}
	defer leave()
	d.answer(ctx, w, a)
}

// idHeader names a request, and comes back with whatever is answered: who runs a
// server looks a client's complaint up by it.
const idHeader = "X-Request-Id"

// newID is the id that a request has of its client, as far as that can be shown,
// or a new one.
func newID(r *http.Request) string {
	if id := r.Header.Get(idHeader); id != "" && showable(id) {
		return id
	}
	return strings.ToLower(rand.Text())
}

// showable reports whether an id may stand in a header.
func showable(id string) bool {
	return len(id) <= idMax && !strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' })
}

// identify finds the request's id: the header's, the body's, or the new one that
// the answer's header has so far.
func (a *ask) identify(f *fields, header string, answer http.Header) {
	a.id = header
	for _, name := range []string{"request_id", "rid"} {
		raw, ok := f.take(name)
		switch {
		case !ok:
		case raw[0] == '[':
			if a.ids = f.texts(name, promptsMax); len(a.ids) != len(a.prompts) && f.err == nil {
				f.fail(name, "has %d ids for %d prompts, want one each", len(a.ids), len(a.prompts))
			}
		case a.id == "":
			a.id = f.text(name)
		}
	}
	for _, id := range append([]string{a.id}, a.ids...) {
		if !showable(id) {
			f.fail("request_id", "is %s, want at most %d letters and signs of ASCII", quote(id), idMax)
		}
	}
	switch {
	case a.id == "":
		a.id = answer.Get(idHeader)
	case showable(a.id):
		answer.Set(idHeader, a.id)
	}
}

const idMax = 256

// enter notes an ask as open, until leave. Its seed is drawn here.
func (d *Door) enter(a *ask, cancel context.CancelCauseFunc) (leave func(), err error) {
	answers := a.n * len(a.prompts)
	ids := append([]string{a.id}, a.ids...)
	if _, generates := a.form.(generateForm); generates && a.list && a.ids == nil {
		for p := range a.prompts { // as the answers call them
			ids = append(ids, a.rid(p))
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.draining:
		return nil, unavailable("the server is shutting down")
	case d.open+answers > d.options.OpenMax:
		return nil, ErrQueueFull
	}
	for i, id := range ids {
		if _, taken := d.inFlight[id]; taken || slices.Contains(ids[:i], id) {
			return nil, badRequest("request_id", "a request with the id %s is in flight; ids are for one request at a time", quote(id))
		}
	}
	for _, id := range ids {
		d.inFlight[id] = opened{cancel, a.form.idPrefix()}
	}
	d.open += answers
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, id := range ids {
			delete(d.inFlight, id)
		}
		d.open -= answers
		if len(d.inFlight) == 0 && d.empty != nil {
			close(d.empty)
			d.empty = nil
		}
	}, nil
}

func (d *Door) isDraining() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.draining
}

// Drain takes no further requests and waits until the open ones have ended. When
// ctx ends first, they are broken off, and their clients told.
func (d *Door) Drain(ctx context.Context) {
	d.mu.Lock()
	d.draining = true
	if len(d.inFlight) == 0 {
		d.mu.Unlock()
		return
	}
	if d.empty == nil {
		d.empty = make(chan struct{})
	}
	empty := d.empty
	d.mu.Unlock()
	select {
	case <-empty:
		return
	case <-ctx.Done():
	}
	d.mu.Lock()
	// order: each is told for itself.
	for _, o := range d.inFlight {
		o.cancel(errShutdown)
	}
	d.mu.Unlock()
	<-empty // a write waits no longer than WriteWait
}

// seed is where those of an ask's answers come from that bring none.
func (d *Door) seed(h *House) uint64 {
	return algorithms.Bits(h.Seed, int(d.asks.Add(1)), purposeSeed)
}
