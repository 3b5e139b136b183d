package experiments

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var someRecords = map[string]Record{
	"a": {Status: StatusOK, Values: []float64{1.0 / 3, math.NaN(), -0.1, 5e-324, 1e308},
		Warnings: []Warning{{"large", 1.0 / 3, "of steps \"late\""}}},
	"b": {Status: StatusNotApplicable, Reason: "line\nbreak \"quoted\""},
}

func openTestStore(t *testing.T, out string) *store {
	t.Helper()
	s, err := openStore(out, "x", "build", 5, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.file.Close() })
	return s
}

func TestStoreGivesBackWhatItTook(t *testing.T) {
	out := t.TempDir()
	s := openTestStore(t, out)
	for key, r := range someRecords {
		if err := s.add(key, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.add("c", Record{Status: StatusError, Reason: "broke"}); err != nil {
		t.Fatal(err)
	}
	again := openTestStore(t, out)
	if diff := cmp.Diff(someRecords, again.done, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("(-took +gave):\n%s", diff)
	}
}

// A crash may leave any beginning of the file. What is whole is kept, and what
// the next run adds can be read again.
func TestStoreAfterACrashAtAnyByte(t *testing.T) {
	out := t.TempDir()
	s := openTestStore(t, out)
	for _, key := range []string{"a", "b"} {
		if err := s.add(key, someRecords[key]); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(out, finishedFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(text) + 1 {
		if err := os.WriteFile(path, text[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		want := max(bytes.Count(text[:n], []byte("\n"))-1, 0)
		s := openTestStore(t, out)
		if len(s.done) != want {
			t.Fatalf("cut after byte %d: %d records, want %d", n, len(s.done), want)
		}
		if err := s.add("new", someRecords["a"]); err != nil {
			t.Fatal(err)
		}
		if again := openTestStore(t, out); len(again.done) != want+1 || again.done["new"].Status != StatusOK {
			t.Fatalf("cut after byte %d: %d records after one more, want %d", n, len(again.done), want+1)
		}
	}
}

// Files that no run wrote are not replaced.
func TestFolderOfOthers(t *testing.T) {
	plan := load(t, small)
	run := func(out string) error {
		_, err := Run(t.Context(), plan, Options{Evaluate: pretend, Out: out})
		return err
	}
	for _, name := range []string{ResultsCSV, "notes.txt", finishedFile} {
		out := t.TempDir()
		writeFile(t, filepath.Join(out, name), "precious\n")
		var occupied *OccupiedError
		if err := run(out); !errors.As(err, &occupied) || occupied.File != name || !strings.Contains(err.Error(), "fix: choose another folder") {
			t.Errorf("beside %s: %v", name, err)
		}
		if text, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(text) != "precious\n" {
			t.Errorf("%s is %q now, %v", name, text, err)
		}
	}
	// A folder may be there, with others and with files that hide in it; and what
	// a run left, at whatever point it stopped, is its own.
	for _, names := range [][]string{{}, {".DS_Store", "other/results.csv"}, {RunLog}, {RunLog, ResultsCSV}} {
		out := t.TempDir()
		for _, name := range names {
			writeFile(t, filepath.Join(out, name), "")
		}
		for range 2 {
			if err := run(out); err != nil {
				t.Errorf("beside %v: %v", names, err)
			}
		}
	}
}

// What cannot be written is named as it would be called, and a full disk as what
// to mend.
func TestReplaceFileSaysWhatItCouldNotWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "results.csv")
	if err := ReplaceFile(path, nil); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), ".new-") || !strings.HasPrefix(err.Error(), "write "+path+": ") {
		t.Errorf("no folder: %v", err)
	}
	full := &fs.PathError{Op: "write", Path: "/x/.new-1", Err: syscall.ENOSPC}
	if err := notWritten(path, errors.Join(full, nil)); !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), ".new-") || !strings.Contains(err.Error(), "fix: free some space") {
		t.Errorf("a full disk: %v", err)
	}
}

func FuzzStore(f *testing.F) {
	const head = `{"format":1,"experiment":"x","build":"build"}` + "\n"
	f.Add([]byte(head))
	f.Add([]byte(head + `{"key":"a","status":"ok","values":[1,null,3,4,5]}` + "\n" + `{"key":"b","status":"not applicable","reason":"r"}` + "\n{"))
	f.Add([]byte(head + `{"key":"a","status":"ok","values":[1]}` + "\n"))
	f.Add([]byte(strings.Replace(head, `"x"`, `"y"`, 1)))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := &store{path: "x", head: storeHead{formatVersion, "x", "build"}, size: 5, done: map[string]Record{}}
		whole, err := s.take(text)
		if whole < 0 || whole > len(text) || err != nil && whole != 0 {
			t.Fatalf("%d of %d bytes whole, error %v", whole, len(text), err)
		}
		for key, r := range s.done {
			if key == "" || r.Status == StatusOK && len(r.Values) != 5 || r.Status == StatusError {
				t.Fatalf("took over %q: %+v", key, r)
			}
		}
	})
}
