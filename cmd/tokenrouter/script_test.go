package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tokenrouter/tokenrouter/experiments/engines"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tokenrouter": main})
}

// TestScripts runs the program as users do. The scripts have seven commands
// beside the usual ones:
//
//	exits CODE COMMAND…    run, and want that exit code
//	bad OLD NEW PATTERN    run every.toml with line OLD replaced, and want exit
//	                       code 2 and a first line of errors that matches
//	same FILE FILE         want two files of equal bytes
//	interrupt DIR COMMAND… send an interrupt once DIR holds a finished cell, and
//	                       want exit code 130
//	interruptoutput COMMAND…  the same, once it has printed something
//	savetoy FAMILY DIR     save a toy model as a folder
//	replayall DIR N        want N event logs in DIR that replay
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"bad":       bad,
			"same":      same,
			"interrupt": interrupt, "interruptoutput": interruptOutput, "savetoy": saveToy, "replayall": replayAll,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	wantCode(ts, want, ts.Exec(args[1], args[2:]...))
}

func wantCode(ts *testscript.TestScript, want int, err error) {
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func bad(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: bad OLD NEW PATTERN")
	}
	text := ts.ReadFile("every.toml")
	if strings.Count("\n"+text, "\n"+args[0]+"\n") != 1 {
		ts.Fatalf("every.toml has not one line %q", args[0])
	}
	spoilt := strings.Replace("\n"+text, "\n"+args[0]+"\n", "\n"+args[1]+"\n", 1)[1:]
	ts.Check(os.WriteFile(ts.MkAbs("bad.toml"), []byte(spoilt), 0o666))
	wantCode(ts, exitUsage, ts.Exec("tokenrouter", "run", "bad.toml"))
	first, _, _ := strings.Cut(ts.ReadFile("stderr"), "\n")
	if !strings.HasPrefix(first, args[2]) {
		ts.Fatalf("%s:\ngot  %s\nwant %s", args[1], first, args[2])
	}
}

func same(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: same FILE FILE")
	}
	if (ts.ReadFile(args[0]) == ts.ReadFile(args[1])) == neg {
		ts.Fatalf("%s and %s: equal bytes is %t", args[0], args[1], !neg)
	}
}

func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupt DIR COMMAND…")
	}
	path, err := exec.LookPath(args[1])
	ts.Check(err)
	cmd := exec.Command(path, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Stdout, cmd.Stderr = ts.Stdout(), ts.Stderr()
	ts.Check(cmd.Start())
	finished := filepath.Join(ts.MkAbs(args[0]), "finished.jsonl")
	for {
		text, _ := os.ReadFile(finished)
		if strings.Count(string(text), "\n") >= 2 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	ts.Check(cmd.Process.Signal(os.Interrupt))
	wantCode(ts, exitInterrupted, cmd.Wait())
}

func interruptOutput(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: interruptoutput COMMAND…")
	}
	path, err := exec.LookPath(args[0])
	ts.Check(err)
	cmd := exec.Command(path, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	var errs strings.Builder
	cmd.Stderr = &errs
	ts.Check(cmd.Start())
	_, err = out.Read(make([]byte, 1))
	ts.Check(err)
	ts.Check(cmd.Process.Signal(os.Interrupt))
	_, err = io.Copy(io.Discard, out)
	ts.Check(err)
	wantCode(ts, exitInterrupted, cmd.Wait())
	_, err = io.WriteString(ts.Stderr(), errs.String())
	ts.Check(err)
}

func saveToy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: savetoy FAMILY DIR")
	}
	w, err := engines.Open(context.Background(), "toy:"+args[0])
	ts.Check(err)
	ts.Check(w.Save(ts.MkAbs(args[1])))
	ts.Check(w.Close())
}

func replayAll(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: replayall DIR N")
	}
	logs, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "*.log"))
	ts.Check(err)
	if strconv.Itoa(len(logs)) != args[1] {
		ts.Fatalf("%d logs, want %s: %v", len(logs), args[1], logs)
	}
	for _, log := range logs {
		ts.Check(ts.Exec("tokenrouter", "replay", log))
	}
}
