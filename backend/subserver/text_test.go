package subserver

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// fakePieces are the bytes of token t, at t modulo their number. Characters are
// cut between tokens.
var fakePieces = []string{"a", "b", "c", "ab", "bc", "\xe4", "\xb8\x96", "\xc3", "\xa9", "世", "a\xe4", "\x96c"}

// fakeDetok gives whole characters only.
type fakeDetok struct{ held string }

func newFakeDetok() Detokenizer { return new(fakeDetok) }

func (d *fakeDetok) Next(tokens []algorithms.Token) string {
	for _, t := range tokens {
		d.held += fakePieces[int(t)%len(fakePieces)]
	}
	n := len(d.held)
	for back := 1; back <= 3 && back <= n; back++ {
		if utf8.RuneStart(d.held[n-back]) {
			if !utf8.FullRuneInString(d.held[n-back:]) {
				n -= back
			}
			break
		}
	}
	text := d.held[:n]
	d.held = d.held[n:]
	return string([]rune(text)) // bytes of no character become U+FFFD, one each
}

func (d *fakeDetok) Rest() string {
	text := d.held
	d.held = ""
	return string([]rune(text)) // bytes of no character become U+FFFD, one each
}

// told is what a client is told of tokens.
type told struct {
	n          int
	text, stop string
}

// tellAll looks at the whole text again after every token.
func tellAll(tokens []algorithms.Token, stops []string, show bool, spare int) told {
	from := 0
	d := newFakeDetok()
	text := ""
	for i := 0; i <= len(tokens); i++ {
		if i < len(tokens) {
			text += d.Next(tokens[i : i+1])
		} else {
			text += d.Rest()
		}
		if i < spare {
			from = len(text)
			continue
		}
		start, end, stop := -1, len(text)+1, ""
		for _, s := range stops {
			if at := strings.Index(text[from:], s); at >= 0 {
				if e := from + at + len(s); e < end || e == end && from+at < start {
					start, end, stop = from+at, e, s
				}
			}
		}
		if stop != "" {
			if show {
				start = end
			}
			return told{min(i+1, len(tokens)), text[:start], stop}
		}
	}
	return told{len(tokens), text, ""}
}

// However tokens are cut into chunks, the text is the same, no part of a stop
// string is shown before it is known not to be one, and what follows it never.
func TestTellerFindsStops(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	stopped, atEnd := 0, 0
	for range 20000 {
		var tokens []algorithms.Token
		for range 1 + rng.IntN(12) {
			tokens = append(tokens, algorithms.Token(rng.IntN(len(fakePieces))))
		}
		all := []string{"abc", "cab", "世", "é", "bé", "c世a", "bb", "\ufffd"}
		r := &Request{ShowStop: rng.IntN(2) == 0, Sampling: backend.Sampling{MinTokens: rng.IntN(3) * rng.IntN(4)}}
		for range rng.IntN(3) {
			r.Stop = append(r.Stop, all[rng.IntN(len(all))])
		}
		want := tellAll(tokens, r.Stop, r.ShowStop, r.Sampling.MinTokens)
		tl := newTeller(r, newFakeDetok())
		var got told
		for rest := tokens; len(rest) > 0 && got.stop == ""; {
			k := 1 + rng.IntN(len(rest))
			n, text, stop := tl.take(rest[:k])
			got = told{got.n + n, got.text + text, stop}
			rest = rest[k:]
			if !strings.HasPrefix(want.text, got.text) {
				t.Fatalf("%v with stops %q: shows %q of %q", tokens, r.Stop, got.text, want.text)
			}
		}
		if got.stop == "" {
			text, stop := tl.rest()
			got.text, got.stop = got.text+text, stop
			if stop != "" {
				atEnd++
			}
		}
		if got != want {
			t.Fatalf("%v with stops %q, shown %t, from token %d: %+v, want %+v", tokens, r.Stop, r.ShowStop, r.Sampling.MinTokens, got, want)
		}
		if got.stop != "" {
			stopped++
		}
	}
	if stopped < 2000 || atEnd < 20 {
		t.Errorf("%d of 20000 stopped, %d by what was held back", stopped, atEnd)
	}
}

// A stop string ends a request wherever its tokens were written, and leaves
// nothing behind.
func TestStopStrings(t *testing.T) {
	for i, rule := range []scheduler.Rule{scheduler.Eager{}, scheduler.Eager{}, scheduler.Lockstep{}} {
		p := stopping(rule)
		p.quiet = i == 0
		synctest.Test(t, func(t *testing.T) {
			cfg := p.config(t)
			cfg.NewDetokenizer = newFakeDetok
			p.judgeText(t, cfg.Algorithm, p.serve(t, cfg))
		})
	}
}

// So it does behind a dispatcher, whose requests may bring their own way to
// text.
func TestDispatcherStops(t *testing.T) {
	for _, own := range []bool{false, true} {
		p := stopping(scheduler.Eager{})
		p.ownDetok = own
		synctest.Test(t, func(t *testing.T) {
			cfg := p.config(t)
			if !own {
				cfg.NewDetokenizer = newFakeDetok
			}
			d, err := StartDispatcher(cfg, DispatchCost{})
			if err != nil {
				t.Fatal(err)
			}
			p.judgeText(t, cfg.Algorithm, p.ask(t, func(int) submitter { return d }))
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// stopping is a plan whose requests have stop strings.
func stopping(rule scheduler.Rule) plan {
	return plan{algorithm: "me", params: sources[5].params, rule: rule, b: 2, concurrency: 4, requests: 40, stops: true,
		kvTokens: 400, blockTokens: 4, chunk: 8, maxRunning: 4, seed: 9}
}

// judgeText holds what clients saw to the law, up to their stop strings.
func (p plan) judgeText(t *testing.T, alg algorithms.Algorithm, out []outcome) {
	stopped, byPeer := 0, 0
	for i, o := range out {
		r := p.request(i)
		want := oracle(alg, r)
		text := tellAll(want.tokens, r.Stop, r.ShowStop, r.Sampling.MinTokens)
		if o.err != nil || o.text != text.text || o.stop != text.stop {
			t.Errorf("request %d: %q stopped by %q, %v; want %q by %q", r.ID, o.text, o.stop, o.err, text.text, text.stop)
		}
		reason := want.reason(r)
		if o.stop != "" {
			reason = scheduler.ReasonStop
			stopped++
			if o.writers[len(o.writers)-1] != r.Home {
				byPeer++
			}
		}
		if o.reason != reason {
			t.Errorf("request %d ended by %v, want %v", r.ID, o.reason, reason)
		}
		want = want.cut(text.n)
		want.compare(t, r, &o.written)
	}
	if stopped < 5 || byPeer < 2 {
		t.Errorf("%d requests stopped by text, %d of them at a peer", stopped, byPeer)
	}
}
