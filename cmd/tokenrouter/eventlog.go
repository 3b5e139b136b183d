package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/experiments"
)

// logFlag says what --log writes.
const logFlag = "new `file` for an event log, which tokenrouter replay checks"

// logsFlag says what --log writes where systems are measured one after the other.
const logsFlag = "`folder` for an event log of each cell that is measured; see tokenrouter replay"

// evaluateWithLogs is how to run a plan's cells; "" leaves them without logs.
func evaluateWithLogs(folder string, plan *experiments.Plan) (func(context.Context, experiments.Cell) experiments.Outcome, error) {
	if folder == "" {
		return experiments.Evaluate, nil
	}
	if measured, _ := plan.MeasuredRuns(); measured == 0 {
		return nil, &usageError{errors.New("--log: event logs are those of real runs, and nothing is measured\n  fix: add --on paced or cpu, or leave it out")}
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, &usageError{fmt.Errorf("--log: %w", err)}
	}
	return experiments.EvaluateWithLogs(folder), nil
}

// eventLog is the file of an event log; nil for none.
type eventLog struct{ file *os.File }

// createLog makes the file, before anything that takes time; "" makes none. A
// file that is there is left alone: nothing could make the log in it again.
func createLog(path string) (*eventLog, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, &usageError{fmt.Errorf("--log: %s is there already\n  fix: name another file, or remove it", path)}
	case err != nil:
		return nil, &usageError{fmt.Errorf("--log: %w", err)}
	}
	return &eventLog{f}, nil
}

// of has a system write the log.
func (l *eventLog) of(config *subserver.Config) {
	if l != nil {
		config.Log = l.file
	}
}

// close ends the log once the system that writes it is closed. A file in which
// nothing stands, because nothing started, would only be in the way.
func (l *eventLog) close() error {
	if l == nil {
		return nil
	}
	info, err := l.file.Stat()
	err = errors.Join(err, l.file.Close())
	if err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		err = os.Remove(l.file.Name())
	}
	return err
}
