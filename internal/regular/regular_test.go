//go:build linux || darwin

package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestOnlyWhatEndsIsRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("file"), []byte("text"), 0o600), syscall.Mkfifo(at("pipe"), 0o600),
		os.Symlink(at("file"), at("to-file")), os.Symlink("/dev/zero", at("to-zero"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "to-file"} {
		text, err := ReadFile(at(name))
		f, err2 := Open(at(name))
		if err != nil || err2 != nil || string(text) != "text" || f.Close() != nil {
			t.Errorf("%s: %q, %v, %v", name, text, err, err2)
		}
	}
	for _, name := range []string{"pipe", "to-zero"} {
		_, err := ReadFile(at(name))
		_, err2 := Open(at(name))
		if !errors.Is(err, ErrOther) || !errors.Is(err2, ErrOther) || !strings.Contains(err.Error(), at(name)) {
			t.Errorf("%s: %v, %v", name, err, err2)
		}
	}
	if _, err := ReadFile(at("none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// A shell hands <(command) over as a pipe whose other end is open.
func TestWhatTheShellOpenedIsRead(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = w.WriteString("text")
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadFile("/dev/fd/" + strconv.Itoa(int(r.Fd()))); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
}
