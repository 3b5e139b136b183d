package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// API is how a server is asked.
type API uint8

// The protocols.
const (
	Completions API = iota // OpenAI's /v1/completions
	Chat                   // OpenAI's /v1/chat/completions
	Generate               // SGLang's /generate
)

var apiNames = []string{"completions", "chat", "generate"}

func (a API) String() string { return apiNames[a] }

// ParseAPI returns the protocol of a name.
func ParseAPI(name string) (API, error) {
	for i, n := range apiNames {
		if n == name {
			return API(i), nil
		}
	}
	return 0, fmt.Errorf("%q is no protocol; use %s", name, strings.Join(apiNames, ", "))
}

var apiPaths = []string{"/v1/completions", "/v1/chat/completions", "/generate"}

// Server is one that answers requests.
type Server struct {
	URL         string // without /v1
	Model       string // "" asks the server for its first
	API         API
	Key         string // bearer token; "" sends none
	Temperature float64
	Vocab       int // prompts of ids stay below it
	HTTP        *http.Client
}

// DefaultVocab is one that nearly every model has.
const DefaultVocab = 30_000

// ParseURL checks a base URL and leaves out what every path begins with.
func ParseURL(text string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	switch {
	case err != nil:
		return "", fmt.Errorf("%q is no URL", text)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", fmt.Errorf("%q is no URL of a server; write it like http://127.0.0.1:8000", text)
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("%q has a query; give the base URL alone", text)
	}
	return strings.TrimSuffix(strings.TrimSuffix(u.String(), "/"), "/v1"), nil
}

// NewHTTPClient returns a client that keeps as many idle connections as there
// are streams, so that a request costs no handshake. dial, if not nil, makes its
// connections.
func NewHTTPClient(streams int, dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConns:        streams,
		MaxIdleConnsPerHost: streams,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true, // a compressed stream comes in lumps
		DialContext:         dial,
	}
	return &http.Client{Transport: t}
}

// maxReply bounds an answer that is no stream.
const maxReply = 64 << 20

// post sends a body, which belongs to the connection from then on, and returns
// the reply if its status is 200.
func (s *Server) post(ctx context.Context, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return s.do(req)
}

func (s *Server) do(req *http.Request) (*http.Response, error) {
	if s.Key != "" {
		req.Header.Set("Authorization", "Bearer "+s.Key)
	}
	resp, err := s.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, statusFailure(resp)
	}
	return resp, nil
}

// statusFailure reads why a server refused.
func statusFailure(resp *http.Response) *Failure {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	kind := fmt.Sprintf("http %d", resp.StatusCode)
	if message := messageIn(text); message != "" {
		return failuref(kind, "%s", message)
	}
	return failuref(kind, "%s", text)
}

// messageIn is the error message in a body, nested as vLLM's or flat as
// SGLang's; "" if there is none.
func messageIn(text []byte) string {
	var body struct {
		Error   json.RawMessage
		Message string
		Detail  json.RawMessage
	}
	if json.Unmarshal(text, &body) != nil {
		return ""
	}
	var nested struct{ Message string }
	var plain string
	switch {
	case json.Unmarshal(body.Error, &nested) == nil && nested.Message != "":
		return nested.Message
	case body.Message != "":
		return body.Message
	case json.Unmarshal(body.Error, &plain) == nil:
		return plain
	}
	return string(body.Detail)
}

// FirstModel asks a server for the first name that it lists.
func (s *Server) FirstModel(ctx context.Context) (string, error) {
	list, err := s.list(ctx)
	if err != nil {
		return "", err
	}
	return list[0].ID, nil
}

// listed is a model as a server lists it.
type listed struct {
	ID    string
	Owner string `json:"owned_by"`
}

// list asks a server for its models, of which there is one at least.
func (s *Server) list(ctx context.Context) ([]listed, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/v1/models", nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.do(req)
	if err != nil {
		return nil, failureOf(err, context.Cause(ctx), 0)
	}
	defer resp.Body.Close()
	var list struct{ Data []listed }
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(&list); err != nil {
		return nil, failuref(KindJunk, "the list of models: %v", err)
	}
	if len(list.Data) == 0 {
		return nil, errors.New("the server lists no model; name one")
	}
	return list.Data, nil
}

// Client measures one server: each request is a stream.
type Client struct {
	Server
	Text       bool    // prompts of text, not of ids
	Plain      bool    // only what OpenAI's own protocol has: answers may be shorter
	TokenIDs   bool    // the server tells token ids in each chunk
	TokensPer  float64 // text: tokens of a word, as measured; 0 counts as 1
	TokensMore float64 // text: tokens of a prompt beyond its words
}

// Ask streams one answer.
func (c *Client) Ask(ctx context.Context, r *workload.Request, a *Answer) error {
	resp, err := c.post(ctx, apiPaths[c.API], c.body(r))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return c.read(resp.Body, a, r.Output)
}
