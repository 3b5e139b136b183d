// Package sse reads server-sent events: the form in which servers of language
// models stream their answers.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrTooLong is the error of an event, or a line of one, beyond the limit.
var ErrTooLong = errors.New("an event is longer than the limit")

// Reader reads the data of one event after the other. Lines end in LF or CRLF,
// the space after a colon may be missing, comments and fields other than data
// are skipped. It keeps no more than one event, whatever comes.
type Reader struct {
	buf     *bufio.Reader
	limit   int
	data    []byte // of the event at hand
	long    []byte // a line that did not fit into buf
	started bool
}

// bufferBytes holds a dozen events of usual size, so that a burst costs one read.
const bufferBytes = 4096

// NewReader returns a reader that refuses events of more than limit bytes.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{buf: bufio.NewReaderSize(r, bufferBytes), limit: limit}
}

var (
	mark      = []byte("\xef\xbb\xbf")
	dataField = []byte("data")
)

// Next returns the data of the next event, lines of data joined by LF; it stays
// valid until the next call. An event ends at an empty line, and one without
// data is none. The error is io.EOF where the stream ends between events,
// io.ErrUnexpectedEOF where it ends inside one, ErrTooLong, or that of the
// reader below.
func (r *Reader) Next() ([]byte, error) {
	r.data = r.data[:0]
	lines := 0
	for {
		line, err := r.line()
		if err != nil {
			if errors.Is(err, io.EOF) && (len(line) > 0 || lines > 0) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if len(line) == 0 {
			if lines > 0 {
				return r.data, nil
			}
			continue
		}
		value, ok := dataOf(line)
		if !ok {
			continue
		}
		if len(r.data)+len(value) > r.limit {
			return nil, fmt.Errorf("%w of %d bytes", ErrTooLong, r.limit)
		}
		if lines > 0 {
			r.data = append(r.data, '\n')
		}
		r.data = append(r.data, value...)
		lines++
	}
}

// dataOf is the value of a data field. A line without a colon is a field whose
// value is empty; one that starts with it is a comment.
func dataOf(line []byte) (value []byte, ok bool) {
	rest, ok := bytes.CutPrefix(line, dataField)
	switch {
	case !ok:
		return nil, false
	case len(rest) == 0:
		return rest, true
	case rest[0] != ':':
		return nil, false
	}
	return bytes.TrimPrefix(rest[1:], []byte(" ")), true
}

// line returns the next line without its end, or what is left of one with the
// error that cut it.
func (r *Reader) line() ([]byte, error) {
	line, err := r.buf.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = r.longLine(line)
	}
	if !r.started && len(line) > 0 {
		r.started = true
		line = bytes.TrimPrefix(line, mark)
	}
	if err != nil {
		return line, err
	}
	line = line[:len(line)-1]
	return bytes.TrimSuffix(line, []byte("\r")), nil
}

// longLine gathers a line of which start has been read. It may be longer than
// the limit of an event by the name of its field and its end.
func (r *Reader) longLine(start []byte) ([]byte, error) {
	r.long = append(r.long[:0], start...)
	for {
		if len(r.long) > r.limit+bufferBytes {
			return nil, fmt.Errorf("%w of %d bytes", ErrTooLong, r.limit)
		}
		more, err := r.buf.ReadSlice('\n')
		r.long = append(r.long, more...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return r.long, err
		}
	}
}
