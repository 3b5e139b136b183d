package sse

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// all reads a stream to its end.
func all(r io.Reader, limit int) (events []string, err error) {
	reader := NewReader(r, limit)
	for {
		data, err := reader.Next()
		if err != nil {
			return events, err
		}
		events = append(events, string(data))
	}
}

func TestEvents(t *testing.T) {
	long := strings.Repeat("x", 3*bufferBytes)
	for _, c := range []struct {
		name, stream string
		want         []string
		err          error
	}{
		{"none", "", nil, io.EOF},
		{"two", "data: a\n\ndata: b\n\n", []string{"a", "b"}, io.EOF},
		{"windows", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}, io.EOF},
		{"no space", "data:a\n\ndata: \n\ndata:  b\n\n", []string{"a", "", " b"}, io.EOF},
		{"comments", ": ping\n\n:\n\ndata: a\n: in between\n\n", []string{"a"}, io.EOF},
		{"other fields", "event: x\nid: 7\nretry: 10\ndata: a\nnothing\n\nevent: y\n\n", []string{"a"}, io.EOF},
		{"several lines", "data: a\ndata\ndata: b\n\n", []string{"a\n\nb"}, io.EOF},
		{"like data", "database: a\n\ndata : b\n\ndata: c\n\n", []string{"c"}, io.EOF},
		{"many empty lines", "\n\n\ndata: a\n\n\n\n", []string{"a"}, io.EOF},
		{"mark", "\xef\xbb\xbfdata: a\n\n", []string{"a"}, io.EOF},
		{"cut in a line", "data: a\n\ndata: b", []string{"a"}, io.ErrUnexpectedEOF},
		{"cut before the empty line", "data: a\n\ndata: b\n", []string{"a"}, io.ErrUnexpectedEOF},
		{"cut after a comment", "data: a\n\n: b\n", []string{"a"}, io.EOF},
		{"beyond the buffer", "data: " + long + "\n\ndata: a\n\n", []string{long, "a"}, io.EOF},
		{"too long", "data: a\n\ndata: " + strings.Repeat("x", 5*bufferBytes) + "\n\n", []string{"a"}, ErrTooLong},
		{"too long by lines", strings.Repeat("data: "+long[:bufferBytes]+"\n", 5), nil, ErrTooLong},
		{"an endless comment", ":" + strings.Repeat("x", 9*bufferBytes), nil, ErrTooLong},
	} {
		for _, r := range []io.Reader{strings.NewReader(c.stream), iotest.OneByteReader(strings.NewReader(c.stream)), iotest.DataErrReader(strings.NewReader(c.stream))} {
			got, err := all(r, 4*bufferBytes)
			if !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
				t.Errorf("%s: %q, %v; want %q, %v", c.name, got, err, c.want, c.err)
			}
		}
	}
}

func TestReaderBelowFails(t *testing.T) {
	fire := errors.New("cable on fire")
	got, err := all(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(fire)), 100)
	if !slices.Equal(got, []string{"a"}) || !errors.Is(err, fire) {
		t.Errorf("%q, %v", got, err)
	}
}

// twin is the same by strings, for streams within the limit.
func twin(stream string) (events []string, err error) {
	stream = strings.TrimPrefix(stream, "\xef\xbb\xbf")
	var data []string
	for {
		line, rest, ended := strings.Cut(stream, "\n")
		if !ended {
			if line != "" || data != nil {
				return events, io.ErrUnexpectedEOF
			}
			return events, io.EOF
		}
		stream = rest
		line = strings.TrimSuffix(line, "\r")
		name, value, _ := strings.Cut(line, ":")
		switch {
		case line == "":
			if data != nil {
				events = append(events, strings.Join(data, "\n"))
			}
			data = nil
		case name == "data":
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
}

// However a stream is cut into reads, the events are those of the plain twin.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"", "data: a\n\n", "data:a\r\n\r\n: x\n\ndata\ndata: b\n\n", "\xef\xbb\xbfdata: x\n", "event: e\ndata: {\"a\":1}\n\ndata: [DONE]\n\n", "\r\n\r\ndata: \r\r\n\n"} {
		f.Add(s, uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream string, step uint8) {
		want, wantErr := twin(stream)
		for _, r := range []io.Reader{strings.NewReader(stream), &steps{strings.NewReader(stream), int(step)%7 + 1}} {
			got, err := all(r, 1<<20)
			if !slices.Equal(got, want) || !errors.Is(err, wantErr) {
				t.Fatalf("%q: %q, %v; want %q, %v", stream, got, err, want, wantErr)
			}
		}
		if _, err := all(strings.NewReader(stream), 5); err == nil {
			t.Fatal("no error at the end")
		}
	})
}

// steps reads at most n bytes at a time.
type steps struct {
	r io.Reader
	n int
}

func (s *steps) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }

func BenchmarkReader(b *testing.B) {
	event := `data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":" word","finish_reason":null,"token_ids":[17]}]}` + "\n\n"
	stream := strings.Repeat(event, 1000)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		if got, _ := all(strings.NewReader(stream), 1<<20); len(got) != 1000 {
			b.Fatal(len(got))
		}
	}
}
