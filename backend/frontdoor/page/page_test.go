package page_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tokenrouter/tokenrouter/backend/frontdoor/page"
)

// get asks a page without figures for one path.
func get(t *testing.T, method, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	page.Handler(func(*http.Request) page.Status { return page.Status{State: page.Starting} }).ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Files that the page names, in its text, its styles and its scripts.
var (
	named    = regexp.MustCompile(`(?:src|href)="(page/[^"]*)"`)
	imported = regexp.MustCompile(`from "\./([^"]*)"`)
)

func TestEveryFileIsServed(t *testing.T) {
	entries, err := os.ReadDir("static")
	if err != nil {
		t.Fatal(err)
	}
	unseen := map[string]bool{}
	for _, e := range entries {
		unseen["/page/"+e.Name()] = true
	}
	delete(unseen, "/page/index.html") // it is at the root
	todo := []string{"/"}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		r := get(t, "GET", path)
		text := body(t, r)
		if r.StatusCode != http.StatusOK || text == "" {
			t.Fatalf("GET %s: %s with %d bytes", path, r.Status, len(text))
		}
		delete(unseen, path)
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			todo = append(todo, "/"+m[1])
		}
		for _, m := range imported.FindAllStringSubmatch(text, -1) {
			todo = append(todo, "/page/"+m[1])
		}
	}
	for path := range unseen { // order: each is told for itself.
		t.Errorf("nothing needs %s", path)
	}
}

func TestPageIsComplete(t *testing.T) {
	entries, err := os.ReadDir("static")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile("static/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		// Namespaces of SVG are names, and nobody asks for them.
		plain := strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "")
		for _, bad := range []string{"http://", "https://", "//cdn", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=", "onclick=", "<style", "localStorage"} {
			if strings.Contains(plain, bad) {
				t.Errorf("%s has %q", e.Name(), bad)
			}
		}
	}
	if text := body(t, get(t, "GET", "/")); regexp.MustCompile(`<script[^>]*>[^<]`).MatchString(text) {
		t.Error("the page has a script in its text, which its policy forbids")
	}
}

func TestHeaders(t *testing.T) {
	for _, c := range []struct{ path, kind, cache string }{
		{"/", "text/html; charset=utf-8", "no-cache"},
		{"/page/page.css", "text/css; charset=utf-8", "no-cache"},
		{"/page/page.js", "text/javascript; charset=utf-8", "no-cache"},
		{"/page/icon.svg", "image/svg+xml", "no-cache"},
		{"/page/status", "application/json", "no-store"},
	} {
		r := get(t, "GET", c.path)
		want := map[string]string{"Content-Type": c.kind, "Cache-Control": c.cache, "X-Content-Type-Options": "nosniff",
			"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin"}
		got := map[string]string{}
		for name := range want { // order: into another map
			got[name] = r.Header.Get(name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.path, diff)
		}
		policy := r.Header.Get("Content-Security-Policy")
		for _, rule := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, rule) {
				t.Errorf("%s: the policy %q lacks %q", c.path, policy, rule)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("%s: the policy %q is loose", c.path, policy)
		}
	}
}

func TestFilesAreAskedForAgain(t *testing.T) {
	first := get(t, "GET", "/page/page.js")
	tag := first.Header.Get("ETag")
	if tag == "" || tag == get(t, "GET", "/page/page.css").Header.Get("ETag") {
		t.Fatalf("the tag is %q, want one for each content", tag)
	}
	if again := get(t, "GET", "/page/page.js", "If-None-Match", tag); again.StatusCode != http.StatusNotModified {
		t.Errorf("asked again with the tag the answer is %s, want 304", again.Status)
	}
	if head := get(t, "HEAD", "/page/page.js"); head.StatusCode != http.StatusOK || body(t, head) != "" || head.Header.Get("ETag") != tag {
		t.Errorf("HEAD: %s", head.Status)
	}
}

func TestOtherPathsAndMethods(t *testing.T) {
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/page/", 404}, {"GET", "/page/index.html", 404}, {"GET", "/page/../page.go", 404}, {"GET", "/index.html", 404},
		{"GET", "/page/none.js", 404}, {"POST", "/", 405}, {"POST", "/page/status", 405}, {"DELETE", "/page/none.js", 405},
	} {
		if r := get(t, c.method, c.path); r.StatusCode != c.want {
			t.Errorf("%s %s: %s, want %d", c.method, c.path, r.Status, c.want)
		}
	}
}

func TestStatusIsToldAsItIs(t *testing.T) {
	want := newFake().status()
	w := httptest.NewRecorder()
	page.Handler(func(*http.Request) page.Status { return want }).ServeHTTP(w, httptest.NewRequest("GET", "/page/status", nil))
	var got page.Status
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the page hears (-want +got):\n%s", diff)
	}
	// What is not known is null and not 0: the page shows nothing then. Lists are
	// lists.
	for _, unknown := range []string{`"predicted_tok_per_s":null`, `"ttft":null`, `"itl":null`, `"models":[]`, `"names":[]`} {
		if text := body(t, get(t, "GET", "/page/status")); !strings.Contains(text, unknown) {
			t.Errorf("an empty status is %s, want %s in it", text, unknown)
		}
	}
}

func TestRecentPercentiles(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	var r page.Recent
	if p := r.Percentiles(at); p != nil {
		t.Errorf("without anything they are %+v, want nil", p)
	}
	for i := range 1000 { // 1 to 1000 ms, in a mixed order
		ms := i*7%1000 + 1
		r.Add(at.Add(time.Duration(i)*time.Millisecond), time.Duration(ms)*time.Millisecond, 1)
	}
	r.Add(at, time.Hour, 0)
	p := r.Percentiles(at.Add(time.Second))
	if p == nil || p.Count != 1000 {
		t.Fatalf("they are %+v, want those of 1000", p)
	}
	for _, c := range []struct{ got, want float64 }{{p.P50Ms, 500}, {p.P90Ms, 900}, {p.P99Ms, 990}} {
		if ratio := c.got / c.want; ratio < .955 || ratio > 1.046 {
			t.Errorf("a percentile is %.4g ms, want %v within 4.5 %%", c.got, c.want)
		}
	}
	if p := r.Percentiles(at.Add(30 * time.Second)); p != nil {
		t.Errorf("after half a minute they are %+v, want nil", p)
	}
	r.Add(at.Add(30*time.Second), 0, 3)                   // in the place of the first second
	r.Add(at.Add(30*time.Second), 1_000_000*time.Hour, 1) // longer than any bucket
	if p := r.Percentiles(at.Add(31 * time.Second)); p == nil || p.Count != 4 || p.P50Ms != .01 || p.P99Ms < 1e6 {
		t.Errorf("they are %+v, want those of 4, the first second forgotten", p)
	}
}
