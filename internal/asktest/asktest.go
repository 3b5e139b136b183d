// Package asktest asks HTTP servers in tests.
package asktest

import (
	"context"
	"io"
	"net/http"
	"strings"
)

// Get gets a page; an error is the network's.
func Get(ctx context.Context, url string) (status int, text string, err error) {
	return ask(ctx, http.MethodGet, url, "")
}

// Post posts a body of JSON; an error is the network's.
func Post(ctx context.Context, url, body string) (status int, text string, err error) {
	return ask(ctx, http.MethodPost, url, body)
}

func ask(ctx context.Context, method, url, body string) (status int, text string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}
