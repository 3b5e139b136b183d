package subserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Report is what a replay has done.
type Report struct {
	Models   []string // whose cores were replayed
	Lines    int      // of the log, as far as it was read
	Events   int64    // stepped
	Steps    int64    // that a core started
	Messages int64    // that came out as they were written
	Open     int      // requests that had not ended at the log's end
	EndNs    int64    // the latest time
}

// LogError is a log that cannot be replayed: it is damaged, cut off, or says
// what cannot have happened.
type LogError struct {
	Line    int
	Problem string
}

func (e *LogError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Problem) }

// Difference is the first line where a core does something else than it did.
type Difference struct {
	Line  int
	Model string
	Log   string // what the line says, "" if it says nothing
	Core  string // what the core does now, "" if nothing
}

func (d *Difference) Error() string {
	say := func(s, otherwise string) string {
		if s == "" {
			return otherwise
		}
		return s
	}
	return fmt.Sprintf("line %d: the core of %s differs\n  log:  %s\n  core: %s", d.Line, d.Model,
		say(d.Log, "(nothing)"), say(d.Core, "(nothing)"))
}

// Replay makes the cores of an event log anew, makes the same calls, and
// compares what comes out, without engines and clocks. The report tells how far
// it came; the error is a *Difference, a *LogError, or that of r.
func Replay(r io.Reader) (Report, error) {
	p := replay{in: bufio.NewReaderSize(r, 1<<16), came: map[scheduler.RequestID]bool{}}
	err := p.run()
	p.report.Lines = p.line
	return p.report, err
}

// replay is one run through a log.
type replay struct {
	in     *bufio.Reader
	line   int
	header logHeader
	cores  []*replayed // by model, nil where another process had it
	came   map[scheduler.RequestID]bool
	report Report
}

// replayed is a core, with what it said in its last call and the log has not
// told yet.
type replayed struct {
	core *scheduler.Core
	name string
	left [][]byte // messages, and the batch if one started
	text []byte
}

func (p *replay) bad(format string, args ...any) error {
	return &LogError{p.line, fmt.Sprintf(format, args...)}
}

// next reads a line without its end. A last line without one is cut off.
func (p *replay) next() ([]byte, error) {
	var whole []byte
	p.line++
	for {
		part, err := p.in.ReadSlice('\n')
		switch {
		case err == nil && whole == nil:
			return part[:len(part)-1], nil
		case err == nil:
			return append(whole, part[:len(part)-1]...), nil
		case errors.Is(err, bufio.ErrBufferFull):
			whole = append(whole, part...)
		case err == io.EOF && len(whole)+len(part) == 0:
			p.line--
			return nil, io.EOF
		case err == io.EOF:
			return nil, p.bad("the log is cut off in the middle of a line")
		default:
			return nil, err
		}
	}
}

func (p *replay) run() error {
	if err := p.begin(); err != nil {
		return err
	}
	for {
		text, err := p.next()
		if err == io.EOF {
			return p.end()
		}
		if err != nil {
			return err
		}
		if err := p.play(text); err != nil {
			return err
		}
	}
}

// begin makes the cores that the header describes.
func (p *replay) begin() error {
	text, err := p.next()
	if err == io.EOF {
		return &LogError{1, "the log is empty; want its header"}
	}
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	h := &p.header
	if err := dec.Decode(h); err != nil {
		return p.bad("this is no header of an event log: %v", err)
	}
	if h.Log != logName || h.Version != logVersion {
		return p.bad("this is %q of version %d, want %q of version %d", h.Log, h.Version, logName, logVersion)
	}
	cfg, err := h.config()
	if err != nil {
		return p.bad("%v", err)
	}
	for i := range h.Models {
		if !h.Models[i].Here {
			p.cores = append(p.cores, nil)
			continue
		}
		core, err := scheduler.New(coreConfig(cfg, i))
		if err != nil {
			return p.bad("%v", err)
		}
		p.cores = append(p.cores, &replayed{core: core, name: h.Models[i].Name})
		p.report.Models = append(p.report.Models, h.Models[i].Name)
	}
	return nil
}

// What a header may ask for: more than any system has, and little enough that a
// damaged log does not take a machine down.
const (
	logModelsLimit  = 32
	logRunningLimit = 1 << 16
	logBlocksLimit  = 1 << 22
)

