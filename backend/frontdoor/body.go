package frontdoor

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// bulky is the size in bytes from which on bodies are read one after the other:
// text takes many times its size while it becomes tokens.
const bulky = 1 << 20

// freeBytes of each body do not count against Options.BodiesMax: questions of
// usual size get in while large ones fill the memory that bodies may have. How
// many connections there can be bounds their sum.
const freeBytes = 64 << 10

// read takes the body in as a JSON object and has use look at it. It answers if
// anything is wrong, and returns whether nothing is.
func (d *Door) read(w http.ResponseWriter, r *http.Request, use func(*fields)) (ok bool) {
	share := &share{reader: r.Body, held: &d.held, most: d.options.BodiesMax, free: freeBytes}
	defer share.giveBack()
	body, err := d.body(w, r, share)
	if err != nil {
		share.giveBack()
		d.refuse(w, r, err)
		return false
	}
	if err := d.understand(r, body, use); err != nil {
		writeError(w, err)
		return false
	}
	return true
}

// understand has use look at a body that is there.
func (d *Door) understand(r *http.Request, body []byte, use func(*fields)) error {
	if len(body) >= bulky {
		select {
		case d.bulk <- struct{}{}:
			defer func() { <-d.bulk }()
		case <-r.Context().Done():
			return errGone
		}
	}
	f, err := readFields(body)
	if err != nil {
		return err
	}
	use(f)
	return f.problem()
}

// body takes in all bytes of the body.
func (d *Door) body(w http.ResponseWriter, r *http.Request, share *share) ([]byte, error) {
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(d.options.BodyWait))
	if err := d.checkHeader(r); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, share, d.options.BodyMax))
	var large *http.MaxBytesError
	var network interface{ Timeout() bool }
	switch {
	case errors.As(err, &large):
		return nil, d.tooLarge()
	case errors.Is(err, errBodies):
		return nil, errBodies
	case errors.As(err, &network) && network.Timeout():
		return nil, &Error{Status: http.StatusRequestTimeout, Message: "the body did not come within " + d.options.BodyWait.String()}
	case err != nil:
		return nil, badRequest("", "the body cannot be read: %v", err)
	}
	// From here on the connection is watched for the client's leaving, which a
	// deadline would look like.
	control.SetReadDeadline(time.Time{})
	return body, nil
}

// checkHeader says what is wrong with a body that has not come yet.
func (d *Door) checkHeader(r *http.Request) error {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	coding := strings.Join(r.Header.Values("Content-Encoding"), ", ")
	switch {
	case !strings.EqualFold(strings.TrimSpace(kind), "application/json"):
		return badRequest("", "the Content-Type is %s, want application/json", quote(r.Header.Get("Content-Type")))
	case coding != "" && !strings.EqualFold(coding, "identity"):
		return &Error{Status: http.StatusUnsupportedMediaType, Message: "the Content-Encoding is " + quote(coding) + ": send the body as it is, and leave the header out"}
	case r.ContentLength > d.options.BodyMax:
		return d.tooLarge()
	}
	return nil
}

func (d *Door) tooLarge() error {
	return &Error{Status: http.StatusRequestEntityTooLarge, Message: "the body is larger than " + decimal(int(d.options.BodyMax)) + " bytes"}
}

// refuse tells the error about a body that was not read to its end, and then
// reads on as long as that is bearable: most clients look for an answer only
// after they have sent all, and a connection that is closed under them looks
// broken. Others send nothing before they know that it is wanted.
func (d *Door) refuse(w http.ResponseWriter, r *http.Request, err error) {
	control := http.NewResponseController(w)
	control.EnableFullDuplex() // or the server itself would read on before it answers
	w.Header().Set("Connection", "close")
	writeError(w, err)
	control.Flush()
	io.Copy(io.Discard, io.LimitReader(r.Body, swallowMax*d.options.BodyMax))
}

const swallowMax = 32 // bodies

// errBodies is for a body that goes beyond what all may hold.
var errBodies = unavailable("too many large requests are being sent at once")

// share reads a body, and counts its bytes in what all bodies hold until they are
// given back. It waits for nothing, or bodies that are half there could wait for
// each other: one that goes beyond the limit ends, and its bytes are free at once.
type share struct {
	reader io.ReadCloser
	held   *atomic.Int64
	most   int64
	free   int64 // bytes that still do not count
	own    int64 // bytes that do
}

func (s *share) Read(b []byte) (int, error) {
	n, err := s.reader.Read(b)
	free := min(int64(n), s.free)
	s.free -= free
	counted := int64(n) - free
	s.own += counted
	if s.held.Add(counted) > s.most && counted > 0 {
		return n, errBodies
	}
	return n, err
}

func (s *share) Close() error { return s.reader.Close() }

func (s *share) giveBack() {
	s.held.Add(-s.own)
	s.own = 0
}
