package frontdoor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"
)

// Error is what a client is told of a request that cannot be served.
type Error struct {
	Status  int    // of HTTP
	Message string // with the likely fix
	Param   string // the field that is wrong, "" for none
	Code    string // for models that are not there: openai clients look for it
}

func (e *Error) Error() string { return e.Message }

// ErrCanceled is what a Stream ends with when its client has gone.
var ErrCanceled = errors.New("the client has gone")

// ErrQueueFull is what a Service's Submit returns that has no place left to wait.
var ErrQueueFull = unavailable("The request queue is full.")

// statusGone is nginx's number for clients that have gone: HTTP has none.
const statusGone = 499

// errGone is for a client that sends no more. One that closes only its own half of
// the connection, to read on, looks the same, and reads this: TCP has one word for
// both (FIN), and who has gone altogether is known only when something is written
// to him. Before the first token nothing may be written that is not the answer, and
// while a request waits or is away at a peer no token comes for long. Of the two
// mistakes, models that write for nobody cost more than a client that is told to
// keep its half open; net/http, nginx and the servers of vLLM and SGLang decide
// alike. So no option makes one of the other.
var errGone = &Error{Status: statusGone, Message: "the client has closed its connection: keep both directions open until the answer is there"}

// types are vLLM's names for HTTP's numbers.
var types = map[int]string{
	http.StatusBadRequest:            "BadRequestError",
	http.StatusUnauthorized:          "AuthenticationError",
	http.StatusNotFound:              "NotFoundError",
	http.StatusMethodNotAllowed:      "MethodNotAllowedError",
	http.StatusRequestTimeout:        "TimeoutError",
	http.StatusRequestEntityTooLarge: "RequestTooLargeError",
	http.StatusUnsupportedMediaType:  "UnsupportedMediaTypeError",
	statusGone:                       "ClientClosedRequestError",
	http.StatusServiceUnavailable:    "ServiceUnavailableError",
}

func (e *Error) kind() string {
	if t, ok := types[e.Status]; ok {
		return t
	}
	return "InternalServerError"
}

// badRequest is about the field of that name, "" for the request as a whole.
func badRequest(field, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...), Param: field}
}

func unavailable(format string, args ...any) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Message: fmt.Sprintf(format, args...)}
}

// asError makes an *Error of whatever went wrong.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, ErrCanceled) || errors.Is(err, context.Canceled) {
		return errGone
	}
	return &Error{Status: http.StatusInternalServerError, Message: err.Error()}
}

// errorBody is the inner object of vLLM's errors and the whole of SGLang's.
type errorBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    any     `json:"code"`
}

func (e *Error) body() errorBody {
	b := errorBody{Message: cut(e.Message, messageMax), Type: e.kind(), Code: e.Status}
	if e.Param != "" {
		b.Param = &e.Param
	}
	if e.Code != "" {
		b.Code = e.Code
	}
	return b
}

// messageMax bounds what an error tells, so that a client's own text cannot
// come back grown; fields are cut shorter where they are quoted.
const messageMax = 2000

// MarshalJSON writes the flat form of SGLang around the nested one of vLLM: with
// the flat one alone the clients of OpenAI lose the message.
func (e *Error) MarshalJSON() ([]byte, error) {
	b := e.body()
	return json.Marshal(struct {
		Object string `json:"object"`
		errorBody
		Error errorBody `json:"error"`
	}{"error", b, b})
}

// quote shows a client its own words, shortened.
func quote(text string) string { return fmt.Sprintf("%q", cut(text, quoteMax)) }

const quoteMax = 200

// cut shortens text to that many bytes, between two characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// writeError answers with an error instead of what was asked for.
func writeError(w http.ResponseWriter, err error) {
	e := asError(err)
	if e.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, e.Status, e)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic("frontdoor: an answer that is no JSON: " + err.Error())
	}
	body = append(body, '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", decimal(len(body))) // who reads knows the end, whatever follows
	w.WriteHeader(status)
	w.Write(body) // a client that has gone is no error of ours
}
