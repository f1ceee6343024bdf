// Package nearest says what a mistyped name may have been meant for, so that
// every error about an unknown name reads alike.
package nearest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// listed is the longest list of names that an error shows in full.
const listed = 30

// Hint ends an error about a name that is not among the known ones: "did you
// mean greedy?" if one of them is near, else "known are " and their list, or
// the three nearest of a list too long to read. Near means that at most a third
// of the letters of name, or two, are inserted, deleted or replaced, or that one is the
// beginning of the other and has four letters (rematerialization, remat); capitals
// and leading dashes do not count. O(len(name)·Σ len(known)).
func Hint(name string, known []string) string {
	if len(known) == 0 {
		return "none is known"
	}
	name = folded(name)
	most := min(max(2, len(name)/3), len(name)-1)
	sorted := slices.Clone(known)
	slices.SortStableFunc(sorted, func(a, b string) int {
		return cmp.Compare(distance(name, folded(a)), distance(name, folded(b)))
	})
	begins := slices.IndexFunc(sorted, func(k string) bool {
		short, long := folded(k), name
		if len(short) > len(long) {
			short, long = long, short
		}
		return len(short) >= 4 && strings.HasPrefix(long, short)
	})
	switch {
	case distance(name, folded(sorted[0])) <= most:
		return fmt.Sprintf("did you mean %s?", sorted[0])
	case begins >= 0:
		return fmt.Sprintf("did you mean %s?", sorted[begins])
	case len(known) > listed:
		return "the nearest known are " + strings.Join(sorted[:3], ", ")
	}
	return "known are " + strings.Join(known, ", ")
}

func folded(name string) string { return strings.ToLower(strings.TrimLeft(name, "-")) }

// distance is the Levenshtein distance of two words in bytes.
// O(len(a)·len(b)).
func distance(a, b string) int {
	row := make([]int, len(b)+1) // from the part of a read so far to each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
