package experiments

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Names of the files in a run's folder.
const (
	ResultsCSV   = "results.csv"
	ResultsJSONL = "results.jsonl"
	RunLog       = "run.log"
	// finishedFile holds the evaluations that are done, so that a run that was
	// interrupted goes on where it stopped.
	finishedFile = "finished.jsonl"
)

// store is the list of finished evaluations in a run's folder. While a run
// goes on a line is added for each; a crash can tear the last line only, which
// is then cut off. Lines are found by Cell.Key: when the experiment file has
// changed, the cells that it changes are run again and no others.
type store struct {
	path string
	head storeHead
	size int // figures of a record
	// otherSize is that of a record of the same experiment with places in real
	// time where this has none, or without.
	otherSize int
	file      *os.File
	done      map[string]Record
}

// storeHead is the first line: to whom the others belong.
type storeHead struct {
	Format     int    `json:"format"`
	Experiment string `json:"experiment"`
	Build      string `json:"build"`
}

type storeLine struct {
	Key    string     `json:"key"`
	Status Status     `json:"status"`
	Reason string     `json:"reason,omitempty"`
	Values []*float64 `json:"values,omitempty"`

	Warnings []Warning `json:"warnings,omitempty"`
}

// OccupiedError says that a folder holds results of another experiment, or files
// that are not ours to replace: then File names one.
type OccupiedError struct{ Folder, Holds, Wanted, File string }

func (e *OccupiedError) Error() string {
	if e.File != "" {
		return fmt.Sprintf("%s holds %s, which no experiment wrote: it is not replaced\n  fix: choose another folder with --out, or move it away", e.Folder, e.File)
	}
	return fmt.Sprintf("%s holds results of the experiment %q, not of %q\n  fix: choose another folder with --out", e.Folder, e.Holds, e.Wanted)
}

// BusyError says that another run writes to a folder.
type BusyError struct{ Folder string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("another run is writing to %s\n  fix: wait for its end, or choose another folder with --out", e.Folder)
}

// mustBeOurs refuses a folder that holds files and none by which a run knows its
// own: whatever has the name of one that it writes would be lost.
func mustBeOurs(out string) error {
	all, err := os.ReadDir(out)
	if err != nil {
		return fmt.Errorf("read the folder for results: %w", err)
	}
	var other string
	for _, entry := range all {
		name := entry.Name()
		switch {
		case name == finishedFile || name == RunLog: // the first that a run makes
			return nil
		case other == "" && !entry.IsDir() && !strings.HasPrefix(name, "."):
			other = name
		}
	}
	if other != "" {
		return &OccupiedError{Folder: out, File: other}
	}
	return nil
}

// openStore reads what an earlier run left in folder out. Evaluations by another
// build of the program are not taken over.
func openStore(out, experiment, build string, figures, otherFigures int) (*store, error) {
	s := &store{
		path: filepath.Join(out, finishedFile),
		head: storeHead{formatVersion, experiment, build},
		size: figures, otherSize: otherFigures,
		done: map[string]Record{},
	}
	old, err := os.ReadFile(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read finished cells: %w", err)
	}
	whole, err := s.take(old)
	if err != nil {
		return nil, err
	}
	s.file, err = os.OpenFile(s.path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open finished cells: %w", err)
	}
	if err := s.rewind(whole); err != nil {
		s.file.Close()
		return nil, fmt.Errorf("write finished cells: %w", err)
	}
	return s, nil
}

