package trace

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// tell lets one of each kind happen.
func tell(t *Writer) {
	t.Event(0, &scheduler.Event{Kind: scheduler.Arrived, AtNs: 5, Arrival: &scheduler.Arrival{ID: 7, Prompt: make([]scheduler.Token, 3), MaxTokens: 9}})
	t.Event(0, &scheduler.Event{Kind: scheduler.LiveChanged, AtNs: 5, Live: 1})
	t.Event(1, &scheduler.Event{Kind: scheduler.LiveChanged, AtNs: 5, Live: 1})
	t.Event(0, &scheduler.Event{Kind: scheduler.Wake, AtNs: 6})
	t.Stepped(0, 5, 8, &scheduler.Batch{Entries: make([]scheduler.Entry, 2), Rows: 4, ContextTokens: 40}, 3)
	req := &scheduler.PeerReq{ID: 7, From: 0, Suffix: make([]scheduler.Token, 4)}
	t.Messages(0, 8, []scheduler.Message{
		{Kind: scheduler.Emit, Request: 7, Start: 3, Tokens: make([]scheduler.Token, 1), Writer: 1},
		{Kind: scheduler.WakeAt, AtNs: 50},
		{Kind: scheduler.Send, Request: 7, To: 1, Req: req},
	})
	t.Event(1, &scheduler.Event{Kind: scheduler.PeerArrived, AtNs: 9, Req: req})
	back := &scheduler.PeerReq{ID: 7, From: 1, Suffix: make([]scheduler.Token, 2), Status: algorithms.Returned}
	t.Messages(1, 10, []scheduler.Message{{Kind: scheduler.Return, Request: 7, To: 0, Req: back}})
	t.Event(0, &scheduler.Event{Kind: scheduler.PeerReturned, AtNs: 11, Req: back})
	t.Messages(0, 12, []scheduler.Message{
		{Kind: scheduler.Retract, Request: 7},
		{Kind: scheduler.Finish, Request: 7, Reason: scheduler.ReasonLength},
		{Kind: scheduler.Release, Request: 7, To: 1},
		{Kind: scheduler.Refuse, Request: 8, Reason: scheduler.ReasonTooLong},
	})
}

const told = `{"time_ns":5,"kind":"arrived","model":"small","request":7,"tokens":3,"max_tokens":9}
{"time_ns":5,"kind":"live","model":"small","live":1}
{"time_ns":8,"kind":"step","model":"small","start_ns":5,"requests":2,"rows":4,"tokens":40,"threshold":3}
{"time_ns":8,"kind":"emit","model":"small","request":7,"start":3,"tokens":1,"writer":"a \"large\" one"}
{"time_ns":8,"kind":"send","model":"small","request":7,"to":"a \"large\" one","tokens":4}
{"time_ns":9,"kind":"peer-arrived","model":"a \"large\" one","request":7,"tokens":4,"from":"small"}
{"time_ns":10,"kind":"return","model":"a \"large\" one","request":7,"to":"small","tokens":2}
{"time_ns":11,"kind":"peer-returned","model":"small","request":7,"tokens":2,"from":"a \"large\" one","status":"returned"}
{"time_ns":12,"kind":"retract","model":"small","request":7}
{"time_ns":12,"kind":"finish","model":"small","request":7,"reason":"length"}
{"time_ns":12,"kind":"release","model":"small","request":7,"to":"a \"large\" one"}
{"time_ns":12,"kind":"refuse","model":"small","request":8,"reason":"too-long"}
`

var names = []string{"small", `a "large" one`}

func TestLines(t *testing.T) {
	var out strings.Builder
	w := NewWriter(&out, names, 12)
	tell(w)
	if w.Enough() {
		t.Error("nothing was left out")
	}
	n, cut, err := w.Close()
	if diff := cmp.Diff(told, out.String()); diff != "" || n != 12 || cut || err != nil {
		t.Errorf("%d events, cut %t, %v (-want +got):\n%s", n, cut, err, diff)
	}
	for line := range strings.Lines(out.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

// A limit keeps the first lines, whatever comes, and says so in one more.
func TestLimit(t *testing.T) {
	lines := strings.SplitAfter(told, "\n")
	for limit := range 12 {
		var out strings.Builder
		w := NewWriter(&out, names, int64(limit))
		tell(w)
		n, cut, err := w.Close()
		got := strings.SplitAfter(out.String(), "\n")
		if n != int64(limit) || !cut || !w.Enough() || err != nil || len(got) != limit+2 ||
			!cmp.Equal(got[:limit], lines[:limit]) || !strings.HasSuffix(got[limit], `"kind":"cut","model":""}`+"\n") {
			t.Errorf("limit %d: %d events, cut %t, %v:\n%s", limit, n, cut, err, out.String())
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk is full") }

func TestErrorsAreKept(t *testing.T) {
	w := NewWriter(fullDisk{}, names, 1<<40)
	for range 2000 {
		tell(w)
	}
	if _, _, err := w.Close(); err == nil || err.Error() != "disk is full" || !w.Enough() {
		t.Errorf("got %v", err)
	}
}
