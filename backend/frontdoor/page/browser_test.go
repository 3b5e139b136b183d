package page_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/backend/frontdoor/page"
)

// shift adds up how far things jumped that nobody touched.
const shift = `window.jumped = 0; new PerformanceObserver(l => l.getEntries().forEach(e => { if (!e.hadRecentInput) window.jumped += e.value; }))
	.observe({ type: "layout-shift", buffered: true }); 0`

// value is the number that an element shows.
func value(id string) string {
	return fmt.Sprintf("parseFloat(document.getElementById(%q).textContent.replaceAll(',', ''))", id)
}

func TestBrowserShowsFigures(t *testing.T) {
	b := open(t)
	f := newFake()
	server := httptest.NewServer(f.handler())
	defer server.Close()
	b.look(1280, 900, "light")
	b.visit(server.URL + "/")
	eval[int](b, shift)
	b.await("document.getElementById('state').textContent === 'live'")
	b.await(value("rate") + " > 300")
	first := eval[string](b, "document.getElementById('models').innerText + document.getElementById('figures').innerText")
	for _, want := range []string{"qwen3-0.6b", "qwen3-32b", "home", "predicted 520", "predicted 580", "pending", "83", "140", "412", "5.31"} {
		if !strings.Contains(first, want) {
			t.Errorf("the page does not show %q; it says:\n%s", want, first)
		}
	}
	b.await("document.querySelectorAll('.histogram rect').length >= 16 && document.querySelectorAll('.histogram rect.atB').length === 2")
	b.await("document.querySelectorAll('#chart .line').length === 2 && document.querySelector('#chart .predicted')?.getAttribute('d').includes('L')")
	share := eval[float64](b, value("share"))
	if share < 5 || share > 20 {
		t.Errorf("the large model's share is %v %%, want about 10", share)
	}
	rate := eval[string](b, "document.getElementById('rate').textContent")
	b.await(fmt.Sprintf("document.getElementById('rate').textContent !== %q", rate)) // it moves
	if jumped := eval[float64](b, "window.jumped"); jumped > 0.02 {
		t.Errorf("the layout jumped by %v", jumped)
	}
	b.calm(server.URL)

	b.look(390, 844, "light")
	b.call("Page.reload", nil, nil)
	b.await("document.querySelectorAll('.histogram rect').length === 0")
	eval[int](b, shift)
	b.await(value("rate") + " > 300")
	if jumped := eval[float64](b, "window.jumped"); jumped > 0.02 {
		t.Errorf("the layout jumped by %v on a narrow screen", jumped)
	}
}

func TestBrowserShowsWriters(t *testing.T) {
	b := open(t)
	f := newFake()
	server := httptest.NewServer(f.handler())
	defer server.Close()
	b.look(1280, 900, "light")
	b.visit(server.URL + "/")
	b.await("document.getElementById('model').options.length === 3")

	// By keyboard alone: through the form, and off.
	b.press("Tab", 9, 0)
	b.await("document.activeElement.id === 'prompt'")
	b.write("Why tokens?")
	for _, id := range []string{"model", "as", "max-tokens", "temperature", "threshold"} {
		b.press("Tab", 9, 0)
		b.await(fmt.Sprintf("document.activeElement.id === %q", id))
	}
	b.write("0.25")
	b.press("Enter", 13, control)
	b.await("document.querySelectorAll('#answer .token').length > 5")
	b.await("document.getElementById('tally').textContent.includes('ended at max_tokens')")
	small, large := eval[int](b, "document.querySelectorAll('#answer .w0').length"), eval[int](b, "document.querySelectorAll('#answer .w1').length")
	if small != 35 || large != 4 { // one has no text of its own, and still counts
		t.Errorf("%d tokens of the small model and %d of the large one are marked, want 35 and 4", small, large)
	}
	if colours := eval[int](b, "new Set([...document.querySelectorAll('#answer .token')].map(e => getComputedStyle(e).backgroundColor)).size"); colours != 2 {
		t.Errorf("tokens have %d colours, want 2", colours)
	}
	answer := eval[string](b, "document.getElementById('answer').textContent")
	if !strings.Contains(answer, "<img src=x") || !strings.Contains(answer, "世界 🙂") {
		t.Errorf("the answer is shown as %q", answer)
	}
	if title := eval[string](b, "document.title"); title != "TokenRouter" {
		t.Errorf("what a model wrote became part of the page: its title is %q", title)
	}
	writers := eval[string](b, "document.getElementById('writers').innerText")
	if !strings.Contains(writers, "36 (90 %)") || !strings.Contains(writers, "4 (10 %)") {
		t.Errorf("the writers are shown as %q", writers)
	}
	asked := f.prompts()
	if len(asked) != 1 {
		t.Fatalf("the page asked %d times, want once", len(asked))
	}
	p := asked[0]
	if p.Path != "/v1/chat/completions" || p.Model != "routed" || !p.Stream || p.Max != 256 || p.Heat != nil || !p.Params.Writers ||
		p.Params.Threshold == nil || *p.Params.Threshold != .25 || len(p.Messages) != 1 || p.Messages[0].Content != "Why tokens?" {
		t.Errorf("the page asked for %+v", p)
	}
	b.calm(server.URL)
}

