package experiments

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// SpecError is one thing that is wrong with an experiment.
type SpecError struct {
	File string // the experiment file, or "--set" for a value from the command line
	Line int    // counted from 1; 0 where there are no lines
	Path string // the key, for example models.large.B; empty for the whole file
	Msg  string // what is wrong
	Hint string // the likely fix; may be empty
}

func (e *SpecError) Error() string {
	var s strings.Builder
	s.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&s, ":%d", e.Line)
	}
	s.WriteString(": ")
	if e.Path != "" {
		s.WriteString(e.Path + ": ")
	}
	s.WriteString(e.Msg)
	if e.Hint != "" {
		s.WriteString("\n  fix: " + e.Hint)
	}
	return s.String()
}

// SpecErrors is all that is wrong with an experiment, in the order of its
// lines; what --set brought comes last.
type SpecErrors []*SpecError

func (es SpecErrors) Error() string {
	var lines []string
	for i, e := range es {
		if i == maxPrinted {
			lines = append(lines, fmt.Sprintf("… and %d more errors", len(es)-i))
			break
		}
		lines = append(lines, e.Error())
	}
	return strings.Join(lines, "\n")
}

// maxPrinted is how many errors are printed: a sweep can repeat one slip in
// each of its points.
const maxPrinted = 20

// Unwrap lets errors.As find the first of them.
func (es SpecErrors) Unwrap() []error {
	out := make([]error, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

func (es SpecErrors) sorted() SpecErrors {
	slices.SortStableFunc(es, func(a, b *SpecError) int {
		return cmp.Or(
			cmp.Compare(btoi(a.File == fromSet), btoi(b.File == fromSet)),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Msg, b.Msg),
		)
	})
	return slices.CompactFunc(es, func(a, b *SpecError) bool { return *a == *b })
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fromSet stands in place of a file name for values from the command line.
const fromSet = "--set"

// place is where a value was written.
type place struct {
	file string
	line int
}

// problem is a SpecError that does not know its place yet. at, when set, is
// the place in the document; otherwise that of path is taken.
type problem struct {
	path string
	at   *place
	msg  string
	hint string
}
