// Package page is the live page of a server: how its models work together, and
// a box to try a prompt in and see which model writes which token. It is plain
// HTML, CSS and JavaScript, embedded, and asks nobody but its own server, so it
// works without a network.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"path"
	"time"
)

// Root is where the page itself is, and Folder what all else lies below.
const (
	Root   = "/"
	Folder = "/page/"
)

const statusPath = Folder + "status"

//go:embed static
var static embed.FS

// policy lets the page load only what its own server has, and run no script
// that stands in the text: whatever a model writes stays text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// kinds are the media types by the end of a name. Those that the machine knows
// may differ.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

type file struct {
	text []byte
	kind string
	etag string
}

// Handler serves the page at Root and the rest below Folder. It calls status,
// from many goroutines at once, when a page asks how things stand: about once a
// second for each that is open and in sight. The request shows the server's key,
// if the page has it.
func Handler(status func(*http.Request) Status) http.Handler {
	files := read()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		f, ok := files[r.URL.Path]
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "the page is only to be read", http.StatusMethodNotAllowed)
		case r.URL.Path == statusPath:
			writeStatus(w, status(r))
		case ok:
			// Kept, and asked for again each time: a newer server has newer files.
			h.Set("Cache-Control", "no-cache")
			h.Set("Content-Type", f.kind)
			h.Set("ETag", f.etag)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.text))
		default:
			http.Error(w, "there is no such part of the page", http.StatusNotFound)
		}
	})
}

func writeStatus(w http.ResponseWriter, s Status) {
	if s.Models == nil { // a list in any case
		s.Models = []Model{}
	}
	if s.Names == nil {
		s.Names = []Name{}
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic("page: a status that is no JSON: " + err.Error())
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
}

// read takes in the embedded files, by the path that they are served at.
func read() map[string]file {
	files := map[string]file{}
	entries, err := fs.ReadDir(static, "static")
	if err != nil {
		panic("page: " + err.Error())
	}
	for _, e := range entries {
		text, err := static.ReadFile("static/" + e.Name())
		if err != nil {
			panic("page: " + err.Error())
		}
		kind, ok := kinds[path.Ext(e.Name())]
		if !ok {
			panic("page: no media type for " + e.Name())
		}
		at := Folder + e.Name()
		if e.Name() == "index.html" {
			at = Root
		}
		sum := sha256.Sum256(text)
		files[at] = file{text, kind, `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return files
}