func TestBrowserStops(t *testing.T) {
	b := open(t)
	f := newFake()
	server := httptest.NewServer(f.handler())
	defer server.Close()
	b.visit(server.URL + "/")
	b.await("document.getElementById('model').options.length === 3")
	b.click("#prompt")
	b.write("endless")
	eval[int](b, `document.getElementById("model").value = "qwen3-32b"; document.getElementById("model").dispatchEvent(new Event("change"));
		document.getElementById("as").value = "text"; document.getElementById("temperature").value = "0"; 0`)
	if !eval[bool](b, "document.getElementById('threshold').disabled") {
		t.Error("a threshold may be given for one model alone")
	}
	for _, stop := range []func(){func() { b.click("#stop") }, func() { b.press("Escape", 27, 0) }} {
		b.await("!document.getElementById('send').disabled")
		b.click("#send")
		b.await("document.querySelectorAll('#answer .token').length > 5 && !document.getElementById('stop').disabled")
		stop()
		b.await("document.getElementById('tally').textContent.includes('stopped')")
		select {
		case <-f.gone:
		case <-time.After(patience):
			t.Fatal("the server never heard that nobody reads the answer")
		}
	}
	p := f.prompts()[0]
	if p.Path != "/v1/completions" || p.Model != "qwen3-32b" || p.Prompt != "endless" || p.Heat == nil || *p.Heat != 0 || p.Params.Threshold != nil {
		t.Errorf("the page asked for %+v", p)
	}
	b.calm(server.URL)
}

// TestBrowserKeepsUp floods the page: tokens that come together have to be shown
// together, or the page does nothing else and its figures stand still.
func TestBrowserKeepsUp(t *testing.T) {
	b := open(t)
	server := httptest.NewServer(newFake().handler())
	defer server.Close()
	b.visit(server.URL + "/")
	b.await("document.getElementById('model').options.length === 3")
	eval[int](b, `window.shown = 0; new MutationObserver(() => window.shown++).observe(document.getElementById("answer"), { childList: true }); 0`)
	b.click("#prompt")
	b.write("flood")
	b.press("Enter", 13, control)
	b.await("document.getElementById('tally').textContent.includes('ended at max_tokens')")
	if said := eval[string](b, "document.getElementById('tally').textContent"); !strings.HasPrefix(said, "4,000 tokens") {
		t.Errorf("the answer is said to have %q", said)
	}
	if shown := eval[int](b, "window.shown"); shown > flood/4 {
		t.Errorf("%d tokens were shown in %d parts", flood, shown)
	}
	if !eval[bool](b, "(a => a.scrollTop + a.clientHeight > a.scrollHeight - 8)(document.getElementById('answer'))") {
		t.Error("the end of the answer is out of sight")
	}
	b.calm(server.URL)
}

func TestBrowserTellsWhatIsWrong(t *testing.T) {
	b := open(t)
	f := newFake()
	f.key = "open sesame"
	server := httptest.NewServer(f.handler())
	defer server.Close()
	b.visit(server.URL + "/")
	b.await("!document.getElementById('key-label').hidden")
	said := "document.getElementById('answer').textContent"
	b.click("#prompt")
	b.write("break")
	b.click("#send")
	b.await(said + ".includes('wants its key')")
	b.await("document.activeElement.id === 'key'")
	b.await("document.getElementById('state').dataset.state === 'locked'")
	b.write(f.key)
	b.await("document.getElementById('state').dataset.state === 'serving'")
	b.click("#send")
	b.await(said + ".includes('network error') || " + said + ".includes('does not answer') || " + said + ".includes('broke off')")
	if !eval[bool](b, "document.querySelectorAll('#answer .token').length > 30") {
		t.Error("what came before the answer broke off is gone")
	}
	eval[int](b, `document.getElementById("prompt").value = "refuse"; 0`)
	b.click("#send")
	b.await(said + ".includes('temperature is 9, want less')")
}