// take reads the lines of an earlier run and returns the length of those that
// are whole; 0 if they are of no use.
func (s *store) take(old []byte) (whole int, err error) {
	first, rest, found := bytes.Cut(old, []byte("\n"))
	var head storeHead
	switch begin := []byte(`{"format":`); {
	case !bytes.HasPrefix(old, begin) && !bytes.HasPrefix(begin, old): // a torn first line is ours
		return 0, &OccupiedError{Folder: filepath.Dir(s.path), File: finishedFile}
	case !found || json.Unmarshal(first, &head) != nil:
		return 0, nil
	}
	if head.Experiment != s.head.Experiment {
		return 0, &OccupiedError{Folder: filepath.Dir(s.path), Holds: head.Experiment, Wanted: s.head.Experiment}
	}
	if head != s.head {
		return 0, nil
	}
	whole = len(first) + 1
	for len(rest) > 0 {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		var l storeLine
		if !found || json.Unmarshal(line, &l) != nil || !l.whole(s.size, s.otherSize) {
			break
		}
		s.done[l.Key] = l.record(s.size)
		whole += len(line) + 1
		rest = after
	}
	return whole, nil
}

// whole reports whether the line holds what add writes. The figures of places in
// real time come last, so a plan that gains or loses such places keeps the rest.
func (l *storeLine) whole(figures, otherFigures int) bool {
	switch l.Status {
	case StatusOK:
		return l.Key != "" && (len(l.Values) == figures || len(l.Values) == otherFigures)
	case StatusNotApplicable:
		return l.Key != "" && len(l.Values) == 0
	}
	return false
}

func (s *store) rewind(whole int) error {
	if err := s.file.Truncate(int64(whole)); err != nil {
		return err
	}
	if _, err := s.file.Seek(int64(whole), 0); err != nil {
		return err
	}
	if whole > 0 {
		return nil
	}
	return s.line(s.head)
}

func (s *store) line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = s.file.Write(append(text, '\n'))
	return err
}

// add keeps the record of a finished evaluation. One that broke is not kept:
// the next run tries it again.
func (s *store) add(key string, r Record) error {
	if r.Status == StatusError {
		return nil
	}
	if err := s.line(newStoreLine(key, r)); err != nil {
		return fmt.Errorf("write finished cells: %w", err)
	}
	return nil
}

// finish writes the evaluations of the plan anew, in its order, so that equal
// runs leave equal bytes.
func (s *store) finish(keys []string, records map[string]Record) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	if err := enc.Encode(s.head); err != nil {
		return err
	}
	for _, key := range keys {
		if r := records[key]; r.Status != StatusError {
			if err := enc.Encode(newStoreLine(key, r)); err != nil {
				return err
			}
		}
	}
	if err := s.close(); err != nil {
		return err
	}
	return ReplaceFile(s.path, buf.Bytes())
}

func (s *store) close() error {
	return errors.Join(s.file.Sync(), s.file.Close())
}

func newStoreLine(key string, r Record) storeLine {
	l := storeLine{Key: key, Status: r.Status, Reason: r.Reason, Warnings: r.Warnings}
	for _, x := range r.Values {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			l.Values = append(l.Values, nil)
		} else {
			l.Values = append(l.Values, &x)
		}
	}
	return l
}

// record is the line's record with that many figures, unless it has none.
func (l storeLine) record(figures int) Record {
	r := Record{Status: l.Status, Reason: l.Reason, Warnings: l.Warnings}
	if l.Status != StatusOK {
		return r
	}
	for i := range figures {
		if i >= len(l.Values) || l.Values[i] == nil {
			r.Values = append(r.Values, math.NaN())
		} else {
			r.Values = append(r.Values, *l.Values[i])
		}
	}
	return r
}

// ReplaceFile writes a file whole or not at all.
func ReplaceFile(path string, text []byte) error {
	if err := replaceFile(path, text); err != nil {
		return notWritten(path, err)
	}
	return nil
}

// notWritten says which file could not be written, and what to do about a disk
// that is full.
func notWritten(path string, err error) error {
	fix := ""
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		fix = "\n  fix: free some space, or name a folder on another disk"
	}
	return fmt.Errorf("write %s: %w%s", path, plainCause(err), fix)
}

// plainCause leaves out the temporary name that a failed call was given.
func plainCause(err error) error {
	var at *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &at):
		return at.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
