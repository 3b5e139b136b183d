package scheduler

import (
	"errors"
	"fmt"
)

// Thresholds holds the B vector that was asked for, one row per number of live
// requests: row i is used while i+1 requests are live, the last row beyond.
// One row means that B does not depend on the load.
type Thresholds [][]int

// For returns the vector asked for while live requests are live.
func (t Thresholds) For(live int) []int {
	return t[min(max(live, 1), len(t))-1]
}

// Validate reports what is wrong with t for a system of that many models.
func (t Thresholds) Validate(models int) error {
	if len(t) == 0 {
		return errors.New("thresholds: no row")
	}
	for i, row := range t {
		if len(row) != models {
			return fmt.Errorf("thresholds: row %d has %d entries for %d models", i+1, len(row), models)
		}
		for m, b := range row {
			if b < 1 {
				return fmt.Errorf("thresholds: row %d: B of model %d is %d, want at least 1", i+1, m+1, b)
			}
		}
	}
	return nil
}
