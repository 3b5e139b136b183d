package subserver

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// The event log is text. Its first line is a logHeader in JSON, from which the
// same cores can be made. Then each line is one thing at one core, whose model
// number it begins with:
//
//	0 + EVENT       the core stepped it
//	0 settle        it was settled
//	0 launch        it was asked to launch
//	0 > MESSAGE     the last of these calls returned it
//	0 = 7:0+12,9:4+1!
//	                the launch started a step: request 7 feeds 12 rows from
//	                position 0, request 9 one from position 4 and samples
//
// Events and messages are written as package scheduler prints them. The lines of
// one core are in order; those of different cores are not.
const (
	logName    = "tokenrouter events"
	logVersion = 1
)

// logHeader is what cores are made from.
type logHeader struct {
	Log         string
	Version     int
	Algorithm   string
	Params      algorithms.Params
	Models      []logModel
	Thresholds  [][]int
	QueueLimit  int
	NoReuse     bool
	Static      bool
	Reread      bool
	HoldContext int
}

type logModel struct {
	Name        string
	Here        bool // in the process that wrote this log
	MaxRunning  int
	ChunkTokens int
	KVTokens    int
	BlockTokens int
	Rule        string
	MaxDelayNs  int64 `json:",omitempty"`
}

// logRules are the rules that a log can name.
var logRules = map[string]func(m *logModel) scheduler.Rule{
	"eager":     func(*logModel) scheduler.Rule { return scheduler.Eager{} },
	"delayed":   func(m *logModel) scheduler.Rule { return scheduler.Delayed{MaxDelayNs: m.MaxDelayNs} },
	"alternate": func(*logModel) scheduler.Rule { return scheduler.Alternate{} },
	"lockstep":  func(*logModel) scheduler.Rule { return scheduler.Lockstep{} },
}

func (m *logModel) setRule(r scheduler.Rule) error {
	m.Rule = r.String()
	if d, ok := r.(scheduler.Delayed); ok {
		m.Rule, m.MaxDelayNs = "delayed", d.MaxDelayNs
	}
	if build := logRules[m.Rule]; build == nil || build(m) != r {
		return fmt.Errorf("a log cannot be kept: a replay cannot make the rule %v", r)
	}
	return nil
}

func newLogHeader(cfg *Config) (*logHeader, error) {
	h := &logHeader{Log: logName, Version: logVersion, Algorithm: cfg.Algorithm.Name(), Params: cfg.Params, Thresholds: cfg.Thresholds,
		QueueLimit: cfg.QueueLimit, NoReuse: cfg.NoReuse, Static: cfg.Static, Reread: cfg.Reread, HoldContext: cfg.HoldContext}
	again, err := algorithms.New(h.Algorithm, h.Params)
	if err != nil {
		return nil, fmt.Errorf("a log cannot be kept: a replay cannot make the algorithm from Params: %w", err)
	}
	if !reflect.DeepEqual(again, cfg.Algorithm) {
		return nil, fmt.Errorf("a log cannot be kept: Params make another %s than Algorithm is; set Params to what it was made from", h.Algorithm)
	}
	for i := range cfg.Models {
		m := &cfg.Models[i]
		l := logModel{Name: m.Name, Here: m.Engine != nil, MaxRunning: m.MaxRunning, ChunkTokens: m.ChunkTokens,
			KVTokens: m.KVTokens, BlockTokens: m.BlockTokens}
		if err := l.setRule(cfg.rule(i)); err != nil {
			return nil, err
		}
		h.Models = append(h.Models, l)
	}
	return h, nil
}

// eventLog writes what the cores tell it, in a goroutine of its own, so that no
// core waits for a disk.
type eventLog struct {
	chunks *mailbox[[]byte]
	held   atomic.Int64 // bytes in chunks
	limit  int64        // of held
	spare  sync.Pool
	ended  chan struct{}
	err    error // of the writer; read it after ended
	late   atomic.Bool
}

// logHeldLimit is how far the writer may lag behind. Beyond, the log ends: a
// core that waited for it would no longer be what it was measured as.
const logHeldLimit = 256 << 20

