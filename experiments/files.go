package experiments

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// files reads what an experiment names, once for all its points.
type files struct {
	dir     string                 // of the experiment file
	fromSet func(path string) bool // whether a name came from the command line
	read    map[string]*readFile
}

// readFile is what became of one file in one use.
type readFile struct {
	trace   *workload.Trace
	lengths workload.Lengths
	prices  *Prices
	cpu     *CPUModel
	digest  string
	err     error
}

func (f *files) trace(path, name string, fail failFunc) *workload.Trace {
	r := f.load("trace", path, name, fail, func(r *readFile, full string, text io.Reader) {
		r.trace, r.err = workload.ReadTrace(full, text)
	})
	if r == nil {
		return nil
	}
	return r.trace
}

func (f *files) lengths(path, name string, fail failFunc) *readFile {
	return f.load("lengths", path, name, fail, func(r *readFile, full string, text io.Reader) {
		r.lengths, r.digest, r.err = workload.ReadLengths(full, text)
	})
}

// load reads a file for a use, or says what is wrong with it, in the file itself
// or at the key that names it, and returns nil.
func (f *files) load(use, path, name string, fail failFunc, parse func(r *readFile, full string, text io.Reader)) *readFile {
	full := f.full(path, name)
	r := f.once(use+" "+full, func() *readFile { return readOne(full, parse) })
	var inside *workload.FileError
	switch {
	case r.err == nil:
		return r
	case errors.As(r.err, &inside):
		fail(path, "", "%v", inside)
	default:
		fail(path, r.hint(), "%v", r.err)
	}
	return nil
}

// full is where a file is that the key at path names.
func (f *files) full(path, name string) string {
	if filepath.IsAbs(name) || f.fromSet(path) {
		return name
	}
	return filepath.Join(f.dir, name) // so that an experiment can be moved with its files
}

// once reads what goes by that key the first time only.
func (f *files) once(key string, read func() *readFile) *readFile {
	if f.read[key] == nil {
		f.read[key] = read()
	}
	return f.read[key]
}

// hint says where names lead, for a file that is not there.
func (r *readFile) hint() string {
	if !errors.Is(r.err, errNoFile) {
		return ""
	}
	return "the name is relative to the experiment file; on the command line, to the current folder"
}

// errNoFile tells what keeps a file from being opened from what is wrong in it.
var errNoFile = errors.New("cannot be used")

// mustBeFile refuses anything but a file, such as a pipe: it could not be read
// again to repeat a run.
func mustBeFile(name string) error {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return plainError("open", name, err)
	case !info.Mode().IsRegular():
		return noFile{fmt.Errorf("%s is not a file", name)}
	}
	return nil
}

// noFile is an errNoFile.
type noFile struct{ error }

func (e noFile) Is(target error) bool { return target == errNoFile }

func readOne(name string, parse func(r *readFile, full string, text io.Reader)) *readFile {
	if err := mustBeFile(name); err != nil {
		return &readFile{err: err}
	}
	file, err := os.Open(name)
	if err != nil {
		return &readFile{err: plainError("open", name, err)}
	}
	defer file.Close()
	r := &readFile{}
	parse(r, name, file)
	return r
}

// plainError leaves out the call that failed: "no such file" says enough.
func plainError(what, name string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return noFile{fmt.Errorf("cannot %s %s: %w", what, name, err)}
}