// The key is taken by itself, and a wrong one is called that, once it is written.
func TestBrowserTellsOfWrongKeys(t *testing.T) {
	b := open(t)
	f := newFake()
	f.key = "open sesame"
	server := httptest.NewServer(f.handler())
	defer server.Close()
	state := "document.getElementById('state').textContent"
	b.visit(server.URL + "/")
	b.await(state + ".includes('wants its key')")
	b.click("#key")
	b.write("open sesam")
	b.press("Enter", 13, 0)
	b.await(state + ".includes('wrong key')")
	if at := eval[string](b, "document.activeElement.id"); at != "key" {
		t.Errorf("after Enter the focus is at %q: the browser wants a prompt", at)
	}
	b.click("#prompt")
	b.write("Why?")
	b.click("#send")
	b.await("document.getElementById('answer').textContent.includes('That is not')")
	b.write("e") // where the focus went, behind what is there
	b.press("Enter", 13, 0)
	b.await("document.getElementById('state').dataset.state === 'serving'")
	b.await("document.getElementById('tally').textContent.includes('ended at max_tokens')") // with a prompt Enter sends it
	if n := len(f.prompts()); n != 1 {
		t.Errorf("%d prompts were sent with the key, want one", n)
	}
}

// What routing cannot use is not offered, and figures have marks.
func TestBrowserOffersWhatThereIs(t *testing.T) {
	b := open(t)
	f := newFake()
	f.draws = true
	server := httptest.NewServer(f.handler())
	defer server.Close()
	b.look(1280, 900, "light")
	b.visit(server.URL + "/")
	b.await("document.getElementById('model').value === 'routed'")
	if !eval[bool](b, "document.getElementById('threshold').disabled") {
		t.Error("a threshold may be given to routing that has none")
	}
	b.await("document.querySelectorAll('.card').length === 2")
	ticks := eval[[]string](b, "[...document.querySelector('.ticks').children].map(e => e.textContent)")
	if got := strings.Join(ticks[:6], " "); got != "1 2  4  " || ticks[len(ticks)-1] == "" {
		t.Errorf("the ticks are %q, want powers of two and the last", ticks)
	}
	if far := eval[float64](b, `(() => { const middle = (e) => (r => r.left + r.width / 2)(e.getBoundingClientRect());
		const bars = document.querySelectorAll('.histogram')[0].querySelectorAll('rect'), ticks = document.querySelector('.ticks').children;
		return Math.max(...[...bars].map((bar, i) => Math.abs(middle(bar) - middle(ticks[i])))) })()`); far > 2 {
		t.Errorf("a tick is %g px beside its bar", far)
	}
}

// A pause does not make models slow: with answers under way a tenth of the time,
// tokens a second are ten times those of all seconds.
func TestBrowserLeavesPausesOut(t *testing.T) {
	b := open(t)
	f := newFake()
	f.pauses = true
	server := httptest.NewServer(f.handler())
	defer server.Close()
	b.visit(server.URL + "/")
	b.await(value("rate") + " > 4500")
	b.await("parseFloat(document.querySelector('.card .rate b').textContent.replaceAll(',', '')) > 4000")
	b.calm(server.URL)
}

func TestBrowserSeesTheServerGo(t *testing.T) {
	b := open(t)
	f := newFake()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	server := &http.Server{Handler: f.handler()}
	f.setState(page.Starting)
	go server.Serve(listener)
	state := "document.getElementById('state').textContent"
	b.visit("http://" + address + "/")
	b.await(state + ".includes('starting')")
	f.setState(page.Serving)
	b.await(state + " === 'live' && document.querySelectorAll('.card').length === 2")
	f.setState(page.Draining)
	b.await(state + ".includes('shutting down')")
	server.Close()
	b.await(state + ".includes('does not answer since')")
	b.await("document.body.classList.contains('stale')")
	b.shoot("gone")
	if listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	again := &http.Server{Handler: newFake().handler()} // another run: its counts begin anew
	go again.Serve(listener)
	defer again.Close()
	b.await(state + " === 'live' && !document.body.classList.contains('stale')")
	b.await(value("rate") + " > 0")
}

// unreadable lists texts whose contrast with what lies behind them is below 4.5,
// the least that WCAG 2.2 wants of text. Backgrounds that let others shine
// through are mixed with them.
const unreadable = `(() => {
	const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
	const rgb = (...layers) => { canvas.clearRect(0, 0, 1, 1); for (const l of layers) { canvas.fillStyle = l; canvas.fillRect(0, 0, 1, 1); } return canvas.getImageData(0, 0, 1, 1).data; };
	const light = (c) => [0.2126, 0.7152, 0.0722].reduce((s, k, i) => { const v = c[i] / 255; return s + k * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); }, 0);
	const bad = [];
	let looked = 0;
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const e = walk.currentNode.parentElement;
		if (walk.currentNode.data.trim() === "" || !e.checkVisibility() || e.closest(":disabled, noscript, option")) continue;
		const layers = [];
		for (let p = e; p; p = p.parentElement) layers.unshift(getComputedStyle(p).backgroundColor);
		const [a, b] = [light(rgb(...layers)), light(rgb(...layers, getComputedStyle(e).color))];
		const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		looked++;
		if (contrast < 4.5) bad.push(contrast.toFixed(2) + " " + walk.currentNode.data.trim());
	}
	return looked < 60 ? ["only " + looked + " texts were looked at"] : bad;
})()`

