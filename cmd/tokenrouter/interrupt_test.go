package main

import (
	"context"
	"io"
	"testing"
)

// An interrupt while weights are made up ends a verb, with the exit code of an
// interrupt: it is nobody's mistake.
func TestInterruptWhileWeightsAreMade(t *testing.T) {
	for _, args := range [][]string{
		{"generate", "--small", "toy:qwen3", "hi"},
		{"profile", "measure", "--model", "toy:qwen3"},
		{"doctor", "toy:qwen3"},
	} {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		started := false
		root := newRoot(&started)
		root.SetArgs(args)
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		if code := explain(io.Discard, root.ExecuteContext(ctx), started, "tokenrouter"); code != exitInterrupted {
			t.Errorf("%v: exit code %d, want %d", args, code, exitInterrupted)
		}
	}
}
