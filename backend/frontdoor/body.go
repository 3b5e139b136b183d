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

// read takes the body in as a JSON object, has use look at it, and returns what
// is wrong with it.
func (d *Door) read(w http.ResponseWriter, r *http.Request, use func(*fields)) error {
	share := &share{reader: r.Body, held: &d.held, most: d.options.BodiesMax, free: freeBytes}
	defer share.giveBack()
	body, err := d.body(w, r, share)
	if err != nil {
		return err
	}
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
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		return nil, badRequest("", "the Content-Type is %s, want application/json", quote(r.Header.Get("Content-Type")))
	}
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(d.options.BodyWait))
	var body []byte
	var err error
	if r.ContentLength > d.options.BodyMax {
		err = &http.MaxBytesError{Limit: d.options.BodyMax}
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, share, d.options.BodyMax))
	}
	var large *http.MaxBytesError
	var network interface{ Timeout() bool }
	switch {
	case errors.As(err, &large):
		d.swallow(w, r)
		return nil, &Error{Status: http.StatusRequestEntityTooLarge, Message: "the body is larger than " + decimal(int(d.options.BodyMax)) + " bytes"}
	case errors.Is(err, errBodies):
		share.giveBack()
		d.swallow(w, r)
		return nil, errBodies
	case errors.As(err, &network) && network.Timeout():
		w.Header().Set("Connection", "close")
		return nil, &Error{Status: http.StatusRequestTimeout, Message: "the body did not come within " + d.options.BodyWait.String()}
	case err != nil:
		return nil, badRequest("", "the body cannot be read: %v", err)
	}
	// From here on the connection is watched for the client's leaving, which a
	// deadline would look like.
	control.SetReadDeadline(time.Time{})
	return body, nil
}

// swallow reads on in a body that is not taken, as long as that is bearable: most
// clients look for an answer only after they have sent all, and a connection
// that is closed under them looks broken.
func (d *Door) swallow(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
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
