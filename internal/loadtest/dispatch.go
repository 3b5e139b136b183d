package loadtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// Dispatcher routes tokens from outside, between servers that know nothing of
// it: each token is a request of its own, with max_tokens 1 and all tokens so
// far as its prompt. So are tokens routed where a serving system has no notion
// of it; what the servers keep of prompts that start alike is their own affair.
type Dispatcher struct {
	servers   []*single
	algorithm algorithms.Algorithm
	home      int
	notes     []string
}

// Notes tell people what Probe found that they may not expect.
func (d *Dispatcher) Notes() []string { return d.notes }

// NewDispatcher returns one for the servers of the algorithm's models, which
// must share a vocabulary. It refuses algorithms that need what no protocol
// tells, or that judge a visit after its end.
func NewDispatcher(servers []*Server, a algorithms.Algorithm, home int) (*Dispatcher, error) {
	d := &Dispatcher{algorithm: a, home: home}
	if !algorithms.AcceptsAll(a) {
		return nil, fmt.Errorf("%s judges a visit after its end, which an outside dispatcher cannot", a.Name())
	}
	for i, s := range servers {
		needs := a.Needs(i)
		if needs&^algorithms.NeedMaxProb != 0 {
			return nil, fmt.Errorf("%s needs %v, and servers tell no more than log probabilities; use confidence, matrix, bursty or script", a.Name(), needs)
		}
		d.servers = append(d.servers, &single{Server: s, wantsProb: needs != 0, form: asTokenNames})
	}
	return d, nil
}

// Ask writes an answer token by token. It is the plain loop over one request
// that every driver of routing algorithms must agree with.
func (d *Dispatcher) Ask(ctx context.Context, r *workload.Request, a *Answer) error {
	tokens := d.servers[d.home].PromptIDs(r)
	call := call{ids: appendIDs(nil, tokens)}
	position := len(tokens)
	a.PromptTokens = position
	write := func(t algorithms.Token, at time.Time, writer int) {
		a.Output = append(a.Output, t)
		call.ids = strconv.AppendInt(append(call.ids, ','), int64(t), 10)
		position++
		a.Wrote(at, 1, writer)
	}
	v := algorithms.View{Request: algorithms.RequestID(r.Index + 1), Seed: r.Seed, Model: d.home, Home: d.home, StayStart: position}
	for calls := 0; a.tokens < r.Output; calls++ {
		if calls > (r.Output+1)*(len(d.servers)+1) {
			return failuref(KindOverrun, "%s keeps no token: %d calls for %d", d.algorithm.Name(), calls, a.tokens)
		}
		call.seed = algorithms.Bits(r.Seed, position, algorithms.PurposeSample) >> 1
		got, err := d.servers[v.Model].ask(ctx, &call)
		if err != nil {
			return err
		}
		v.Position, v.Token, v.Signals = position, got.token, algorithms.Signals{MaxProb: got.maxProb}
		dest := d.algorithm.Route(&v)
		if dest == algorithms.Stay || dest.Model() == v.Model {
			write(v.Token, got.at, v.Model)
			continue
		}
		to := algorithms.Departure{From: v.Model, To: dest.Model(), Home: d.home, Position: position, Token: v.Token}
		travels := algorithms.PeerReq{ID: v.Request, Home: d.home, From: v.Model, Seed: r.Seed, Extra: v.Extra, Prompt: r.Prompt, Hops: v.Hops + 1}
		if d.algorithm.Send(to, &travels) {
			write(v.Token, got.at, v.Model)
		}
		v.Model, v.Hops, v.StayStart, v.Extra = dest.Model(), v.Hops+1, position, travels.Extra
	}
	a.Finished = true
	return nil
}

// Probe finds out how each server tells the id of a token, its model where none
// is named, and whether prompts have to be of ids that every vocabulary holds.
func (d *Dispatcher) Probe(ctx context.Context, patience time.Duration) error {
	for _, s := range d.servers {
		inner, cancel := context.WithTimeoutCause(ctx, patience, errSilence)
		err := d.choose(inner, s)
		if err == nil {
			if err = s.probe(inner); isRefused(err) && s.Vocab > byteVocab && d.lower(inner, s) {
				err = nil
			}
		}
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", s.URL, err)
		}
	}
	return nil
}

