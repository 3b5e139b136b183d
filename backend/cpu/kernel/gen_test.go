package kernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestLongGeneratedFilesAreCurrent runs the generator again. The first lines name
// the command and differ.
func TestLongGeneratedFilesAreCurrent(t *testing.T) {
	if os.Getenv("LONG") == "" && os.Getenv("CI") == "" {
		t.Skip("builds the generator, which takes half a minute at first: LONG=1 does")
	}
	run := func(args ...string) ([]byte, error) {
		c := exec.Command("go", append([]string{"-C", "gen"}, args...)...)
		c.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOOS=", "GOARCH=")
		return c.CombinedOutput()
	}
	if out, err := run("mod", "download"); err != nil {
		t.Skipf("the generator's modules can't be had here: %v\n%s", err, out)
	}
	dir := t.TempDir()
	code, stubs := filepath.Join(dir, "kernel_amd64.s"), filepath.Join(dir, "kernel_amd64.go")
	if out, err := run("run", ".", "-out", code, "-stubs", stubs, "-pkg", "kernel"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, fresh := range []string{code, stubs} {
		committed := filepath.Base(fresh)
		if !bytes.Equal(body(t, fresh), body(t, committed)) {
			t.Errorf("%s is not what gen writes: run go generate ./backend/cpu/kernel", committed)
		}
	}
}

func body(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(text, []byte("\n"))
	return rest
}
