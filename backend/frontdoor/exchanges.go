package frontdoor

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tokenrouter/tokenrouter/backend/frontdoor/page"
)

// exchanges counts requests of HTTP and their answers, whatever they are about:
// vLLM has these figures from a library of its framework.
type exchanges struct {
	mu    sync.Mutex
	kinds map[exchange]*histogram // of seconds
}

// exchange is what requests of HTTP are told apart by. Clients choose none of its
// values freely, or they could make as many series as they like.
type exchange struct {
	handler string // path of an endpoint, "none" if there is nothing
	method  string
	class   byte // of the status: 2 for 2xx
}

var exchangeBuckets = []float64{.1, .5, 1} // that library's

func newExchanges() *exchanges {
	x := &exchanges{kinds: map[exchange]*histogram{}}
	for _, path := range []string{"/v1/completions", "/v1/chat/completions", "/generate"} {
		x.kinds[exchange{path, http.MethodPost, 2}] = newHistogram(exchangeBuckets) // rates have a beginning
	}
	return x
}

func (x *exchanges) note(r *http.Request, status int, took time.Duration) {
	kind := exchange{handlerOf(r.URL.Path), r.Method, byte(status / 100)}
	if !slices.Contains(methods, r.Method) {
		kind.method = "other"
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	h := x.kinds[kind]
	if h == nil {
		h = newHistogram(exchangeBuckets)
		x.kinds[kind] = h
	}
	h.observe(took.Seconds())
}

var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// handlerOf names what answers at a path.
func handlerOf(path string) string {
	_, known := endpoints[path]
	switch {
	case known, path == page.Root:
		return path
	case strings.HasPrefix(path, modelsPath):
		return modelsPath + "{model}"
	case strings.HasPrefix(path, page.Folder):
		return page.Folder + "{file}"
	}
	return "none"
}

// write writes the two families, kinds in order of their names.
func (x *exchanges) write(e *exposition) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var kinds []exchange
	// order: sorted below
	for k := range x.kinds {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b exchange) int {
		return cmp.Or(strings.Compare(a.handler, b.handler), strings.Compare(a.method, b.method), cmp.Compare(a.class, b.class))
	})
	const count, duration = "http_requests_total", "http_request_duration_seconds"
	e.family(count, counter, "Requests of HTTP that were answered.")
	for _, k := range kinds {
		n := uint64(0)
		for _, in := range x.kinds[k].counts {
			n += in
		}
		e.sample(count, float64(n), []label{{"handler", k.handler}, {"method", k.method}, {"status", string('0'+rune(k.class)) + "xx"}})
	}
	e.family(duration, hist, "From a request of HTTP to the end of its answer.")
	for i := 0; i < len(kinds); {
		of := kinds[i]
		sum := newHistogram(exchangeBuckets) // over statuses
		for ; i < len(kinds) && kinds[i].handler == of.handler && kinds[i].method == of.method; i++ {
			sum.add(x.kinds[kinds[i]])
		}
		e.histogram(duration, sum, []label{{"handler", of.handler}, {"method", of.method}})
	}
}

// overheard is a ResponseWriter that remembers the status.
type overheard struct {
	http.ResponseWriter
	status int
}

func (o *overheard) WriteHeader(status int) {
	if o.status == 0 && status >= http.StatusOK {
		o.status = status
	}
	o.ResponseWriter.WriteHeader(status)
}

func (o *overheard) Write(b []byte) (int, error) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	return o.ResponseWriter.Write(b)
}

// Unwrap lets a ResponseController reach the connection.
func (o *overheard) Unwrap() http.ResponseWriter { return o.ResponseWriter }
