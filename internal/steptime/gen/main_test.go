package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// What is committed is what go generate writes, no file more or less.
func TestCommitted(t *testing.T) {
	want, err := kernels()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../kernels_a100.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("kernels_a100.go is not what gen writes; run go generate ./internal/steptime")
	}
	all, err := profiles()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range all {
		if names[f.name] {
			t.Errorf("%s is written twice", f.name)
		}
		names[f.name] = true
		got, err := os.ReadFile(filepath.Join("..", "profiles", filepath.FromSlash(f.name)+".toml"))
		if err != nil || !bytes.Equal(got, f.text) {
			t.Errorf("%s is not what gen writes (%v); run go generate ./internal/steptime", f.name, err)
		}
	}
	err = filepath.WalkDir("../profiles", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel("../profiles", path)
		if name = filepath.ToSlash(name[:len(name)-len(".toml")]); !names[name] {
			t.Errorf("%s is not among what gen writes; remove it or add it there", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestUsage(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"profile"}, &out); err == nil || out.Len() > 0 {
		t.Errorf("a wrong word: %v, %q", err, out.String())
	}
}
