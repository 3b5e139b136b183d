package workload

import (
	"bufio"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Names of the columns of a trace, in this order. A file of lengths has the
// last two, or all three.
const (
	ColumnArrived = "arrived_at"         // seconds
	ColumnPrompt  = "num_prefill_tokens" // tokens of the prompt
	ColumnOutput  = "num_decode_tokens"  // tokens of the output
)

// Limits of a trace file: a request of more tokens is a slip, and so is a trace
// that fills the memory.
const (
	maxTraceTokens = 10_000_000
	maxTraceRows   = 50_000_000
	maxTraceS      = 3e9 // 95 years, so that times since 1970 may stand in it
)

// Trace is recorded load: a row for each request, in order of arrival, 16
// bytes each.
type Trace struct {
	ArrivedNs []int64 // after the first request, whose own is 0
	Prompt    []int32 // tokens
	Output    []int32 // tokens
	Digest    string  // of the file's bytes
}

// Len is the number of requests.
func (t *Trace) Len() int { return len(t.Prompt) }

// periodNs is how far the next playing of the trace is shifted: the mean gap
// after the last arrival, so that the rate stays.
func (t *Trace) periodNs() int64 {
	n := t.Len()
	last := t.ArrivedNs[n-1]
	if n < 2 {
		return last
	}
	return last + last/int64(n-1)
}

// Lengths are the lengths of the trace's requests, drawn in pairs.
func (t *Trace) Lengths() Lengths {
	return Lengths{Prompt: Empirical(t.Prompt), Output: Empirical(t.Output), Paired: true}
}

// FileError is what is wrong with a CSV file, and where.
type FileError struct {
	File   string
	Line   int    // counted from 1
	Column int    // byte in the line, counted from 1; 0: the whole line
	Field  string // name of the column; "" for the whole line
	Msg    string
	Hint   string
}

func (e *FileError) Error() string {
	s := fmt.Sprintf("%s:%d: ", e.File, e.Line)
	if e.Column > 0 {
		s = fmt.Sprintf("%s:%d:%d: ", e.File, e.Line, e.Column)
	}
	if e.Field != "" {
		s += e.Field + ": "
	}
	s += e.Msg
	if e.Hint != "" {
		s += "\n  fix: " + e.Hint
	}
	return s
}

// ReadTrace reads a trace: a header with the three columns, then a row for each
// request, in order of arrival. Lines that begin with # are skipped. Times count
// from that of the first row. file is how errors call it; a *FileError says
// what is wrong with the contents.
func ReadTrace(file string, r io.Reader) (*Trace, error) {
	t, err := readTable(file, r, []string{ColumnArrived, ColumnPrompt, ColumnOutput})
	if err != nil {
		return nil, err
	}
	first := t.ArrivedNs[0]
	for i := range t.ArrivedNs {
		t.ArrivedNs[i] -= first
	}
	return t, nil
}

// ReadLengths reads pairs of lengths: the columns of prompt and output tokens,
// or a trace, whose times it leaves out. Digest is that of the file's bytes.
func ReadLengths(file string, r io.Reader) (l Lengths, digest string, err error) {
	t, err := readTable(file, r, []string{ColumnPrompt, ColumnOutput}, []string{ColumnArrived, ColumnPrompt, ColumnOutput})
	if err != nil {
		return Lengths{}, "", err
	}
	return t.Lengths(), t.Digest, nil
}

// table reads the rows of one file.
type table struct {
	file    string
	csv     *csv.Reader
	columns []string
	trace   Trace

	headerLine int
	lastS      float64
}

func readTable(file string, r io.Reader, headers ...[]string) (*Trace, error) {
	digest := sha256.New()
	t := &table{file: file, csv: csv.NewReader(&withoutBOM{r: bufio.NewReader(io.TeeReader(r, digest))})}
	t.csv.ReuseRecord = true
	t.csv.Comment = '#'
	t.csv.FieldsPerRecord = -1
	if err := t.header(headers); err != nil {
		return nil, err
	}
	for {
		row, err := t.csv.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = t.row(row)
		}
		if err != nil {
			return nil, t.wrap(err)
		}
	}
	if t.trace.Len() == 0 {
		return nil, &FileError{File: file, Line: t.headerLine, Msg: "holds no request", Hint: "add a row for each request below the header"}
	}
	t.trace.Digest = sumOf(digest)
	return &t.trace, nil
}

func sumOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:16]) }

func (t *table) header(allowed [][]string) error {
	got, err := t.csv.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return t.wrap(err)
	}
	if len(got) > 0 {
		t.headerLine, _ = t.csv.FieldPos(0)
	}
	for _, names := range allowed {
		if slices.Equal(got, names) {
			t.columns = names
			return nil
		}
	}
	var options []string
	for _, names := range allowed {
		options = append(options, strings.Join(names, ","))
	}
	line, msg := 1, "has no header"
	if len(got) > 0 {
		line = t.headerLine
		msg = fmt.Sprintf("the header is %q", strings.Join(got, ","))
	}
	return &FileError{File: t.file, Line: line, Msg: msg, Hint: "the first line must be " + strings.Join(options, " or ")}
}

// wrap gives what the CSV reader complains of a place.
func (t *table) wrap(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return &FileError{File: t.file, Line: parse.Line, Column: parse.Column, Msg: "not CSV: " + parse.Err.Error()}
	}
	var ours *FileError
	if errors.As(err, &ours) {
		return err
	}
	return fmt.Errorf("read %s: %w", t.file, err)
}

func (t *table) row(row []string) error {
	if len(row) != len(t.columns) {
		line, _ := t.csv.FieldPos(0)
		return &FileError{File: t.file, Line: line, Msg: fmt.Sprintf("has %d fields, the header %d", len(row), len(t.columns))}
	}
	if t.trace.Len() >= maxTraceRows {
		line, _ := t.csv.FieldPos(0)
		return &FileError{File: t.file, Line: line, Msg: fmt.Sprintf("is more than the %d requests that a trace may have", maxTraceRows), Hint: "use repeat"}
	}
	for i, name := range t.columns {
		if name == ColumnArrived {
			if err := t.time(i, row[i]); err != nil {
				return err
			}
			continue
		}
		n, err := strconv.ParseInt(row[i], 10, 64)
		switch {
		case err != nil:
			return t.fail(i, fmt.Sprintf("must be a whole number of tokens, got %q", row[i]))
		case n < 1 || n > maxTraceTokens:
			return t.fail(i, fmt.Sprintf("must be from 1 to %d tokens, got %d", maxTraceTokens, n))
		case name == ColumnPrompt:
			t.trace.Prompt = append(t.trace.Prompt, int32(n))
		default:
			t.trace.Output = append(t.trace.Output, int32(n))
		}
	}
	return nil
}

func (t *table) time(i int, text string) error {
	s, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(s):
		return t.fail(i, fmt.Sprintf("must be a number of seconds, got %q", text))
	case !(s >= 0 && s <= maxTraceS):
		return t.fail(i, fmt.Sprintf("must be from 0 to %g seconds, got %s", maxTraceS, text))
	case s < t.lastS:
		return t.fail(i, fmt.Sprintf("%s comes after %g: requests must stand in order of arrival", text, t.lastS))
	}
	t.lastS = s
	t.trace.ArrivedNs = append(t.trace.ArrivedNs, int64(math.Round(s*1e9)))
	return nil
}

func (t *table) fail(i int, msg string) error {
	line, column := t.csv.FieldPos(i)
	return &FileError{File: t.file, Line: line, Column: column, Field: t.columns[i], Msg: msg}
}

// withoutBOM drops the mark that spreadsheets put before UTF-8.
type withoutBOM struct {
	r       *bufio.Reader
	started bool
}

func (w *withoutBOM) Read(p []byte) (int, error) {
	if !w.started {
		w.started = true
		if mark, err := w.r.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
			if _, err := w.r.Discard(3); err != nil {
				return 0, err
			}
		}
	}
	return w.r.Read(p)
}