func (h *logHeader) config() (*Config, error) {
	cfg := &Config{Params: h.Params, Thresholds: h.Thresholds, QueueLimit: h.QueueLimit,
		NoReuse: h.NoReuse, Static: h.Static, Reread: h.Reread, HoldContext: h.HoldContext}
	if len(h.Models) == 0 || len(h.Models) > logModelsLimit {
		return nil, fmt.Errorf("the header has %d models, want 1 to %d", len(h.Models), logModelsLimit)
	}
	for i := range h.Models {
		m := &h.Models[i]
		build := logRules[m.Rule]
		switch {
		case build == nil:
			return nil, fmt.Errorf("model %d: rule %q is none", i, m.Rule)
		case m.MaxRunning < 1 || m.MaxRunning > logRunningLimit:
			return nil, fmt.Errorf("model %d: MaxRunning is %d, want 1 to %d", i, m.MaxRunning, logRunningLimit)
		case m.BlockTokens < 1 || m.KVTokens < m.BlockTokens || m.KVTokens/m.BlockTokens > logBlocksLimit:
			return nil, fmt.Errorf("model %d: KVTokens is %d in blocks of %d, want 1 to %d blocks", i, m.KVTokens, m.BlockTokens, logBlocksLimit)
		}
		cfg.Models = append(cfg.Models, Model{Name: m.Name, MaxRunning: m.MaxRunning, ChunkTokens: m.ChunkTokens,
			KVTokens: m.KVTokens, BlockTokens: m.BlockTokens, Rule: build(m)})
	}
	var err error
	if h.Params.Models != len(h.Models) {
		return nil, fmt.Errorf("the header has %d models in Params and %d in Models", h.Params.Models, len(h.Models))
	}
	cfg.Algorithm, err = algorithms.New(h.Algorithm, h.Params)
	return cfg, err
}

// play takes one line in.
func (p *replay) play(text []byte) (err error) {
	model, rest, ok := bytes.Cut(text, []byte(" "))
	m := 0
	for _, c := range model {
		if c < '0' || c > '9' || m >= logModelsLimit {
			ok = false
			break
		}
		m = 10*m + int(c-'0')
	}
	if !ok || len(model) == 0 || m >= len(p.cores) || p.cores[m] == nil {
		return p.bad("%.40q does not begin with a model of this log", text)
	}
	c := p.cores[m]
	kind, body, _ := bytes.Cut(rest, []byte(" "))
	switch string(kind) {
	case ">", "=":
		return p.compare(c, rest)
	case "+", "settle", "launch":
		if len(c.left) > 0 {
			return &Difference{p.line, c.name, "", string(c.left[0])}
		}
		return p.call(c, string(kind), string(body))
	}
	return p.bad("%.40q is none of +, >, =, settle and launch", kind)
}

func (p *replay) compare(c *replayed, text []byte) error {
	if len(c.left) == 0 {
		return &Difference{p.line, c.name, string(text), ""}
	}
	if !bytes.Equal(c.left[0], text) {
		return &Difference{p.line, c.name, string(text), string(c.left[0])}
	}
	if text[0] == '>' {
		p.report.Messages++
	}
	c.left = c.left[1:]
	return nil
}

// call makes one call. A core panics at what its driver must not do: then the
// log is not of a driver.
func (p *replay) call(c *replayed, kind, body string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = p.bad("this cannot have happened: %v", r)
		}
	}()
	c.left, c.text = c.left[:0], c.text[:0]
	switch kind {
	case "+":
		ev, err := scheduler.ParseEvent(body)
		if err != nil {
			return p.bad("%v", err)
		}
		switch ev.Kind {
		case scheduler.Arrived:
			p.came[ev.Arrival.ID] = true
		case scheduler.PeerArrived:
			p.came[ev.Req.ID] = true
		}
		p.report.Events++
		p.report.EndNs = max(p.report.EndNs, ev.AtNs)
		c.hear(c.core.Step(&ev))
	case "settle":
		c.hear(c.core.Settle())
	case "launch":
		batch, out, ok := c.core.Launch()
		c.hear(out)
		if ok {
			p.report.Steps++
			c.add(func(b []byte) []byte { return appendBatch(append(b, "= "...), &batch) })
		}
	}
	return nil
}

func (c *replayed) hear(out []scheduler.Message) {
	for i := range out {
		c.add(func(b []byte) []byte {
			b, _ = out[i].AppendText(append(b, "> "...))
			return b
		})
	}
}

// add notes a line that the log must tell next.
func (c *replayed) add(line func([]byte) []byte) {
	start := len(c.text)
	c.text = line(c.text)
	c.left = append(c.left, c.text[start:])
}

// end checks that no core has said more than the log tells, and counts what is
// open.
func (p *replay) end() error {
	for _, c := range p.cores {
		if c != nil && len(c.left) > 0 {
			p.line++
			return p.bad("the log is cut off: it lacks what %s did next: %s", c.name, c.left[0])
		}
	}
	// order: requests are only counted.
	for id := range p.came {
		if slices.ContainsFunc(p.cores, func(c *replayed) bool { return c != nil && c.core.Knows(id) }) {
			p.report.Open++
		}
	}
	return nil
}