// nameless lists controls that a screen reader has no name for.
func (b *tab) nameless() (roles []string) {
	b.t.Helper()
	type text struct{ Value any }
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name text
		}
	}
	b.call("Accessibility.getFullAXTree", nil, &tree)
	controls := 0
	for _, n := range tree.Nodes {
		switch n.Role.Value {
		case "button", "textbox", "combobox", "spinbutton", "image", "region":
			controls++
			if !n.Ignored && (n.Name.Value == nil || n.Name.Value == "") {
				roles = append(roles, fmt.Sprint(n.Role.Value))
			}
		}
	}
	if controls < 8 {
		b.t.Errorf("only %d controls were found", controls)
	}
	return roles
}

func TestBrowserLooks(t *testing.T) {
	b := open(t)
	f := newFake()
	f.key = "open sesame"
	server := httptest.NewServer(f.handler())
	defer server.Close()
	b.visit(server.URL + "/")
	b.await("!document.getElementById('key-label').hidden")
	b.click("#key")
	b.write(f.key)
	b.await("document.getElementById('state').dataset.state === 'serving'")
	b.click("#prompt")
	b.write("Why tokens?")
	b.press("Enter", 13, control)
	b.await("document.getElementById('tally').textContent.includes('ended at max_tokens')")
	b.await("document.querySelector('#chart .line')?.getAttribute('d').split('L').length > 5")
	for _, look := range []struct {
		name          string
		width, height int
		scheme        string
	}{
		{"light", 1280, 900, "light"}, {"dark", 1280, 900, "dark"}, {"narrow-light", 375, 812, "light"}, {"narrow-dark", 320, 640, "dark"},
	} {
		b.look(look.width, look.height, look.scheme)
		b.await(fmt.Sprintf("innerWidth === %d && matchMedia('(prefers-color-scheme: %s)').matches", look.width, look.scheme))
		b.shoot(look.name)
		if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > look.width {
			t.Errorf("%s: the page is %d wide on a screen of %d", look.name, wide, look.width)
		}
		for _, bad := range eval[[]string](b, unreadable) {
			t.Errorf("%s: contrast %s", look.name, bad)
		}
	}
	for _, role := range b.nameless() {
		t.Errorf("a %s has no name", role)
	}
	b.calm(server.URL)
}

// TestBrowserAtRunningServer looks at the server that TOKENROUTER_PAGE names, of
// two models that write together at times that the chain knows.
func TestBrowserAtRunningServer(t *testing.T) {
	server := strings.TrimSuffix(os.Getenv("TOKENROUTER_PAGE"), "/")
	if server == "" {
		t.Skip("TOKENROUTER_PAGE names no server")
	}
	b := open(t)
	b.look(1280, 900, "light")
	b.visit(server + "/")
	b.await("document.getElementById('state').textContent === 'live'")
	b.await("document.querySelectorAll('.card').length === 2")
	b.click("#prompt")
	b.write("Which tokens decide an answer?")
	eval[int](b, `document.getElementById("max-tokens").value = "2000"; 0`) // some seconds
	b.press("Enter", 13, control)
	b.await("document.querySelectorAll('#answer .w0').length > 5 && document.querySelectorAll('#answer .w1').length > 0")
	b.await(value("rate") + " > 0 && " + value("running") + " > 0")
	b.await("document.getElementById('rate-predicted').textContent.includes('predicted')")
	b.await(value("ttft") + " > 0 && " + value("itl") + " > 0")
	b.await("[...document.querySelectorAll('.card')].every(c => parseFloat(c.querySelector('.rate b').textContent) > 0)")
	b.await("[...document.querySelectorAll('.histogram svg')].every(h => [...h.children].some(bar => bar.height.baseVal.value > 5))")
	b.await("!document.getElementById('send').disabled")
	if said := eval[string](b, "document.getElementById('tally').textContent"); !strings.Contains(said, "2,000 tokens") {
		t.Errorf("the answer is said to have %q", said)
	}
	b.await("document.querySelector('#chart .line')?.getAttribute('d').split('L').length > 8")
	b.shoot("server")
	b.look(390, 844, "dark")
	b.shoot("server-narrow")
	b.calm(server)
}