// choose names the model of a server where nobody has.
func (d *Dispatcher) choose(ctx context.Context, s *single) error {
	if s.Model != "" || s.API == Generate {
		return nil
	}
	list, err := s.list(ctx)
	if err != nil {
		return err
	}
	s.Model = list[0].ID
	if len(list) > 1 && list[0].Owner == ownRouter {
		var names []string
		for _, m := range list[1:] {
			names = append(names, m.ID)
		}
		d.notes = append(d.notes, fmt.Sprintf("%s: asks for %s, which routes tokens by itself; --model names another: %s", s.URL, s.Model, strings.Join(names, ", ")))
	}
	return nil
}

// ownRouter is the owner that tokenrouter serve gives models. It lists the pair
// first.
const ownRouter = "tokenrouter"

// lower tries prompts of ids that every vocabulary holds, since all servers read
// the same ones, and reports whether s takes them.
func (d *Dispatcher) lower(ctx context.Context, s *single) bool {
	was := s.Vocab
	s.Vocab = byteVocab
	if s.probe(ctx) != nil {
		s.Vocab = was
		return false
	}
	for _, other := range d.servers {
		other.Vocab = min(other.Vocab, byteVocab)
	}
	d.notes = append(d.notes, fmt.Sprintf("%s: refuses token ids below %d, so prompts are of ids below %d", s.URL, was, byteVocab))
	return true
}

// idForm is how a server is asked for the id of the token that it wrote.
type idForm uint8

const (
	// asTokenNames has vLLM write tokens as "token_id:17" in log probabilities.
	asTokenNames idForm = iota
	// asTokenIDs asks for token_ids, with which come those of the prompt too.
	asTokenIDs
	idForms
)

// single is a server that writes one token at a time.
type single struct {
	*Server
	wantsProb bool
	form      idForm // of Completions
}

// call asks for one token.
type call struct {
	ids  []byte // of all tokens so far, as JSON without brackets
	seed uint64
}

type reply struct {
	token   algorithms.Token
	maxProb float64 // if it was asked for
	at      time.Time
}

var errNoID = &Failure{Kind: KindToken}

func (s *single) probe(ctx context.Context) error {
	q := workload.Request{Seed: 1, Prompt: probePrompt}
	c := call{ids: appendIDs(nil, s.PromptIDs(&q))}
	var err error
	for form := range idForms {
		s.form = form
		if _, err = s.ask(ctx, &c); err == nil || !errors.Is(err, errNoID) {
			break
		}
	}
	switch {
	case errors.Is(context.Cause(ctx), errSilence):
		return &Failure{KindNoAnswer, ""}
	case errors.Is(err, errNoID):
		return errors.New("it tells no token ids; standard serving needs vLLM, or SGLang asked by its own protocol (generate)")
	}
	return err
}

// ask gets one token.
func (s *single) ask(ctx context.Context, c *call) (reply, error) {
	head, tail := s.around(c)
	resp, err := s.post(ctx, apiPaths[s.API], slices.Concat(head, c.ids, tail)) // in one piece, for one write
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	at := time.Now()
	if err != nil {
		return reply{}, failuref(KindCut, "%v", err)
	}
	got, err := s.parse(text)
	got.at = at
	return got, err
}

// around is the body before and after the ids of the prompt.
func (s *single) around(c *call) (head, tail []byte) {
	if s.API == Generate {
		tail = append(appendTemperature([]byte(`],"sampling_params":{"max_new_tokens":1`), s.Temperature), `,"ignore_eos":true}`...)
		if s.wantsProb {
			tail = append(tail, `,"return_logprob":true,"top_logprobs_num":1`...)
		}
		return []byte(`{"input_ids":[`), append(tail, '}')
	}
	head = append(appendString([]byte(`{"model":`), s.Model), `,"prompt":[`...)
	tail = appendTemperature([]byte(`],"max_tokens":1,"min_tokens":1,"ignore_eos":true`), s.Temperature)
	tail = strconv.AppendUint(append(tail, `,"seed":`...), c.seed, 10)
	switch {
	case s.wantsProb:
		tail = append(tail, `,"logprobs":1`...)
	case s.form == asTokenNames:
		tail = append(tail, `,"logprobs":0`...)
	}
	if s.form == asTokenNames {
		tail = append(tail, `,"return_tokens_as_token_ids":true`...)
	} else {
		tail = append(tail, `,"return_token_ids":true`...)
	}
	return head, append(tail, '}')
}
