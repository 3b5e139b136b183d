// Package nearest finds the names a user may have meant, so that an error about
// an unknown name can end with a likely fix.
package nearest

import (
	"cmp"
	"slices"
	"strings"
)

// limit is how many names an error offers: more would be a listing, not a hint.
const limit = 3

// Names returns up to three of known that resemble got, closest first and ties
// in alphabetical order; none if nothing is close. A name resembles got if one
// contains the other (ignoring case) or at most a third of the longer one has
// to be edited. The order of known does not matter, and known is not changed.
func Names(got string, known []string) []string {
	type candidate struct {
		name string
		cost int
	}
	want := strings.ToLower(strings.TrimSpace(got))
	if want == "" {
		return nil
	}
	var found []candidate
	for _, name := range known {
		lower := strings.ToLower(name)
		if cost, ok := distance(want, lower); ok {
			found = append(found, candidate{name, cost})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), strings.Compare(a.name, b.name))
	})
	names := make([]string, 0, limit)
	for _, c := range found {
		if len(names) < limit && !slices.Contains(names, c.name) {
			names = append(names, c.name)
		}
	}
	return names
}

// distance is the number of single-letter edits that part what was written from
// a name, and whether they are close enough to be offered. Containment is close: a
// user who leaves out a folder or adds a suffix makes one slip, however many
// letters that is, so it counts as one edit. Two letters prove nothing, though,
// nor does a name that is less than half of what was written.
func distance(got, name string) (int, bool) {
	edits := editDistance([]rune(got), []rune(name))
	if len(got) >= 3 && strings.Contains(name, got) ||
		len(name) >= 3 && 2*len(name) >= len(got) && strings.Contains(got, name) {
		return min(edits, 1), true
	}
	return edits, edits <= max(1, max(len([]rune(got)), len([]rune(name)))/3)
}

// editDistance counts insertions, deletions, substitutions and swaps of two
// neighbouring letters (the commonest slip of the hand), each as one edit.
func editDistance(a, b []rune) int {
	beforeLast := make([]int, len(b)+1)
	last := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			substitute := last[j-1]
			if a[i-1] != b[j-1] {
				substitute++
			}
			row[j] = min(last[j]+1, row[j-1]+1, substitute)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], beforeLast[j-2]+1)
			}
		}
		beforeLast, last, row = last, row, beforeLast
	}
	return last[len(b)]
}
