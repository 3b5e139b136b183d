package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kinds of failures. That of a status is "http 503".
const (
	KindConnect  = "connect"     // no connection
	KindNoAnswer = "no answer"   // no token in time
	KindSilent   = "silent"      // no further token in time
	KindCut      = "cut"         // the connection or the stream ended too early
	KindJunk     = "junk"        // what came is not the protocol
	KindError    = "error event" // the stream said that it failed
	KindEmpty    = "no tokens"   // the stream ended well without any
	KindOverrun  = "overrun"     // more tokens than were asked for
	KindToken    = "no token id" // standard serving needs ids to go on
)

// Failure is why a request failed.
type Failure struct {
	Kind   string // one of the kinds, for counting
	Detail string // what the server or the network said
}

func (f *Failure) Error() string {
	if f.Detail == "" {
		return f.Kind
	}
	return f.Kind + ": " + f.Detail
}

func failuref(kind, format string, args ...any) *Failure {
	return &Failure{kind, cut(fmt.Sprintf(format, args...))}
}

// maxDetail bounds what is kept of a server's words.
const maxDetail = 300

// cut shortens a text and makes it printable on one line.
func cut(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, s)
	if len(s) <= maxDetail {
		return s
	}
	end := maxDetail
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// Is lets errors.Is find a kind.
func (f *Failure) Is(target error) bool {
	kind, ok := target.(*Failure)
	return ok && kind.Kind == f.Kind
}

// Failures counts those of one kind.
type Failures struct {
	Kind  string
	Count int
	First string // the detail of the first of them
}

// failureOf sorts an error of a target into a kind. cause is that of the
// request's context, tokens how many had come.
func failureOf(err, cause error, tokens int) *Failure {
	var f *Failure
	var op *net.OpError
	switch {
	case errors.Is(cause, errSilence) && tokens == 0:
		return &Failure{KindNoAnswer, ""}
	case errors.Is(cause, errSilence):
		return &Failure{KindSilent, fmt.Sprintf("after %d tokens", tokens)}
	case errors.As(err, &f):
		return f
	case errors.As(err, &op) && op.Op == "dial":
		return failuref(KindConnect, "%v", op)
	}
	return failuref(KindCut, "%v", plain(err))
}

// plain leaves out method and address of an HTTP error: they are known.
func plain(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

var (
	errSilence  = errors.New("no token came in time")
	errOver     = errors.New("the run is over")
	errHopeless = fmt.Errorf("%w: every request failed", context.Canceled)
)

// tally counts failures by kind.
type tally struct{ kinds []Failures }

func (t *tally) add(f *Failure) {
	i := slices.IndexFunc(t.kinds, func(k Failures) bool { return k.Kind == f.Kind })
	if i < 0 {
		t.kinds = append(t.kinds, Failures{f.Kind, 1, f.Detail})
		return
	}
	t.kinds[i].Count++
}

// sorted lists the most frequent first.
func (t *tally) sorted() []Failures {
	out := slices.Clone(t.kinds)
	slices.SortFunc(out, func(a, b Failures) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}
