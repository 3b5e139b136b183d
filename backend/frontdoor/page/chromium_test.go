package page_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tab is a page in a headless Chromium, driven by the DevTools protocol over a
// pair of pipes: JSON messages that end in a zero byte.
type tab struct {
	t       *testing.T
	to      io.Writer
	session string

	mu       sync.Mutex
	calls    int
	waiting  map[int]chan message
	broken   error
	requests []string // URLs that were asked for
	errors   []string // of scripts and of the console
}

type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// patience is for a browser on a busy machine; nothing is measured by it.
const patience = 60 * time.Second

// open starts a browser with one empty tab, or skips the test where none is
// named.
func open(t *testing.T) *tab {
	t.Helper()
	path := os.Getenv("TOKENROUTER_CHROMIUM")
	if path == "" {
		t.Skip("TOKENROUTER_CHROMIUM names no Chromium")
	}
	toRead, toWrite, err1 := os.Pipe()
	fromRead, fromWrite, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
		"--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{toRead, fromWrite} // it reads from 3 and writes to 4
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toRead.Close()
	fromWrite.Close()
	b := &tab{t: t, to: toWrite, waiting: map[int]chan message{}}
	go b.listen(fromRead)
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its children too
		cmd.Wait()
		toWrite.Close()
		fromRead.Close()
		os.RemoveAll(profile)
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log", "Accessibility"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// listen takes in what the browser says, until it is gone.
func (b *tab) listen(from io.Reader) {
	r := bufio.NewReader(from)
	for {
		raw, err := r.ReadBytes(0)
		var m message
		if err == nil {
			err = json.Unmarshal(raw[:len(raw)-1], &m)
		}
		b.mu.Lock()
		switch reply := b.waiting[m.ID]; {
		case err != nil:
			b.broken = fmt.Errorf("the browser is gone: %w", err)
			for id, reply := range b.waiting { // order: each is told for itself.
				close(reply)
				delete(b.waiting, id)
			}
			b.mu.Unlock()
			return
		case reply != nil:
			delete(b.waiting, m.ID)
			reply <- m
		default:
			b.note(&m)
		}
		b.mu.Unlock()
	}
}

// note keeps the events that tests ask for.
func (b *tab) note(m *message) {
	var p struct {
		Request struct{ URL string }
		Entry   struct{ Level, Text, URL string }
		Type    string
	}
	json.Unmarshal(m.Params, &p)
	switch {
	case m.Method == "Network.requestWillBeSent":
		b.requests = append(b.requests, p.Request.URL)
	case m.Method == "Log.entryAdded" && p.Entry.Level == "error":
		b.errors = append(b.errors, p.Entry.Text+" "+p.Entry.URL)
	case m.Method == "Runtime.exceptionThrown", m.Method == "Runtime.consoleAPICalled" && p.Type == "error":
		b.errors = append(b.errors, string(m.Params))
	}
}

// call asks the browser for something and waits for the answer.
func (b *tab) call(method string, params, result any) {
	b.t.Helper()
	reply := make(chan message, 1)
	b.mu.Lock()
	b.calls++
	id, broken := b.calls, b.broken
	b.waiting[id] = reply
	b.mu.Unlock()
	if broken != nil {
		b.t.Fatal(broken)
	}
	raw, err := json.Marshal(params)
	if err != nil {
		b.t.Fatal(err)
	}
	if params == nil {
		raw = []byte("{}")
	}
	text, _ := json.Marshal(message{ID: id, Session: b.session, Method: method, Params: raw})
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	select {
	case m, ok := <-reply:
		switch {
		case !ok:
			b.t.Fatalf("%s: %v", method, b.broken)
		case m.Error != nil:
			b.t.Fatalf("%s: %s", method, m.Error)
		case result != nil:
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(patience):
		b.t.Fatalf("%s: no answer", method)
	}
}

// eval returns the value of a JavaScript expression, awaited.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	var o struct {
		Result    struct{ Value T }
		Exception *struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &o)
	if o.Exception != nil {
		b.t.Fatalf("%s: %s %s", expression, o.Exception.Text, o.Exception.Exception.Description)
	}
	return o.Result.Value
}

// await waits until a JavaScript expression is true.
func (b *tab) await(expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(30 * time.Millisecond) {
		if eval[bool](b, "Boolean("+expression+")") {
			return
		}
	}
	b.t.Fatalf("it never came to %s; the page says:\n%s", expression, eval[string](b, "document.body.innerText"))
}

// visit opens an address and waits until its page is there.
func (b *tab) visit(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.await(fmt.Sprintf("location.href === %q && document.readyState === 'complete'", url))
}

// press presses keys, as their codes and names go in the DevTools protocol.
func (b *tab) press(key string, code, modifiers int) {
	b.t.Helper()
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		b.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}, nil)
	}
}

const control = 2 // modifier

// write types text where the focus is.
func (b *tab) write(text string) {
	b.t.Helper()
	b.call("Input.insertText", map[string]any{"text": text}, nil)
}

// click presses the mouse button in the middle of an element.
func (b *tab) click(selector string) {
	b.t.Helper()
	at := eval[[]float64](b, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({ block: "center" });
		const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`, selector))
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1}, nil)
	}
}

// look sets the size of the window and whether people like it dark.
func (b *tab) look(width, height int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// shoot takes a picture of the whole page. It is kept where
// TOKENROUTER_SCREENSHOTS says, and must show something in any case.
func (b *tab) shoot(name string) {
	b.t.Helper()
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	if len(png) < 20_000 {
		b.t.Errorf("the picture %s has %d bytes: it looks blank", name, len(png))
	}
	if folder := os.Getenv("TOKENROUTER_SCREENSHOTS"); folder != "" {
		if err := os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}

// calm checks that no script failed, no rule of the page was broken, and nobody
// but its own server was asked.
func (b *tab) calm(origin string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.errors {
		b.t.Errorf("the browser complains: %s", e)
	}
	for _, url := range b.requests {
		if !strings.HasPrefix(url, origin) && url != "about:blank" {
			b.t.Errorf("the page asked for %s", url)
		}
	}
	if len(b.requests) < 5 {
		b.t.Errorf("only %d requests were seen: the test looks at the wrong place", len(b.requests))
	}
}
