package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
)

// A log that was put away compressed says how to get it back.
func TestReplayTellsOfGzip(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := io.WriteString(w, "{\"Log\":\"tokenrouter events\"}\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	code := program([]string{"replay", "-"}, &packed, &out, &errs)
	if want := "fix: gzip -dc LOG | tokenrouter replay -"; code != exitUsage || !strings.Contains(errs.String(), want) {
		t.Errorf("exit code %d: %s, want %q", code, errs.String(), want)
	}
}
