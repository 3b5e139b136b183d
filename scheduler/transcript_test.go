package scheduler_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata with what the cores say now")

// TestTranscripts plays testdata/*.txt. A line that begins with > is a command
// of system, # a comment; the other lines are what the cores said to the
// command above. After a change that means to change them, go test -rewrite and
// read the difference.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("%s (-recorded +now)\n%s", file, diff)
			}
		})
	}
}

// play returns the transcript as it is now. Each system is also replayed from
// the text of its events alone, as a log of a real run would be.
func play(t *testing.T, text string) string {
	var out []string
	var systems []*system
	var s *system
	line := 0
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("line %d: %v\n%s", line, r, strings.Join(out, "\n"))
		}
	}()
	for _, l := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		line++
		command, ok := strings.CutPrefix(l, "> ")
		switch {
		case ok && strings.HasPrefix(command, "system"):
			out = append(out, l)
			_, o := split(strings.Fields(command))
			s = newSystem(o)
			systems = append(systems, s)
		case ok:
			out = append(out, l)
			for _, said := range s.run(command) {
				out = append(out, "  "+said)
			}
		case l == "" || strings.HasPrefix(l, "#"):
			out = append(out, l)
		}
	}
	for i, s := range systems {
		if err := s.replay(); err != nil {
			t.Errorf("system %d, replayed: %v", i+1, err)
		}
	}
	return fmt.Sprintln(strings.Join(out, "\n"))
}