var errLogLate = errors.New("the event log could not be written as fast as it grew, and ends early")

func newEventLog(cfg *Config) (*eventLog, error) {
	h, err := newLogHeader(cfg)
	if err != nil {
		return nil, err
	}
	first, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("a log cannot be kept: %w", err)
	}
	l := &eventLog{chunks: newMailbox[[]byte](), ended: make(chan struct{}), limit: logHeldLimit}
	if cfg.hooks.logLimit > 0 {
		l.limit = cfg.hooks.logLimit
	}
	l.chunks.put(append(first, '\n'))
	go l.write(bufio.NewWriterSize(cfg.Log, 1<<16))
	return l, nil
}

func (l *eventLog) write(w *bufio.Writer) {
	defer close(l.ended)
	var spare [][]byte
	for {
		chunks, ok := l.chunks.take(spare)
		if !ok {
			return
		}
		for _, c := range chunks {
			l.held.Add(-int64(len(c)))
			if l.err == nil {
				_, l.err = w.Write(c)
			}
			l.spare.Put(&c)
		}
		if l.err == nil {
			l.err = w.Flush()
		}
		spare = chunks
	}
}

// close writes what is left.
func (l *eventLog) close() error {
	l.chunks.close()
	<-l.ended
	if l.err == nil && l.late.Load() {
		return fmt.Errorf("subserver: %w", errLogLate)
	}
	if l.err != nil {
		return fmt.Errorf("subserver: event log: %w", l.err)
	}
	return nil
}

// core is the log as one core writes it. A nil log writes nothing.
func (l *eventLog) core(model int) coreLog {
	return coreLog{log: l, prefix: append(strconv.AppendInt(nil, int64(model), 10), ' ')}
}

// coreLog gathers the lines of one turn.
type coreLog struct {
	log    *eventLog
	prefix []byte
	text   []byte
}

func (c *coreLog) call(name string) {
	if c.log != nil {
		c.text = append(append(append(c.text, c.prefix...), name...), '\n')
	}
}

func (c *coreLog) event(ev *scheduler.Event) {
	if c.log != nil {
		c.text = append(append(c.text, c.prefix...), '+', ' ')
		c.text, _ = ev.AppendText(c.text)
		c.text = append(c.text, '\n')
	}
}

func (c *coreLog) messages(out []scheduler.Message) {
	if c.log == nil {
		return
	}
	for i := range out {
		c.text = append(append(c.text, c.prefix...), '>', ' ')
		c.text, _ = out[i].AppendText(c.text)
		c.text = append(c.text, '\n')
	}
}

func (c *coreLog) launched(b *scheduler.Batch) {
	if c.log != nil {
		c.text = append(append(c.text, c.prefix...), '=', ' ')
		c.text = append(appendBatch(c.text, b), '\n')
	}
}

// appendBatch writes id:start+rows of each entry, with ! where it samples.
func appendBatch(text []byte, b *scheduler.Batch) []byte {
	for i := range b.Entries {
		e := &b.Entries[i]
		if i > 0 {
			text = append(text, ',')
		}
		text = append(strconv.AppendUint(text, uint64(e.ID), 10), ':')
		text = append(strconv.AppendInt(text, int64(e.Start), 10), '+')
		text = strconv.AppendInt(text, int64(len(e.Tokens)), 10)
		if e.Samples {
			text = append(text, '!')
		}
	}
	return text
}

// flush hands the lines over. Once the writer is too far behind nothing follows,
// so that what is there is the beginning of what happened.
func (c *coreLog) flush() {
	if c.log == nil || len(c.text) == 0 {
		return
	}
	if c.log.late.Load() || c.log.held.Add(int64(len(c.text))) > c.log.limit {
		c.log.late.Store(true)
		c.text = c.text[:0]
		return
	}
	c.log.chunks.put(c.text)
	c.text = nil
	if spare, ok := c.log.spare.Get().(*[]byte); ok {
		c.text = (*spare)[:0]
	}
}
